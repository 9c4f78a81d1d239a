"""Hook of MkDocs: parts of the documentation that are made from the code, so that they cannot go stale.

The API reference has one page per public module. `<!-- presets -->` on a page becomes the list of all agents.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import agents
from agents.registry import agent_class, preset

ROOT = Path(__file__).parents[1]
PACKAGES = ("habnn_control", "envs", "agents")
_INTERVAL = re.compile(r"(\d) \[(-?[\d.]+), (-?[\d.]+)\](?= \|)")  # in a cell of a table


def public_modules(package: str) -> Iterator[str]:
    """Yield the dotted names of a package and of all modules below it that no leading underscore makes private."""
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        names = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(name.startswith("_") for name in names):
            yield ".".join(names)


def page_of(module: str) -> str:
    """Return the path of the page of a module, relative to the folder of the pages."""
    return f"api/{module}.md"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Append the API reference to the navigation."""
    assert config.nav is not None
    pages: list[Any] = [{package: _entries(package)} for package in PACKAGES]
    config.nav.append({"API": ["api/index.md", *pages]})
    return config


def _entries(package: str) -> list[Any]:
    """Return the navigation of a package: its own page, its modules, then its subpackages as lists of their own."""
    modules = list(public_modules(package))
    entries: list[Any] = [{package: page_of(package)}]
    below = [name for name in modules if name.startswith(f"{package}.")]
    folders = [name for name in below if (ROOT / name.replace(".", "/")).is_dir()]
    for name in below:
        if not any(name == folder or name.startswith(f"{folder}.") for folder in folders):
            entries.append({name.removeprefix(f"{package}."): page_of(name)})
    for folder in folders:
        inside = [name for name in below if name == folder or name.startswith(f"{folder}.")]
        if folder.count(".") == 1:
            entries.append({folder.removeprefix(f"{package}."): [{name: page_of(name)} for name in inside]})
    return entries


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the API reference to those of the folder."""
    for package in PACKAGES:
        for module in public_modules(package):
            content = f"---\ntitle: {module}\n---\n\n::: {module}\n"
            files.append(File.generated(config, page_of(module), content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the list of all agents where a page asks for it, and keep a mean and its interval on one line."""
    if "<!-- presets -->" in markdown:
        markdown = markdown.replace("<!-- presets -->", presets_table())
    return _INTERVAL.sub("\\1\u00a0[\\2,\u00a0\\3]", markdown)


def presets_table() -> str:
    """Return the names of all agents with class and preset, as a Markdown table."""
    lines = ["| name | class | preset |", "|---|---|---|"]
    for name in agents.names():
        kind = agent_class(name)
        settings = ", ".join(f"{key}={value!r}" for key, value in preset(name).items())
        lines.append(f"| `{name}` | [`{kind.__name__}`][{kind.__module__}.{kind.__name__}] | {_code(settings)} |")
    return "\n".join(lines)


def _code(text: str) -> str:
    """Return text as inline code that may stand in a table."""
    return f"`{text}`" if text else "defaults"
