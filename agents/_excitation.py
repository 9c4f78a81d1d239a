"""Excitation: moves that show the model what the actuators do, whatever the planner would like."""

import numpy as np
from numpy.typing import NDArray

from habnn_control.sampling import Record

Array = NDArray[np.float64]

_FIRST, _GROWTH = 64, 2  # planned steps before the first sweep again, and how much later each next one comes
_STAY = 8  # steps at the far end of such a sweep: what a place costs shows late
_PAUSE = 75  # steps until regret may ask again: what the last sweep changed must show first
_SHOWS = 3  # the same for a long sweep, in its lengths
_ON_REGRET = ("alone", "together")  # in turn,
_AFRESH = 300  # and from the first again after as many steps without


class Excitation:
    """Sweeps of the actuators to and fro.

    It begins with sweeps of all actuators together. Later the fastest one sweeps again, down and up around where it is,
    and stays up there for a while, the planner moving the others: at intervals that double, so that what lies beside a
    settled plant is not judged by its first steps for ever.

    When losses are far above the best so far, the fastest sweeps half of its range to either side: a plant may have
    fallen into a bad state that nothing near it ends. If regret soon asks again, another corner is tried: the fastest
    goes to its lower end and stays there while the slowest rises by a third of its range, then all the way up. Each
    time the record concedes half of the regret, so that what no sweep mends is not swept at for ever.

    Parameters
    ----------
    low, high : array
        Bounds of the actions.
    quarters : array of int
        Steps that each actuator's sweep to one side takes at the start.
    length : int
        Steps at the start; 0 for none, and no regular sweeps later.
    speeds : array
        Parts of its range that each actuator moves in a step at most; None where not known, and no sweeps later.
    again : float
        Part of the range to one side of the regular sweeps; 0 for none.
    patience : float
        Regret (see `habnn_control.sampling.Record`) beyond which it sweeps.
    """

    def __init__(
        self,
        low: Array,
        high: Array,
        quarters: NDArray[np.int64],
        length: int,
        *,
        speeds: Array | None,
        again: float,
        patience: float,
    ) -> None:
        self._low, self._high, self._still, self._quarters = low, high, np.clip(0.0, low, high), quarters
        self.length, self._patience = length, patience
        self._sweeps = {} if speeds is None else self._later_sweeps(speeds, again)
        self.sweep, self.began = "", -_PAUSE  # the last sweep, and when it began
        self.n_regretted, self.regretted = 0, 0  # sweeps on regret in turn, and when the last one began

    def _later_sweeps(self, speeds: Array, again: float) -> dict[str, Array]:
        """Return the actions of each sweep, (n_steps, n_actions); nan where the planner acts."""
        fastest, slowest = int(speeds.argmax()), int(speeds.argmin())
        low, high, still = self._low[fastest], self._high[fastest], self._still[fastest]
        quarter, half = (round(part / speeds[fastest]) for part in (again, 0.5))
        third = round(1 / (3 * speeds[slowest]))

        def moving_the_fastest(*parts: tuple[int, float]) -> Array:
            moves = np.concatenate([np.full(n, action) for n, action in parts])
            sweep = np.full((len(moves), len(speeds)), np.nan)
            sweep[:, fastest] = moves
            return sweep

        together = moving_the_fastest((third, low), (2 * half, high))
        together[:third, slowest] = self._high[slowest]
        sweeps = {"alone": moving_the_fastest((half, low), (2 * half, high)), "together": together}
        if quarter:
            sweeps["again"] = moving_the_fastest((quarter, low), (2 * quarter, high), (_STAY, still))
        return sweeps

    def first(self, step: int) -> Array:
        """Return full moves of all actions: down, up through the start to the other side, and back, over and over."""
        side = step // self._quarters % 4
        return np.where((side == 0) | (side == 3), self._low, self._high)

    def later(self, n_planned: int, record: Record, action: Array) -> Array:
        """Return the planner's action, parts of it replaced while a sweep is under way."""
        if self._sweeps and n_planned - self.began >= len(self._moves):
            self._begin_what_is_due(n_planned, record)
        step = n_planned - self.began
        if step >= len(self._moves):
            return action
        return np.where(np.isnan(self._moves[step]), action, self._moves[step])

    @property
    def _moves(self) -> Array:
        """The actions of the last sweep."""
        return self._sweeps.get(self.sweep, np.empty((0, len(self._low))))

    def _begin_what_is_due(self, n_planned: int, record: Record) -> None:
        pause = max(_PAUSE, _SHOWS * len(self._moves))
        if self.length and "again" in self._sweeps and _is_due(n_planned):
            self.sweep, self.began = "again", n_planned
        elif record.regret > self._patience and n_planned - self.began > pause:
            turn = self.n_regretted if n_planned - self.regretted <= _AFRESH else 0
            self.sweep, self.began = _ON_REGRET[turn % len(_ON_REGRET)], n_planned
            self.n_regretted, self.regretted = turn + 1, n_planned
            record.concede()

    def get_state(self) -> dict[str, str | int]:
        """Return what `set_state` needs to go on."""
        return {name: getattr(self, name) for name in ("length", "sweep", "began", "n_regretted", "regretted")}

    def set_state(self, state: dict[str, str | int]) -> None:
        """Go on from what `get_state` returned."""
        for name in self.get_state():
            setattr(self, name, state[name])


def _is_due(n_planned: int) -> bool:
    due = _FIRST
    while due < n_planned:
        due = _GROWTH * due
    return due == n_planned
