"""The compiled simulator: plants with their own random streams, and rollouts for planning on the true model."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from envs._kernels import benchmark
from envs._kernels.benchmark import (
    DIRECTION,
    DOMAIN,
    FATIGUE,
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

_BLOCK = 64  # steps a plant draws for at once: few calls, yet what 1024 plants draw stays close to the processor


class NoiseStream:
    """Uniform noise for n plants, step by step, each from its plant's own generator.

    It is drawn in blocks for speed, but a plant sees what its generator would give step by step.

    Parameters
    ----------
    generators : sequence of Generator
        One generator for each plant, of NumPy's PCG64 kind (Gymnasium's), which can be wound back.
    width : int
        Numbers a plant needs at each step.
    """

    def __init__(self, generators: Sequence[np.random.Generator], width: int) -> None:
        self.generators = list(generators)
        self._noise = np.empty((len(self.generators), _BLOCK, width))
        self._used = _BLOCK

    def take(self) -> FloatArray:
        """Return the next step's noise, (n, width); valid until the next call."""
        if self._used == _BLOCK:
            for generator, block in zip(self.generators, self._noise, strict=True):
                generator.random(out=block)
            self._used = 0
        self._used += 1
        return self._noise[:, self._used - 1]

    def rewind(self) -> None:
        """Give what was drawn but not taken back to the generators."""
        unused = (_BLOCK - self._used) * self._noise.shape[2]
        for generator in self.generators:
            generator.bit_generator.advance(-unused)  # type: ignore[attr-defined]
        self._used = _BLOCK


class NumbaSimulator:
    """Plants stepped together by the compiled kernel.

    Attributes
    ----------
    states : ndarray of shape (n, N_STATE)
        The plants' states; assign rows of `benchmark.fresh` to start plants anew at the next step.
    """

    def __init__(self, n: int, wandering: bool) -> None:
        self.states = np.zeros((n, N_STATE))
        self._wandering = wandering
        self.reseed(())

    def reseed(self, generators: Sequence[np.random.Generator]) -> None:
        """Let each plant draw from its generator from now on."""
        self._noise = NoiseStream(generators, N_NOISE_WANDERING if self._wandering else N_NOISE)

    def step(self, actions: FloatArray) -> None:
        """Step all plants with actions (n, 3); a fresh plant wants a zero action."""
        self.states = benchmark.step(self.states, actions, self._noise.take(), self._wandering)

    def settled_generators(self) -> list[np.random.Generator]:
        """Return the plants' generators, each exactly where its plant's next step will draw."""
        self._noise.rewind()
        return self._noise.generators


def possible(states: FloatArray) -> NDArray[np.bool_]:
    """Tell which states (..., N_MARKOV or N_STATE) a plant can be in; the kernel is safe on these only."""
    steerings = states[..., SETPOINT:FATIGUE]
    direction = states[..., DIRECTION]
    good: NDArray[np.bool_] = (
        np.isfinite(states).all(axis=-1)
        & ((steerings >= 0.0) & (steerings <= 100.0)).all(axis=-1)
        & (states[..., OLDEST_COST : NEWEST_COST + 1] > 0.0).all(axis=-1)
        & (np.abs(states[..., [DOMAIN, RESPONSE]]) == 1.0).all(axis=-1)
        & (np.abs(direction) <= STRONGEST)
        & (direction == np.rint(direction))
    )
    return good


def draw_noise(generator: np.random.Generator, n: int, horizon: int) -> FloatArray:
    """Draw noise for `simulate`, of shape (n, horizon, N_NOISE)."""
    return generator.random((n, horizon, N_NOISE))


def simulate(markov_state: Mapping[str, float] | ArrayLike, actions: ArrayLike, noise: ArrayLike) -> FloatArray:
    """Predict losses with the true simulator, from a true hidden state and for given noise.

    The setpoint stays where it is: ``info["markov_state"]`` does not tell where a wandering one is heading.

    Parameters
    ----------
    markov_state : mapping or array of shape (21,)
        ``info["markov_state"]`` of a step, or its values in that order.
    actions : array of shape (n, horizon, 3)
        Continuous actions of n candidate sequences.
    noise : array of shape (n, horizon, N_NOISE) or (1, horizon, N_NOISE)
        Draws of `draw_noise`; a leading 1 puts the same draws to all candidates.

    Returns
    -------
    ndarray of shape (n, horizon)
        consumption + 3 x fatigue after each action.
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
        raise ValueError("simulate: actions must be finite and noise in [0, 1), got others; see draw_noise.")
    return benchmark.rollout(state, sequences, draws)


def _markov_values(markov_state: Mapping[str, Any] | ArrayLike) -> FloatArray:
    if isinstance(markov_state, Mapping):
        if missing := [name for name in MARKOV_NAMES if name not in markov_state]:
            raise ValueError(f"simulate: markov_state must have all 21 variables, got none of {missing}; pass info's.")
        markov_state = [markov_state[name] for name in MARKOV_NAMES]
    values = np.asarray(markov_state, dtype=np.float64)
    if values.shape != (N_MARKOV,) or not possible(values).all():
        raise ValueError(f"simulate: markov_state must be {N_MARKOV} values of a plant, got {values}; pass info's.")
    return values
