"""The interface between a controller and its dynamics model: memory in, forecast out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
Snapshot = Mapping[str, NDArray[Any]]


class StepPrediction(NamedTuple):
    """Prediction of the next observation, noise included.

    Attributes
    ----------
    indices : array of int, shape (n_outputs,)
        The predicted entries of the observation.
    mean, low, high : array, shape (n_outputs,)
        Expected value and ends of the central 90 % interval of each entry.
    """

    indices: NDArray[np.int64]
    mean: Array
    low: Array
    high: Array


class EpistemicCovariance(Protocol):
    """Covariance of a model's outputs along n plans that comes from not knowing the model; without noise.

    Outputs are scaled as the model learns them, and taken as independent of each other.
    """

    def over_steps(self) -> Array:
        """Return the covariance of each output over the steps of each plan, (n, n_outputs, horizon, horizon)."""

    def of_sums(self, weights: Array) -> Array:
        """Return the variance (n,) of each plan's sum of outputs with weights (n, horizon, n_outputs)."""

    def of_differences(self, weights: Array) -> Array:
        """Return the variance (n,) of the difference between each plan's sum and that of the first plan."""


@dataclass(frozen=True)
class Forecast:
    """Predicted observations along n plans, and how uncertain they are.

    Covariances are computed on demand: they cost more time than all the rest.

    Attributes
    ----------
    observations : array, shape (n, horizon, n_observed)
        Expected observations.
    entries : array of int, shape (n_outputs,)
        Entries of an observation that the model predicts.
    slopes : array, shape (n, horizon, n_outputs)
        Derivative of each predicted entry with respect to the model's output, which may be scaled or a logarithm.
    noise_variance : array, shape (n_outputs,)
        Variance of the observation noise of the model's outputs.
    epistemic : EpistemicCovariance
        Covariance of the model's outputs.
    """

    observations: Array
    entries: NDArray[np.int64]
    slopes: Array
    noise_variance: Array
    epistemic: EpistemicCovariance

    @cached_property
    def covariances(self) -> Array:
        """Epistemic covariance of each predicted entry over the steps of a plan, (n, n_outputs, horizon, horizon)."""
        slopes = self.slopes.transpose(0, 2, 1)
        return np.asarray(slopes[..., None] * self.epistemic.over_steps() * slopes[..., None, :])

    @property
    def deviations(self) -> Array:
        """Epistemic standard deviation of each predicted entry, (n, horizon, n_outputs)."""
        return np.asarray(np.sqrt(np.einsum("nokk->nko", self.covariances)))

    @cached_property
    def information(self) -> Array:
        """Mutual information (n,), in nats, between the model and the observations of each plan."""
        ratio = self.epistemic.over_steps() / self.noise_variance[:, None, None] + np.eye(self.slopes.shape[1])
        return np.asarray(0.5 * np.linalg.slogdet(ratio).logabsdet.sum(axis=1))

    @property
    def noise(self) -> Array:
        """Standard deviation of the observation noise of each predicted entry, (n, horizon, n_outputs)."""
        return np.asarray(np.abs(self.slopes) * np.sqrt(self.noise_variance))

    def total_deviation(self, gradients: Array) -> Array:
        """Return the epistemic standard deviation (n,) of a total with these gradients (n, horizon, n_outputs)."""
        return np.asarray(np.sqrt(np.maximum(self.epistemic.of_sums(gradients * self.slopes), 0.0)))

    def relative_deviation(self, gradients: Array) -> Array:
        """Return the epistemic standard deviation (n,) of the difference between such a total and the first plan's."""
        return np.asarray(np.sqrt(np.maximum(self.epistemic.of_differences(gradients * self.slopes), 0.0)))


class DenseCovariance:
    """An `EpistemicCovariance` given as arrays (n, n_outputs, horizon, horizon); errors of plans are independent."""

    def __init__(self, covariances: Array) -> None:
        self._covariances = covariances

    def over_steps(self) -> Array:
        """Return the covariance of each output over the steps of each plan, (n, n_outputs, horizon, horizon)."""
        return self._covariances

    def of_sums(self, weights: Array) -> Array:
        """Return the variance (n,) of each plan's sum of outputs with weights (n, horizon, n_outputs)."""
        rows = weights.transpose(0, 2, 1)[:, :, None]  # (n, n_outputs, 1, horizon)
        return np.asarray((rows @ self._covariances @ rows.swapaxes(2, 3)).sum(axis=(1, 2, 3)))

    def of_differences(self, weights: Array) -> Array:
        """Return the variance (n,) of the difference between each plan's sum and that of the first plan."""
        found = self.of_sums(weights)
        return np.append(0.0, found[1:] + found[0])


class FactorCovariance:
    """An `EpistemicCovariance` given as factors (n, n_outputs, horizon, n_factors): products with their transposes.

    Plans share the factors, as they share the members of an ensemble.
    """

    def __init__(self, factors: Array) -> None:
        self._factors = factors

    def over_steps(self) -> Array:
        """Return the covariance of each output over the steps of each plan, (n, n_outputs, horizon, horizon)."""
        return np.asarray(self._factors @ self._factors.swapaxes(2, 3))

    def of_sums(self, weights: Array) -> Array:
        """Return the variance (n,) of each plan's sum of outputs with weights (n, horizon, n_outputs)."""
        return np.asarray((self._sums(weights) ** 2).sum(axis=(1, 2)))

    def of_differences(self, weights: Array) -> Array:
        """Return the variance (n,) of the difference between each plan's sum and that of the first plan."""
        sums = self._sums(weights)
        return np.asarray(((sums - sums[:1]) ** 2).sum(axis=(1, 2)))

    def _sums(self, weights: Array) -> Array:
        return np.asarray(np.einsum("nko,nokf->nof", weights, self._factors))


class Memory(NamedTuple):
    """What a model remembers of an episode.

    Attributes
    ----------
    observation : array, shape (n_observed,)
        The last observation.
    signals : array, shape (history + 1, n_signals)
        Scaled actuator positions, or actions where these are not known, and exogenous entries; newest last.
    past : array, shape (max(past_outputs, 1), n_outputs)
        Scaled outputs, newest last.
    origin : array, shape (n_outputs,)
        Outputs in the very first observation, where scaled outputs are 0; the same in all episodes.
    """

    observation: Array
    signals: Array
    past: Array
    origin: Array


class Transitions(NamedTuple):
    """Logged steps, in the order of time.

    Attributes
    ----------
    observations, next_observations : array_like, shape (n, n_observed)
        Before and after each step.
    actions : array_like, shape (n, n_actions)
    starts : array_like of bool, shape (n,)
        Whether an episode starts with the step; the very first step always starts one.
    """

    observations: ArrayLike
    actions: ArrayLike
    next_observations: ArrayLike
    starts: ArrayLike

    @classmethod
    def from_frame(
        cls,
        frame: "pd.DataFrame",
        observations: Sequence[str],
        actions: Sequence[str],
        next_observations: Sequence[str] | None = None,
        episode: str | None = None,
    ) -> Self:
        """Return the steps in a table with one row per time: an observation, and the action that was taken from it.

        Where a row holds the action that led to its observation, shift the columns of actions first:
        `frame[actions] = frame[actions].shift(-1)`.

        Parameters
        ----------
        frame : pandas.DataFrame
            Rows in the order of time.
        observations, actions : sequence of str
            Names of columns, in the order of the spaces of the environment.
        next_observations : sequence of str, optional
            Columns of the observation after each step, if every row is a step of its own; else it is the observation of
            the row below, and the last row of an episode has no step.
        episode : str, optional
            Column whose value changes where a new episode, or a new piece of the log, begins; else all is one episode.
        """
        from habnn_control.control.logs import parts_of_frame

        return cls(*parts_of_frame(frame, observations, actions, next_observations, episode))

    @classmethod
    def from_csv(
        cls,
        path: str | Path,
        observations: Sequence[str],
        actions: Sequence[str],
        next_observations: Sequence[str] | None = None,
        episode: str | None = None,
    ) -> Self:
        """Return the steps in a CSV file with a line of column names; parameters as those of `from_frame`."""
        from habnn_control.control.logs import parts_of_csv

        return cls(*parts_of_csv(path, observations, actions, next_observations, episode))


class Forecaster(Protocol):
    """Anything that predicts the observations along plans."""

    def forecast(self, memory: Any, sequences: Array) -> Forecast:
        """Return the forecast for action sequences (n, horizon, n_actions) that start from `memory`."""


class DynamicsModel(Forecaster, Protocol):
    """A model of one-step dynamics that learns online; all that an agent may use of a model.

    A model keeps the memory of the episode that it learns from. Everything else that looks ahead takes a memory as an
    argument, so that an agent can plan for another episode without touching the model.
    """

    @property
    def memory(self) -> Any:
        """Memory of the running episode; never changed in place."""

    def begin(self, observation: ArrayLike) -> None:
        """Start an episode with its first observation."""

    def observe(self, action: ArrayLike, observation: ArrayLike) -> None:
        """Learn from the observation that followed `action`; raise ValueError, unchanged, if it is not finite."""

    def skip(self, action: ArrayLike, observation: ArrayLike | None = None) -> None:
        """Remember a step whose observation is missing, or partly filled in as given; nothing is learned."""

    def pretrain(self, transitions: Transitions) -> None:
        """Learn from logged steps; raise ValueError, unchanged, if they do not fit."""

    def predict(self, action: ArrayLike) -> StepPrediction:
        """Predict the observation after `action` in the running episode."""

    def errors(self, prediction: StepPrediction, observation: ArrayLike) -> Array:
        """Return how far the outputs of an observation are from its prediction, in predictive standard deviations."""

    def mark(self) -> None:
        """Take the hidden states of now as those of `predict_as_marked`."""

    def predict_as_marked(self, action: ArrayLike) -> StepPrediction:
        """Predict the observation after `action` if hidden states of the plant were as they were at `mark`."""

    def disturb(self) -> None:
        """Take note that hidden states of the plant may have changed."""

    def draw(self, rng: np.random.Generator) -> Forecaster:
        """Return a forecaster that follows one model drawn from the posterior (Thompson sampling)."""

    def first_memory(self, observation: ArrayLike) -> Any:
        """Return the memory of an episode that starts with `observation`; the model stays as it is."""

    def next_memory(self, memory: Any, action: ArrayLike, observation: ArrayLike) -> Any:
        """Return the memory after one more step; the model stays as it is."""

    def is_sound(self) -> bool:
        """Tell whether everything learned is finite and of a plausible size."""

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """Return copies of everything learned and remembered, as arrays."""

    def restore(self, snapshot: Snapshot, keep_memory: bool = False) -> None:
        """Go back to a snapshot of a model with the same settings; keep the memory of the running episode if asked."""
