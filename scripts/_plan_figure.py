"""The picture of scripts/plan_errors.py."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from habnn_control.support.files import atomic_write

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")


def draw(plans: pd.DataFrame, table: pd.DataFrame, path: Path) -> None:
    """Draw standardised errors over steps for all agents, and believed against true losses for the first one."""
    names = list(dict.fromkeys(table["agent"]))
    steps = sorted(plans["step"].unique())
    shown = sorted({steps[min(1, len(steps) - 1)], steps[-1]})
    figure = Figure(figsize=(4.2 * (1 + len(shown)), 4), layout="constrained")
    axes = figure.subplots(1, 1 + len(shown))
    _errors(axes[0], table, names)
    for part, step in zip(axes[1:], shown, strict=True):
        _scatter(part, plans[(plans["agent"] == names[0]) & (plans["step"] == step)], f"{names[0]}, step {step}")
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=110)


def _errors(axes: Axes, table: pd.DataFrame, names: list[str]) -> None:
    for name, colour in zip(names, _COLOURS, strict=False):
        rows = table[table["agent"] == name]
        axes.plot(rows["step"], rows["error_of_difference"], "o-", color=colour, label=name)
    axes.axhline(1.0, color="0.4", linestyle="--", linewidth=1, label="as sure as it should be")
    axes.set(
        xlabel="steps learned from", ylabel="error of plans in predicted deviations", title="Is the model too sure?"
    )
    axes.set_ylim(0.0)
    axes.legend()


def _scatter(axes: Axes, plans: pd.DataFrame, title: str) -> None:
    random, own = plans[plans["plan"] >= 0], plans[plans["plan"] < 0]
    axes.errorbar(
        random["above_rest"],
        random["true_above_rest"],
        xerr=random["above_rest_deviation"],
        fmt="none",
        ecolor="0.85",
        elinewidth=0.5,
    )
    axes.plot(random["above_rest"], random["true_above_rest"], ".", color=_COLOURS[0], ms=3, label="random plans")
    axes.plot(own["above_rest"], own["true_above_rest"], "o", color=_COLOURS[1], label="the agent's own")
    both = plans[["above_rest", "true_above_rest"]].to_numpy()
    low, high = np.percentile(both, [0.5, 99.5])
    low = min(low, own[["above_rest", "true_above_rest"]].min(axis=None)) - 0.03 * (high - low)
    axes.plot([low, high], [low, high], color="0.4", linestyle="--", linewidth=1)
    axes.set(xlim=(low, high), ylim=(low, high), title=title)
    axes.set(xlabel="loss beyond resting, believed", ylabel="true")
    axes.legend(loc="upper left")
