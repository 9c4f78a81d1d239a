"""Parts of a self-contained HTML page: its shell, figures, tables and the settings of a results folder."""

import base64
import json
import re
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from habnn_control.support.files import read_json

# Nothing is loaded from anywhere: the browser refuses it.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "font-src data:; form-action 'none'; connect-src"
)


def shell(title: str, body: str, scripts: str = "", connect: str = "'none'") -> str:
    """Return a whole page; `body` and `scripts` are HTML, `connect` names what the page may ask while it is open."""
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY} {connect}">
<title>{escape(title)}</title><style>{_style()}</style></head>
<body><main>
<h1>{escape(title)}</h1>
{body}
</main>{scripts}</body></html>
"""


def _style() -> str:
    return Path(__file__).with_name("page.css").read_text()


def figure(svg: bytes, text: str) -> str:
    """Return a picture with its caption."""
    return f'<figure><img src="{_data_uri(svg)}" alt="{escape(text)}"><figcaption>{escape(text)}</figcaption></figure>'


def _data_uri(svg: bytes) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()


def table(values: pd.DataFrame, caption: str, name: str = "") -> str:
    """Return a table of a data frame, which scrolls where it is too wide.

    With a name it can be sorted and downloaded as NAME.csv, and its rows can be chosen by agent, where the page has the
    script of `habnn_control.experiments.explorer`.
    """
    head = "".join(f'<th scope="col">{_breakable(str(column))}</th>' for column in values.columns)
    agents = list(values["agent"]) if name and "agent" in values else [None] * len(values)
    body = "".join(
        ("<tr>" if agent is None else f'<tr data-agent="{escape(str(agent))}">')
        + "".join(f"<td>{_breakable(str(value))}</td>" for value in row)
        + "</tr>"
        for agent, row in zip(agents, values.itertuples(index=False), strict=True)
    )
    role = f' id="{name}" class="sortable"' if name else ""
    button = f'<button type="button" data-table="{name}" data-file="{name}.csv">Download as CSV</button>'
    said = escape(caption)
    return (
        f'<p class="caption">{said} {button if name else ""}</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{said}"><table{role}>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _breakable(text: str) -> str:
    """Escape the text of a cell so that a narrow column breaks it after _ and /, but within no interval or window."""
    text = escape(text).replace("_", "_<wbr>").replace("/", "/<wbr>").replace(", ", ",&nbsp;")
    return re.sub(r"(\d-)(?=\d)", r"\1&NoBreak;", text)


def settings(folder: Path) -> str:
    """Return command, study, versions and machine of a results folder."""
    config = (folder / "config.json").read_text()
    try:
        meta: dict[str, Any] = read_json(folder / "meta.json")
        call = f"<p>Command</p><pre>{escape(str(meta['command']))}</pre>"
    except (OSError, ValueError, TypeError, LookupError):  # none, or a damaged one: results do not depend on it
        meta, call = {}, ""
    return (
        f"<h3>{escape(str(folder))}</h3>{call}<details><summary>Study, versions and machine</summary>"
        f"<pre>{escape(config)}</pre><pre>{escape(json.dumps(meta, indent=2))}</pre></details>"
    )
