"""Excitation: moves that show the model what the actuators do, whatever the planner would like."""

from math import inf

import numpy as np
from numpy.typing import NDArray

from habnn_control.control.exploration import Record

Array = NDArray[np.float64]

_FIRST, _GROWTH = 64, 2  # planned steps before the first sweep again, and how much later each next one comes
_STAY = 8  # steps at the far end of such a sweep: what a place costs shows late
_HALF_WAVE = 8  # steps for which the slowest is pushed to one side
_UNREST = 50  # steps for which exogenous entries count as moving after they have moved
_PAUSE = 75  # steps until regret may ask again: what the last sweep changed must show first


class Excitation:
    """Sweeps of the actuators to and fro.

    It begins with sweeps of all actuators together. Later the fastest one sweeps again, down and up around where it is,
    and stays up there for a while, the planner moving the others: at intervals that double, so that what lies beside a
    settled plant is not judged by its first steps for ever. When losses are far above the best so far, it sweeps half
    of its range to either side: a plant may have fallen into a bad state that nothing near it ends. Each such sweep
    makes the record concede half of the regret, so that what no sweep mends is not swept at for ever.

    While exogenous entries move, the slowest actuator is pushed to and fro on top of what the planner wants: left to
    itself it moves as slowly as they do, and a model cannot tell what the one does from what the others do.

    Parameters
    ----------
    low, high : array
        Bounds of the actions.
    quarters : array of int
        Steps that each actuator's sweep to one side takes at the start.
    length : int
        Steps at the start; 0 for none, and neither regular sweeps nor pushes later.
    slowest, fastest : int
        Indices of the slowest and of the fastest actuator.
    dither : float
        How hard the slowest is pushed, in half ranges of its action; 0 for not at all.
    again : int
        Steps to one side of the fastest one's later sweeps; 0 for none.
    widest : int
        The same for the sweeps that regret asks for.
    patience : float
        Regret (see `habnn_control.control.exploration.Record`) beyond which it does.
    """

    def __init__(
        self,
        low: Array,
        high: Array,
        quarters: NDArray[np.int64],
        length: int,
        *,
        slowest: int = 0,
        fastest: int = 0,
        dither: float = 0.0,
        again: int = 0,
        widest: int = 0,
        patience: float = inf,
    ) -> None:
        self._low, self._high, self._still, self._quarters = low, high, np.clip(0.0, low, high), quarters
        self.length, self._again, self._widest, self._patience = length, again, widest, patience
        self._fastest = fastest
        self._push = np.zeros(len(low))
        self._push[slowest] = dither * (high - low)[slowest] / 2
        self.began, self.quarter, self.stay = -_PAUSE, 0, 0  # the fastest's last sweep: when, how wide, its rest on top
        self.disturbed = -_UNREST  # planned step at which exogenous entries last moved

    def first(self, step: int) -> Array:
        """Return full moves of all actions: down, up through the start to the other side, and back, over and over."""
        side = step // self._quarters % 4
        return np.where((side == 0) | (side == 3), self._low, self._high)

    def later(self, n_planned: int, record: Record, action: Array) -> Array:
        """Return the planner's action, the slowest actuator pushed, the fastest one's part replaced while it sweeps."""
        moved = self._pushed(n_planned, action)
        if not self._sweeping(n_planned):
            if self.length and self._again and _is_due(n_planned):
                self.began, self.quarter, self.stay = n_planned, self._again, _STAY
            elif record.regret > self._patience and n_planned - self.began > _PAUSE:
                record.concede()
                self.began, self.quarter, self.stay = n_planned, self._widest, 0
        if self._sweeping(n_planned):
            step = n_planned - self.began
            up = self._high if step < 3 * self.quarter else self._still
            moved[self._fastest] = (self._low if step < self.quarter else up)[self._fastest]
        return moved

    def _pushed(self, n_planned: int, action: Array) -> Array:
        if not self.length or n_planned - self.disturbed >= _UNREST:
            return np.array(action)
        sign = 1.0 if n_planned // _HALF_WAVE % 2 == 0 else -1.0
        return np.clip(action + sign * self._push, self._low, self._high)

    def _sweeping(self, n_planned: int) -> bool:
        """Tell whether a sweep is under way: down, up through where it began, a rest; the way back is the planner's."""
        return n_planned - self.began < 3 * self.quarter + self.stay


def _is_due(n_planned: int) -> bool:
    due = _FIRST
    while due < n_planned:
        due = _GROWTH * due
    return due == n_planned
