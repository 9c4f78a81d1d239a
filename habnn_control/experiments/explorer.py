"""The explorable part of a report: its data, its controls and the script that draws them, all inside the page.

The library is Plotly: one file without dependencies or network, kept for more than ten years, with hover values, zoom
and pictures to download as they are. The values of all runs are stored with 16 bits each, which is finer than a screen.
"""

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from habnn_control.experiments._styles import style_of
from habnn_control.experiments.plotting import Reference, condition_text, stretch_length, stretch_means
from habnn_control.experiments.statistics import mean_band
from habnn_control.experiments.summary import (
    CurvesOf,
    argument_columns,
    conditions_of,
    curves_of,
    value_text,
    windows_within,
)

_MISSING = 65535  # of 16 bits: no value
# Names that Plotly has for the markers of the styles.
_MARKERS = {"o": "circle", "s": "square", "^": "triangle-up", "v": "triangle-down", "D": "diamond", "p": "pentagon"}
_DIGITS = 5  # of the numbers that are stored as text


@cache
def packed_plotly() -> str:
    """Return the source of Plotly, compressed from 4.8 to 1.4 MB, as base64; browsers since 2023 can unpack it."""
    from plotly.offline import get_plotlyjs

    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()


def script() -> str:
    """Return the script of the page, which reads the data and draws them."""
    return Path(__file__).with_name("explorer.js").read_text()


def study_data(
    losses: pd.DataFrame,
    comparisons: pd.DataFrame,
    columns: Mapping[str, bool],
    reference: Reference | None,
    labels: tuple[str, str],
) -> dict[str, Any]:
    """Return what the script draws, as values that JSON can hold.

    Parameters
    ----------
    losses, comparisons : DataFrame
        As in losses.csv and comparisons.csv.
    columns : mapping of str to bool
        Quantities beside the loss, and whether each is drawn below it in the figure of one run.
    reference : Reference, optional
        Points drawn beside the losses.
    labels : tuple of str
        Titles of the axis of losses, and of the axis below it.
    """
    arguments, conditions = argument_columns(losses), conditions_of(losses)
    agents = list(dict.fromkeys(str(agent) for agent in losses["agent"]))
    curves = {name: curves_of(losses, name) for name in ("loss", *columns)}
    keys = list(curves["loss"])
    runs = [
        [agents.index(agent), conditions.index(condition), int(seed), curves["loss"][agent, condition].values.shape[1]]
        for agent, condition in keys
        for seed in curves["loss"][agent, condition].seeds
    ]
    steps = max(run[3] for run in runs)
    return {
        "agents": [_agent(name, agents) for name in agents],
        "conditions": [condition_text(arguments, condition) for condition in conditions],
        "columns": [
            {"name": name, "label": labels[0] if name == "loss" else name, "panel": columns.get(name, False)}
            for name in curves
        ],
        "panels": labels[1],
        "runs": runs,
        "values": {name: _packed(curves[name], keys) for name in curves},
        "bands": {name: _bands(curves[name], agents, conditions) for name in curves},
        "windows": [list(window) for window in windows_within(steps)],
        "reference": _reference(reference, agents, arguments, conditions, steps),
        "pairs": _pairs(comparisons, agents, [tuple(map(value_text, condition)) for condition in conditions]),
    }


def controls(data: Mapping[str, Any]) -> str:
    """Return the form that chooses what all figures and tables show."""
    boxes = "".join(
        f'<label><input type="checkbox" name="agent" value="{k}" checked> <span class="key" data-agent="{k}"></span>'
        f"{escape(agent['name'])}</label>"
        for k, agent in enumerate(data["agents"])
    )
    last = max(run[3] for run in data["runs"])
    windows = {f"{first}-{end}": f"steps {first} to {end}" for first, end in data["windows"]}
    return f"""<form class="controls" id="controls" aria-label="What the figures and tables show">
<fieldset><legend>Agents</legend><div class="boxes">{boxes}
<span><button type="button" id="all">all</button> <button type="button" id="none">none</button></span></div></fieldset>
<div class="row">
{_select("condition", "Condition", dict(enumerate(data["conditions"])), len(data["conditions"]) < 2)}
{_select("column", "Quantity", {k: item["label"] for k, item in enumerate(data["columns"])})}
{_select("window", "Window", windows)}
<span class="both"><label>From step <input type="number" id="from" min="1" max="{last}" value="1"></label>
<label>to <input type="number" id="to" min="1" max="{last}" value="{last}"></label></span>
</div><div class="row">
<label><input type="checkbox" id="bands"> 95 % intervals</label>
<label><input type="checkbox" id="singles"> single runs</label>
<label><input type="checkbox" id="log"> logarithmic axis</label>
</div></form>
<p class="quiet" id="said" role="status"></p>"""


def figures(title: str) -> dict[str, str]:
    """Return the sections that the script fills, by name: curves, pairs, matrix and run."""
    return {
        "curves": f'<h2>{escape(title)}</h2><div class="chart tall" id="curves" role="img"></div>',
        "matrix": '<div id="matrix"></div>',
        "pairs": f"""<h2>Paired differences</h2><p>One dot per environment seed that both agents met: the mean loss of
the agent minus that of the other, over the chosen window. Left of zero the agent is better. The bar is the mean with
its 95 % interval.</p><div class="row controls">{_select("other", "Compared with", {})}</div>
<div class="chart" id="pairs" role="img"></div>""",
        "run": f"""<h2>One run</h2><div class="row controls">{_select("run-agent", "Agent", {})}
{_select("run-seed", "Seed", {})}</div><div class="chart tall" id="run" role="img"></div>""",
    }


def embedded(data: Mapping[str, Any]) -> str:
    """Return the scripts and data at the end of the page."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("</", "<\\/")
    return f'<script type="application/json" id="data">{text}</script>\n{with_plotly(script())}'


def with_plotly(source: str) -> str:
    """Return Plotly and a script that unpacks and uses it, as HTML."""
    return f'<script type="text/plain" id="plotly">{packed_plotly()}</script>\n<script>{source}</script>'


def _select(name: str, label: str, options: Mapping[Any, str], hidden: bool = False) -> str:
    items = "".join(f'<option value="{value}">{escape(text)}</option>' for value, text in options.items())
    return f'<label{" hidden" if hidden else ""}>{label} <select id="{name}">{items}</select></label>'


def _agent(name: str, agents: Sequence[str]) -> dict[str, str]:
    style = style_of(name, agents)
    dash = "solid" if style.dashes is None else ",".join(f"{1.6 * length:g}px" for length in style.dashes)
    return {"name": name, "colour": style.colour, "dash": dash, "marker": f"{_MARKERS[style.marker]}-open"}


def _packed(curves: CurvesOf, keys: Sequence[Any]) -> dict[str, Any]:
    """Return the values of all runs, one after the other, as 16-bit numbers between the lowest and the highest."""
    values = np.concatenate([curves[key].values.ravel() for key in keys])
    known = np.isfinite(values)
    low, high = (float(values[known].min()), float(values[known].max())) if known.any() else (0.0, 0.0)
    codes = np.full(values.shape, _MISSING, dtype="<u2")
    codes[known] = np.round((values[known] - low) / ((high - low) or 1.0) * (_MISSING - 1))
    return {"low": low, "high": high, "data": base64.b64encode(codes.tobytes()).decode()}


def _bands(curves: CurvesOf, agents: Sequence[str], conditions: Sequence[Any]) -> list[dict[str, Any]]:
    """Return mean and 95 % interval of each agent under each condition, as in the figures that are files."""
    bands = []
    for (agent, condition), item in curves.items():
        timesteps, means = stretch_means(item.values, stretch_length(item.values.shape[1]))
        mean, low, high = mean_band([means], np.random.default_rng(0))
        parts = {"x": timesteps, "mean": mean, "low": low, "high": high}
        where = {"agent": agents.index(agent), "condition": conditions.index(condition)}
        bands.append({**where, **{name: _numbers(values) for name, values in parts.items()}})
    return bands


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    return [float(f"{value:.{_DIGITS}g}") if np.isfinite(value) else None for value in values]


def _reference(
    reference: Reference | None, agents: Sequence[str], arguments: Sequence[str], conditions: Sequence[Any], steps: int
) -> dict[str, Any] | None:
    if reference is None:
        return None
    points = []
    for place, condition in enumerate(conditions):
        rows = reference.at(dict(zip(arguments, condition, strict=True)), steps, agents)
        points += [
            [agents.index(agent), place, int(timestep), float(value)]
            for agent, timestep, value in zip(rows["agent"], rows["timestep"], rows["loss"], strict=True)
        ]
    return {"title": reference.title, "points": points}


def _pairs(comparisons: pd.DataFrame, agents: Sequence[str], conditions: Sequence[tuple[str, ...]]) -> list[Any]:
    """Return per pair: agent, other, condition, window, probability, difference with its interval, better, paired."""
    names = ("p_better", "difference", "difference_low", "difference_high")
    rows = []
    for row in comparisons.to_dict("records"):
        condition = tuple(str(row[name]) for name in argument_columns(comparisons))
        if condition in conditions:
            numbers = _numbers(np.array([row[name] for name in names], dtype=np.float64))
            place = [agents.index(str(row["agent"])), agents.index(str(row["other"])), conditions.index(condition)]
            rows.append([*place, row["window"], *numbers, int(row["runs_better"]), int(row["runs_paired"])])
    return rows
