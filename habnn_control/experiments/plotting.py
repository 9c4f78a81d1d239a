"""Figures: loss over timesteps, steering trajectories, and stacked panels of one episode.

Every line has its own colour (Okabe and Ito's, made for colour-blind readers), its own dashes for print in grey, and
its name beside its end. Figures are built without pyplot, so nothing depends on a display or on global state.
"""

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, MaxNLocator, NullFormatter, StrMethodFormatter
from matplotlib.transforms import offset_copy
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from habnn_control.experiments.statistics import mean_band
from habnn_control.experiments.summary import CurvesOf, curves_of
from habnn_control.support.files import atomic_write

# Printed in the paper, figure "Performance on the Industrial Benchmark" (setpoint 100): loss at these timesteps.
PAPER_TIMESTEPS = (10, 20, 30, 40, 50, 60)
_PAPER_SETPOINT = 100.0
_PAPER_STEPS = 300  # runs longer than this would press the points into one heap
PAPER_LOSSES = {
    "habnn": (335, 381, 376, 357, 401, 352),
    "a2c": (381, 458, 487, 512, 556, 570),
    "td3": (318, 409, 576, 794, 911, 909),
    "sac": (405, 491, 625, 805, 1027, 1075),
}

WIDE, NARROW = 8.0, 3.9  # inches: for a page, and for a telephone held upright
_PANEL_HEIGHT = 2.0
_POINTS_SHOWN = 100  # longer runs are averaged over short stretches: single steps would be a thicket
_FONT = 9.0
_LABEL_GAP = 1.2 * _FONT / 72.0  # inches between the labels of two lines
_LOG_TICKS = (50, 70, 100, 150, 200, 250, 300, 400, 500, 700, 1000, 1500, 2000, 3000, 5000)
_Dashes = tuple[float, ...] | None


class _Style(NamedTuple):
    colour: str
    dashes: _Dashes = None  # lengths on, off, ... in units of the line width; None is solid
    marker: str = "o"


_STYLES = {
    "habnn": _Style("#0072B2", None, "o"),
    "habnn-paper": _Style("#56B4E9", (6, 2), "p"),
    "a2c": _Style("#E69F00", (4, 1.5), "s"),
    "td3": _Style("#009E73", (1, 1.2), "^"),
    "sac": _Style("#D55E00", (5, 1.5, 1, 1.5), "D"),
    "ppo": _Style("#CC79A7", (3, 1, 1, 1, 1, 1), "v"),
    "noop": _Style("#555555", (8, 3)),
    "random": _Style("#888888", (1, 2.5)),
    "hold": _Style("#8C510A", (3, 3)),
    "oracle": _Style("#000000", None),
}
_SPARE = [
    _Style(colour, dashes) for dashes in ((2, 1), (7, 1, 1, 1), (1, 3)) for colour in ("#4B0082", "#AA4466", "#117733")
]


def losses_figure(losses: pd.DataFrame, width: float = WIDE) -> Figure:
    """Draw the mean loss of every agent over timesteps with its 95 % interval, one panel a setpoint.

    Parameters
    ----------
    losses : DataFrame
        As in losses.csv.
    width : float
        Inches; `NARROW` stacks the panels.

    Returns
    -------
    Figure
    """
    curves = curves_of(losses)
    agents = _unique(agent for agent, _ in curves)
    setpoints = _unique(setpoint for _, setpoint in curves)
    columns = 1 if width < WIDE or len(setpoints) == 1 else 2
    rows = -(-len(setpoints) // columns)
    steps = max(item.values.shape[1] for item in curves.values())
    height = max(4.4 if len(setpoints) == 1 else 3.2, _LABEL_GAP * (len(agents) + 5))
    figure = _new_figure(width, height * rows)
    for axes, setpoint in zip(figure.subplots(rows, columns, squeeze=False).flat, setpoints, strict=False):
        _draw_curves(axes, curves, agents, setpoint)
        if paper_is_shown(setpoint, steps):
            _draw_paper(axes, steps)
        _log_axis(axes)
        axes.set_title(f"setpoint {setpoint:g}", loc="left", fontsize=_FONT + 1)
        axes.set_ylabel("loss = consumption + 3 fatigue" if rows == 1 else "loss")
        axes.set_xlabel(_timestep_label(steps))
    for axes in figure.axes[len(setpoints) :]:
        axes.remove()
    return _finished(figure)


def paper_is_shown(setpoint: float, steps: int) -> bool:
    """Return whether the paper has points that belong, and can be told apart, beside runs of so many steps."""
    return setpoint == _PAPER_SETPOINT and PAPER_TIMESTEPS[0] <= steps <= _PAPER_STEPS


def steerings_figure(losses: pd.DataFrame, setpoint: float, width: float = WIDE) -> Figure:
    """Draw the mean velocity, gain and shift of every agent over timesteps with 95 % intervals, at one setpoint."""
    curves = {name: curves_of(losses[losses["setpoint"] == setpoint], name) for name in ("velocity", "gain", "shift")}
    agents = _unique(agent for agent, _ in curves["velocity"])

    def panel(name: str) -> Callable[[Axes], None]:
        def draw(axes: Axes) -> None:
            _draw_curves(axes, curves[name], agents, setpoint)
            axes.set_ylabel(name)

        return draw

    steps = max(item.values.shape[1] for item in curves["velocity"].values())
    height = max(_PANEL_HEIGHT, _LABEL_GAP * (len(agents) + 2))
    return stacked_figure([panel(name) for name in curves], _timestep_label(steps), width, height)


def stacked_figure(
    panels: Sequence[Callable[[Axes], None]],
    xlabel: str = "timestep",
    width: float = WIDE,
    panel_height: float = _PANEL_HEIGHT,
) -> Figure:
    """Draw panels under one another over a common horizontal axis; each panel draws itself on its axes."""
    figure = _new_figure(width, 0.6 + panel_height * len(panels))
    rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for draw, axes in zip(panels, rows, strict=True):
        draw(axes)
    rows[-1].set_xlabel(xlabel)
    return _finished(figure)


def loss_panel(
    agent: str, loss: NDArray[np.float64], references: Mapping[str, NDArray[np.float64]]
) -> Callable[[Axes], None]:
    """Return a panel with the loss of one episode, solid because it is rugged, and those of other agents beside it.

    In a long episode the lines are means over short stretches, with the agent's single steps thin behind them.
    """

    def draw(axes: Axes) -> None:
        stretch = _stretch(len(loss))
        style = _style_of(agent, [agent])._replace(dashes=None)
        if stretch > 1:
            axes.plot(np.arange(1, len(loss) + 1), loss, color=style.colour, alpha=0.3, linewidth=0.5)
            axes.set_title(f"lines: means over {stretch} steps; thin: single steps", loc="left", fontsize=_FONT)
        for name, values in references.items():
            axes.plot(*_stretches(values, stretch), label=name, **_line(_style_of(name, list(references))))
        axes.plot(*_stretches(loss, stretch), label=agent, **_line(style))
        axes.set_ylabel("loss")

    return draw


def steerings_panel(columns: Mapping[str, NDArray[np.float64]]) -> Callable[[Axes], None]:
    """Return a panel with velocity, gain and shift of one episode."""

    def draw(axes: Axes) -> None:
        for name, key in (("velocity", "habnn"), ("gain", "sac"), ("shift", "td3")):
            axes.plot(np.arange(1, len(columns[name]) + 1), columns[name], label=name, **_line(_STYLES[key]))
        axes.set_ylabel("steering")
        axes.set_ylim(-2.0, 102.0)

    return draw


def prediction_panel(
    name: str, values: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> Callable[[Axes], None]:
    """Return a panel with what came in an episode over the 90 % intervals predicted for it one step before."""

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
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "habnn_control"}):
        figure.savefig(buffer, format=kind, dpi=200, metadata={"Date": None} if kind == "svg" else {"Software": None})
    return buffer.getvalue()


def label_line_ends(axes: Axes) -> None:
    """Write each line's label beside its last point, moved apart just enough not to overlap.

    The layout of the figure must be known: call it last.
    """
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


def _draw_curves(axes: Axes, curves: CurvesOf, agents: list[str], setpoint: float) -> None:
    for agent in agents:
        if (agent, setpoint) not in curves:
            continue
        values = curves[agent, setpoint].values
        timesteps, means = _stretches(values, _stretch(values.shape[1]))
        mean, low, high = mean_band([means], np.random.default_rng(0))
        style = _style_of(agent, agents)
        axes.fill_between(timesteps, low, high, color=style.colour, alpha=0.14, linewidth=0)
        axes.plot(timesteps, mean, label=agent, **_line(style))


def _draw_paper(axes: Axes, steps: int) -> None:
    shown = sum(timestep <= steps for timestep in PAPER_TIMESTEPS)
    handles = []
    for agent, points in PAPER_LOSSES.items():
        style = _STYLES[agent]
        look: dict[str, Any] = {
            "color": style.colour,
            "marker": style.marker,
            "markerfacecolor": "none",
            "linestyle": "none",
        }
        axes.plot(
            PAPER_TIMESTEPS[:shown], points[:shown], markersize=4.5, label="_paper", clip_on=False, zorder=3, **look
        )
        handles.append(Line2D([], [], markersize=4.5, label=agent, **look))
    axes.legend(
        handles=handles,
        title="hollow: printed in the paper",
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


def _log_axis(axes: Axes) -> None:
    """Put the losses on a logarithmic axis with plain numbers: 210 against 300 matters as much as 600 against 1000."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.12)  # room for the legend
    ticks = [tick for tick in _LOG_TICKS if low <= tick <= high]
    axes.yaxis.set_major_locator(FixedLocator(ticks) if len(ticks) > 2 else MaxNLocator(5))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()


def _stretch(steps: int) -> int:
    return max(1, steps // _POINTS_SHOWN) if steps > 2 * _POINTS_SHOWN else 1


def _stretches(values: NDArray[np.float64], stretch: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the middles of short stretches of timesteps, and the means of values (..., n_steps) over each."""
    n = values.shape[-1] // stretch
    whole = values[..., : n * stretch].reshape(*values.shape[:-1], n, stretch)
    return stretch * np.arange(n) + (stretch + 1) / 2, whole.mean(axis=-1)


def _timestep_label(steps: int) -> str:
    stretch = _stretch(steps)
    return "timestep" if stretch == 1 else f"timestep (means over {stretch} steps)"


def _style_of(agent: str, agents: Sequence[str]) -> _Style:
    """Return an agent's fixed style; a variant ("sac-tuned", "sac (other folder)") has its colour and other dashes."""
    if agent in _STYLES:
        return _STYLES[agent]
    base = agent.split(" ")[0].removesuffix("-tuned")
    strangers = [name for name in agents if name not in _STYLES]
    index = strangers.index(agent) if agent in strangers else 0
    spare = _SPARE[index % len(_SPARE)]
    return _STYLES[base]._replace(dashes=(2.0, 1.0, *[0.5, 1.0] * (1 + index % 3))) if base in _STYLES else spare


def _line(style: _Style) -> dict[str, Any]:
    dashes = {} if style.dashes is None else {"dashes": style.dashes}
    return {"color": style.colour, "linewidth": 1.4, **dashes}


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
    figure.draw_without_rendering()  # settles the layout that the labels depend on
    for axes in figure.axes:
        label_line_ends(axes)
    figure.draw_without_rendering()  # makes room for the labels
    figure.set_layout_engine("none")  # and keeps it: saving to several formats need not find it again
    return figure


def _unique(items: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(items))
