"""What goes into a transition model and what comes out of it."""

from dataclasses import dataclass
from typing import NamedTuple

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


class Forecast(NamedTuple):
    """What a model expects of n candidate sequences over a horizon.

    Attributes
    ----------
    observations : array, shape (n, horizon, n_observed)
        Expected observations.
    entries : array of int, shape (n_outputs,)
        The entries of an observation that are predicted, not known.
    covariances : array, shape (n, n_outputs, horizon, horizon)
        What the model does not know about them, over the steps of a candidate; the observation noise is not in them.
    information : array, shape (n,)
        Nats that playing a candidate to its end would tell about the model, the entries taken as independent.
    """

    observations: Array
    entries: NDArray[np.int64]
    covariances: Array
    information: Array

    @property
    def deviations(self) -> Array:
        """Standard deviations of what the model does not know, (n, horizon, n_outputs)."""
        return np.asarray(np.sqrt(np.einsum("nokk->nko", self.covariances)))


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
