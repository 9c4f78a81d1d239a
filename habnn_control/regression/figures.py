"""Figures of the regression study: one panel per data set, one row per method, dots with quartiles.

Errors are relative to those of the constant predictor, so that data sets in any unit share an axis. A grey line marks
the constant predictor.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

from habnn_control.regression.tables import number

_FONT = 8.0
_OURS, _OTHERS, _PAPER = "#D55E00", "#0072B2", "#555555"
_MARKERS = "osD^vP*Xp<>h"
_NLL_TICKS = (-1, 0, 1, 100)
_LIMITS = {"rmse": (0.02, 30.0), "nll": (-4.0, 300.0)}
_Draw = Callable[[Axes, pd.DataFrame, Sequence[str]], None]


def all_figures(summary: pd.DataFrame, per_sample: pd.DataFrame, timings: pd.DataFrame) -> dict[str, Figure]:
    """Return the figures by file name, for each block that was run."""
    figures = {"time": time_figure(per_sample), "cost": cost_figure(summary, timings)}
    for block in summary["block"].unique():
        rows = summary[summary["block"] == block]
        inside, outside = rows[rows["test_set"] == "in"], rows[rows["test_set"] == "ood"]
        figures[f"coverage-{block}"] = _panels(
            inside, {"coverage of the 50 % (hollow) and 90 % interval (filled)": _coverage}
        )
        if "constant" in set(rows["method"]):
            labels = {
                "RMSE / RMSE of constant": _rmse,
                "NLL - NLL of constant": _nll,
            }
            figures[f"accuracy-{block}"] = _panels(inside, labels)
            figures[f"ood-{block}"] = _panels(outside, labels)
    return figures


def time_figure(per_sample: pd.DataFrame) -> Figure:
    """Draw the training time per sample on a log axis, one dot per data set; hollow diamonds are the paper's times."""
    methods = [name for name in per_sample["method"].unique() if name != "constant"]
    order = per_sample.groupby("method")["microseconds"].median().loc[methods].sort_values().index[::-1]
    figure = Figure(figsize=(6.5, 1.0 + 0.28 * len(order)), layout="constrained")
    axes = figure.subplots()
    for height, method in enumerate(order):
        rows = per_sample[per_sample["method"] == method]
        axes.plot(rows["microseconds"], [height] * len(rows), "o", ms=4, color=_colour(method), alpha=0.8)
        axes.plot(rows["paper_microseconds"], [height] * len(rows), "D", ms=4, mfc="none", color=_PAPER)
        middle = rows["microseconds"].median()
        axes.annotate(
            f"{middle:,.{0 if middle >= 10 else 1}f} µs",
            (1.01, height),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=_FONT,
        )
    axes.set_xscale("log")
    axes.set_yticks(range(len(order)), list(order))
    axes.set_xlabel(
        "training time per sample in µs, one dot per data set; diamonds: the paper's; right: median", fontsize=_FONT
    )
    _tidy(axes)
    return figure


def cost_figure(summary: pd.DataFrame, timings: pd.DataFrame) -> Figure:
    """Draw the NLL of each method against its processor seconds, one panel per data set; the last block that was run.

    NLLs more than 4 nats above the best of a panel lie on its upper edge.
    """
    block = summary["block"].unique()[-1]
    rows = summary[(summary["block"] == block) & (summary["test_set"] == "in") & (summary["method"] != "constant")]
    chosen = timings[timings["block"] == block]
    seconds = chosen.groupby(["method", "dataset"])["cpu_seconds"].median()
    datasets = list(rows["dataset"].unique())
    markers = dict(zip(rows["method"].unique(), cycle(_MARKERS), strict=False))
    n_rows = -(-len(datasets) // 3)
    figure = Figure(figsize=(10.0, 3.0 * n_rows + 0.5), layout="constrained")
    panels = figure.subplots(n_rows, min(3, len(datasets)), squeeze=False).ravel()
    for axes, dataset in zip(panels, datasets, strict=False):
        here = rows[rows["dataset"] == dataset]
        edge = here["nll"].min() + 4.0
        for method, nll in here[["method", "nll"]].itertuples(index=False):
            place = max(float(seconds.loc[(method, dataset)]), 1e-4), min(nll, edge)
            axes.plot(*place, markers[method], ms=5, color=_colour(method), label=method, alpha=0.85)
        axes.set_xscale("log")
        axes.margins(x=0.3, y=0.15)
        axes.set_title(dataset, fontsize=_FONT + 1)
        _tidy(axes)
    for axes in panels[len(datasets) :]:
        axes.set_axis_off()
    figure.supxlabel(f"processor seconds of tuning and training, {block} data", fontsize=_FONT + 1)
    figure.supylabel("NLL", fontsize=_FONT + 1)
    lines = {str(line.get_label()): line for axes in panels for line in axes.lines}
    figure.legend(lines.values(), lines, loc="outside upper center", ncols=5, frameon=False, fontsize=_FONT)
    return figure


def _panels(rows: pd.DataFrame, lines: Mapping[str, _Draw]) -> Figure:
    """Draw a grid of panels: one column per data set, one row per quantity."""
    datasets, methods = list(rows["dataset"].unique()), list(rows["method"].unique())[::-1]
    size = 1.5 + 1.4 * max(len(datasets), 2), len(lines) * (0.85 + 0.19 * len(methods))
    figure = Figure(figsize=size, layout="constrained")
    for part, (label, draw) in zip(figure.subfigures(len(lines), 1, squeeze=False)[:, 0], lines.items(), strict=True):
        panels = part.subplots(1, len(datasets), squeeze=False, sharey=True)[0]
        for axes, dataset in zip(panels, datasets, strict=True):
            draw(axes, rows[rows["dataset"] == dataset].set_index("method"), methods)
            axes.set_title(dataset, fontsize=_FONT + 1)
            axes.set_ylim(-0.6, len(methods) - 0.4)
            axes.set_yticks(range(len(methods)), methods)
            _tidy(axes)
        part.supxlabel(label, fontsize=_FONT + 1)
    return figure


def _rmse(axes: Axes, rows: pd.DataFrame, methods: Sequence[str]) -> None:
    unit = number(rows, "constant", "rmse")
    _dots(axes, rows, methods, "rmse", lambda values: values / unit)
    axes.axvline(1.0, color="#AAAAAA", linewidth=0.8, zorder=0)
    axes.set_xscale("log")
    axes.set_xlim(*_LIMITS["rmse"])
    axes.xaxis.set_major_locator(FixedLocator([0.1, 1, 10]))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def _nll(axes: Axes, rows: pd.DataFrame, methods: Sequence[str]) -> None:
    unit = number(rows, "constant", "nll")
    _dots(axes, rows, methods, "nll", lambda values: values - unit)
    axes.axvline(0.0, color="#AAAAAA", linewidth=0.8, zorder=0)
    axes.set_xscale("symlog", linthresh=1.0, linscale=1.5)
    axes.set_xlim(*_LIMITS["nll"])
    axes.xaxis.set_major_locator(FixedLocator(_NLL_TICKS))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def _dots(axes: Axes, rows: pd.DataFrame, methods: Sequence[str], score: str, against: Any) -> None:
    """Draw median and quartiles of each method; an arrow marks values beyond the axis."""
    for height, method in enumerate(methods):
        if method not in rows.index:
            continue
        low, middle, high = against(rows.loc[method, [f"{score}_low", score, f"{score}_high"]].to_numpy(dtype=float))
        end = _LIMITS[score][1]
        if not middle < end:
            axes.plot([0.97], [height], ">", ms=4, color=_colour(method), transform=axes.get_yaxis_transform())
            continue
        axes.plot([low, min(high, end)], [height, height], "-", color=_colour(method), linewidth=1.2)
        axes.plot([middle], [height], "o" if _colour(method) == _OURS else "s", ms=3.8, color=_colour(method))


def _coverage(axes: Axes, rows: pd.DataFrame, methods: Sequence[str]) -> None:
    for name, nominal, filled in (("coverage_50", 0.5, False), ("coverage_90", 0.9, True)):
        axes.axvline(nominal, color="#AAAAAA", linewidth=0.8, zorder=0)
        for height, method in enumerate(methods):
            if method in rows.index:
                colour = _colour(method)
                axes.plot(
                    [number(rows, method, name)], [height], "o", ms=4, color=colour, mfc=colour if filled else "white"
                )
    axes.set_xlim(-0.05, 1.05)
    axes.xaxis.set_major_locator(FixedLocator([0, 0.5, 0.9]))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))


def _colour(method: str) -> str:
    return _OURS if method.startswith("habnn") else _OTHERS


def _tidy(axes: Axes) -> None:
    axes.grid(axis="y", color="#EEEEEE", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=_FONT)
