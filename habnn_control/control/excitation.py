"""Sweeps: scripted moves that show the model what the actuators do, whatever the planner would choose."""

from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from habnn_control.control.exploration import Excitation
from habnn_control.control.monitor import LossMonitor
from habnn_control.control.plant import Bounds, Plant

Array = NDArray[np.float64]

_FIRST, _GROWTH = 64, 2  # planned steps before the first later sweep, and the growth of the interval to the next one
_STAY = 8  # steps at the far end of a later sweep: losses answer with a delay
_HALF_WAVE = 8  # steps of half a period of the dither
_UNREST = 50  # steps for which exogenous entries count as moving after they have moved
_PAUSE = 75  # steps between sweeps that surprise asks for: the effect of the last one must show first
_DITHER, _RESWEEP, _SURPRISE = 1.0, 0.3, 4.5  # of an Excitation that leaves them open
_UNKNOWN_QUARTER = 3  # steps to one side of a sweep where the actuators are not known
_STATE = ("length", "began", "quarter", "stay", "disturbed")


class Sweeps:
    """The motion of an `Excitation`.

    It begins with sweeps of all actuators together. Later the fastest actuator sweeps again, down and up around its
    position, and stays up for a while, the planner moving the others: at intervals that double, so that a place beside
    a settled plant is not judged by its first steps for ever. When losses exceed their predictions, it sweeps half of
    its range to either side: a plant may have fallen into a bad state that nothing near it ends.

    While exogenous entries move, a square wave (dither) is added to the action of the slowest actuator: it would
    otherwise move as slowly as they do, and a model could not tell its effect from theirs.

    Parameters
    ----------
    settings : Excitation
    plant : Plant
    bounds : Bounds
    """

    def __init__(self, settings: Excitation, plant: Plant, bounds: Bounds) -> None:
        self._low, self._high = bounds.action_low, bounds.action_high
        self._still = np.clip(0.0, self._low, self._high)
        self.length = settings.length
        self._quarters = np.full(bounds.n_actions, _UNKNOWN_QUARTER)
        self._again = self._widest = self._fastest = 0
        self._threshold, self._dither = inf, np.zeros(bounds.n_actions)
        if plant.actuators is None:
            if settings.needs_actuators:
                raise ValueError(
                    f"exploration: excitation must be only a length where the actuators are not known, got {settings}; "
                    "describe the actuators in the Plant."
                )
        else:
            entries = list(plant.actuators.entries)
            speeds = np.abs(plant.actuators.steps) / (bounds.high - bounds.low)[entries]  # parts of the range per step
            self._quarters = np.maximum(np.rint(np.array(plant.actuators.sweep) / speeds), 1).astype(np.int64)
            self._fastest, slowest = int(speeds.argmax()), int(speeds.argmin())
            resweep = _RESWEEP if settings.resweep is None else settings.resweep
            dither = _DITHER if settings.dither is None else settings.dither
            self._again, self._widest = (round(part / speeds[self._fastest]) for part in (resweep, 0.5))
            self._threshold = _SURPRISE if settings.surprise is None else settings.surprise
            self._dither[slowest] = dither * (self._high - self._low)[slowest] / 2
        self.began, self.quarter, self.stay = -_PAUSE, 0, 0  # the last sweep of the fastest: start, width, rest on top
        self.disturbed = -_UNREST  # planned step at which exogenous entries last moved

    def first(self, step: int) -> Array:
        """Return full moves of all actions: down, up through the start to the other side, and back, over and over."""
        side = step // self._quarters % 4
        return np.where((side == 0) | (side == 3), self._low, self._high)

    def later(self, n_planned: int, monitor: LossMonitor, action: Array) -> Array:
        """Return the planner's action with dither, and with the fastest actuator's part replaced while it sweeps."""
        moved = self._dithered(n_planned, action)
        if not self._sweeping(n_planned):
            if self.length and self._again and _is_due(n_planned):
                self.began, self.quarter, self.stay = n_planned, self._again, _STAY
            elif monitor.surprise > self._threshold and n_planned - self.began > _PAUSE:
                monitor.forget()
                self.began, self.quarter, self.stay = n_planned, self._widest, 0
        if self._sweeping(n_planned):
            step = n_planned - self.began
            up = self._high if step < 3 * self.quarter else self._still
            moved[self._fastest] = (self._low if step < self.quarter else up)[self._fastest]
        return moved

    def _dithered(self, n_planned: int, action: Array) -> Array:
        if not self.length or n_planned - self.disturbed >= _UNREST:
            return np.array(action)
        sign = 1.0 if n_planned // _HALF_WAVE % 2 == 0 else -1.0
        return np.clip(action + sign * self._dither, self._low, self._high)

    def _sweeping(self, n_planned: int) -> bool:
        """Tell whether a sweep is under way: down, up through its start, a rest; the way back is the planner's."""
        return n_planned - self.began < 3 * self.quarter + self.stay

    def get_state(self) -> dict[str, Any]:
        """Return the state as whole numbers."""
        return {name: getattr(self, name) for name in _STATE}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go back to a state of `get_state`."""
        for name in _STATE:
            setattr(self, name, state[name])


def _is_due(n_planned: int) -> bool:
    due = _FIRST
    while due < n_planned:
        due = _GROWTH * due
    return due == n_planned
