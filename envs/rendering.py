"""A strip chart of an episode: setpoint, actuator positions, consumption, fatigue and loss over time."""

import logging
from collections import deque
from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.registry import BackendFilter, backend_registry
from matplotlib.figure import Figure
from numpy.typing import NDArray

# The palette of Okabe and Ito is readable with colour blindness; line styles differ for print without colour.
_POSITIONS = {
    "setpoint": {"color": "0.45", "linestyle": ":"},
    "velocity": {"color": "#0072B2", "linestyle": "-"},
    "gain": {"color": "#D55E00", "linestyle": "--"},
    "shift": {"color": "#009E73", "linestyle": "-."},
}
_END: dict[str, Any] = {"marker": "o", "markersize": 3.5, "markevery": (-1, 1)}  # a dot at the newest value
_RESULTS = ("consumption", "fatigue", "loss")
_LENGTH = 1000  # number of newest steps shown
_LABEL_GAP = 19.0  # smallest distance of two labels, on the axis of the positions, at which they do not overlap
_log = logging.getLogger(__name__)


def display_exists() -> bool:
    """Return whether matplotlib has a backend that can open a window."""
    windowed = backend_registry.list_builtin(BackendFilter.INTERACTIVE)  # type: ignore[no-untyped-call]
    return plt.get_backend().lower() in windowed


class StripChart:
    """A chart of the last 1000 steps of an episode, 800 x 600 pixels.

    Parameters
    ----------
    window : bool
        Draw in a window instead of an array. Without a display nothing is drawn and a warning is logged.
    """

    def __init__(self, window: bool) -> None:
        self._values: dict[str, deque[float]] = {name: deque(maxlen=_LENGTH) for name in (*_POSITIONS, *_RESULTS)}
        self._n_steps = 0
        self._visible = not window or display_exists()
        if not self._visible:
            _log.warning('render_mode="human" draws nothing: there is no display; use render_mode="rgb_array".')
        self._window = window and self._visible
        self._figure: Figure | None = None

    def clear(self) -> None:
        """Discard all recorded steps."""
        for values in self._values.values():
            values.clear()
        self._n_steps = 0

    def add(self, info: Mapping[str, Any]) -> None:
        """Append the info of one step and update the window, if there is one."""
        current = {**info["markov_state"], "loss": info["loss"]}
        for name, values in self._values.items():
            values.append(current[name])
        self._n_steps += 1
        if self._window:
            self.draw()

    def draw(self) -> NDArray[np.uint8] | None:
        """Return the chart as an array (600, 800, 3); with a window, update the window and return None."""
        if not self._visible:
            return None
        if self._figure is None:
            self._open()
        self._update()
        canvas: Any = self._figure.canvas  # type: ignore[union-attr]
        canvas.draw()
        if self._window:
            canvas.flush_events()
            return None
        return np.array(canvas.buffer_rgba())[:, :, :3]

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window and self._figure is not None:
            plt.close(self._figure)
        self._figure = None

    def _open(self) -> None:
        """Create the figure with empty lines."""
        size = {"figsize": (8.0, 6.0), "dpi": 100}
        if self._window:
            self._figure = plt.figure(**size)  # type: ignore[arg-type]
            manager: Any = self._figure.canvas.manager
            manager.set_window_title("Industrial Benchmark")
            manager.show()
        else:
            self._figure = Figure(**size)  # type: ignore[arg-type]
            FigureCanvasAgg(self._figure)
        self._panels = self._figure.subplots(4, 1, sharex=True, height_ratios=[1.6, 1.0, 1.0, 1.0])
        self._figure.subplots_adjust(left=0.09, right=0.86, top=0.97, bottom=0.08, hspace=0.16)
        positions, *results = self._panels
        positions.set(ylim=(-3.0, 103.0), ylabel="actuator positions")
        self._lines = {name: positions.plot([], [], **style, **_END)[0] for name, style in _POSITIONS.items()}
        for name, panel in zip(_RESULTS, results, strict=True):
            panel.set_ylabel(name)
            self._lines[name] = panel.plot([], [], color="black", linewidth=1.2, **_END)[0]
        self._panels[-1].set_xlabel("step")
        for panel in self._panels:
            panel.grid(color="0.9")
            panel.spines[["top", "right"]].set_visible(False)
        self._figure.align_ylabels()
        self._labels = {name: _label(line.axes, line.get_color()) for name, line in self._lines.items()}

    def _update(self) -> None:
        """Update the lines with the recorded steps and the labels with the newest values."""
        shown = len(self._values["loss"])
        steps = np.arange(self._n_steps - shown, self._n_steps)
        for name, line in self._lines.items():
            line.set_data(steps, self._values[name])
        first = max(0, self._n_steps - _LENGTH)
        self._panels[0].set_xlim(first, max(first + 10, self._n_steps - 1))
        for panel in self._panels[1:]:
            panel.relim()
            panel.autoscale_view(scalex=False)
        if not shown:
            return
        last = {name: values[-1] for name, values in self._values.items()}
        heights = _spread({name: last[name] for name in _POSITIONS})
        for name, label in self._labels.items():
            label.set_text(f"{name} {last[name]:.0f}" if name in _POSITIONS else f"{last[name]:.1f}")
            label.set_y(heights.get(name, last[name]))


def _label(axes: Axes, colour: Any) -> Any:
    """Return an empty text to the right of the axes, with its height in data coordinates."""
    return axes.text(1.015, 0.0, "", color=colour, va="center", transform=axes.get_yaxis_transform())


def _spread(heights: dict[str, float]) -> dict[str, float]:
    """Return label heights, in their order, that neither overlap nor leave the panel."""
    names = sorted(heights, key=heights.__getitem__)
    placed: dict[str, float] = {}
    floor = 4.0
    for position, name in enumerate(names):
        ceiling = 96.0 - _LABEL_GAP * (len(names) - 1 - position)
        placed[name] = min(max(heights[name], floor), ceiling)
        floor = placed[name] + _LABEL_GAP
    return placed
