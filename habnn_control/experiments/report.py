"""The report of a study: tables, figures and one self-contained page, made from results folders alone."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from habnn_control.experiments import explorer, page
from habnn_control.experiments.engine import read_tables, write_csv
from habnn_control.experiments.plotting import (
    WIDE,
    Reference,
    columns_figure,
    condition_text,
    losses_figure,
    save_figure,
)
from habnn_control.experiments.summary import (
    ALL,
    Condition,
    argument_columns,
    conditions_of,
    headline,
    headline_condition,
    rows_of,
    summarise,
    value_text,
)
from habnn_control.support.files import atomic_write

_IQM = (
    "IQM is the interquartile mean: the mean of the middle half of the runs, without the best and the worst quarter. "
    "One run that goes wrong moves it less than the mean."
)
_SCORE = (
    "The score is (loss of doing nothing - loss of the agent) / (loss of doing nothing - loss of the oracle): 0 is as "
    "good as doing nothing (noop), 1 as good as the oracle, which plans on the true simulator; below 0 is worse than "
    "doing nothing."
)


@dataclass(frozen=True)
class Presentation:
    """What a report shows and says beyond its tables; the client of the engine gives it.

    Attributes
    ----------
    title, introduction : str
        Heading and first paragraph of the page.
    label : str
        Label of the axis of losses.
    panels : sequence of str
        Columns of losses.csv that are drawn over timesteps, one panel per column.
    panels_title, panels_name : str
        Heading of these figures, and the beginning of their file names.
    thresholds, returns
        See `habnn_control.experiments.summary.summarise`.
    reference : Reference, optional
        Values from elsewhere, drawn beside the losses.
    reference_remark : str
        What a reader must know about these values.
    remarks : sequence of str
        What else a reader must know to judge the figures.
    """

    title: str
    introduction: str
    label: str = "loss"
    panels: Sequence[str] = ()
    panels_title: str = "Observations"
    panels_name: str = "observations"
    thresholds: Sequence[float] = ()
    returns: Mapping[str, NDArray[np.float64]] | None = None
    reference: Reference | None = None
    reference_remark: str = ""
    remarks: Sequence[str] = ()


def write_report(
    folders: Sequence[str | Path], present: Callable[[pd.DataFrame], Presentation], out: str | Path | None = None
) -> tuple[pd.DataFrame, Path]:
    """Write summary.csv, comparisons.csv, the figures (PNG and SVG) and report.html from results folders.

    Parameters
    ----------
    folders : sequence of paths
        Results folders with losses.csv and timings.csv; several are overlaid, and an agent that several folders hold
        has the name of the folder behind its own.
    present : callable
        Returns the presentation of the combined losses.
    out : path, optional
        Folder for the report; the first results folder if left out.

    Returns
    -------
    summary : DataFrame
    page : Path
        The file of the report.
    """
    target = Path(folders[0] if out is None else out)
    losses, timings = _combined(folders)
    shown = present(losses)
    summary, comparisons = summarise(losses, timings, thresholds=shown.thresholds, returns=shown.returns)
    for name, table in (("summary", summary), ("comparisons", comparisons)):
        write_csv(table, target / f"{name}.csv")
    pictures = []
    for name, (caption, draw) in _figures(losses, shown).items():
        figure = draw(WIDE)
        for suffix in (".png", ".svg"):
            save_figure(figure, target / f"{name}{suffix}")
        pictures.append(page.figure((target / f"{name}.svg").read_bytes(), caption))
    recorded = list(losses.columns)[list(losses.columns).index("loss") + 1 :]
    columns = {name: name in shown.panels for name in (*shown.panels, *recorded) if losses[name].notna().any()}
    labels = (shown.label, shown.panels_title.lower())
    data = explorer.study_data(losses, comparisons, columns, shown.reference, labels)
    path = target / "report.html"
    body = _body(folders, shown, _notes(losses, summary, shown), (summary, comparisons), pictures, data)
    with atomic_write(path) as file:
        file.write(page.shell(shown.title, body, explorer.embedded(data)).encode())
    return summary, path


def _combined(folders: Sequence[str | Path]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return losses and timings of all folders, with the folder's name behind agents that several folders hold."""
    pairs = [read_tables(folder, "losses", "timings") for folder in folders]
    owners = Counter(agent for losses, _ in pairs for agent in losses["agent"].unique())
    arguments = list(dict.fromkeys(name for losses, _ in pairs for name in argument_columns(losses)))
    for folder, pair in zip(folders, pairs, strict=True):
        suffix = f" ({Path(folder).resolve().name})"
        for table in pair:
            table["agent"] = [agent + suffix if owners[agent] > 1 else agent for agent in table["agent"]]
            for place, name in enumerate(arguments, start=1):
                values = table.pop(name) if name in table else "default"
                table.insert(place, name, values)
    losses, timings = (pd.concat(parts, ignore_index=True) for parts in zip(*pairs, strict=True))
    return losses, timings


def _figures(losses: pd.DataFrame, shown: Presentation) -> dict[str, tuple[str, Callable[[float], Figure]]]:
    """Return caption and drawing function of the width, by file name."""
    figures: dict[str, tuple[str, Callable[[float], Figure]]] = {
        "losses": (
            "Mean loss over timesteps with 95 % bootstrap intervals, one line per agent.",
            lambda width: losses_figure(losses, width, label=shown.label, reference=shown.reference),
        )
    }
    *most, last = shown.panels or [""]
    names = f"{', '.join(most)} and {last}" if most else last
    for condition in conditions_of(losses) if shown.panels else []:

        def draw(width: float, condition: Condition = condition) -> Figure:
            return columns_figure(losses, condition, shown.panels, width)

        where = condition_text(argument_columns(losses), condition)
        caption = f"Mean {names} with 95 % intervals{' at ' if where else ''}{where}."
        name = "-".join([shown.panels_name, *(quote(value_text(value), safe=",=+ ") for value in condition)])
        figures[name] = caption, draw
    return figures


def _body(
    folders: Sequence[str | Path],
    shown: Presentation,
    notes: list[str],
    tables: tuple[pd.DataFrame, pd.DataFrame],
    pictures: list[str],
    data: Mapping[str, Any],
) -> str:
    summary, comparisons = tables
    last = str(summary["window"].iloc[-1])
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    parts = explorer.figures("Losses over timesteps")
    probabilities = f"Probability that a run of the row has a lower loss than one of the column, steps {last}."
    matrix = parts["matrix"].replace("></div>", f">{page.table(_matrix(comparisons, last), probabilities)}</div>")
    means = "Mean loss of a run over windows of steps, with 95 % stratified-bootstrap intervals."
    return f"""<p>{escape(shown.introduction)}</p>
<noscript><p>Without JavaScript the figures are pictures, and tables cannot be sorted.</p>{"".join(pictures)}</noscript>
{explorer.controls(data)}
{parts["curves"]}
<h2>Who wins</h2>
{page.table(headline(summary), means, "headline")}
{matrix}
<h2>How to read it</h2><ul>{items}</ul>
{parts["pairs"]}
{parts["run"]}
<h2>All windows and conditions</h2>
<details><summary>Show the table</summary>{page.table(_rounded(summary), "As in summary.csv.", "summary")}</details>
<h2>Settings</h2>
{"".join(page.settings(Path(folder)) for folder in folders)}"""


def _notes(losses: pd.DataFrame, summary: pd.DataFrame, shown: Presentation) -> list[str]:
    """Return what a reader must know to judge the figures."""
    notes = [_IQM]
    if "score" in summary:
        notes.append(_SCORE)
    notes += shown.remarks
    arguments, steps = argument_columns(losses), int(losses["timestep"].max())
    conditions = [dict(zip(arguments, condition, strict=True)) for condition in conditions_of(losses)]
    agents = list(losses["agent"].unique())
    if shown.reference and any(len(shown.reference.at(condition, steps, agents)) for condition in conditions):
        notes.append(shown.reference_remark)
    if len(conditions) > 1:
        notes.append(
            f"Losses under different values of {' and '.join(arguments)} have no common scale and are never averaged "
            f"here; rows with the value {ALL} in summary.csv give every condition the same weight."
        )
    runs = int(losses.groupby(["agent", *arguments])["run"].nunique().min())
    notes.append(f"At least {runs} run(s) stand behind each line; intervals from fewer than 10 are rough.")
    return notes


def _matrix(comparisons: pd.DataFrame, window: str) -> pd.DataFrame:
    if comparisons.empty:
        return pd.DataFrame({"agent": []})
    chosen = rows_of(comparisons, headline_condition(comparisons))
    chosen = chosen[chosen["window"] == window]
    agents = list(chosen["agent"].unique())
    wins = {(row["agent"], row["other"]): f"{row['p_better']:.2f}" for _, row in chosen.iterrows()}
    rows = [{"agent": agent, **{other: wins.get((agent, other), "") for other in agents}} for agent in agents]
    return pd.DataFrame.from_records(rows)


def _rounded(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with four digits per number, and empty cells for NaN."""
    return table.map(lambda value: f"{value:z.4g}" if isinstance(value, float) else value).replace("nan", "")
