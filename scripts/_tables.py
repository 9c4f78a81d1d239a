"""Tables of Markdown pages from CSV files.

A table of means per agent and window is written as::

    <!-- table: results/compare.csv
    rows: agent = habnn, noop
    also: runs
    columns: window = 1-60, 201-300
    heads: steps {}
    cell: {mean:.1f} [{mean_low:.1f}, {mean_high:.1f}] else {mean:.1f}
    where: setpoint = 100
    -->

    (filled in here)

    <!-- /table -->

Paths are relative to docs/. `rows` and `columns` name a column of the file; the values after the equals sign choose
and order, else all values appear in the order of the file. `also` names a column to show behind the first one.
`heads` is the format of the heads of columns. A cell is written with the first of its formats, separated by "else",
whose fields are all there. `where` chooses rows, several conditions are separated by semicolons. Instead of rows,
columns and cell, `fields: head = format | head = format` writes one line per row of the file. Rows that
results/labels.csv names have its labels.

`<!-- study: results/compare.json -->` and `<!-- /study -->` enclose date, commit and command of a study.
"""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from string import Formatter
from typing import Any

import pandas as pd

_BLOCK = re.compile(r"(<!-- (table|study): (\S+)(.*?)-->\n)(.*?)(<!-- /\2 -->)", re.DOTALL)
_KEYS = {"rows", "also", "columns", "heads", "cell", "where", "fields"}


def fill(text: str, docs: Path, page: str = "page") -> str:
    """Return the text of a page with all its tables and studies made anew.

    Parameters
    ----------
    text : str
        The page, in Markdown.
    docs : Path
        Folder that the paths in the page's comments start from.
    page : str
        Name of the page for error messages.
    """
    _check_ends(text, page)

    def made(block: re.Match[str]) -> str:
        opening, kind, source, settings, _, closing = block.groups()
        path = docs / source
        content = study_text(path) if kind == "study" else table_text(path, read_settings(settings, page))
        return f"{opening}\n{content}\n{closing}"

    return _BLOCK.sub(made, text)


def _check_ends(text: str, page: str) -> None:
    """Raise unless every opening comment has its closing one: an open one would swallow the text below it."""
    for kind in ("table", "study"):
        starts, ends = len(re.findall(f"<!-- {kind}: ", text)), text.count(f"<!-- /{kind} -->")
        if starts != ends:
            raise ValueError(
                f"tables: each '<!-- {kind}: ...' must have one '<!-- /{kind} -->', got {starts} and {ends} in {page}; "
                "close or remove it."
            )


def read_settings(text: str, page: str = "page") -> dict[str, str]:
    """Return the settings of a table from the lines of its comment."""
    lines = [line.partition(":") for line in text.strip().splitlines()]
    settings = {key.strip(): value.strip() for key, _, value in lines}
    if unknown := sorted(settings.keys() - _KEYS):
        raise ValueError(
            f"tables: settings must be of {', '.join(sorted(_KEYS))}, got {unknown[0]!r} in {page}; correct it."
        )
    return settings


def table_text(path: Path, settings: Mapping[str, str]) -> str:
    """Return the Markdown table that settings ask for of a CSV file."""
    frame = _chosen(pd.read_csv(path), settings.get("where", ""), path)
    if "fields" in settings:
        pairs = [part.split(" = ", 1) for part in settings["fields"].split(" | ")]
        rows = [[formatted(form, row) for _, form in pairs] for row in frame.to_dict("records")]
        return _markdown([head for head, _ in pairs], rows)
    return _pivot(frame, settings, path)


def _pivot(frame: pd.DataFrame, settings: Mapping[str, str], path: Path) -> str:
    row_name, row_values = _axis(frame, settings["rows"], path)
    column_name, column_values = _axis(frame, settings["columns"], path)
    cells = {(str(row[row_name]), str(row[column_name])): row for row in frame.to_dict("records")}
    if len(cells) != len(frame):
        raise ValueError(
            f"tables: {path.name} must have one row per {row_name} and {column_name}, got {len(frame)} in "
            f"{len(cells)} cells; choose with where."
        )
    labels = _labels(path.parent / "labels.csv", row_name)
    heads = [settings.get("heads", "{}").format(value) for value in column_values]
    also = [settings["also"]] if "also" in settings else []
    more = {str(row[row_name]): [str(row[name]) for name in also] for row in frame.to_dict("records")}
    rows = [
        [
            labels.get(row, row),
            *more[row],
            *(formatted(settings["cell"], cells.get((row, c), {})) for c in column_values),
        ]
        for row in row_values
    ]
    return _markdown([row_name, *also, *heads], rows)


def _axis(frame: pd.DataFrame, text: str, path: Path) -> tuple[str, list[str]]:
    """Return the column that an axis of a table runs over, and its values."""
    name, _, chosen = (part.strip() for part in text.partition("="))
    present = list(dict.fromkeys(map(str, frame[name])))
    values = [value.strip() for value in chosen.split(", ")] if chosen else present
    if absent := [value for value in values if value not in present]:
        raise ValueError(
            f"tables: {name} of {path.name} must be one of {', '.join(present)}, got {absent[0]!r}; correct it."
        )
    return name, values


def _chosen(frame: pd.DataFrame, where: str, path: Path) -> pd.DataFrame:
    """Return the rows that meet all conditions; raise if there are none."""
    for condition in filter(None, (part.strip() for part in where.split(";"))):
        name, value = (part.strip() for part in condition.split("=", 1))
        frame = frame[frame[name].astype(str) == value]
    if frame.empty:
        raise ValueError(f"tables: where must choose rows of {path.name}, got none for {where!r}; correct it.")
    return frame


def formatted(forms: str, row: Mapping[Any, Any]) -> str:
    """Return a cell in the first format whose fields are all in the row and not NaN; a dash if there is none."""
    for form in forms.split(" else "):
        names = [name for _, name, _, _ in Formatter().parse(form) if name]
        if all(name in row and not (isinstance(row[name], float) and math.isnan(row[name])) for name in names):
            return form.format_map({str(name): value for name, value in row.items()})
    return "-"


def _labels(path: Path, axis: str) -> dict[str, str]:
    """Return the labels of the values of one axis; none without a file of labels."""
    if not path.exists():
        return {}
    frame = pd.read_csv(path)
    frame = frame[frame["axis"] == axis]
    return dict(zip(frame["name"].astype(str), frame["label"].astype(str), strict=True))


def _markdown(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def study_text(path: Path) -> str:
    """Return date, commits and command of a study, from its JSON file."""
    about = json.loads(path.read_text())
    commits = " and ".join(about["commits"])
    note = f" {about['note']}" if about.get("note") else ""
    commands = "\n\n".join(about["commands"])  # pages wrap commands: an empty line keeps them apart
    return f"Made on {about['date']} with the code of commit {commits}.{note}\n\n```\n{commands}\n```\n"
