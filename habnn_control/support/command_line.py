"""Command lines from frozen dataclasses: one flag per field, with its default and its help text."""

import argparse
import errno
import os
import select
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, fields
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from habnn_control.support.names import nearest

T = TypeVar("T")

_BROKEN_PIPE = 141  # exit code of a process that SIGPIPE ends

# What a path must be for an error of the file system not to occur, and what to do about it.
_REASONS = {
    errno.ENOENT: ("an existing path", "check its spelling"),
    errno.EACCES: ("readable and writable for you", "choose another path or change its permissions"),
    errno.EPERM: ("readable and writable for you", "choose another path or change its permissions"),
    errno.EROFS: ("on a disk that can be written to", "choose another path"),
    errno.ENOTDIR: ("in folders, not in a file", "choose another path"),
    errno.EEXIST: ("in folders, not in a file", "choose another path"),  # a folder of that name could not be made
    errno.EISDIR: ("a file", "choose another path, or remove the folder"),
    errno.ENOSPC: ("on a disk with space left", "free some, or choose another path"),
}


def flag(default: Any, description: str, choices: Sequence[str] = (), repeatable: bool = False) -> Any:
    """Return a dataclass field that becomes a flag.

    Parameters
    ----------
    default : int, float, str, bool or tuple
        Value of the field without the flag.
    description : str
        Help text of the flag.
    choices : sequence of str
        Allowed values; empty for any.
    repeatable : bool
        For a tuple without default: whether the values of several such flags add up; else the last flag counts.
    """
    return field(default=default, metadata={"help": description, "choices": tuple(choices), "repeatable": repeatable})


def positional(description: str) -> Any:
    """Return a dataclass field, a tuple, that takes the positional arguments, of which there must be at least one."""
    return field(metadata={"help": description, "positional": True})


def parse(
    config: type[T],
    description: str | None,
    arguments: Sequence[str] | None = None,
    program: str | None = None,
) -> T:
    """Return a configuration read from the command line.

    Parameters
    ----------
    config : dataclass
        Its fields are made with `flag` or `positional`, of type int, float, str, bool or a tuple of one of these.
    description : str
        First paragraph of --help.
    arguments : sequence of str, optional
        Arguments to parse; those of the process when None.
    program : str, optional
        Name of the command in --help; that of the script when None.

    Returns
    -------
    config
        An instance with all fields set.
    """
    layout = argparse.RawDescriptionHelpFormatter
    parser = _Parser(prog=program, description=description, formatter_class=layout, allow_abbrev=False)
    add_flags(parser, config)
    values, unknown = parser.parse_known_args(arguments)
    if unknown:
        flags = [option for option in parser._option_string_actions if option.startswith("--")]
        hint = nearest(unknown[0], flags) if unknown[0].startswith("-") else "see --help."
        parser.error(f"flag must be one of {', '.join(flags)}, got {unknown[0]!r}; {hint}")
    return config(**vars(values))


def add_flags(parser: argparse.ArgumentParser, config: type[Any]) -> None:
    """Add one argument per field of a configuration to a parser."""
    hints = get_type_hints(config)
    for item in fields(config):
        _add(parser, item.name, hints[item.name], item.default, item.metadata)


def command() -> str:
    """Return the command line of this process, quoted for a shell."""
    program = Path(sys.argv[0])
    return shlex.join(["python", *sys.argv] if program.suffix == ".py" else [program.name, *sys.argv[1:]])


def fail(error: Exception | str) -> int:
    """Print a usage error as one line on stderr and return its exit code, 2."""
    print(f"error: {describe(error) if isinstance(error, Exception) else error}", file=sys.stderr)
    return 2


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """End without a traceback, with the code 141, where the reader of the output has gone, as `head` does."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        watch = select.poll()
        watch.register(sys.stdout.fileno(), 0)
        if not watch.poll(0):
            raise  # another pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes again at its end
        sys.exit(_BROKEN_PIPE)


def describe(error: Exception) -> str:
    """Return an error as one line: a sentence for those of the file system, the message of all others."""
    if isinstance(error, OSError) and error.filename is not None and error.errno is not None:
        wish, remedy = _REASONS.get(error.errno, ("a path that can be used", "choose another path"))
        return f"files: {error.filename} must be {wish}, got {error.strerror!r}; {remedy}."
    if isinstance(error, ValueError | TypeError | OSError) and str(error):
        return " ".join(str(error).split())
    return " ".join(f"{type(error).__name__}: {error}".split())


class _Parser(argparse.ArgumentParser):
    """An argument parser that reports errors on one line, without the usage text."""

    def error(self, message: str) -> NoReturn:
        sys.exit(fail(message))


def _add(parser: argparse.ArgumentParser, name: str, hint: Any, default: Any, metadata: Any) -> None:
    """Add the argument of one dataclass field to the parser."""
    if metadata.get("positional"):
        parser.add_argument(name, nargs="+", type=get_args(hint)[0], action=_StoreTuple, help=metadata["help"])
        return
    shown = " ".join(map(str, default)) if isinstance(default, tuple) else str(default)
    options: dict[str, Any] = {"default": default, "help": f"{metadata['help']} (default: {shown or 'none'})"}
    if hint is bool:
        options["action"] = argparse.BooleanOptionalAction
    elif get_origin(hint) is tuple:
        kind = get_args(hint)[0]
        options |= {"nargs": "+", "type": _reader(kind, metadata["help"])}
        options |= {"action": _ExtendTuple if metadata["repeatable"] else _StoreTuple, "metavar": kind.__name__.upper()}
    elif metadata["choices"]:
        options |= {"type": _one_of(metadata["choices"]), "metavar": "{" + ",".join(metadata["choices"]) + "}"}
    else:
        options |= {"type": _reader(hint, metadata["help"]), "metavar": hint.__name__.upper()}
    parser.add_argument(f"--{name.replace('_', '-')}", **options)


class _StoreTuple(argparse.Action):
    """Store several values as a tuple, as the dataclass declares them, instead of a list."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:  # noqa: ARG002
        setattr(namespace, self.dest, tuple(values))


class _ExtendTuple(argparse.Action):
    """Append several values to the tuple of earlier flags."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:  # noqa: ARG002
        setattr(namespace, self.dest, (*getattr(namespace, self.dest), *values))


def _reader(kind: type, description: str) -> Any:
    """Return a function that converts text to `kind`; its error message repeats the description of the flag."""

    def read(text: str) -> Any:
        try:
            return kind(text)
        except ValueError:
            constraint = {int: "a whole number", float: "a number"}[kind]
            raise argparse.ArgumentTypeError(f"must be {constraint}, got {text!r}; it means: {description}") from None

    return read


def _one_of(choices: Sequence[str]) -> Any:
    """Return a function that returns its argument if it is one of `choices`, and raises otherwise."""

    def check(value: str) -> str:
        if value not in choices:
            raise argparse.ArgumentTypeError(
                f"must be one of {', '.join(choices)}, got {value!r}; {nearest(value, choices)}"
            )
        return value

    return check
