"""Plants of control problems that come with Gymnasium: nothing but the loss, as their authors define the reward."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from habnn_control.control.plant import Plant

Array = NDArray[np.float64]

_TORQUE_PRICE, _SPEED_PRICE = 0.001, 0.1  # of Pendulum-v1
_FORCE_PRICE, _GOAL_REWARD = 0.1, 100.0  # of MountainCarContinuous-v0


def known_plant(env: gym.Env[Any, Any]) -> Plant | None:
    """Return the description of an unwrapped environment of Gymnasium; None if there is none."""
    kind = type(env)
    describe = _DESCRIPTIONS.get(f"{kind.__module__}:{kind.__qualname__}")
    return None if describe is None else describe(env)


def _pendulum(env: gym.Env[Any, Any]) -> Plant:  # noqa: ARG001
    return Plant(pendulum_loss)


def pendulum_loss(actions: Array, observations: Array) -> Array:
    """Return angle^2 + 0.1 speed^2 + 0.001 torque^2, the angle measured from upright.

    Gymnasium takes angle and speed before the step, a Plant takes those after it.
    """
    angle = np.arctan2(observations[..., 1], observations[..., 0])
    return np.asarray(
        angle**2 + _SPEED_PRICE * observations[..., 2] ** 2 + _TORQUE_PRICE * np.asarray(actions)[..., 0] ** 2
    )


def _mountain_car(env: gym.Env[Any, Any]) -> Plant:
    inner: Any = env
    position, velocity = float(inner.goal_position), float(inner.goal_velocity)

    def loss(actions: Array, observations: Array) -> Array:
        reached = (observations[..., 0] >= position) & (observations[..., 1] >= velocity)
        return np.asarray(_FORCE_PRICE * np.asarray(actions)[..., 0] ** 2 - _GOAL_REWARD * reached)

    return Plant(loss)


# By module and class: neither is imported before somebody makes it.
_DESCRIPTIONS: dict[str, Callable[[gym.Env[Any, Any]], Plant]] = {
    "gymnasium.envs.classic_control.pendulum:PendulumEnv": _pendulum,
    "gymnasium.envs.classic_control.continuous_mountain_car:Continuous_MountainCarEnv": _mountain_car,
}
