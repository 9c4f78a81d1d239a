"""Snippets and commands of README and documentation run as printed."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import gymnasium as gym
import pytest

import agents
import envs  # noqa: F401  # before the first snippet, which must not be undone with its registrations
from agents.cli.main import COMMANDS
from agents.cli.main import main as habnn
from habnn_control.support.command_line import parse
from real_scripts import script

ROOT = Path(__file__).parents[2]
NOTEBOOKS = {"control-notes.md", "peers-notes.md"}
PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name not in NOTEBOOKS]
ALIASES = {"run_episode": "run"}  # scripts whose command has another name


def blocks(path, language):
    found = re.findall(r"^```(\w*)\n(.*?)^```$", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [source for kind, source in found if kind == language]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Run snippets in an empty folder, and undo what they register."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("agents.registry._ENTRIES", dict(agents.registry._ENTRIES))
    known = set(gym.registry)
    yield
    for name in set(gym.registry) - known:
        gym.registry.pop(name)


def printed(source, namespace):
    """Run a snippet and return what it prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(source, "snippet", "exec"), namespace)
    return output.getvalue()


def test_readme_has_a_snippet_for_plant_network_and_agent():
    assert len(blocks(ROOT / "README.md", "python")) == 3


def test_readme_snippet_of_the_plant_prints_the_same_number_twice():
    loss, same = map(float, printed(blocks(ROOT / "README.md", "python")[0], {}).split())
    assert loss == pytest.approx(same)
    assert loss > 100


def test_readme_snippet_of_the_network_is_unsure_where_there_are_no_data():
    inside, outside = map(float, re.findall(r"\d+\.\d+", printed(blocks(ROOT / "README.md", "python")[1], {})))
    assert outside > 3 * inside


def test_readme_snippet_of_the_agent_learns_saves_and_loads(tmp_path):
    namespace = {}
    printed(blocks(ROOT / "README.md", "python")[2], namespace)
    assert namespace["agent"].name == "habnn"
    assert (tmp_path / "agent.npz").exists()
    assert len(namespace["losses"]) == 100


@pytest.mark.parametrize("path", [path for path in PAGES if blocks(path, "python")], ids=lambda path: path.stem)
def test_snippets_of_a_page_run_one_after_the_other(path):
    namespace = {"__name__": "snippet"}
    for source in blocks(path, "python"):
        printed(source, namespace)


def commands(path):
    """Return the command lines of all blocks without a language, split into words, comments left out."""
    lines = [line for block in blocks(path, "") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def config_of(words):
    """Return the configuration that a command line is read into, and its flags; None for other programs."""
    if Path(words[0]).name == "habnn" and words[1] in COMMANDS:
        return COMMANDS[words[1]].config, words[2:]
    if words[0] == "python" and words[1].startswith("scripts/"):
        name = Path(words[1]).stem
        command = ALIASES.get(name, name)
        return COMMANDS[command].config if command in COMMANDS else script(name)["Config"], words[2:]
    return None


@pytest.mark.parametrize("path", [ROOT / "README.md", *PAGES], ids=lambda path: path.stem)
def test_commands_of_a_page_have_flags_that_exist(path):
    makefile = (ROOT / "Makefile").read_text()
    for words in commands(path):
        found = config_of(words)
        if found:
            parse(found[0], "", found[1])
        elif words[0] == "make":
            assert re.search(rf"^{words[1]}:", makefile, flags=re.MULTILINE), words
        else:
            assert Path(words[0]).name in ("python", "pip", "habnn"), words


def test_commands_with_a_wrong_flag_are_found():
    config, flags = config_of(shlex.split("python scripts/compare.py --setpoint 100"))
    with pytest.raises(SystemExit):
        parse(config, "", flags)


@pytest.mark.parametrize("command", ["run", "compare"])
def test_first_commands_of_a_new_user_work(command, tmp_path):
    (words,) = [w for w in commands(ROOT / "docs/getting-started.md") if w[:2] == ["habnn", command]]
    assert habnn([*words[1:], "--smoke"]) == 0
    folder = tmp_path / words[words.index("--out") + 1]
    expected = {"run": ["losses.csv", "predictions.csv", "agent.npz"], "compare": ["report.html", "losses.csv"]}
    for name in expected[command]:
        assert (folder / name).stat().st_size > 0
