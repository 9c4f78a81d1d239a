"""Command lines from frozen dataclasses: one field a flag, with its default and its help beside it."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import field, fields
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from habnn_control._names import nearest

T = TypeVar("T")


def flag(default: Any, description: str, choices: Sequence[str] = ()) -> Any:
    """Declare a field of a configuration: its default, what --help says, and the only values allowed, if any."""
    return field(default=default, metadata={"help": description, "choices": tuple(choices)})


def positional(description: str) -> Any:
    """Declare the field that takes the arguments without a flag, at least one of them."""
    return field(metadata={"help": description, "positional": True})


def parse(config: type[T], description: str | None, arguments: Sequence[str] | None = None) -> T:
    """Read a configuration from the command line.

    Parameters
    ----------
    config : dataclass
        Fields made with `flag`, of type int, float, str, bool or a tuple of one of these.
    description : str
        What --help says first.
    arguments : sequence of str, optional
        Instead of those the program was called with.

    Returns
    -------
    config
        With every field set.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    hints = get_type_hints(config)
    for item in fields(config):  # type: ignore[arg-type]
        _add(parser, item.name, hints[item.name], item.default, item.metadata)
    return config(**vars(parser.parse_args(arguments)))


def command() -> str:
    """Return the command this program was called with, ready to paste into a shell."""
    return shlex.join(["python", *sys.argv])


def fail(error: Exception) -> int:
    """Print an error of the user as one line and return the exit code for it."""
    print(f"error: {error}", file=sys.stderr)
    return 2


def _add(parser: argparse.ArgumentParser, name: str, hint: Any, default: Any, metadata: Any) -> None:
    if metadata.get("positional"):
        parser.add_argument(name, nargs="+", type=get_args(hint)[0], action=_StoreTuple, help=metadata["help"])
        return
    shown = " ".join(map(str, default)) if isinstance(default, tuple) else str(default)
    options: dict[str, Any] = {"default": default, "help": f"{metadata['help']} (default: {shown or 'none'})"}
    if hint is bool:
        options["action"] = argparse.BooleanOptionalAction
    elif get_origin(hint) is tuple:
        kind = get_args(hint)[0]
        options |= {"nargs": "+", "type": kind, "action": _StoreTuple, "metavar": kind.__name__.upper()}
    elif metadata["choices"]:
        options |= {"type": _one_of(metadata["choices"]), "metavar": "{" + ",".join(metadata["choices"]) + "}"}
    else:
        options |= {"type": hint, "metavar": hint.__name__.upper()}
    parser.add_argument(f"--{name.replace('_', '-')}", **options)


class _StoreTuple(argparse.Action):
    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:  # noqa: ARG002
        setattr(namespace, self.dest, tuple(values))


def _one_of(choices: Sequence[str]) -> Any:
    def check(value: str) -> str:
        if value not in choices:
            raise argparse.ArgumentTypeError(
                f"must be one of {', '.join(choices)}, got {value!r}; {nearest(value, choices)}"
            )
        return value

    return check
