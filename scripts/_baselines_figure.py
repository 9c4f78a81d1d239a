"""The figure of scripts/baselines.py: loss against environment steps on a logarithmic axis."""

from collections.abc import Sequence
from itertools import cycle

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

from habnn_control.experiments.plotting import label_line_ends

FIRST, LAST = 10.0, 1e7  # ends of the axis of steps
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito
_DASHES = ("-", "--", ":", "-.")
_GREY = "#777777"
_TICKS = (50, 70, 100, 150, 200, 221, 230, 250, 300, 400, 500, 700, 1000, 1500, 2000, 3000)


def curves_figure(curves: pd.DataFrame, references: Sequence[str]) -> Figure:
    """Draw the mean loss of every agent over its runs against steps; references as horizontal lines.

    Parameters
    ----------
    curves : DataFrame
        Columns agent, run, steps and loss; an evaluation before the first step is drawn at 10 steps.
    references : sequence of str
        Agents that do not learn: their last loss is a line.
    """
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    axes = figure.subplots()
    looks = cycle([(colour, dashes) for dashes in _DASHES for colour in _COLOURS])
    for agent, rows in curves.groupby("agent", sort=False):
        by_steps = rows.groupby("steps")["loss"].agg(["mean", "min", "max"])
        if agent in references:
            _line(axes, str(agent), float(by_steps["mean"].iloc[-1]))
        else:
            _curve(axes, str(agent), by_steps, next(looks))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(FixedLocator(_TICKS))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlim(FIRST, LAST)
    axes.set_xlabel("environment steps")
    axes.set_ylabel("loss, last 100 steps of an evaluation")
    axes.grid(color="#DDDDDD", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    figure.draw_without_rendering()
    label_line_ends(axes)
    return figure


def _curve(axes: Axes, agent: str, by_steps: pd.DataFrame, look: tuple[str, str]) -> None:
    colour, dashes = look
    steps = np.maximum(by_steps.index.to_numpy(dtype=float), FIRST)
    axes.plot(steps, by_steps["mean"], color=colour, linestyle=dashes, label=agent)
    axes.fill_between(steps, by_steps["min"], by_steps["max"], color=colour, alpha=0.15, linewidth=0)


def _line(axes: Axes, agent: str, loss: float) -> None:
    axes.plot([FIRST, LAST], [loss, loss], color=_GREY, linewidth=0.8, linestyle="--", label=agent)
