"""Reference policies: what any learning agent has to beat before its curve means something."""

from collections.abc import Mapping
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

    @classmethod
    def remark(cls, steps: int, settings: Mapping[str, Any]) -> str | None:  # noqa: ARG003
        """Say what its line means."""
        return "noop never moves the actuators: an agent above its line does worse than leaving the plant alone."

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


class Wander(Agent):
    """Walk between random steerings of the Industrial Benchmark: a behaviour that makes logs worth learning from.

    Each steering has a random target of its own, which it moves to at a random part of its full speed and which is
    drawn anew from time to time, on average after as many steps as half the range takes, but at least ten.

    Parameters
    ----------
    env : gymnasium.Env
        An Industrial Benchmark with continuous actions.
    seed : int
        Draws the targets and speeds.
    reach : float
        How far from the middle of the range it goes, at most 50.
    """

    def __init__(self, env: gym.Env[Any, Any], *, seed: int = 0, reach: float = 30.0) -> None:
        super().__init__(env, seed=seed)
        plant_actions("wander", env)
        if not 0.0 <= reach <= 50.0:
            raise ValueError(f"wander: reach must be in 0..50, got {reach}; the range ends 50 from its middle.")
        self._rng, self._reach = np.random.default_rng(seed), reach
        self._target = np.full(3, 50.0)
        self._patience = np.maximum(50.0 / np.array(ACTUATOR_STEPS), 10.0)

    def _act(self, observation: NDArray[Any], *, deterministic: bool) -> Action:  # noqa: ARG002
        anew = self._rng.random(3) < 1 / self._patience
        self._target = np.where(anew, self._rng.uniform(50.0 - self._reach, 50.0 + self._reach, 3), self._target)
        full = np.clip((self._target - newest_frame(observation)[1:4]) / ACTUATOR_STEPS, -1.0, 1.0)
        action: Action = (full * self._rng.uniform(0.3, 1.0, 3)).astype(np.float32)
        return action

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"rng": self._rng.bit_generator.state}, {"target": self._target}

    def _restore(self, state: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._rng.bit_generator.state = state["rng"]
        self._target = arrays["target"]


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
