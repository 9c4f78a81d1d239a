"""Fill the tables on the pages of the documentation and of the README from their CSV files.

A table stands between two comments, of which the first one says what it shows (scripts/_tables.py has the details).
With --folder, the small CSV behind a page and its picture are first made from a results folder of `habnn compare` or
`habnn uci`; with --benchmark, those of the page about speed from the file of `habnn benchmark --json`;
with --made, those of the page about reliability from what a script of this folder has written.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from _protocols import is_regression, make_protocols, store_regression  # type: ignore[import-not-found]
from _study import store_benchmark, store_made, store_study  # type: ignore[import-not-found]
from _study_figure import draw_study  # type: ignore[import-not-found]
from _tables import fill  # type: ignore[import-not-found]

from habnn_control.support.command_line import fail, flag, parse
from habnn_control.support.files import atomic_write

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Config:
    """Settings of the tables."""

    folder: str = flag("", "results folder of `habnn compare` or `habnn uci`, to make files of docs/results from")
    name: str = flag("", "name of the CSV file; that of the results folder by default")
    benchmark: str = flag("", "file of `habnn benchmark --json`, to make docs/results/benchmark.csv from")
    made: str = flag("", "file NAME.csv of scripts/attack.py or sensor_faults.py, to make docs/results/NAME.csv from")
    figures: bool = flag(False, "draw the pictures of all studies anew, from their CSV files")
    check: bool = flag(False, "change nothing, and exit with 1 if a table differs from its CSV file")
    root: str = flag(str(ROOT), "folder with README.md and docs/")


def main(arguments: list[str] | None = None) -> int:
    """Fill or check all tables and return the exit code."""
    config = parse(Config, __doc__, arguments)
    root = Path(config.root)
    try:
        for written in _prepare(config, root / "docs/results"):
            print(written)
        changed = [path for path in pages(root) if _update(path, root / "docs", config.check)]
    except (OSError, ValueError, KeyError) as error:
        return fail(error)
    outcome = "differs from its CSV files; run scripts/tables.py" if config.check else "filled"
    for path in changed:
        print(f"{path.relative_to(root)}: {outcome}")
    return int(config.check and bool(changed))


def _prepare(config: Config, results: Path) -> Iterator[Path]:
    """Make the CSV files and pictures that the flags ask for, and yield their paths."""
    if config.folder:
        yield from _store(Path(config.folder), results, config.name or Path(config.folder).name)
    if config.benchmark:
        yield from store_benchmark(Path(config.benchmark), results)
    if config.made:
        yield from store_made(Path(config.made), results)
    if config.figures:
        for path in sorted(results.glob("*.csv")):
            if {"agent", "window", "mean"} <= set(path.read_text().partition("\n")[0].split(",")):
                yield draw_study(path)
        if (results / "regression-runs.csv").exists():
            yield from make_protocols(results)


def _store(folder: Path, results: Path, name: str) -> Iterator[Path]:
    """Make the CSV files and pictures of one results folder, and yield their paths."""
    if is_regression(folder):
        yield from store_regression(folder, results, name)
    else:
        yield from store_study(folder, results, name)
        yield draw_study(results / f"{name}.csv")


def pages(root: Path) -> list[Path]:
    """Return the Markdown files that may hold tables."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def _update(path: Path, docs: Path, check: bool) -> bool:
    """Fill the tables of one page, unless it is only to be checked; return whether they were out of date."""
    text = path.read_text()
    filled: str = fill(text, docs, path.name)
    if filled != text and not check:
        with atomic_write(path) as file:
            file.write(filled.encode())
    return filled != text


if __name__ == "__main__":
    sys.exit(main())
