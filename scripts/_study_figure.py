"""One picture per study, from the CSV file behind its page: means with intervals, over windows or over setpoints."""

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from habnn_control.experiments.plotting import save_figure

_SHADES = ("#B9CFDF", "#7FA8C9", "#4A83B4", "#0072B2", "#003A5C")  # windows, the last one darkest
_LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000")
_DASHES = ("-", "--", ":", "-.")
_WINDOWS = ("1-60", "101-200", "201-300", "901-1000")  # drawn where a study has them; else all of its windows
_LATE = 1000  # windows that begin after this step are drawn too
_WIDE = 3.0  # ratio of the largest to the smallest mean from which the axis is logarithmic


def draw_study(path: Path) -> Path:
    """Draw the picture of a study beside its CSV file and return its path; PNG."""
    table = pd.read_csv(path, dtype={"setpoint": str})
    table = table[table["setpoint"] != "all"] if "setpoint" in table else table
    late = table["window"].str.partition("-")[0].astype(int) > _LATE
    chosen = table["window"].isin(_WINDOWS) | late
    table = table[chosen] if chosen.any() else table
    several = "setpoint" in table and table["setpoint"].nunique() > 1
    height = 3.6 if several else 1.3 + 0.34 * table["agent"].nunique()
    figure = Figure(figsize=(8.0, height), layout="constrained")
    axes = figure.subplots()
    if several:
        _over_setpoints(axes, table)
    else:
        _over_windows(axes, table)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    out = path.with_suffix(".png")
    save_figure(figure, out)
    return out


def _over_windows(axes: Axes, table: pd.DataFrame) -> None:
    """Draw one row per agent and in it one dot with its interval per window."""
    agents, windows = list(table["agent"].unique())[::-1], list(table["window"].unique())[-len(_SHADES) :]
    shades = _SHADES[-len(windows) :]
    for place, (window, shade) in enumerate(zip(windows, shades, strict=True)):
        rows = table[table["window"] == window]
        heights = [agents.index(agent) + 0.13 * (len(windows) / 2 - place) for agent in rows["agent"]]
        axes.hlines(heights, rows["mean_low"], rows["mean_high"], color=shade, linewidth=2)
        axes.plot(rows["mean"], heights, "o", color=shade, markersize=4.5, label=f"steps {window}")
    axes.set_yticks(range(len(agents)), agents)
    axes.set(xlabel="loss per step, mean with 95 % interval")
    if table["mean"].max() > _WIDE * table["mean"].min():
        axes.set_xscale("log")
        ticks = [tick for tick in (200, 300, 500, 1000, 2000, 4000) if tick < 1.2 * table["mean_high"].max()]
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=8, ncols=len(windows), loc="lower left", bbox_to_anchor=(0, 1), borderpad=0)


def _over_setpoints(axes: Axes, table: pd.DataFrame) -> None:
    """Draw one line per agent over the setpoints, in the last window."""
    table = table[table["window"] == table["window"].iloc[-1]].assign(at=lambda rows: rows["setpoint"].astype(float))
    for place, (agent, rows) in enumerate(table.sort_values("at").groupby("agent", sort=False)):
        look: dict[str, Any] = {"color": _LINES[place % len(_LINES)], "linestyle": _DASHES[place % len(_DASHES)]}
        axes.plot(rows["at"], rows["mean"], marker="o", markersize=4, label=str(agent), **look)
        axes.fill_between(rows["at"], rows["mean_low"], rows["mean_high"], color=look["color"], alpha=0.2, linewidth=0)
    axes.set(xlabel="setpoint", ylabel=f"loss per step, steps {table['window'].iloc[0]}")
    axes.legend(frameon=False, fontsize=8)
