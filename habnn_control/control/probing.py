"""Bursts: probing moves that favour no direction and no actuator."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from habnn_control.control.exploration import Probing
from habnn_control.control.monitor import LossMonitor
from habnn_control.control.plant import Bounds, Plant

Array = NDArray[np.float64]

_LONGEST_QUARTER = 10  # steps to one side at most: a slow actuator is not waited for
_UNKNOWN_QUARTER = 3  # steps to one side, at an amplitude of a tenth, where the actuators are not known
_EXCESS = 0.3  # loss that a step of the first recovery is taken to cost, in parts of the level of the losses
_MOST_FAILURES = 3  # recoveries without help that count: the wait for the next one is at most eight times the first
_HELPED = 0.5  # part of the toll that may be left after a recovery that helped
_STATE = ("length", "n_recoveries", "failures", "began", "ended", "price", "regret", "toll")


def speeds(plant: Plant, bounds: Bounds) -> Array:
    """Return how far a full action moves each actuator, in parts of its range per step."""
    if plant.actuators is None:
        return np.full(bounds.n_actions, 0.1 / _UNKNOWN_QUARTER)
    ranges = (bounds.high - bounds.low)[list(plant.actuated)]
    return np.asarray(np.abs(plant.actuators.steps) / ranges)


def quarters(amplitude: float, speed: Array) -> NDArray[np.int64]:
    """Return the number of steps to one side of a wave with this amplitude, a part of the range, per actuator."""
    return np.clip(np.rint(amplitude / speed), 1, _LONGEST_QUARTER).astype(np.int64)


def wave(step: int | NDArray[np.int64], quarter: int | NDArray[np.int64]) -> Array:
    """Return the sign of a square wave at a step: ahead for a quarter, back for two, and ahead to the start."""
    side = step // quarter % 4
    return np.where((side == 0) | (side == 3), 1.0, -1.0)


class Bursts:
    """The motion of a `Probing` that no model chooses: full moves with signs drawn at random, which favour no actuator.

    - At the start all actuators play square waves together. A wave goes to one side by a part of the range that is the
      same for all actuators, through the start to the other side, and back.
    - In a recovery all actuators go towards one end of their range and then towards the other: a plant may have fallen
      into a bad state that nothing near it ends. It begins when the regret (`LossMonitor`) exceeds what a recovery
      costs, as the last one has shown: at most as much is spent on leaving a state as the state has cost. After one
      that did not help, twice the regret is waited for.

    Where the actuators are not known, there is only the burst at the start: an action that is no move of a position has
    no range to go to the ends of.

    Parameters
    ----------
    settings : Probing
    plant : Plant
    bounds : Bounds
    seed : int
        Draws the signs.
    """

    def __init__(self, settings: Probing, plant: Plant, bounds: Bounds, seed: int) -> None:
        self._settings, self._seed = settings, seed
        self._low, self._high = bounds.action_low, bounds.action_high
        self._speeds = speeds(plant, bounds)
        self._recovers = plant.actuators is not None and settings.recovers
        self.length = settings.length
        self.n_recoveries, self.failures = 0, 0  # in all, and in a row without help
        self.began, self.ended = 0, 0  # planned steps of the last recovery
        self.price = 0.0  # loss per step that the last recovery cost beside what the plant costs without
        self.regret, self.toll = 0.0, 0.0  # when the last recovery began

    def first(self, step: int) -> Array:
        """Return the action of a step of the burst at the start."""
        signs = np.random.default_rng((self._seed, 77)).choice([-1.0, 1.0], len(self._low))
        return self._at(signs * wave(step, quarters(self._settings.amplitude, self._speeds)))

    def later(self, n_planned: int, monitor: LossMonitor, action: Array) -> Array:
        """Return the planner's action, or that of the recovery that is under way."""
        if n_planned == self.ended > self.began:
            self._end(monitor)
        if n_planned == self.ended + self._duration() and self.n_recoveries:
            self._judge(monitor)
        if self._is_due(n_planned, monitor):
            self.began, self.ended = n_planned, n_planned + self._duration()
            self.regret, self.toll = monitor.regret, monitor.toll
        if n_planned >= self.ended:
            return np.array(action)
        ahead = 2 * (n_planned - self.began) < self.ended - self.began
        signs = np.random.default_rng((self._seed, 79, self.n_recoveries)).choice([-1.0, 1.0], len(self._low))
        return self._at(signs if ahead else -signs)

    def _is_due(self, n_planned: int, monitor: LossMonitor) -> bool:
        waits = self.n_recoveries and n_planned < self.ended + self._duration()
        return self._recovers and not waits and n_planned >= self.ended and monitor.regret > self._cost(monitor)

    def _cost(self, monitor: LossMonitor) -> float:
        """Return the regret that a recovery is worth."""
        return float(max(self.price, _EXCESS * monitor.level) * self._duration() * 2**self.failures)

    def price_of_change(self, monitor: LossMonitor) -> float:
        """Return what a change for the worse is taken to cost: the regret until a recovery begins, and the recovery."""
        return float(2 * _EXCESS * monitor.level * self._duration())

    def _duration(self) -> int:
        """Return the number of steps of a recovery, both ways."""
        return 2 * int(quarters(1.0, self._speeds).max())

    def _end(self, monitor: LossMonitor) -> None:
        """Take note of what a recovery has cost."""
        self.price = max(monitor.regret - self.regret, 0.0) / (self.ended - self.began)
        self.began = self.ended
        self.n_recoveries += 1

    def _judge(self, monitor: LossMonitor) -> None:
        """Tell, as long after a recovery as it has taken, whether it helped: then the plant is as good as it was."""
        helped = monitor.toll < _HELPED * self.toll
        self.failures = 0 if helped else min(self.failures + 1, _MOST_FAILURES)
        monitor.regret = 0.0
        if helped:
            monitor.settle()

    def _at(self, signs: Array) -> Array:
        """Return the ends of the action ranges with these signs."""
        return np.where(signs > 0, self._high, self._low)

    def get_state(self) -> dict[str, Any]:
        """Return the state as numbers."""
        return {name: getattr(self, name) for name in _STATE}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go back to a state of `get_state`."""
        for name in _STATE:
            setattr(self, name, state[name])
