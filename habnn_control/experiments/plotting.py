"""Figures: quantities over timesteps for studies, and stacked panels for one episode.

Every line has its own colour (Okabe and Ito's palette for colour-blind readers), its own dashes for print in grey, and
its name beside its end. Figures are built without pyplot, so they depend neither on a display nor on global state.
"""

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, MaxNLocator, NullFormatter, StrMethodFormatter
from matplotlib.transforms import offset_copy
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from habnn_control.experiments._styles import COLUMN_STYLES, line_look, style_of
from habnn_control.experiments.statistics import mean_band
from habnn_control.experiments.summary import (
    Condition,
    CurvesOf,
    argument_columns,
    conditions_of,
    curves_of,
    value_text,
)
from habnn_control.support.files import atomic_write

WIDE, NARROW = 8.0, 3.9  # inches: for a page, and for a telephone held upright
_PANEL_HEIGHT = 2.0
_POINTS_SHOWN = 100  # longer runs are averaged over short stretches: single steps would hide each other
_FILLED = 4  # agents whose intervals are shaded; shades of more would mix to brown, so they have outlines
_REFERENCE_REACH = 5  # runs longer than so many times the last reference timestep would crowd the points at the left
_FONT = 9.0
_LABEL_GAP = 1.2 * _FONT / 72.0  # inches between the labels of two lines
_LOG_TICKS = (50, 70, 100, 150, 200, 250, 300, 400, 500, 700, 1000, 1500, 2000, 3000, 5000)


class Reference(NamedTuple):
    """Values from elsewhere to show beside measured curves.

    Attributes
    ----------
    points : DataFrame
        Columns agent, the arguments that the values belong to, timestep and the quantity.
    title : str
        Heading of their legend.
    """

    points: pd.DataFrame
    title: str

    def at(self, condition: Mapping[str, Any], steps: int, agents: Iterable[str]) -> pd.DataFrame:
        """Return the points of a condition and of these agents that can be told apart beside runs of `steps` steps."""
        points = self.points[(self.points["timestep"] <= steps) & self.points["agent"].isin(list(agents))]
        for name in argument_columns(self.points):
            points = points[points[name] == condition[name]] if name in condition else points.iloc[:0]
        return points if steps <= _REFERENCE_REACH * self.points["timestep"].max() else points.iloc[:0]


def condition_text(arguments: Sequence[str], condition: Condition) -> str:
    """Return a condition as text, such as "setpoint 100"; empty without arguments."""
    return ", ".join(f"{name} {value_text(value)}" for name, value in zip(arguments, condition, strict=True))


def losses_figure(
    losses: pd.DataFrame,
    width: float = WIDE,
    *,
    column: str = "loss",
    label: str | None = None,
    reference: Reference | None = None,
) -> Figure:
    """Draw the mean of a quantity of every agent over timesteps with its 95 % interval, one panel per condition.

    Parameters
    ----------
    losses : DataFrame
        As in losses.csv.
    width : float
        Inches; `NARROW` stacks the panels.
    column : str
        The quantity.
    label : str, optional
        Label of the vertical axis if there is one row of panels; the column's name otherwise.
    reference : Reference, optional
        Points to draw as hollow markers.

    Returns
    -------
    Figure
    """
    curves, arguments, conditions = curves_of(losses, column), argument_columns(losses), conditions_of(losses)
    agents = _unique(agent for agent, _ in curves)
    columns = 1 if width < WIDE or len(conditions) == 1 else 2
    rows = -(-len(conditions) // columns)
    steps = max(item.values.shape[1] for item in curves.values())
    height = max(4.4 if len(conditions) == 1 else 3.2, _LABEL_GAP * (len(agents) + 5))
    figure = _new_figure(width, height * rows)
    for axes, condition in zip(figure.subplots(rows, columns, squeeze=False).flat, conditions, strict=False):
        _draw_curves(axes, curves, agents, condition)
        if reference is not None:
            points = reference.at(dict(zip(arguments, condition, strict=True)), steps, agents)
            _draw_reference(axes, points, column, reference.title, agents)
        _value_axis(axes)
        axes.set_title(condition_text(arguments, condition), loc="left", fontsize=_FONT + 1)
        axes.set_ylabel(label or column if rows == 1 else column)
        axes.set_xlabel(_timestep_label(steps))
    for axes in figure.axes[len(conditions) :]:
        axes.remove()
    return _finished(figure)


def columns_figure(losses: pd.DataFrame, condition: Condition, columns: Sequence[str], width: float = WIDE) -> Figure:
    """Draw the means of columns for every agent over timesteps with 95 % intervals, under one condition.

    Columns that runs under this condition do not have are left out.
    """
    chosen = losses
    for name, value in zip(argument_columns(losses), condition, strict=True):
        chosen = chosen[chosen[name] == value]
    curves = {name: curves_of(chosen, name) for name in columns if chosen[name].notna().all()}
    agents = _unique(chosen["agent"])

    def panel(name: str) -> Callable[[Axes], None]:
        def draw(axes: Axes) -> None:
            _draw_curves(axes, curves[name], agents, condition)
            axes.set_ylabel(name)

        return draw

    steps = int(chosen["timestep"].max())
    height = max(_PANEL_HEIGHT, _LABEL_GAP * (len(agents) + 2))
    return stacked_figure([panel(name) for name in curves], _timestep_label(steps), width, height)


def stacked_figure(
    panels: Sequence[Callable[[Axes], None]],
    xlabel: str = "timestep",
    width: float = WIDE,
    panel_height: float = _PANEL_HEIGHT,
) -> Figure:
    """Draw panels above a common horizontal axis; each panel is a function that draws on its axes."""
    figure = _new_figure(width, 0.6 + panel_height * len(panels))
    rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for draw, axes in zip(panels, rows, strict=True):
        draw(axes)
    rows[-1].set_xlabel(xlabel)
    return _finished(figure)


def loss_panel(
    agent: str, loss: NDArray[np.float64], references: Mapping[str, NDArray[np.float64]]
) -> Callable[[Axes], None]:
    """Return a panel with the loss of one episode, and the losses of other agents in the same environment.

    In a long episode the lines are means over short stretches, with the single steps of the agent thin behind them.
    """

    def draw(axes: Axes) -> None:
        stretch = stretch_length(len(loss))
        style = style_of(agent, [agent])._replace(dashes=None)
        if stretch > 1:
            axes.plot(np.arange(1, len(loss) + 1), loss, color=style.colour, alpha=0.3, linewidth=0.5)
            axes.set_title(f"lines: means over {stretch} steps; thin: single steps", loc="left", fontsize=_FONT)
        for name, values in references.items():
            axes.plot(*stretch_means(values, stretch), label=name, **line_look(style_of(name, list(references))))
        axes.plot(*stretch_means(loss, stretch), label=agent, **line_look(style))
        axes.set_ylabel("loss")

    return draw


def columns_panel(
    columns: Mapping[str, NDArray[np.float64]], label: str, limits: tuple[float, float] | None = None
) -> Callable[[Axes], None]:
    """Return a panel with several columns of one episode; `limits` are those of the vertical axis."""

    def draw(axes: Axes) -> None:
        for (name, values), style in zip(columns.items(), cycle(COLUMN_STYLES), strict=False):
            axes.plot(np.arange(1, len(values) + 1), values, label=name, **line_look(style))
        axes.set_ylabel(label)
        if limits is not None:
            margin = 0.02 * (limits[1] - limits[0])
            axes.set_ylim(limits[0] - margin, limits[1] + margin)

    return draw


def prediction_panel(
    name: str, values: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> Callable[[Axes], None]:
    """Return a panel with the measured values of an episode over the 90 % intervals predicted one step before."""

    def draw(axes: Axes) -> None:
        timesteps = np.arange(1, len(values) + 1)
        axes.fill_between(timesteps, low, high, step="mid", color="#56B4E9", alpha=0.45, linewidth=0)
        axes.plot(timesteps, values, label="measured", color="#000000", linewidth=0.8)
        margin = 0.25 * float(np.ptp(values)) + 1.0  # the first intervals are as wide as the prior
        axes.set_ylim(float(values.min()) - margin, float(values.max()) + margin)
        covered = 100 * np.mean((low <= values) & (values <= high))
        axes.set_title(f"predicted 90 % bands cover {covered:.0f} % of the steps", loc="left", fontsize=_FONT)
        axes.set_ylabel(name)

    return draw


def save_figure(figure: Figure, path: str | Path) -> None:
    """Save a figure as PNG or SVG, by the suffix of `path`, atomically."""
    data = figure_bytes(figure, Path(path).suffix.removeprefix("."))
    with atomic_write(path) as file:
        file.write(data)


def figure_bytes(figure: Figure, kind: str) -> bytes:
    """Return a figure as "png" or "svg", equal bytes for equal figures."""
    if kind not in ("png", "svg"):
        raise ValueError(f"figure_bytes: kind must be png or svg, got {kind!r}; choose one of these.")
    _show_dollar_signs(figure)
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "habnn_control"}):
        figure.savefig(buffer, format=kind, dpi=200, metadata={"Date": None} if kind == "svg" else {"Software": None})
    return buffer.getvalue()


def _show_dollar_signs(figure: Any) -> None:
    """Keep matplotlib from reading names of folders, agents and columns as formulas; numbers of axes may be some."""
    for axes in figure.axes:
        legends = [legend for legend in (axes.get_legend(), *figure.legends) if legend is not None]
        texts = [*axes.get_children(), axes.xaxis.label, axes.yaxis.label]
        for text in [*texts, *(text for legend in legends for text in legend.get_texts())]:
            if isinstance(text, Text):
                text.set_parse_math(False)


def label_line_ends(axes: Axes) -> None:
    """Write each line's label beside its last point, moved apart just enough not to overlap.

    The layout of the figure must be known: call it last.
    """
    _show_dollar_signs(axes.get_figure(root=True))
    lines = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    if not lines:
        return
    ends = [np.asarray(line.get_xydata(), dtype=float)[-1] for line in lines]
    heights = [float(axes.transAxes.inverted().transform(axes.transData.transform(end))[1]) for end in ends]
    gap = _LABEL_GAP * axes.figure.dpi / axes.bbox.height
    beside = offset_copy(axes.transAxes, axes.get_figure(root=True), x=9.0, units="points")
    for line, end, height in zip(lines, ends, spread(heights, gap), strict=True):
        axes.annotate(
            str(line.get_label()),
            xy=(end[0], end[1]),
            xytext=(1.0, height),
            textcoords=beside,
            color=0.7 * np.array(to_rgb(line.get_color())),  # darker than the line: small letters need contrast
            fontsize=_FONT,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": line.get_color(), "linewidth": 0.6, "relpos": (0, 0.5)},
        )


def spread(positions: Sequence[float], gap: float) -> list[float]:
    """Move positions in 0..1 as little as possible (least squares) so that any two are `gap` apart or more."""
    order = np.argsort(positions, kind="stable")
    offsets = gap * np.arange(len(positions))
    # With z[i] = position[i] - i gap, "gap apart" reads "z does not fall": isotonic regression.
    z = isotonic_regression(np.asarray(positions)[order] - offsets).x
    top = max(0.0, 1.0 - float(offsets[-1]))
    moved = np.empty(len(positions))
    moved[order] = np.clip(z, 0.0, top) + offsets
    return [float(value) for value in moved]


def _draw_curves(axes: Axes, curves: CurvesOf, agents: list[str], condition: Condition) -> None:
    for agent in agents:
        if (agent, condition) not in curves:
            continue
        values = curves[agent, condition].values
        timesteps, means = stretch_means(values, stretch_length(values.shape[1]))
        mean, low, high = mean_band([means], np.random.default_rng(0))
        style = style_of(agent, agents)
        if len(agents) <= _FILLED:
            axes.fill_between(timesteps, low, high, color=style.colour, alpha=0.14, linewidth=0)
        else:
            axes.fill_between(timesteps, low, high, facecolor="none", edgecolor=style.colour, alpha=0.5, linewidth=0.4)
        axes.plot(timesteps, mean, label=agent, **line_look(style))


def _draw_reference(axes: Axes, points: pd.DataFrame, column: str, title: str, agents: list[str]) -> None:
    if points.empty:
        return
    handles = []
    for agent, rows in points.groupby("agent", sort=False):
        style = style_of(str(agent), agents)
        look: dict[str, Any] = {
            "color": style.colour,
            "marker": style.marker,
            "markerfacecolor": "none",
            "linestyle": "none",
        }
        axes.plot(rows["timestep"], rows[column], markersize=4.5, label="_reference", clip_on=False, zorder=3, **look)
        handles.append(Line2D([], [], markersize=4.5, label=str(agent), **look))
    axes.legend(
        handles=handles,
        title=title,
        title_fontsize=_FONT - 1,
        fontsize=_FONT - 1,
        ncols=len(handles),
        alignment="left",
        loc="upper left",
        frameon=False,
        handletextpad=0.1,
        columnspacing=0.9,
        borderaxespad=0.1,
    )


def _value_axis(axes: Axes) -> None:
    """Use a logarithmic axis with plain numbers where all means are positive: ratios matter. Else a linear one."""
    lines = [np.asarray(line.get_ydata(), dtype=float) for line in axes.lines]
    if not all((values > 0).all() for values in lines):
        return
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.12)  # leaves space for the legend
    ticks = [tick for tick in _LOG_TICKS if low <= tick <= high]
    axes.yaxis.set_major_locator(FixedLocator(ticks) if len(ticks) > 2 else MaxNLocator(5))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()


def stretch_length(steps: int) -> int:
    """Return over how many steps each point of a line is the mean: 1 in short runs."""
    return max(1, steps // _POINTS_SHOWN) if steps > 2 * _POINTS_SHOWN else 1


def stretch_means(values: NDArray[np.float64], stretch: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the middles of short stretches of timesteps, and the means of values (..., n_steps) over each."""
    n = values.shape[-1] // stretch
    whole = values[..., : n * stretch].reshape(*values.shape[:-1], n, stretch)
    return stretch * np.arange(n) + (stretch + 1) / 2, whole.mean(axis=-1)


def _timestep_label(steps: int) -> str:
    stretch = stretch_length(steps)
    return "timestep" if stretch == 1 else f"timestep (means over {stretch} steps)"


def _new_figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained")


def _finished(figure: Figure) -> Figure:
    for axes in figure.axes:
        axes.margins(x=0.0)
        axes.grid(color="#DDDDDD", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=_FONT)
        axes.xaxis.label.set_fontsize(_FONT)
        axes.yaxis.label.set_fontsize(_FONT)
    figure.draw_without_rendering()  # computes the layout that the labels depend on
    for axes in figure.axes:
        label_line_ends(axes)
    figure.draw_without_rendering()  # makes space for the labels
    figure.set_layout_engine("none")  # keeps the layout: saving to several formats need not compute it again
    return figure


def _unique(items: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(items))
