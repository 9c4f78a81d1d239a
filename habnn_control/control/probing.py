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
_SETTLING = 50  # planned steps before the first recovery: a model must have learned before its errors mean anything
_PAUSE = 25  # planned steps between two recoveries; twice as many after each one that did not help
_HELPED = 100  # planned steps without another surprise after which a recovery counts as one that helped
_ALL = -1  # in place of the one actuator that moves
_STATE = ("length", "n_bursts", "n_probes", "actuator", "due", "began", "ended", "recovered", "failures", "turn")


class Bursts:
    """The motion of a `Probing`: bursts of full moves with signs drawn at random, which favour no actuator.

    A wave goes to one side by a part of the range that is the same for all actuators, through the start to the other
    side, and back.

    - At the start all actuators play waves together.
    - Later one actuator at a time plays one wave, in an order drawn at random, while the planner moves the others: only
      then can a model tell a small effect of the one from large and late effects of the others. The intervals grow, so
      that a place beside a settled plant is not judged by its first steps for ever.
    - When losses exceed their predictions (`LossMonitor`) all actuators go towards one end of their range and then
      towards the other: a plant may have fallen into a bad state that nothing near it ends. Which end comes first is
      drawn at random, turned round when a recovery did not help, and kept when it did. After each one that did not help
      the pause to the next doubles: a change that no burst mends does not cause bursts for ever.

    Where the actuators are not known, there is only the burst at the start: an action that is no move of a position has
    no range to go to the ends of.

    Parameters
    ----------
    settings : Probing
    plant : Plant
    bounds : Bounds
    seed : int
        Draws signs and order.
    """

    def __init__(self, settings: Probing, plant: Plant, bounds: Bounds, seed: int) -> None:
        self._settings, self._seed = settings, seed
        self._low, self._high = bounds.action_low, bounds.action_high
        self._speeds = np.full(bounds.n_actions, 0.1 / _UNKNOWN_QUARTER)  # parts of the range per step
        self._known = plant.actuators is not None
        if plant.actuators is not None:
            ranges = (bounds.high - bounds.low)[list(plant.actuated)]
            self._speeds = np.abs(plant.actuators.steps) / ranges
        self.length = settings.length
        self.n_bursts, self.n_probes = 0, 0  # so far: bursts of any kind after the first one, and of one actuator
        self.actuator = _ALL  # that moves in the last burst
        self.due = float(settings.interval)  # planned step of the next burst of one actuator
        self.began, self.ended, self.recovered = 0, 0, -_HELPED  # planned steps: last burst, end of the last recovery
        self.failures, self.turn = 0, 0  # recoveries that did not help: in a row, and in all

    def _quarters(self, amplitude: float) -> NDArray[np.int64]:
        """Return the number of steps to one side of a wave of each actuator."""
        steps = np.rint(amplitude / self._speeds)
        return np.clip(steps, 1, _LONGEST_QUARTER).astype(np.int64)

    def first(self, step: int) -> Array:
        """Return the action of a step of the burst at the start."""
        return self._wave(step, self._settings.amplitude)

    def later(self, n_planned: int, monitor: LossMonitor, action: Array) -> Array:
        """Return the planner's action, changed by the burst that is under way."""
        if n_planned >= self.ended:
            self._begin(n_planned, monitor)
        if n_planned >= self.ended:
            return np.array(action)
        step = n_planned - self.began
        if self.actuator == _ALL:
            ahead = 2 * step < self.ended - self.began
            monitor.forget()  # what an excursion costs says nothing of the place that it left
            return self._at(self._recovery_signs() if ahead else -self._recovery_signs())
        return np.where(np.arange(len(action)) == self.actuator, self._wave(step, self._settings.later), action)

    def _begin(self, n_planned: int, monitor: LossMonitor) -> None:
        """Begin the burst that is due, if one is."""
        settings, length = self._settings, 0
        if not self._known:
            return
        if monitor.surprise > settings.surprise and self._may_recover(n_planned):
            helped = n_planned - self.recovered >= _HELPED * 2**self.failures
            self.failures = 0 if helped else self.failures + 1
            self.turn += not helped
            self.actuator, length = _ALL, 2 * int(self._quarters(1.0).max())
            self.recovered = n_planned + length
        elif self.length and n_planned >= self.due:
            self.actuator = self._next_actuator()
            length = 4 * int(self._quarters(settings.later)[self.actuator])
            self.n_probes += 1
            self.due *= settings.growth
        if length:
            self.n_bursts += 1
            self.began, self.ended = n_planned, n_planned + length

    def _may_recover(self, n_planned: int) -> bool:
        return bool(n_planned >= max(_SETTLING, self.recovered + _PAUSE * 2**self.failures))

    def _recovery_signs(self) -> Array:
        """Return signs that turn round after each recovery that did not help, and are drawn anew after two of them."""
        draw, turned = divmod(self.turn, 2)
        signs = np.random.default_rng((self._seed, 79, draw)).choice([-1.0, 1.0], len(self._low))
        return np.asarray(-signs if turned else signs)

    def _next_actuator(self) -> int:
        """Return the actuator of the next probe: each one once, in random order, then all again."""
        n_turns, place = divmod(self.n_probes, len(self._low))
        return int(np.random.default_rng((self._seed, 78, n_turns)).permutation(len(self._low))[place])

    def _wave(self, step: int, amplitude: float) -> Array:
        side = step // self._quarters(amplitude) % 4
        return self._at(self._signs() * np.where((side == 0) | (side == 3), 1.0, -1.0))

    def _signs(self) -> Array:
        return np.random.default_rng((self._seed, 77, self.n_bursts)).choice([-1.0, 1.0], len(self._low))

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
