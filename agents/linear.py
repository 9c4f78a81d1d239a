"""Bayesian linear regression as a dynamics model: an ARX model that adapts, as adaptive MPC in industry has it."""

from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from habnn_control.control.encoded_model import EncodedModel
from habnn_control.control.encoder import Encoder
from habnn_control.control.model import DenseCovariance, Forecast, Memory, Snapshot, StepPrediction
from habnn_control.control.plant import Bounds, Plant
from habnn_control.control.rollout import OutputLayerCovariance, roll_out

Array = NDArray[np.float64]

_QUANTILE = 1.6448536269514722  # of the normal distribution: ends of the central 90 %
_NOISE_WORTH = 1.0  # samples that the first guess of the noise counts for
_LARGEST = 1e6  # weight of a sound model


class LinearModel(EncodedModel):
    """A `DynamicsModel` that is linear in the encoded history, with a posterior over its weights and its noise.

    The conjugate posterior of a Gaussian prior: in closed form and exact. Every step forgets a part of what was learned
    and goes back to the prior by the same part (stabilised forgetting), so that directions that are not excited do not
    lose their precision for ever. The epistemic covariance is that of the weights at the inputs along the mean path.

    Parameters
    ----------
    plant : Plant
    bounds : Bounds
    history : int
        See `Encoder`.
    past_outputs : int
        See `Encoder`.
    target : {"absolute", "delta", "log"}
        See `Encoder`.
    prior_std : float
        Standard deviation of a weight before the first sample; inputs and outputs are scaled to about one.
    noise_std : float
        First guess of the standard deviation of the noise of a scaled output.
    memory_time : float
        Steps after which a sample counts for 1/e; inf for all the same.
    seed : int
        Unused: nothing is drawn.
    """

    def __init__(
        self,
        plant: Plant,
        bounds: Bounds,
        *,
        history: int = 10,
        past_outputs: int | None = 2,
        target: str = "absolute",
        prior_std: float = 0.1,
        noise_std: float = 0.03,
        memory_time: float = 1000.0,
        seed: int = 0,  # noqa: ARG002  # as of every model
    ) -> None:
        super().__init__(Encoder(plant, bounds, history, past_outputs, target))
        if not (0 < prior_std < inf and 0 < noise_std < inf and memory_time >= 1):
            raise ValueError(
                f"linear: prior_std and noise_std must be positive and memory_time at least 1, got {prior_std}, "
                f"{noise_std} and {memory_time}; 0.1, 0.03 and 1000 are the defaults."
            )
        n, n_outputs = self.encoder.n_inputs + 1, self.encoder.n_outputs
        self._keep = float(np.exp(-1.0 / memory_time))
        # In units of the noise variance, which the outputs do not share: one precision serves them all.
        self._prior = np.eye(n) * (noise_std / prior_std) ** 2
        self._precision, self._moments = self._prior.copy(), np.zeros((n, n_outputs))
        self._squares = np.full(n_outputs, _NOISE_WORTH * noise_std**2)
        self._worth = _NOISE_WORTH
        self._first_squares = self._squares.copy()
        self._solved: tuple[Array, Array] | None = None  # weights and covariance, until something is learned

    @property
    def noise_variance(self) -> Array:
        """Variance of the noise of each scaled output."""
        return np.asarray(self._squares / self._worth)

    def _posterior(self) -> tuple[Array, Array]:
        """Return the weights (n, n_outputs) and their covariance (n, n) in units of the noise variance."""
        if self._solved is None:
            covariance = np.linalg.inv(self._precision)
            covariance = (covariance + covariance.T) / 2
            self._solved = covariance @ self._moments, covariance
        return self._solved

    def _learn(self, action: ArrayLike, target: Array) -> None:
        x = np.append(self.encoder.next_inputs(self._memory, action)[0], 1.0)
        weights, covariance = self._posterior()
        surprise = (target - x @ weights) ** 2 / (1.0 + x @ covariance @ x)  # its mean is the noise variance
        keep, back = self._keep, 1.0 - self._keep
        self._precision = keep * self._precision + back * self._prior + np.outer(x, x)
        self._moments = keep * self._moments + np.outer(x, target)
        self._squares = keep * self._squares + back * self._first_squares + surprise
        self._worth = keep * self._worth + back * _NOISE_WORTH + 1.0
        self._solved = None

    # ------------------------------------------------------------------ prediction

    def predict(self, action: ArrayLike) -> StepPrediction:
        """Predict the observation after `action`: mean and 90 % interval of the predictive distribution."""
        weights, covariance = self._posterior()
        x = np.append(self.encoder.next_inputs(self._memory, action)[0], 1.0)
        mean, noise = x @ weights, self.noise_variance
        width = _QUANTILE * np.sqrt(noise * (1.0 + x @ covariance @ x))
        encoder, memory = self.encoder, self._memory
        low, high = (encoder.next_values(memory, end) for end in (mean - width, mean + width))
        return StepPrediction(encoder.outputs, encoder.next_values(memory, mean, noise), low, high)

    def forecast(self, memory: Memory, sequences: Array) -> Forecast:
        """Return the forecast for action sequences (n, horizon, n_actions) that start from `memory`."""
        weights, covariance = self._posterior()
        return self._forecast(memory, sequences, weights, self.noise_variance[:, None, None] * covariance)

    def draw(self, rng: np.random.Generator) -> "WeightsForecaster":
        """Return a forecaster that follows weights drawn from the posterior."""
        weights, covariance = self._posterior()
        noise = rng.standard_normal(weights.shape) * np.sqrt(self.noise_variance)
        return WeightsForecaster(self, weights + np.linalg.cholesky(covariance) @ noise)

    def _forecast(self, memory: Memory, sequences: Array, weights: Array, scales: Array | None) -> Forecast:
        """Return the forecast along given weights; `scales` is the covariance of each output's weights, if any."""
        encoder, actuation, seen = self.encoder, self.encoder.actuation(memory, sequences), []

        def step(inputs: Array) -> Array:
            seen.append(np.column_stack([inputs, np.ones(len(inputs))]))
            return np.asarray(seen[-1] @ weights)

        outputs = roll_out(encoder, memory, actuation, step)
        n, horizon, n_outputs = outputs.shape
        z = (np.stack(seen, axis=1) if len(seen) > 1 else seen[0]).reshape(n, horizon, -1)
        single = np.float32
        none = DenseCovariance(np.zeros((n, n_outputs, horizon, horizon))) if scales is None else None
        values = encoder.values(memory, outputs, self.noise_variance)
        return Forecast(
            encoder.observations(memory, actuation, values),
            encoder.outputs,
            encoder.slopes(memory, outputs),
            self.noise_variance,
            none or OutputLayerCovariance(z.astype(single), np.asarray(scales).astype(single)),
        )

    # ------------------------------------------------------------------ state

    def is_sound(self) -> bool:
        """Tell whether the weights are finite and of a plausible size."""
        weights, covariance = self._posterior()
        return bool(np.isfinite(covariance).all() and (np.abs(weights) < _LARGEST).all())

    def _learned(self) -> dict[str, NDArray[Any]]:
        return {
            "precision": self._precision.copy(),
            "moments": self._moments.copy(),
            "squares": self._squares.copy(),
            "worth": np.array(self._worth),
        }

    def _set_learned(self, snapshot: Snapshot) -> None:
        self._precision, self._moments = np.array(snapshot["precision"]), np.array(snapshot["moments"])
        self._squares, self._worth = np.array(snapshot["squares"]), float(snapshot["worth"])
        self._solved = None


class WeightsForecaster:
    """Forecasts along given weights of a `LinearModel`, without epistemic covariance."""

    def __init__(self, model: LinearModel, weights: Array) -> None:
        self._model, self._weights = model, weights

    def forecast(self, memory: Memory, sequences: Array) -> Forecast:
        """Return the forecast for action sequences (n, horizon, n_actions) that start from `memory`."""
        return self._model._forecast(memory, sequences, self._weights, None)
