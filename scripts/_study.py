"""The small CSV files behind a page of results, from a results folder of `habnn compare`."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from habnn_control.support.files import atomic_write, read_json

_LEFT_OUT = ("p_better_than_", "wall_seconds")  # of a summary: long, or of no use on a page
_SHORT = 100  # steps up to which a study's losses are also shown step by step
_PAIRED = ["window", "other", "difference", "difference_low", "difference_high", "runs_better", "runs_paired"]


def store_study(folder: Path, out: Path, name: str) -> list[Path]:
    """Write the files behind a page, NAME.csv and others, and return their paths.

    NAME.csv is summary.csv without the probabilities of improvement. NAME-pairs.csv has the differences between the
    first agent of the study and all others, of paired runs; a study of one agent has none. NAME.json has date, commits
    and command. NAME-curves.png is losses.png, the curves of losses over time. A study of at most 100 steps also leaves
    NAME-steps.csv, the mean loss of every tenth step.

    Parameters
    ----------
    folder : Path
        Results folder of `habnn compare`.
    out : Path
        Folder to write into.
    name : str
        First part of the names of the files.
    """
    summary = pd.read_csv(folder / "summary.csv")
    small = summary[[column for column in summary if not str(column).startswith(_LEFT_OUT)]]
    arguments = list(summary.columns[1 : list(summary.columns).index("window")])
    written = [out / f"{name}{end}" for end in (".csv", ".json", "-curves.png")]
    write_csv(written[0], small)
    write_json(written[1], about(folder))
    shutil.copyfile(folder / "losses.png", written[2])
    if summary["agent"].nunique() > 1:
        pairs = pd.read_csv(folder / "comparisons.csv")
        pairs = pairs[pairs["agent"] == summary["agent"].iloc[0]]
        written.append(out / f"{name}-pairs.csv")
        write_csv(written[-1], pairs[["agent", *arguments, *_PAIRED]])
    losses = pd.read_csv(folder / "losses.csv")
    if losses["timestep"].max() <= _SHORT:
        tenths = losses[losses["timestep"] % 10 == 0]
        written.append(out / f"{name}-steps.csv")
        write_csv(
            written[-1], tenths.groupby(["agent", *arguments, "timestep"], sort=False)["loss"].mean().reset_index()
        )
    return written


def store_benchmark(path: Path, out: Path) -> list[Path]:
    """Write benchmark.csv and benchmark.json from the file of `habnn benchmark --json` and return their paths."""
    content = read_json(path)
    made = datetime.fromtimestamp(path.stat().st_mtime, tz=UTC)
    machine = f"Measured on {content['processors']} cores, {content['platform']}, Python {content['python']}."
    provenance = {"date": f"{made:%Y-%m-%d}", "commits": [_short(content["commit"])], "commands": [content["command"]]}
    written = [out / "benchmark.csv", out / "benchmark.json"]
    write_csv(written[0], pd.DataFrame(content["results"]))
    write_json(written[1], {**provenance, "note": machine})
    return written


def store_made(path: Path, out: Path) -> list[Path]:
    """Write NAME.csv and NAME.json, with date, commit and command, of a table NAME.csv beside a meta.json."""
    written = [out / path.name, out / f"{path.stem}.json"]
    write_csv(written[0], pd.read_csv(path, keep_default_na=False, na_values=[""]))
    minutes = read_json(path.parent / "meta.json")["wall_seconds"] / 60
    write_json(written[1], {**about(path.parent, path.name), "note": f"It took {minutes:.0f} minutes."})
    return written


def about(folder: Path, table: str = "losses.csv") -> dict[str, Any]:
    """Return date, commits and command of a results folder; the date is that of one of its tables."""
    meta = read_json(folder / "meta.json")
    made = datetime.fromtimestamp((folder / table).stat().st_mtime, tz=UTC)
    commits = [_short(commit) for commit in meta["commits"]]
    return {"date": f"{made:%Y-%m-%d}", "commits": commits, "commands": [meta["command"]]}


def _short(commit: str) -> str:
    """Return the first digits of a commit, with the + that says that files differed from it."""
    return commit[:7] + "+" * commit.endswith("+")


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a table with six significant digits: more than a page shows."""
    with atomic_write(path) as file:
        file.write(table.to_csv(index=False, float_format="%.6g").encode())


def copy_table(source: Path, path: Path) -> Path:
    """Copy a CSV file with six significant digits and return the path of the copy."""
    write_csv(path, pd.read_csv(source))
    return path


def write_json(path: Path, value: dict[str, Any]) -> None:
    with atomic_write(path) as file:
        file.write((json.dumps(value, indent=2) + "\n").encode())
