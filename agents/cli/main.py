"""The command `habnn`: one subcommand per thing to do, each imported only when it runs."""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module, metadata
from inspect import cleandoc
from typing import Any, NamedTuple

from agents.cli import settings
from habnn_control.support.command_line import fail, parse, reader_may_leave
from habnn_control.support.names import nearest


class _Command(NamedTuple):
    config: type[Any]
    module: str  # of agents.cli; its function `main` takes the configuration and returns the exit code
    summary: str


COMMANDS = {
    "compare": _Command(settings.Compare, "compare", "compare agents: play, store, summarise, draw and report"),
    "run": _Command(settings.Episode, "episode", "run one agent and keep its losses, the agent and a picture"),
    "plot": _Command(settings.Plot, "plot", "make summary, figures and report again from results folders"),
    "uci": _Command(settings.Regression, "uci", "compare methods of regression on UCI data sets"),
    "tune": _Command(settings.Tune, "tune", "tune an agent of Stable-Baselines3 by random search"),
    "benchmark": _Command(settings.Benchmark, "benchmark", "measure speed as ratios in one run"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand and return its exit code."""
    with reader_may_leave():
        return _dispatch(list(sys.argv[1:] if arguments is None else arguments))


def _dispatch(words: Sequence[str]) -> int:
    name, *rest = words or ["--help"]
    if name in ("-h", "--help", "help"):
        print(usage())
        return 0
    if name == "--version":
        print(f"habnn {metadata.version('habnn-control')}")
        return 0
    if name == "--print-completion":
        complete: Callable[..., int] = import_module("agents.cli.completion").main
        return complete(rest, {key: one.config for key, one in COMMANDS.items()})
    if name not in COMMANDS:
        return fail(f"habnn: command must be one of {', '.join(COMMANDS)}, got {name!r}; {nearest(name, COMMANDS)}")
    return run_command(name, rest, f"habnn {name}")


def run_command(name: str, arguments: Sequence[str] | None = None, program: str | None = None) -> int:
    """Read the flags of a command, run it and return its exit code.

    Parameters
    ----------
    name : str
        One of `COMMANDS`.
    arguments : sequence of str, optional
        The flags; those of the process when None.
    program : str, optional
        How --help calls the command; the name of the script when None.
    """
    command = COMMANDS[name]
    config = parse(command.config, cleandoc(command.config.__doc__ or ""), arguments, program)
    run: Callable[[Any], int] = import_module(f"agents.cli.{command.module}").main
    try:
        with reader_may_leave():
            return run(config)
    except KeyboardInterrupt:  # of a command that has nothing to keep
        print("\nStopped.", file=sys.stderr)
        return 130


def usage() -> str:
    """Return the text of `habnn --help`."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: habnn COMMAND [FLAGS]",
            "",
            "Model-based control with closed-form Bayesian neural networks (HABNN).",
            "",
            *lines,
            "",
            "habnn COMMAND --help explains all flags; every flag has a default.",
            "habnn --version prints the version.",
            "habnn --print-completion SHELL prints a completion script for bash, zsh or tcsh.",
            "",
            "A first look:  habnn run --steps 300 --out runs/demo",
            "               habnn compare --agents habnn noop sac --runs 4 --steps 100 --out results/demo",
        ]
    )
