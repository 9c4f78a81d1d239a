"""Shell completion of the command `habnn`, tried in a shell."""

import shutil
import subprocess

import pytest

from agents.cli.completion import SHELLS, script
from agents.cli.main import COMMANDS, main

CONFIGS = {name: command.config for name, command in COMMANDS.items()}
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")


def proposals(tmp_path, *words):
    """Return what bash proposes for the last word of a command line."""
    path = tmp_path / "habnn.bash"
    path.write_text(script("bash", CONFIGS))
    line = " ".join(f"'{word}'" for word in words)
    program = (
        f"source {path}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
        '_shtab_habnn; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split()


@needs_bash
def test_completion_proposes_commands(tmp_path):
    assert proposals(tmp_path, "habnn", "be") == ["benchmark"]


@needs_bash
def test_completion_proposes_flags_of_the_command(tmp_path):
    assert proposals(tmp_path, "habnn", "compare", "--pre") == ["--pretrain-steps"]
    assert proposals(tmp_path, "habnn", "tune", "--pre") == []


@needs_bash
def test_completion_proposes_agents(tmp_path):
    assert proposals(tmp_path, "habnn", "compare", "--agents", "noo") == ["noop"]
    assert "habnn" in proposals(tmp_path, "habnn", "run", "--agent", "hab")


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_is_printed_for_every_shell(shell, capsys):
    assert main(["--print-completion", shell]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in COMMANDS)


def test_completion_of_an_unknown_shell_names_the_nearest(capsys):
    assert main(["--print-completion", "zhs"]) == 2
    assert "did you mean 'zsh'?" in capsys.readouterr().err


def test_completion_without_shtab_names_the_extra(capsys, monkeypatch):
    monkeypatch.setattr("habnn_control.support.extras.find_spec", lambda _: None)
    assert main(["--print-completion", "bash"]) == 2
    assert "install the completion extra" in capsys.readouterr().err
