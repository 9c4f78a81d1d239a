"""Reference policies: what any learning agent has to beat before its curve means something."""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agents.base import Action, Agent, newest_frame, plant_actions
from envs import ACTUATOR_STEPS


class Noop(Agent):
    """Do nothing: the zero action, or the middle one of the 27 discrete actions of the Industrial Benchmark."""

    def __init__(self, env: gym.Env[Any, Any], *, seed: int = 0) -> None:
        super().__init__(env, seed=seed)
        self._action = _zero_action(env.action_space)

    def _act(self, observation: NDArray[Any], *, deterministic: bool) -> Action:  # noqa: ARG002
        return self._action.copy()


class Random(Agent):
    """Draw every action uniformly from the action space."""

    def __init__(self, env: gym.Env[Any, Any], *, seed: int = 0) -> None:
        super().__init__(env, seed=seed)
        self._rng = np.random.default_rng(seed)
        self._space = _supported_space("random", env.action_space)

    def _act(self, observation: NDArray[Any], *, deterministic: bool) -> Action:  # noqa: ARG002
        if isinstance(self._space, gym.spaces.Discrete):
            return np.asarray(self._space.start + self._rng.integers(self._space.n))
        return self._rng.uniform(self._space.low, self._space.high).astype(self._space.dtype)

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"rng": self._rng.bit_generator.state}, {}

    def _restore(self, state: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:  # noqa: ARG002
        self._rng.bit_generator.state = state["rng"]


class Hold(Agent):
    """Drive the steerings of the Industrial Benchmark to one operating point and stay there.

    It reads nothing but the observation. The default point is the best static one found on a grid at setpoint 100;
    at other setpoints it is only some point.

    Parameters
    ----------
    env : gymnasium.Env
        An Industrial Benchmark with continuous actions.
    seed : int
        Unused; every agent takes one.
    velocity, gain, shift : float
        The operating point, each in 0..100.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        seed: int = 0,
        velocity: float = 32.0,
        gain: float = 40.0,
        shift: float = 70.0,
    ) -> None:
        super().__init__(env, seed=seed)
        for name, value in (("velocity", velocity), ("gain", gain), ("shift", shift)):
            if not 0.0 <= value <= 100.0:
                raise ValueError(f"hold: {name} must be in 0..100, got {value}; choose a point the plant can reach.")
        plant_actions("hold", env)
        self._target = np.array([velocity, gain, shift], dtype=float)

    def _act(self, observation: NDArray[Any], *, deterministic: bool) -> Action:  # noqa: ARG002
        steerings = newest_frame(observation)[1:4]
        action: Action = np.clip((self._target - steerings) / ACTUATOR_STEPS, -1.0, 1.0).astype(np.float32)
        return action


def _supported_space(owner: str, space: gym.Space[Any]) -> gym.spaces.Box | gym.spaces.Discrete[np.int64]:
    if isinstance(space, gym.spaces.Discrete):
        return space
    if isinstance(space, gym.spaces.Box) and space.is_bounded():
        return space
    raise ValueError(f"{owner}: action space must be a bounded Box or Discrete, got {space}; use another agent.")


def _zero_action(space: gym.Space[Any]) -> Action:
    space = _supported_space("noop", space)
    if isinstance(space, gym.spaces.Box):
        return np.clip(np.zeros(space.shape), space.low, space.high).astype(space.dtype)
    if space.n == 3**3:  # each steering down, kept or up: the middle index keeps all three
        return np.asarray(space.start + space.n // 2)
    raise ValueError(f"noop: action space must be a Box or Discrete(27), got {space}; no index of it means nothing.")
