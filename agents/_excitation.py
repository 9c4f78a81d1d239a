"""Excitation: moves that show the model what the actuators do, whatever the planner would like."""

from math import ceil

import numpy as np
from numpy.typing import NDArray

from habnn_control.sampling import Record

Array = NDArray[np.float64]

_FIRST, _GROWTH = 64, 2  # planned steps before the first sweep again, and how much later each next one comes
_STAY = 8  # steps at the far end of such a sweep: what a place costs shows late
_PAUSE = 75  # steps until regret may ask again: what the last sweep changed must show first
_ROUNDING = 1e-3  # of a step


class Excitation:
    """Sweeps of the actuators to and fro.

    It begins with sweeps of all actuators together. Later the fastest one sweeps again, down and up around where it is,
    and stays up there for a while, the planner moving the others: at intervals that double, so that what lies beside a
    settled plant is not judged by its first steps for ever. When losses are far above the best so far, it goes to the
    end of its range that is farther away: a plant may have fallen into a bad state that nothing near it ends. Each time
    the record concedes half of the regret, so that what this does not mend is not tried for ever.

    Parameters
    ----------
    low, high : array
        Bounds of the actions.
    quarters : array of int
        Steps that each actuator's sweep to one side takes at the start.
    length : int
        Steps at the start; 0 for none, and no regular sweeps later.
    fastest : int
        Index of the fastest actuator.
    speed : float
        Part of its range that it moves in a step.
    again : int
        Steps to one side of its later sweeps; 0 for none.
    patience : float
        Regret (see `habnn_control.sampling.Record`) beyond which it goes to the farther end.
    """

    def __init__(
        self,
        low: Array,
        high: Array,
        quarters: NDArray[np.int64],
        length: int,
        *,
        fastest: int,
        speed: float,
        again: int,
        patience: float,
    ) -> None:
        self._low, self._high, self._still, self._quarters = low, high, np.clip(0.0, low, high), quarters
        self.length, self._again, self._patience = length, again, patience
        self._fastest, self._speed = fastest, speed
        self.began, self.down, self.up, self.stay = -_PAUSE, 0, 0, 0  # the last sweep: when, and steps of each part

    def first(self, step: int) -> Array:
        """Return full moves of all actions: down, up through the start to the other side, and back, over and over."""
        side = step // self._quarters % 4
        return np.where((side == 0) | (side == 3), self._low, self._high)

    def later(self, n_planned: int, record: Record, action: Array, places: Array) -> Array:
        """Return the planner's action, with the fastest actuator's part replaced while that one sweeps.

        `places` says where the actuators are, as parts of their ranges.
        """
        if n_planned - self.began >= self.down + self.up + self.stay:
            self._begin_what_is_due(n_planned, record, float(places[self._fastest]))
        step = n_planned - self.began
        if step >= self.down + self.up + self.stay:
            return action  # the way back is the planner's
        part = self._low if step < self.down else self._high if step < self.down + self.up else self._still
        swept = np.array(action)
        swept[self._fastest] = part[self._fastest]
        return swept

    def _begin_what_is_due(self, n_planned: int, record: Record, place: float) -> None:
        if self.length and self._again and _is_due(n_planned):
            self.began, self.down, self.up, self.stay = n_planned, self._again, 2 * self._again, _STAY
        elif record.regret > self._patience and n_planned - self.began > _PAUSE:
            record.concede()
            far = ceil(max(place, 1.0 - place) / self._speed - _ROUNDING)
            self.began, self.down, self.up, self.stay = n_planned, *((far, 0) if place > 0.5 else (0, far)), 0


def _is_due(n_planned: int) -> bool:
    due = _FIRST
    while due < n_planned:
        due = _GROWTH * due
    return due == n_planned
