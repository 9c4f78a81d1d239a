"""The compiled simulator: plants with a random stream each, and rollouts for planning on the true model."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from envs._kernels import benchmark
from envs._kernels.benchmark import (
    DIRECTION,
    DOMAIN,
    FATIGUE,
    LARGEST_COST,
    MARKOV_NAMES,
    N_MARKOV,
    N_NOISE,
    N_NOISE_WANDERING,
    N_STATE,
    NEWEST_COST,
    OLDEST_COST,
    RESPONSE,
    SETPOINT,
    FloatArray,
)
from envs._kernels.goldstone import STRONGEST

_ROUNDING = 1.0 + 1e-12  # of costs, which the two simulators compute in different ways
_BLOCK = 64  # steps of noise per draw: few calls, and the noise of 1024 plants still fits into the processor cache


class NoiseStream:
    """Uniform noise for n plants, each from the generator of the plant.

    The noise is drawn in blocks for speed; its values are those of drawing step by step.

    Parameters
    ----------
    generators : sequence of Generator
        One generator per plant, with the bit generator PCG64 (that of Gymnasium), which can be advanced backwards.
    width : int
        Number of uniforms per plant and step.
    """

    def __init__(self, generators: Sequence[np.random.Generator], width: int) -> None:
        self.generators = list(generators)
        self._noise = np.empty((len(self.generators), _BLOCK, width))
        self._used = _BLOCK

    def take(self) -> FloatArray:
        """Return the noise of the next step, shape (n, width); valid until the next call."""
        if self._used == _BLOCK:
            for generator, block in zip(self.generators, self._noise, strict=True):
                generator.random(out=block)
            self._used = 0
        self._used += 1
        return self._noise[:, self._used - 1]

    def rewind(self) -> None:
        """Advance the generators backwards by the draws that no step has used yet, and discard these draws."""
        unused = (_BLOCK - self._used) * self._noise.shape[2]
        for generator in self.generators:
            generator.bit_generator.advance(-unused)  # type: ignore[attr-defined]
        self._used = _BLOCK


class NumbaSimulator:
    """Plants that the compiled kernel steps together.

    Parameters
    ----------
    n : int
        Number of plants.
    wandering : bool
        Whether the setpoint follows random ramps.

    Attributes
    ----------
    states : array, shape (n, N_STATE)
        States of the plants; assigning rows of `benchmark.fresh` restarts plants at the next step.
    """

    def __init__(self, n: int, wandering: bool) -> None:
        self.states = np.zeros((n, N_STATE))
        self._wandering = wandering
        self.reseed(())

    def reseed(self, generators: Sequence[np.random.Generator]) -> None:
        """Replace the random generators, one per plant."""
        self._noise = NoiseStream(generators, N_NOISE_WANDERING if self._wandering else N_NOISE)

    def step(self, actions: FloatArray) -> None:
        """Step all plants with actions (n, 3); the first action of a plant must be zero."""
        self.states = benchmark.step(self.states, actions, self._noise.take(), self._wandering)

    def synchronised_generators(self) -> list[np.random.Generator]:
        """Return the random generators, one per plant, in the state from which the next step will draw."""
        self._noise.rewind()
        return self._noise.generators


def possible(states: FloatArray) -> NDArray[np.bool_]:
    """Return which states (..., N_MARKOV or N_STATE) a plant can reach, as booleans (...,).

    The kernel indexes tables with parts of the state and is memory-safe on reachable states only.
    """
    positions, costs = states[..., SETPOINT:FATIGUE], states[..., OLDEST_COST : NEWEST_COST + 1]
    direction = states[..., DIRECTION]
    good: NDArray[np.bool_] = (
        np.isfinite(states).all(axis=-1)
        & ((positions >= 0.0) & (positions <= 100.0)).all(axis=-1)
        & ((costs > 0.0) & (costs <= LARGEST_COST * _ROUNDING)).all(axis=-1)
        & (np.abs(states[..., [DOMAIN, RESPONSE]]) == 1.0).all(axis=-1)
        & (np.abs(direction) <= STRONGEST)
        & (direction == np.rint(direction))
    )
    return good


def draw_noise(generator: np.random.Generator, n: int, horizon: int) -> FloatArray:
    """Return noise for `simulate`: uniforms in [0, 1) of shape (n, horizon, N_NOISE)."""
    return generator.random((n, horizon, N_NOISE))


def simulate(markov_state: Mapping[str, float] | ArrayLike, actions: ArrayLike, noise: ArrayLike) -> FloatArray:
    """Return the losses of action sequences, simulated from a given hidden state with given noise.

    The setpoint stays constant, because ``info["markov_state"]`` does not contain the slope of a wandering setpoint.

    Parameters
    ----------
    markov_state : mapping or array_like, shape (21,)
        ``info["markov_state"]`` of a step, or its values in the order of MARKOV_NAMES.
    actions : array_like, shape (n, horizon, 3)
        Continuous actions of n candidate sequences.
    noise : array_like, shape (n, horizon, N_NOISE) or (1, horizon, N_NOISE)
        Uniforms of `draw_noise`; with a leading 1 all candidates share the same noise.

    Returns
    -------
    array, shape (n, horizon)
        Loss consumption + 3 x fatigue after each action.
    """
    state = np.zeros(N_STATE)
    state[:N_MARKOV] = _markov_values(markov_state)
    sequences = np.ascontiguousarray(actions, dtype=np.float64)
    if sequences.ndim != 3 or sequences.shape[2] != 3:
        raise ValueError(f"simulate: actions must have shape (n, horizon, 3), got {sequences.shape}; stack sequences.")
    draws = np.ascontiguousarray(noise, dtype=np.float64)
    n, horizon, _ = sequences.shape
    if draws.shape not in ((n, horizon, N_NOISE), (1, horizon, N_NOISE)):
        raise ValueError(
            f"simulate: noise must have shape {(n, horizon, N_NOISE)} or {(1, horizon, N_NOISE)}, "
            f"got {draws.shape}; use draw_noise."
        )
    if not (np.isfinite(sequences).all() and ((draws >= 0.0) & (draws < 1.0)).all()):
        raise ValueError(
            "simulate: actions must be finite and noise in [0, 1), got NaN, infinity or noise outside; see draw_noise."
        )
    return benchmark.rollout(state, sequences, draws)


def _markov_values(markov_state: Mapping[str, Any] | ArrayLike) -> FloatArray:
    """Return the values of a Markov state as an array (N_MARKOV,), or raise."""
    if isinstance(markov_state, Mapping):
        if missing := [name for name in MARKOV_NAMES if name not in markov_state]:
            raise ValueError(
                f"simulate: markov_state must have all 21 variables, got none of {missing}; pass that of info."
            )
        markov_state = [markov_state[name] for name in MARKOV_NAMES]
    values = np.asarray(markov_state, dtype=np.float64)
    if values.shape != (N_MARKOV,) or not possible(values).all():
        raise ValueError(
            f"simulate: markov_state must be {N_MARKOV} values of a plant, got {values}; pass that of info."
        )
    return values
