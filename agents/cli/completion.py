"""Shell completion of the command `habnn`, by shtab."""

import argparse
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import agents
from agents.cli import settings
from habnn_control.support.command_line import add_flags, fail
from habnn_control.support.extras import check_extra
from habnn_control.support.names import check_choice

SHELLS = ("bash", "zsh", "tcsh")
# Values that the shell proposes. The commands check values themselves, with the nearest valid one in their messages.
_PROPOSED = {
    **dict.fromkeys(("agent", "agents", "references"), agents.names()),
    "methods": settings.METHODS,
    "datasets": (*settings.DATASETS, *settings.BUILT_IN),
    "protocol": settings.PROTOCOLS,
    "sections": settings.SECTIONS,
}
_FILES = ("out", "load", "folders", "data_dir", "dataset_file", "tensorboard", "monitor", "json")


def main(words: Sequence[str], configs: Mapping[str, type[Any]]) -> int:
    """Print the completion script for the shell that `words` name and return the exit code."""
    try:
        check_choice("habnn", "shell of --print-completion", words[0] if words else "", SHELLS)
        check_extra("habnn: --print-completion", "shtab", "completion")
    except ValueError as error:
        return fail(error)
    print(script(words[0], configs))
    return 0


def script(shell: str, configs: Mapping[str, type[Any]]) -> str:
    """Return the completion script of one shell for subcommands with these flags."""
    shtab = import_module("shtab")
    parser = argparse.ArgumentParser(prog="habnn")
    commands = parser.add_subparsers()
    for name, config in configs.items():
        add_flags(commands.add_parser(name, help=name), config)  # shtab leaves out what has no help
    for command in commands.choices.values():
        for action in command._actions:
            if action.dest in _PROPOSED:
                action.choices = _PROPOSED[action.dest]
            elif action.dest in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    return str(shtab.complete(parser, shell=shell))
