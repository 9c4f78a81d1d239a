"""Bursts: probing moves that favour no direction and no actuator."""

from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from habnn_control.control.exploration import LossHistory, Probing
from habnn_control.control.plant import Bounds, Plant

Array = NDArray[np.float64]

_LONGEST_QUARTER = 10  # steps to one side at most: a slow actuator is not waited for
_UNKNOWN_QUARTER = 3  # steps to one side, at an amplitude of a tenth, where the actuators are not known
_PAUSE = 50  # planned steps between two bursts: the effect of the last one must show first
_STATE = ("length", "n_bursts", "began", "ended", "quarters", "disturbed")


class Bursts:
    """The motion of a `Probing`: square waves of all actuators, each at its full speed, with signs drawn at random.

    A wave goes to one side by a part of the range that is the same for all actuators, through the start to the other
    side, and back. There is one burst at the start. Later ones come at intervals that double, so that a place beside a
    settled plant is not judged by its first steps for ever. Wide ones follow a degradation of the losses: a plant may
    have fallen into a bad state that nothing near it ends. Each of these halves the degradation, so that a change that
    no burst mends does not cause bursts for ever.

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
        self._speeds = np.full(bounds.n_actions, 0.1 / _UNKNOWN_QUARTER)  # parts of the range per step
        if plant.actuators is not None:
            ranges = (bounds.high - bounds.low)[list(plant.actuated)]
            self._speeds = np.abs(plant.actuators.steps) / ranges
        self.length = settings.length
        self.n_bursts = 0
        self.began, self.ended = 0, 0  # planned steps at which the last burst began and ends
        self.quarters = self._quarters_of(settings.amplitude)
        self.disturbed = 0  # planned step at which exogenous entries last moved; bursts do not depend on it

    def _quarters_of(self, amplitude: float) -> list[int]:
        steps = np.rint(amplitude / self._speeds)
        return [int(quarter) for quarter in np.clip(steps, 1, _LONGEST_QUARTER)]

    def first(self, step: int) -> Array:
        """Return the action of a step of the burst at the start."""
        return self._wave(step)

    def later(self, n_planned: int, history: LossHistory, action: Array) -> Array:
        """Return the planner's action, or that of a burst that is under way."""
        if n_planned >= self.ended:
            amplitude = self._asked_for(n_planned, history)
            if amplitude:
                self.n_bursts += 1
                self.quarters = self._quarters_of(amplitude)
                self.began, self.ended = n_planned, n_planned + 4 * max(self.quarters)
        return self._wave(n_planned - self.began) if n_planned < self.ended else np.array(action)

    def _asked_for(self, n_planned: int, history: LossHistory) -> float:
        """Return the amplitude of a burst that is to begin now; 0 for none."""
        if self.length and _is_doubling(n_planned, self._settings.interval):
            return self._settings.later
        if history.degradation > self._settings.degradation and n_planned - self.ended > _PAUSE:
            history.halve_degradation()
            return self._settings.recovery
        return 0.0

    def _wave(self, step: int) -> Array:
        signs = np.random.default_rng((self._seed, 77, self.n_bursts)).choice([-1.0, 1.0], len(self._low))
        side = step // np.array(self.quarters) % 4
        up = signs * np.where((side == 0) | (side == 3), -1.0, 1.0) > 0
        return np.where(up, self._high, self._low)

    def get_state(self) -> dict[str, Any]:
        """Return the state as whole numbers."""
        return {name: getattr(self, name) for name in _STATE}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go back to a state of `get_state`."""
        for name in _STATE:
            setattr(self, name, state[name])


def _is_doubling(n_planned: int, first: float) -> bool:
    """Tell whether a step is first, 2 first, 4 first, ..."""
    if first == inf or n_planned < first or n_planned % first:
        return False
    ratio = int(n_planned // first)
    return ratio & (ratio - 1) == 0
