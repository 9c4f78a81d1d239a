"""What goes into a transition model and what comes out of it."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Kinematics:
    """Actuators that are observed and follow the actions exactly: next = clip(value + step * action, low, high).

    Attributes
    ----------
    indices : sequence of int
        Where the actuators stand in the observation, in the order of the actions.
    steps : sequence of float
        How far an action of 1 moves each of them.
    """

    indices: tuple[int, ...]
    steps: tuple[float, ...]


class Prediction(NamedTuple):
    """The predicted entries of the next observation: which, expected value, ends of the central interval."""

    indices: NDArray[np.int64]
    mean: Array
    low: Array
    high: Array


class Doubt(Protocol):
    """What a model does not know about its targets along n candidates; the observation noise is not in it."""

    def covariances(self) -> Array:
        """Return those of each target over the steps, (n, n_outputs, horizon, horizon)."""

    def variances(self, weights: Array) -> Array:
        """Return those (n,) of each candidate's targets summed up with weights (n, horizon, n_outputs)."""


@dataclass(frozen=True)
class Forecast:
    """What a model expects of n candidate sequences over a horizon.

    What costs time is computed when it is asked for: all covariances cost more than all the rest.

    Attributes
    ----------
    observations : array, shape (n, horizon, n_observed)
        Expected observations.
    entries : array of int, shape (n_outputs,)
        The entries of an observation that are predicted, not known.
    slopes : array, shape (n, horizon, n_outputs)
        How far these move with their targets.
    noise_variance : array, shape (n_outputs,)
        Of the targets.
    doubt : Doubt
        What is not known about the targets, which are taken as independent.
    """

    observations: Array
    entries: NDArray[np.int64]
    slopes: Array
    noise_variance: Array
    doubt: Doubt

    @cached_property
    def covariances(self) -> Array:
        """What is not known about the entries, over the steps of a candidate, (n, n_outputs, horizon, horizon)."""
        slopes = self.slopes.transpose(0, 2, 1)
        return np.asarray(slopes[..., None] * self.doubt.covariances() * slopes[..., None, :])

    @property
    def deviations(self) -> Array:
        """Standard deviations of what the model does not know, (n, horizon, n_outputs)."""
        return np.asarray(np.sqrt(np.einsum("nokk->nko", self.covariances)))

    @cached_property
    def information(self) -> Array:
        """Nats that playing a candidate to its end would tell about the model, (n,)."""
        ratio = self.doubt.covariances() / self.noise_variance[:, None, None] + np.eye(self.slopes.shape[1])
        return np.asarray(0.5 * np.linalg.slogdet(ratio).logabsdet.sum(axis=1))

    @property
    def noise(self) -> Array:
        """Standard deviations of what will be measured around a known value, (n, horizon, n_outputs)."""
        return np.asarray(np.abs(self.slopes) * np.sqrt(self.noise_variance))

    def total_deviation(self, gradients: Array) -> Array:
        """Return the standard deviation (n,) of totals that move with the entries by (n, horizon, n_outputs)."""
        return np.asarray(np.sqrt(np.maximum(self.doubt.variances(gradients * self.slopes), 0.0)))


class Transitions(NamedTuple):
    """Logged steps, in the order they were made.

    Attributes
    ----------
    observations, next_observations : array_like, shape (n, n_observed)
        Before and after each step.
    actions : array_like, shape (n, n_actions)
    starts : array_like of bool, shape (n,)
        Whether an episode starts with the step; the very first always does.
    """

    observations: ArrayLike
    actions: ArrayLike
    next_observations: ArrayLike
    starts: ArrayLike


class Memory(NamedTuple):
    """What a model remembers of the episode it is in.

    Attributes
    ----------
    observation : array, shape (n_observed,)
        The last one.
    settings : array, shape (history + 1, n_set)
        What the agent set, scaled, newest last.
    past : array, shape (max(memory, 1), n_outputs)
        Targets, newest last.
    slow : array, shape (n_averages, n_outputs)
        Running averages of the targets.
    origin : array, shape (n_outputs,)
        Targets of the very first observation, which all others are relative to; the same in all episodes.
    widths : array, shape (n_outputs,)
        What intervals are multiplied with, so that they hold the share of values they should; kept over episodes.
    """

    observation: Array
    settings: Array
    past: Array
    slow: Array
    origin: Array
    widths: Array
