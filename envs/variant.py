"""Variants of the benchmark: observation space, action space, reward, plant description and input checks."""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product
from typing import Any, TypeVar

import numpy as np
from gymnasium import spaces

from envs._kernels.benchmark import (
    ACTUATOR_STEPS,
    CONSUMPTION,
    FATIGUE,
    GAIN,
    LARGEST_COST,
    SETPOINT,
    SHIFT,
    VELOCITY,
    FloatArray,
    loss,
)
from envs.mirror import ACTUATORS
from habnn_control.control.plant import Actuators, Plant

T = TypeVar("T", float, FloatArray)

OWNER = "IndustrialBenchmark"
START_NAMES = ("setpoint", "velocity", "gain", "shift")
START_POSITION = 50.0  # of velocity, gain and shift
DISCRETE_ACTIONS = np.array(list(product((-1.0, 0.0, 1.0), repeat=3)))  # (27, 3), in the order of IBGym

# Bounds that hold for every action sequence (IBGym declares 0 to 1000, which high velocity and gain exceed).
# fatigue     = base (1 + 2 a) / 3 with a <= 1, and base <= 30000 / 100 at velocity = gain = 0.
# consumption = m - z (1 + 0.005 m) with a standard normal z. The mean m is between 0 and exp(8.5) + 25 (1 + 1.24), the
# largest operational cost and mis-calibration. |z| < 12.3: Box-Muller with 53-bit uniforms stays below 8.6, the
# ziggurat of NumPy below 12.3.
_LARGEST_MEAN, _LARGEST_NORMAL = LARGEST_COST + 25.0 * (1.0 + 1.24), 12.3
FRAME_LOW = np.array([0.0, 0.0, 0.0, 0.0, 0.0, -_LARGEST_NORMAL])
FRAME_HIGH = np.array(
    [100.0, 100.0, 100.0, 100.0, 300.0, _LARGEST_MEAN + _LARGEST_NORMAL * (1.0 + 0.005 * _LARGEST_MEAN)]
)

# Per actuator, relative to its range: a wide sweep of shift lowers consumption, a wide sweep of gain may latch.
_SWEEP = (0.25, 0.25, 0.45)
_COLUMNS = {"consumption": CONSUMPTION, "fatigue": FATIGUE, "velocity": VELOCITY, "gain": GAIN, "shift": SHIFT}

_CHOICES: dict[str, Sequence[str]] = {
    "reward_type": ("classic", "delta"),
    "action_type": ("continuous", "discrete"),
    "observation_type": ("classic", "include_past"),
    "backend": ("numba", "siemens"),
}


def unknown(what: str, got: object, valid: Sequence[str]) -> str:
    """Return the error message for an unknown name, with the most similar valid name as remedy."""
    near = get_close_matches(str(got), valid, n=1, cutoff=0.0)
    return f"{OWNER}: {what} must be one of {', '.join(valid)}, got {got!r}; did you mean {near[0]!r}?"


@dataclass(frozen=True)
class Variant:
    """One variant of the benchmark; the docstring of IndustrialBenchmarkEnv describes the fields."""

    setpoint: float = 50.0
    wandering: bool = False
    reward_type: str = "classic"
    action_type: str = "continuous"
    observation_type: str = "classic"
    n_past_timesteps: int = 30
    backend: str = "numba"
    mirror: Sequence[str] = ()

    def __post_init__(self) -> None:
        percentages("setpoint", self.setpoint, 1)
        for name, valid in _CHOICES.items():
            if getattr(self, name) not in valid:
                raise ValueError(unknown(name, getattr(self, name), valid))
        self._check_mirror()
        if not isinstance(self.wandering, bool):
            raise TypeError(f"{OWNER}: wandering must be True or False, got {self.wandering!r}; pass a bool.")
        if not (isinstance(self.n_past_timesteps, int) and self.n_past_timesteps >= 1):
            raise ValueError(
                f"{OWNER}: n_past_timesteps must be an integer of at least 1, got {self.n_past_timesteps!r}; "
                "the current frame counts as one."
            )

    def _check_mirror(self) -> None:
        if isinstance(self.mirror, str):
            raise TypeError(f"{OWNER}: mirror must be a sequence of names, got {self.mirror!r}; pass a tuple.")
        for name in self.mirror:
            if name not in ACTUATORS:
                raise ValueError(unknown("mirror", name, ACTUATORS))
        if len(set(self.mirror)) < len(self.mirror):
            raise ValueError(f"{OWNER}: mirror must name each actuator once, got {self.mirror}; leave doubles out.")

    @property
    def n_frames(self) -> int:
        """Number of frames per observation."""
        return self.n_past_timesteps if self.observation_type == "include_past" else 1

    def observation_space(self) -> spaces.Space[FloatArray]:
        """Return the observation space of one plant; float64, so that observations equal the simulated values."""
        low, high = np.tile(FRAME_LOW, self.n_frames), np.tile(FRAME_HIGH, self.n_frames)
        return spaces.Box(low, high, dtype=np.float64)

    def action_space(self) -> spaces.Space[Any]:
        """Return the action space of one plant."""
        if self.action_type == "discrete":
            return spaces.Discrete(len(DISCRETE_ACTIONS))
        return spaces.Box(-1.0, 1.0, (3,), dtype=np.float32)

    def plant(self) -> Plant:
        """Return the description of the process for a controller.

        Its entries refer to the newest frame; older frames are ignored.
        """
        actuators = Actuators((VELOCITY, GAIN, SHIFT), ACTUATOR_STEPS, _SWEEP)
        return Plant(
            plant_loss,
            actuators=actuators if self.action_type == "continuous" else None,
            exogenous=(SETPOINT,),
            ignored=range(len(FRAME_LOW), self.n_frames * len(FRAME_LOW)),
            columns=_COLUMNS,
        )

    def reward(self, loss_before: T, loss: T) -> T:
        """Return the reward of the losses before and after a step, both numbers or both arrays."""
        return loss_before - loss if self.reward_type == "delta" else -loss

    def read_action(self, action: Any) -> FloatArray:
        """Return the action of one plant as continuous actions (1, 3), one per actuator as shown, or raise."""
        if self.action_type == "discrete":
            try:
                indices = np.array([operator.index(action)])
            except TypeError:
                raise TypeError(
                    f"{OWNER}: action must be an integer from 0 to 26, got {action!r}; see action_space."
                ) from None
            return _from_indices(indices)
        return _finite(action, (3,)).reshape(1, 3)

    def read_actions(self, actions: Any, n: int) -> FloatArray:
        """Return the actions of n plants as continuous actions (n, 3), one per actuator, or raise."""
        if self.action_type == "discrete":
            indices = np.asarray(actions)
            if indices.shape != (n,) or not np.issubdtype(indices.dtype, np.integer):
                raise ValueError(
                    f"{OWNER}: actions must be {n} integers from 0 to 26, "
                    f"got shape {indices.shape} of {indices.dtype}; see action_space."
                )
            return _from_indices(indices)
        return _finite(actions, (n, 3))

    def read_start(self, options: Mapping[str, Any] | None, n: int) -> FloatArray:
        """Return the start of n plants as (n, 4): setpoint, shown positions of velocity, gain and shift; or raise."""
        if options is not None and not isinstance(options, Mapping):
            raise TypeError(f"{OWNER}: options must be a dict or None, got {options!r}; its keys are {START_NAMES}.")
        start = np.full((n, 4), START_POSITION)
        start[:, 0] = self.setpoint
        for name, value in (options or {}).items():
            if name not in START_NAMES:
                raise ValueError(unknown("option", name, START_NAMES))
            start[:, START_NAMES.index(name)] = percentages(f"option {name!r}", value, n)
        return start


def newest_frame(observation: FloatArray) -> FloatArray:
    """Return setpoint, velocity, gain, shift, fatigue and consumption of an observation; older frames come behind."""
    return observation.reshape(-1)[: len(FRAME_LOW)]


def plant_loss(actions: FloatArray, observations: FloatArray) -> FloatArray:  # noqa: ARG001  # the form of a Loss
    """Return the losses consumption + 3 x fatigue, shape (...,), of observations (..., n_observed)."""
    return loss(observations)


def percentages(name: str, value: Any, n: int) -> FloatArray:
    """Return numbers from 0 to 100 as an array (n,), from one number or one per plant, or raise."""
    try:
        numbers = real_numbers(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{OWNER}: {name} must be a number from 0 to 100, got {value!r}; pass a float.") from None
    if numbers.shape not in ((), (n,)):
        raise ValueError(f"{OWNER}: {name} must be one number or {n}, got shape {numbers.shape}; pass one per plant.")
    if not np.all((numbers >= 0.0) & (numbers <= 100.0)):
        raise ValueError(
            f"{OWNER}: {name} must be from 0 to 100, got {value!r}; the plant is defined on this range only."
        )
    return np.broadcast_to(numbers, (n,))


def real_numbers(values: Any) -> FloatArray:
    """Return values as a float array; raise TypeError for texts, dates, complex numbers and objects.

    NumPy would read a text as the number it spells, and a date as a count of days.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"not real numbers: {array.dtype}")
    return np.asarray(array, dtype=np.float64)


def _finite(actions: Any, shape: tuple[int, ...]) -> FloatArray:
    """Return actions as a finite float array of the given shape, or raise."""
    try:
        changes = real_numbers(actions)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{OWNER}: action must be an array of numbers, got {actions!r}; see action_space.") from None
    if changes.shape != shape:
        raise ValueError(f"{OWNER}: action must have shape {shape}, got {changes.shape}; see action_space.")
    # For the three numbers of one plant, the reduction of NumPy would take longer than the step of the plant.
    finite = all(map(math.isfinite, changes.tolist())) if changes.ndim == 1 else np.isfinite(changes).all()
    if not finite:
        raise ValueError(f"{OWNER}: action must be finite, got {changes}; check the policy for NaN.")
    return changes


def _from_indices(indices: Any) -> FloatArray:
    """Return the continuous actions (n, 3) of discrete actions (n,), or raise."""
    if not ((indices >= 0) & (indices < len(DISCRETE_ACTIONS))).all():
        raise ValueError(
            f"{OWNER}: action must be from 0 to {len(DISCRETE_ACTIONS) - 1}, got {indices}; see action_space."
        )
    changes: FloatArray = DISCRETE_ACTIONS[indices]
    return changes
