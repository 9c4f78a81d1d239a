"""Proportional-integral control: what most loops of industry run on, one measured entry per actuator."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agents.base import Action, RecurrentAgent, State, Step
from agents.motion import Motion
from habnn_control.support.names import check_choice

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Loop:
    """One control loop: a measured entry that an actuator shall bring to its target.

    Attributes
    ----------
    measured : int
        Entry of the observation.
    gain, integral : float
        Move of the actuator per unit by which the error grows, and per unit of the error in every step.
    target : float
        Wanted value, added to that of `target_entry`.
    target_entry : int, optional
        Entry of the observation that holds the wanted value.
    """

    measured: int
    gain: float
    integral: float
    target: float = 0.0
    target_entry: int | None = None

    def error(self, observation: NDArray[Any]) -> float:
        """Return the wanted value minus the measured one."""
        moving = 0.0 if self.target_entry is None else float(observation[self.target_entry])
        return self.target + moving - float(observation[self.measured])


# Best of about 35 pairs of gain and integral each, by the mean loss of 500 steps (PC-Gym: 800, seeds 0 and 1) on the
# seeds 0 to 3. In the four tanks most of each pump's flow takes the way through the upper tank of the other side.
TUNED: dict[str, tuple[Loop, ...]] = {
    "TwoTanks-v0": (Loop(3, gain=3.0, integral=0.03, target=30.0),),
    "PCGym/CSTR-v0": (Loop(2, gain=-2.0, integral=-0.6, target_entry=0),),
    "PCGym/FourTank-v0": (
        Loop(5, gain=1.5, integral=0.3, target_entry=1),
        Loop(4, gain=1.5, integral=0.3, target_entry=0),
    ),
}


class _Memory(NamedTuple):
    errors: Array
    positions: Array


class PI(RecurrentAgent):
    """Proportional-integral loops in velocity form.

    Every step moves an actuator by gain * (change of the error) + integral * error. The velocity form needs no
    protection against integrator wind-up: a position at the end of its range stays there. Where the Plant of the
    environment does not describe actuators, the actions themselves are the positions.

    Parameters
    ----------
    env : gymnasium.Env
        An environment with a Box of actions.
    seed : int
        Unused; every agent takes one.
    loops : sequence of mapping or Loop, optional
        One loop per action, in their order; those tuned for the environment if left out.
    """

    default_name = "pi"

    def __init__(
        self, env: gym.Env[Any, Any], *, seed: int = 0, loops: Sequence[Mapping[str, Any] | Loop] | None = None
    ) -> None:
        super().__init__(env, seed=seed)
        self._motion = Motion("pi", env)
        self._loops = _read(env, loops)
        shape = env.observation_space.shape or (0,)
        if len(self._loops) != self._motion.n_actions or max(_entries(self._loops)) >= shape[0]:
            raise ValueError(
                f"pi: loops must be one per action, {self._motion.n_actions}, with entries below {shape[0]}, got "
                f"{[asdict(loop) for loop in self._loops]}; see agents.pi.Loop."
            )
        self._memory: _Memory | None = None

    def _begin(self, observation: NDArray[Any], info: dict[str, Any]) -> None:  # noqa: ARG002
        self._memory = None

    def _observe(self, step: Step) -> None:
        _, self._memory = self._move(step.observation, self._memory)

    def _act(self, observation: NDArray[Any], *, deterministic: bool) -> Action:  # noqa: ARG002
        return self._move(observation, self._memory)[0]

    def _predict_one(self, observation: NDArray[Any], state: State, deterministic: bool) -> tuple[Action, State]:  # noqa: ARG002
        return self._move(observation, state)

    def _move(self, observation: NDArray[Any], memory: _Memory | None) -> tuple[Action, _Memory]:
        """Return the action for an observation, and what the next step must remember."""
        errors = np.array([loop.error(observation) for loop in self._loops])
        before, start = (errors, self._motion.rest) if memory is None else memory
        gains, integrals = (np.array([getattr(loop, name) for loop in self._loops]) for name in ("gain", "integral"))
        positions = self._motion.positions(observation, start)
        action, reached = self._motion.towards(positions, positions + gains * (errors - before) + integrals * errors)
        return action, _Memory(errors, reached)

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {}, {} if self._memory is None else self._memory._asdict()

    def _restore(self, state: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:  # noqa: ARG002
        self._memory = _Memory(arrays["errors"], arrays["positions"]) if "errors" in arrays else None


def _entries(loops: Sequence[Loop]) -> list[int]:
    targets = [loop.target_entry for loop in loops if loop.target_entry is not None]
    return [*(loop.measured for loop in loops), *targets, 0]


def _read(env: gym.Env[Any, Any], loops: Sequence[Mapping[str, Any] | Loop] | None) -> tuple[Loop, ...]:
    """Return the loops that were given, or those tuned for the environment."""
    if loops is None:
        spec = env.unwrapped.spec
        name = "" if spec is None else spec.id
        if name not in TUNED:
            raise ValueError(
                f"pi: loops must be given for an environment other than {', '.join(TUNED)}, got {name!r}; pass "
                "loops=[{'measured': 0, 'gain': 1.0, 'integral': 0.1, 'target': 0.0}], one per action."
            )
        return TUNED[name]
    read = []
    for loop in loops:
        parts = asdict(loop) if isinstance(loop, Loop) else dict(loop)
        for name in parts:
            check_choice("pi", "loop", name, Loop.__dataclass_fields__)
        read.append(Loop(**parts))
        if not (isfinite(read[-1].gain) and isfinite(read[-1].integral)):
            raise ValueError(f"pi: loops must have finite gains, got {read[-1]}; 0 switches a part off.")
    return tuple(read)
