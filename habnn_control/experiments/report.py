"""The report of a study: tables, figures and one self-contained page, made from results folders alone."""

import base64
import json
import re
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

from habnn_control.experiments.engine import read_tables, write_csv
from habnn_control.experiments.plotting import (
    NARROW,
    WIDE,
    Reference,
    columns_figure,
    condition_text,
    figure_bytes,
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
from habnn_control.support.files import atomic_write, read_json

_STYLE = """
:root { color-scheme: light dark; --line: #8885; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 72rem; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin-top: 2rem; }
figure { margin: 1rem 0; } figure img { width: 100%; height: auto; background: #fff; border-radius: 4px; }
figcaption, .caption { font-size: .9rem; margin: 1.5rem 0 .3rem; } figcaption { margin-top: .3rem; }
.scroll { overflow-x: auto; background:  /* a shadow at the right edge while columns are hidden there */
  linear-gradient(to left, Canvas 50%, transparent) right / 3rem 100% no-repeat local,
  linear-gradient(to left, #8887, transparent) right / 1rem 100% no-repeat; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; }
thead th { vertical-align: bottom; } th:first-child, td:first-child { text-align: left; white-space: nowrap;
  position: sticky; left: 0; background: Canvas; }
@media (max-width: 600px) { th, td { padding: .25rem .4rem; } }
pre { background: var(--soft); padding: .7rem; white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem; }
"""


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
        wide, narrow = draw(WIDE), draw(NARROW)
        for suffix in (".png", ".svg"):
            save_figure(wide, target / f"{name}{suffix}")
        pictures.append(_figure((target / f"{name}.svg").read_bytes(), figure_bytes(narrow, "svg"), caption))
    page = target / "report.html"
    with atomic_write(page) as file:
        file.write(_page(folders, shown, _notes(losses, shown), summary, comparisons, pictures).encode())
    return summary, page


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


def _page(
    folders: Sequence[str | Path],
    shown: Presentation,
    notes: list[str],
    summary: pd.DataFrame,
    comparisons: pd.DataFrame,
    pictures: list[str],
) -> str:
    last = str(summary["window"].iloc[-1])
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    panels = f"<h2>{escape(shown.panels_title)}</h2>\n{''.join(pictures[1:])}\n" if pictures[1:] else ""
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(shown.title)}</title><style>{_STYLE}</style></head>
<body><main>
<h1>{escape(shown.title)}</h1>
<p>{escape(shown.introduction)}</p>
{pictures[0]}
<h2>Who wins</h2>
{_table(headline(summary), f"Mean loss of a run{_where(summary)} with 95 % stratified-bootstrap intervals.")}
{_table(_matrix(comparisons, last), f"Probability that a run of the row beats one of the column, steps {last}.")}
<h2>How to read it</h2><ul>{items}</ul>
{panels}<h2>All windows and conditions</h2>
<details><summary>Show the table</summary>{_table(_rounded(summary), "As in summary.csv.")}</details>
<h2>Settings</h2>
{"".join(_settings(Path(folder)) for folder in folders)}
</main></body></html>
"""


def _where(summary: pd.DataFrame) -> str:
    """Return what the first table is about, as the middle of a sentence."""
    condition = headline_condition(summary)
    if ALL in condition.values():
        return f" over all values of {' and '.join(condition)}"
    where = ", ".join(f"{name} {value}" for name, value in condition.items())
    return f" at {where}" if where else ""


def _notes(losses: pd.DataFrame, shown: Presentation) -> list[str]:
    """Return what a reader must know to judge the figures."""
    notes = list(shown.remarks)
    arguments, steps = argument_columns(losses), int(losses["timestep"].max())
    conditions = [dict(zip(arguments, condition, strict=True)) for condition in conditions_of(losses)]
    if shown.reference and any(len(shown.reference.at(condition, steps)) for condition in conditions):
        notes.append(shown.reference_remark)
    runs = int(losses.groupby(["agent", *arguments])["run"].nunique().min())
    notes.append(f"At least {runs} run(s) stand behind each line; intervals from fewer than 10 are rough.")
    return notes


def _figure(wide: bytes, narrow: bytes, text: str) -> str:
    """Return a figure that shows its narrow form on a narrow screen, where the wide form would be too small."""
    return (
        f'<figure><picture><source media="(max-width: 600px)" srcset="{_data_uri(narrow)}">'
        f'<img src="{_data_uri(wide)}" alt="{escape(text)}"></picture><figcaption>{escape(text)}</figcaption></figure>'
    )


def _data_uri(svg: bytes) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()


def _table(table: pd.DataFrame, caption: str) -> str:
    head = "".join(f'<th scope="col">{_breakable(str(name))}</th>' for name in table.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_breakable(str(value))}</td>" for value in row) + "</tr>"
        for row in table.itertuples(index=False)
    )
    return (
        f'<p class="caption">{escape(caption)}</p><div class="scroll" tabindex="0"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _breakable(text: str) -> str:
    """Escape the text of a cell so that a narrow column breaks it after _ and /, but within no interval or window."""
    text = escape(text).replace("_", "_<wbr>").replace("/", "/<wbr>").replace(", ", ",&nbsp;")
    return re.sub(r"(\d-)(?=\d)", r"\1&NoBreak;", text)


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


def _settings(folder: Path) -> str:
    config = (folder / "config.json").read_text()
    try:
        meta: dict[str, Any] = read_json(folder / "meta.json")
        call = f"<p>Command</p><pre>{escape(str(meta['command']))}</pre>"
    except (OSError, ValueError, TypeError, LookupError):  # none, or a damaged one: results do not depend on it
        meta, call = {}, ""
    return (
        f"<h3>{escape(str(folder))}</h3>{call}<details><summary>Study, versions and machine</summary>"
        f"<pre>{escape(config)}</pre><pre>{escape(json.dumps(meta, indent=2))}</pre></details>"
    )
