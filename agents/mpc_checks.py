"""Checks of what an `MPCAgent` is built with, before anything is built."""

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from envs import find_plant
from habnn_control.control.plant import Bounds, Plant


def box_bounds(env: gym.Env[Any, Any]) -> Bounds:
    """Return the bounds of flat Box spaces with bounded actions; raise on any other spaces."""
    observed, acted = env.observation_space, env.action_space
    if not (isinstance(observed, gym.spaces.Box) and isinstance(acted, gym.spaces.Box)):
        raise TypeError(f"mpc: env must have Box spaces, got {observed} and {acted}; use continuous actions.")
    if len(observed.shape) != 1 or len(acted.shape) != 1:
        raise ValueError(f"mpc: env must have flat spaces, got {observed} and {acted}; flatten them.")
    if not acted.is_bounded():
        raise ValueError(f"mpc: env must have bounded actions, got {acted}; rescale or clip them.")
    return Bounds.of(observed.low, observed.high, acted.low, acted.high)


def described_plant(env: gym.Env[Any, Any], plant: Plant | None, with_actuators: bool) -> Plant:
    """Return the plant as given, or the environment's own; without its actuators unless they are asked for."""
    found = find_plant(env) if plant is None else plant
    if not isinstance(found, Plant):
        raise ValueError(
            f"mpc: plant must be a Plant with the loss of this environment, got {found!r}; pass plant=Plant(loss), "
            "or give the environment an attribute plant."
        )
    return found if with_actuators else replace(found, actuators=None)


def check_horizon(horizon: int, hold: int, tail: float) -> None:
    """Raise unless the lengths of a plan are whole and its weights positive."""
    whole = isinstance(horizon, int) and isinstance(hold, int)
    if not (whole and horizon >= 1 and hold >= 0 and 0 < tail < np.inf):
        raise ValueError(
            f"mpc: horizon must be at least 1, hold at least 0, both whole, and tail positive, got {horizon}, {hold} "
            f"and {tail}; 25, 10 and 5 are the defaults."
        )
