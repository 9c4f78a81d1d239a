"""Mirror images of the benchmark: some actuators are shown, and moved, from the other end of their range."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import gymnasium as gym
import numpy as np

from envs._kernels.benchmark import CONSUMPTION, GAIN, SHIFT, VELOCITY, FloatArray

ACTUATORS = ("velocity", "gain", "shift")
_ENTRIES = (VELOCITY, GAIN, SHIFT)
_N_FRAME = CONSUMPTION + 1
_RANGE = 100.0
IMAGES = tuple(names for size in range(len(ACTUATORS) + 1) for names in combinations(ACTUATORS, size))  # all eight


class Mirror:
    """The reflection of actuators: a position p is shown as 100 - p, and an action moves it the other way.

    The image obeys the same law: a shown position follows its action as in the plant itself. All methods are their own
    inverse, so they also turn shown positions and actions into those of the plant.

    Parameters
    ----------
    names : sequence of str
        Names of the reflected actuators; empty for the plant itself.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = tuple(names)
        self._signs = np.array([-1.0 if name in self.names else 1.0 for name in ACTUATORS])
        self._entries = [entry for name, entry in zip(ACTUATORS, _ENTRIES, strict=True) if name in self.names]

    def actions(self, actions: FloatArray) -> FloatArray:
        """Return actions (..., 3) with the signs of the reflected actuators turned."""
        return np.asarray(actions * self._signs) if self.names else actions

    def start(self, start: FloatArray) -> FloatArray:
        """Return starts (..., 4), setpoint and positions, with the positions of the reflected actuators turned."""
        turned = np.array(start)
        turned[..., self._entries] = _RANGE - turned[..., self._entries]
        return turned

    def positions(self, observations: FloatArray) -> FloatArray:
        """Return observations (..., 6 k) of k frames with the positions of the reflected actuators turned."""
        if not self.names:
            return observations
        turned = np.array(observations).reshape(*observations.shape[:-1], -1, _N_FRAME)
        turned[..., self._entries] = _RANGE - turned[..., self._entries]
        return turned.reshape(observations.shape)


def mirror_of(env: gym.Env[Any, Any]) -> Mirror:
    """Return the reflection of an Industrial Benchmark, for policies that know the plant itself."""
    mirror: Mirror = env.get_wrapper_attr("mirror") if env.has_wrapper_attr("mirror") else Mirror()
    return mirror
