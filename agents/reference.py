"""Reference policies: what any learning agent has to beat before its curve means something."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agents.base import Action, Agent, RecurrentAgent, State, Step
from envs import find_plant, mirror_of, newest_frame
from habnn_control.control.plant import Actuators


class Noop(Agent):
    """Do nothing: the zero action, or the middle one of the 27 discrete actions of the Industrial Benchmark."""

    default_name = "noop"

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

    default_name = "random"

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
    """Drive the actuators of the Industrial Benchmark to one operating point and stay there.

    It reads only the observation. The default point is the best static one found on a grid at setpoint 100; it was not
    chosen for other setpoints.

    Parameters
    ----------
    env : gymnasium.Env
        An Industrial Benchmark with continuous actions.
    seed : int
        Unused; every agent takes one.
    velocity, gain, shift : float
        The operating point, each in 0..100.
    """

    default_name = "hold"

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
        self._actuators, self._mirror = _known_actuators("hold", env), mirror_of(env)
        self._target = np.array([velocity, gain, shift], dtype=float)

    def _act(self, observation: NDArray[Any], *, deterministic: bool) -> Action:  # noqa: ARG002
        seen = self._mirror.positions(observation)
        return self._mirror.actions(_towards(self._target, seen, self._actuators)).astype(np.float32)


# Means and standard deviations that the formula of IBOpt was fitted with, in the order of a frame.
_MEANS = np.array([55.0, 48.75, 50.53, 49.45, 37.51, 166.33])
_DEVIATIONS = np.array([28.72, 12.31, 29.91, 29.22, 31.17, 139.44])
_DEPTH = 6  # frames that the formula looks at


class IBOpt(RecurrentAgent):
    """The behaviour policy behind Siemens' offline data sets: three linear formulas of delayed, standardised frames.

    It was optimised on the simulator, so it is a yardstick. Its delayed feedback makes the shift swing by itself.

    Parameters
    ----------
    env : gymnasium.Env
        An Industrial Benchmark with continuous actions.
    seed : int
        Unused; every agent takes one.
    """

    default_name = "ib-opt"

    def __init__(self, env: gym.Env[Any, Any], *, seed: int = 0) -> None:
        super().__init__(env, seed=seed)
        _known_actuators("ib-opt", env)
        self._mirror = mirror_of(env)
        self._frames = np.zeros((0, len(_MEANS)))  # newest first

    def _begin(self, observation: NDArray[Any], info: dict[str, Any]) -> None:  # noqa: ARG002
        self._frames = self._remembered(np.zeros((0, len(_MEANS))), observation)

    def _observe(self, step: Step) -> None:
        self._frames = self._remembered(self._frames, step.next_observation)

    def _act(self, observation: NDArray[Any], *, deterministic: bool) -> Action:  # noqa: ARG002
        return self._formula(self._frames if len(self._frames) else self._remembered(self._frames, observation))

    def _predict_one(self, observation: NDArray[Any], state: State, deterministic: bool) -> tuple[Action, State]:  # noqa: ARG002
        frames = self._remembered(np.zeros((0, len(_MEANS))) if state is None else state, observation)
        return self._formula(frames), frames

    def _remembered(self, frames: NDArray[Any], observation: NDArray[Any]) -> NDArray[Any]:
        """Return the last frames, standardised, newest first; the past of a first frame is taken to be the same."""
        frame = (self._mirror.positions(newest_frame(observation)) - _MEANS) / _DEVIATIONS
        return np.concatenate([frame[None], frames[: _DEPTH - 1]]) if len(frames) else np.tile(frame, (_DEPTH, 1))

    def _formula(self, frames: NDArray[Any]) -> Action:
        setpoint, velocity, _, shift, fatigue, _ = frames.T
        action = np.array(
            [
                -velocity[5] - 0.91,
                2.0 * fatigue[3] - setpoint[0] + 1.43,
                -3.48 * shift[3] - shift[4] + 2.0 * setpoint[0] + 0.81,
            ]
        )
        return self._mirror.actions(np.clip(action, -1.0, 1.0)).astype(np.float32)

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {}, {"frames": self._frames}

    def _restore(self, state: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:  # noqa: ARG002
        self._frames = arrays["frames"]


class Wander(Agent):
    """Walk between random actuator positions of the Industrial Benchmark: a behaviour policy for logs.

    Each actuator moves to a random target of its own at a random part of its full speed. The target is drawn anew from
    time to time, on average after as many steps as half the range takes, but at least ten.

    Parameters
    ----------
    env : gymnasium.Env
        An Industrial Benchmark with continuous actions.
    seed : int
        Draws the targets and speeds.
    reach : float
        How far from the middle of the range it goes, at most 50.
    """

    default_name = "wander"

    def __init__(self, env: gym.Env[Any, Any], *, seed: int = 0, reach: float = 30.0) -> None:
        super().__init__(env, seed=seed)
        self._actuators = _known_actuators("wander", env)
        if not 0.0 <= reach <= 50.0:
            raise ValueError(f"wander: reach must be in 0..50, got {reach}; the range ends 50 from its middle.")
        self._rng, self._reach = np.random.default_rng(seed), reach
        self._target = np.full(3, 50.0)
        self._patience = np.maximum(50.0 / np.abs(self._actuators.steps), 10.0)

    def _act(self, observation: NDArray[Any], *, deterministic: bool) -> Action:  # noqa: ARG002
        anew = self._rng.random(3) < 1 / self._patience
        self._target = np.where(anew, self._rng.uniform(50.0 - self._reach, 50.0 + self._reach, 3), self._target)
        full = _towards(self._target, observation, self._actuators)
        return np.asarray(full * self._rng.uniform(0.3, 1.0, 3), dtype=np.float32)

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"rng": self._rng.bit_generator.state}, {"target": self._target}

    def _restore(self, state: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._rng.bit_generator.state = state["rng"]
        self._target = arrays["target"]


def _known_actuators(owner: str, env: gym.Env[Any, Any]) -> Actuators:
    """Return the actuators of an Industrial Benchmark; raise unless the environment's Plant describes three of them."""
    plant = find_plant(env)
    if plant is None or plant.actuators is None or len(plant.actuated) != 3:
        raise ValueError(
            f"{owner}: env must be an Industrial Benchmark with continuous actions, got action space "
            f"{env.action_space} and {plant}; use another agent."
        )
    return plant.actuators


def _towards(target: NDArray[Any], observation: NDArray[Any], actuators: Actuators) -> NDArray[Any]:
    """Return the actions in [-1, 1] that bring the actuators nearest to a target in one step."""
    positions = observation[list(actuators.entries)]
    return np.asarray(np.clip((target - positions) / np.array(actuators.steps), -1.0, 1.0))


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
    if space.n == 3**3:  # each actuator down, kept or up: the middle index keeps all three
        return np.asarray(space.start + space.n // 2)
    raise ValueError(f"noop: action space must be a Box or Discrete(27), got {space}; no index of it means nothing.")
