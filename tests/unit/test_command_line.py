"""Command lines from dataclasses: flags, help text, errors."""

import errno
from dataclasses import dataclass

import pytest

from habnn_control.support.command_line import command, describe, fail, flag, parse, positional


@dataclass(frozen=True)
class Config:
    names: tuple[str, ...] = flag(("a", "b"), "some names")
    levels: tuple[float, ...] = flag((1.5,), "some levels")
    max_runs: int = flag(3, "a number")
    rate: float = flag(0.5, "a rate")
    backend: str = flag("loky", "where", choices=("loky", "dask"))
    out: str = flag("", "a folder")
    smoke: bool = flag(False, "quick")


@dataclass(frozen=True)
class WithFolders:
    folders: tuple[str, ...] = positional("some folders")
    out: str = flag("", "a folder")


def test_parse_without_arguments_gives_the_defaults():
    assert parse(Config, None, []) == Config()


def test_parse_reads_every_kind_of_flag():
    line = "--names x --levels 1 2.5 --max-runs 7 --rate 1e-3 --backend dask --out here --smoke"
    assert parse(Config, None, line.split()) == Config(("x",), (1.0, 2.5), 7, 1e-3, "dask", "here", True)
    assert parse(Config, None, ["--no-smoke"]).smoke is False


def test_parse_reads_positional_arguments():
    assert parse(WithFolders, None, ["x", "y", "--out", "z"]) == WithFolders(("x", "y"), "z")


def test_parse_help_shows_description_flags_and_defaults(capsys):
    with pytest.raises(SystemExit, match="0"):
        parse(Config, "What it does.", ["--help"])
    text = capsys.readouterr().out
    for part in (
        "What it does.",
        "--max-runs",
        "a number (default: 3)",
        "some names (default: a b)",
        "(default: none)",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--backend dsk", "must be one of loky, dask, got 'dsk'; did you mean 'dask'?"),
        ("--max-runs 2.5", "--max-runs: must be a whole number, got '2.5'; it means: a number"),
        ("--levels 1 abc", "--levels: must be a number, got 'abc'; it means: some levels"),
        ("--level 1", "got '--level'; did you mean '--levels'?"),
        ("here", "flag must be one of --help, --names, --levels"),
        ("--out", "argument --out: expected one argument"),
    ],
)
def test_parse_exits_on_bad_arguments_with_one_line(line, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        parse(Config, None, line.split())
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ")
    assert message in error


def test_parse_exits_without_positional_arguments(capsys):
    with pytest.raises(SystemExit, match="2"):
        parse(WithFolders, None, [])
    assert "required: folders" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("missing/file", "must be an existing path, got 'No such file or directory'; check its spelling."),
        ("file/below", "must be in folders, not in a file, got 'Not a directory'; choose another path."),
        (".", "must be a file, got 'Is a directory'; choose another path, or remove the folder."),
    ],
)
def test_fail_makes_a_sentence_of_errors_of_the_file_system(tmp_path, path, message, capsys):
    (tmp_path / "file").touch()
    with pytest.raises(OSError) as caught:
        (tmp_path / path).open()
    assert fail(caught.value) == 2
    assert capsys.readouterr().err == f"error: files: {tmp_path / path} {message}\n"


def test_describe_keeps_messages_and_names_other_errors():
    assert describe(ValueError("x: y must be\n z.")) == "x: y must be z."
    assert describe(ZeroDivisionError("no")) == "ZeroDivisionError: no"
    assert describe(OSError(errno.EFBIG, "File too large", "x")).startswith("files: x must be a path that can be used")


def test_command_is_what_a_shell_would_repeat(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/somewhere/bin/habnn", "run", "--out", "a b"])
    assert command() == "habnn run --out 'a b'"
    monkeypatch.setattr("sys.argv", ["scripts/compare.py", "--runs", "2"])
    assert command() == "python scripts/compare.py --runs 2"
