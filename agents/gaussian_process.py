"""Gaussian process dynamics on the encoded history, exact over a bounded set of samples."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_solve, cholesky

from habnn_control.control.encoded_model import EncodedModel
from habnn_control.control.encoder import Encoder
from habnn_control.control.model import DenseCovariance, Forecast, Memory, Snapshot, StepPrediction
from habnn_control.control.plant import Bounds, Plant
from habnn_control.control.rollout import roll_out

Array = NDArray[np.float64]

_QUANTILE = 1.6448536269514722  # of the normal distribution: ends of the central 90 %
_LENGTHS = (0.5, 1.0, 2.0, 4.0)  # tried, in units of the root of the number of inputs
_RATIOS = (1e-3, 1e-2, 1e-1, 1.0)  # tried: variance of the noise in units of the kernel's
_LEAST_VARIANCE, _LARGEST = 1e-6, 1e6
_FIT_EVERY, _FIT_FIRST = 25, 10  # samples between choices of the hyperparameters, and before the first one
_N_FEATURES = 200  # of a function drawn from the prior


class Kernel(NamedTuple):
    """A constant, a linear and a squared exponential part; one at the origin of the inputs.

    Attributes
    ----------
    length : float
        Distance, in units of the root of the number of inputs, over which the third part falls to exp(-1/2).
    linear : float
        Weight of the linear part.
    """

    length: float
    linear: float

    def __call__(self, a: Array, b: Array) -> Array:
        """Return the covariances (..., n, m) of a function at inputs (..., n, d) and (..., m, d)."""
        products = a @ b.swapaxes(-1, -2)
        squared = _squares(a)[..., :, None] + _squares(b)[..., None, :] - 2.0 * products
        decay = -0.5 / (self.length**2 * a.shape[-1])
        return np.asarray(
            (1.0 - self.linear) * np.exp(decay * np.maximum(squared, 0.0))
            + self.linear * (1.0 + products) / (1.0 + a.shape[-1])
        )

    def draw(self, n_inputs: int, rng: np.random.Generator) -> "Features":
        """Return a function of the prior, its squared exponential part made of random Fourier features."""
        scale = 1.0 / (self.length * np.sqrt(n_inputs))
        return Features(
            rng.standard_normal((n_inputs, _N_FEATURES)) * scale,
            rng.uniform(0.0, 2.0 * np.pi, _N_FEATURES),
            rng.standard_normal(_N_FEATURES) * np.sqrt(2.0 * (1.0 - self.linear) / _N_FEATURES),
            rng.standard_normal(n_inputs + 1) * np.sqrt(self.linear / (1.0 + n_inputs)),
        )


class Features(NamedTuple):
    """A function drawn from the prior of a `Kernel`."""

    frequencies: Array
    phases: Array
    amplitudes: Array
    slopes: Array

    def __call__(self, inputs: Array) -> Array:
        """Return the values (n,) at inputs (n, d)."""
        waves = np.cos(inputs @ self.frequencies + self.phases) @ self.amplitudes
        return np.asarray(waves + inputs @ self.slopes[:-1] + self.slopes[-1])


class Posterior(NamedTuple):
    """One output's posterior: inverse and weights are those of the kernel matrix plus noise, kernel variance one."""

    ratio: float
    variance: float
    inverse: Array
    weights: Array


class GaussianProcessModel(EncodedModel):
    """A `DynamicsModel` with one Gaussian process per output behind an `Encoder`.

    Length scale and noise are those of highest marginal likelihood on a small grid, chosen anew every few samples; the
    variance of the kernel follows in closed form. Beyond `capacity` samples, the sample that the others predict best is
    dropped, except for the most recent ones: a dictionary that covers what was seen, at a bounded cost.

    Parameters
    ----------
    plant : Plant
    bounds : Bounds
    history : int
        See `Encoder`.
    past_outputs : int
        See `Encoder`.
    target : {"log", "absolute", "delta"}
        See `Encoder`.
    capacity : int
        Largest number of samples.
    recent : int
        Number of last samples that are always kept.
    linear : float
        Weight of the linear part of the kernel, in [0, 1).
    seed : int
        Unused: nothing is drawn before `draw`.
    """

    def __init__(
        self,
        plant: Plant,
        bounds: Bounds,
        *,
        history: int = 10,
        past_outputs: int | None = None,
        target: str = "log",
        capacity: int = 300,
        recent: int = 100,
        linear: float = 0.3,
        seed: int = 0,  # noqa: ARG002  # as of every model
    ) -> None:
        super().__init__(Encoder(plant, bounds, history, past_outputs, target))
        whole = isinstance(capacity, int) and isinstance(recent, int)
        if not (whole and 1 <= recent < capacity and 0 <= linear < 1):
            raise ValueError(
                "gp: capacity must be above recent, both whole and positive, and linear in [0, 1), got "
                f"{capacity}, {recent} and {linear}; 300, 100 and 0.3 are the defaults."
            )
        n_outputs = self.encoder.n_outputs
        self._capacity, self._recent = capacity, recent
        self._kernel = Kernel(1.0, linear)
        self._ratios = np.full(n_outputs, 0.1)
        self._inputs, self._targets = np.empty((0, self.encoder.n_inputs)), np.empty((0, n_outputs))
        self._n_seen = 0
        self._fitted: list[Posterior] | None = None  # until the next sample

    # ------------------------------------------------------------------ learning

    def _learn(self, action: ArrayLike, target: Array) -> None:
        self._inputs = np.concatenate([self._inputs, self.encoder.next_inputs(self._memory, action)])
        self._targets = np.concatenate([self._targets, target[None]])
        self._fitted = None
        self._n_seen += 1
        if len(self._inputs) > self._capacity:
            self._drop()
        if self._n_seen == _FIT_FIRST or self._n_seen % _FIT_EVERY == 0:
            self._choose()

    def _drop(self) -> None:
        """Drop the old sample with the smallest leave-one-out variance, 1 / diagonal of the inverse."""
        sharpness = np.mean([np.diag(one.inverse) for one in self._posteriors()], axis=0)
        worst = int(np.argmax(sharpness[: -self._recent]))
        self._inputs, self._targets = (np.delete(part, worst, axis=0) for part in (self._inputs, self._targets))
        self._fitted = None

    def _choose(self) -> None:
        """Choose the length scale, and each output's noise, by the marginal likelihood."""
        n, best = len(self._inputs), (-np.inf, self._kernel, self._ratios)
        for length in _LENGTHS:
            kernel = self._kernel._replace(length=length)
            matrix = kernel(self._inputs, self._inputs)
            scores = np.empty((len(_RATIOS), self._targets.shape[1]))
            for k, ratio in enumerate(_RATIOS):
                root = cholesky(matrix + ratio * np.eye(n), lower=True)
                variances = _variances(self._targets, cho_solve((root, True), self._targets))
                scores[k] = -0.5 * n * np.log(variances) - np.log(np.diag(root)).sum()
            total = float(scores.max(axis=0).sum())
            if total > best[0]:
                best = total, kernel, np.array(_RATIOS)[scores.argmax(axis=0)]
        _, self._kernel, self._ratios = best
        self._fitted = None

    def _posteriors(self) -> list[Posterior]:
        """Return the posterior of each output."""
        if self._fitted is None:
            n, matrix, found = len(self._inputs), self._kernel(self._inputs, self._inputs), []
            inverses = {float(r): np.linalg.inv(matrix + r * np.eye(n)) for r in set(self._ratios.tolist())}
            for ratio, target in zip(self._ratios.tolist(), self._targets.T, strict=True):
                weights = inverses[ratio] @ target
                variance = float(_variances(target[:, None], weights[:, None])[0])
                found.append(Posterior(ratio, variance, inverses[ratio], weights))
            self._fitted = found
        return self._fitted

    @property
    def noise_variance(self) -> Array:
        """Variance of the noise of each scaled output."""
        return np.array([one.ratio * one.variance for one in self._posteriors()])

    # ------------------------------------------------------------------ prediction

    def predict(self, action: ArrayLike) -> StepPrediction:
        """Predict the observation after `action`: mean and 90 % interval of the predictive distribution."""
        inputs, encoder, memory, noise = (
            self.encoder.next_inputs(self._memory, action),
            self.encoder,
            self._memory,
            self.noise_variance,
        )
        mean = self._mean(inputs)[0]
        covariance = ProcessCovariance(self._kernel, self._inputs, self._posteriors(), inputs[None]).over_steps()
        width = _QUANTILE * np.sqrt(covariance[0, :, 0, 0] + noise)
        low, high = (encoder.next_values(memory, end) for end in (mean - width, mean + width))
        return StepPrediction(encoder.outputs, encoder.next_values(memory, mean, noise), low, high)

    def _mean(self, inputs: Array) -> Array:
        """Return the expected targets (n, n_outputs) at inputs (n, n_inputs)."""
        weights = np.stack([one.weights for one in self._posteriors()], axis=1)
        return np.asarray(self._kernel(inputs, self._inputs) @ weights)

    def forecast(self, memory: Memory, sequences: Array) -> Forecast:
        """Return the forecast for action sequences (n, horizon, n_actions) that start from `memory`.

        Expected values are fed back; the epistemic covariance is that of the function at the inputs on this path.
        """
        seen: list[Array] = []

        def step(inputs: Array) -> Array:
            seen.append(inputs)
            return self._mean(inputs)

        actuation = self.encoder.actuation(memory, sequences)
        outputs = roll_out(self.encoder, memory, actuation, step)
        path = (np.stack(seen, axis=1) if len(seen) > 1 else seen[0]).reshape(*sequences.shape[:2], -1)
        covariance = ProcessCovariance(self._kernel, self._inputs, self._posteriors(), path)
        return self._packed(memory, actuation, outputs, covariance)

    def draw(self, rng: np.random.Generator) -> "FunctionDraw":
        """Return a forecaster that follows functions drawn from the posterior (Matheron's rule)."""
        return FunctionDraw(self, rng)

    def _packed(self, memory: Memory, actuation: Array, outputs: Array, covariance: Any) -> Forecast:
        encoder, noise = self.encoder, self.noise_variance
        return Forecast(
            encoder.observations(memory, actuation, encoder.values(memory, outputs, noise)),
            encoder.outputs,
            encoder.slopes(memory, outputs),
            noise,
            covariance,
        )

    # ------------------------------------------------------------------ state

    def is_sound(self) -> bool:
        """Tell whether the posterior is finite and of a plausible size."""
        return all(
            bool(np.isfinite(one.inverse).all() and (np.abs(one.weights) < _LARGEST).all())
            for one in self._posteriors()
        )

    def _learned(self) -> dict[str, NDArray[Any]]:
        return {
            "inputs": self._inputs.copy(),
            "targets": self._targets.copy(),
            "length": np.array(self._kernel.length),
            "ratios": self._ratios.copy(),
            "n_seen": np.array(self._n_seen),
        }

    def _set_learned(self, snapshot: Snapshot) -> None:
        self._inputs, self._targets = np.array(snapshot["inputs"]), np.array(snapshot["targets"])
        self._kernel = self._kernel._replace(length=float(snapshot["length"]))
        self._ratios, self._n_seen = np.array(snapshot["ratios"]), int(snapshot["n_seen"])
        self._fitted = None


class ProcessCovariance:
    """An `EpistemicCovariance` of Gaussian processes along n paths (n, horizon, n_inputs)."""

    def __init__(self, kernel: Kernel, samples: Array, posteriors: list[Posterior], path: Array) -> None:
        self._kernel, self._samples, self._posteriors, self._path = kernel, samples, posteriors, path

    @cached_property
    def _covariances(self) -> tuple[Array, Array]:
        """Covariances of the function along each path with itself, and with the samples."""
        return self._kernel(self._path, self._path), self._kernel(self._path, self._samples)

    def over_steps(self) -> Array:
        """Return the covariance of each output over the steps of each plan, (n, n_outputs, horizon, horizon)."""
        prior, known = self._covariances
        found = np.stack(
            [v * (prior - known @ inverse @ known.swapaxes(1, 2)) for _, v, inverse, _ in self._posteriors], 1
        )
        diagonal = np.einsum("nokk->nok", found)
        np.maximum(1.0001 * diagonal, 0.0, out=diagonal)  # positive semidefinite in spite of rounding
        return found

    def of_sums(self, weights: Array) -> Array:
        """Return the variance (n,) of each plan's sum of outputs with weights (n, horizon, n_outputs)."""
        prior, known = self._covariances
        total = np.zeros(len(weights))
        for output, (_, variance, inverse, _) in enumerate(self._posteriors):
            row = weights[:, None, :, output]
            sums = (row @ known)[:, 0]
            explained = ((sums @ inverse) * sums).sum(axis=1)
            total += variance * ((row @ prior @ row.swapaxes(1, 2))[:, 0, 0] - explained)
        return np.maximum(total, 0.0)

    def of_differences(self, weights: Array) -> Array:
        """Return the variance (n,) of the difference between each plan's sum and that of the first plan."""
        known = self._covariances[1]
        between = self._kernel(self._path, np.broadcast_to(self._path[:1], self._path.shape))
        total = self.of_sums(weights)
        total = total + total[0]
        for output, (_, variance, inverse, _) in enumerate(self._posteriors):
            row = weights[:, None, :, output]
            sums = (row @ known)[:, 0]
            shared = (row @ between @ row[:1].swapaxes(1, 2))[:, 0, 0] - sums @ inverse @ sums[0]
            total -= 2 * variance * shared
        return np.asarray(np.maximum(total, 0.0))


class FunctionDraw:
    """Forecasts along functions drawn from the posterior of a `GaussianProcessModel`, without epistemic covariance."""

    def __init__(self, model: GaussianProcessModel, rng: np.random.Generator) -> None:
        self._model, self._parts = model, []
        for one, target in zip(model._posteriors(), model._targets.T, strict=True):
            prior, scale = model._kernel.draw(model.encoder.n_inputs, rng), np.sqrt(one.variance)
            noise = np.sqrt(one.ratio) * rng.standard_normal(len(target))
            correction = one.inverse @ (target - scale * (prior(model._inputs) + noise))
            self._parts.append((prior, scale, correction))

    def forecast(self, memory: Memory, sequences: Array) -> Forecast:
        """Return the forecast for action sequences (n, horizon, n_actions) that start from `memory`."""
        model = self._model

        def step(inputs: Array) -> Array:
            known = model._kernel(inputs, model._inputs)
            return np.stack([scale * prior(inputs) + known @ change for prior, scale, change in self._parts], axis=1)

        actuation = model.encoder.actuation(memory, sequences)
        outputs = roll_out(model.encoder, memory, actuation, step)
        n, horizon, n_outputs = outputs.shape
        return model._packed(memory, actuation, outputs, DenseCovariance(np.zeros((n, n_outputs, horizon, horizon))))


def _squares(inputs: Array) -> Array:
    return np.asarray((inputs**2).sum(axis=-1))


def _variances(targets: Array, solved: Array) -> Array:
    """Return the most likely variance of the kernel for each output, with a prior of one sample of variance one."""
    fitted = ((targets * solved).sum(axis=0) + 1.0) / (len(targets) + 1.0)
    return np.asarray(np.maximum(fitted, _LEAST_VARIANCE))
