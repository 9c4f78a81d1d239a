"""AutoscaledHABNN: a HABNN for raw data, which finds the units of its inputs and targets by itself, online."""

from copy import deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from habnn_control.network import HABNN
from habnn_control.student_t import StudentT

Array = NDArray[np.float64]

# Chosen among about 380 settings on splits 0 to 49 of the six UCI sets together; see habnn_control/regression.
RECOMMENDED: dict[str, Any] = {
    "hidden": (50,),
    "covariance": "full",
    "dof": 150.0,
    "scale": 0.2,
    "output_prior_std": 0.0,
    "output_scale": 0.4,
    "noise_variance": 0.002,
    "noise_weight": 300.0,
}


class AutoscaledHABNN:
    """Regression on raw data with a HABNN, in one pass: closed form, online, nothing to normalise.

    The first `warmup` samples are kept until they are complete; their means and standard deviations become the units
    of the network, which then learns from them and from all that follow. Units never change afterwards: with full
    covariance a change of units can be written into the first layer's weights exactly, so that later statistics would
    only change the prior.

    Outside the data. Each input's range is recorded. Where x leaves the box of these ranges, by a distance e measured
    in standard deviations, the prediction returns to the distribution of all targets seen, as a Gaussian process with a
    stationary kernel would: with w = exp(-e^2 / 2) and the targets' mean m and variance v,

        mean = m + w (mean of the network - m),    variance = w^2 (variance of the network) + (1 - w^2) v.

    Inside the box w is 1 and the network's prediction is untouched.

    Parameters
    ----------
    n_inputs, n_outputs : int
        Sizes of x and y.
    warmup : int
        How many samples set the units.
    **settings
        Of `HABNN`, in standardised units; they change the recommended ones: full scale matrices, nearly Gaussian
        weights, learned noise, a prior that predicts the mean.
    """

    def __init__(self, n_inputs: int, n_outputs: int = 1, warmup: int = 100, **settings: Any) -> None:
        if not (isinstance(warmup, int) and warmup >= 2):
            raise ValueError(
                f"AutoscaledHABNN: warmup must be an integer of at least 2, got {warmup!r}; a spread needs two samples."
            )
        self.network = HABNN(n_inputs, n_outputs, **{**RECOMMENDED, **settings})
        self.warmup = warmup
        self._kept: tuple[Array, Array] | None = np.empty((0, n_inputs)), np.empty((0, n_outputs))
        self._low, self._high = np.full(n_inputs, np.inf), np.full(n_inputs, -np.inf)
        self._count, self._mean, self._square = 0, np.zeros(n_outputs), np.zeros(n_outputs)  # of the targets

    @property
    def n_samples(self) -> int:
        """How many samples the model has learned from."""
        return self._count if self._kept is None else len(self._kept[0])

    def update(self, x: ArrayLike, y: ArrayLike) -> Self:
        """Learn from one sample."""
        return self.fit(np.reshape(np.asarray(x, dtype=np.float64), (1, -1)), np.reshape(y, (1, -1)))

    def fit(self, inputs: ArrayLike, targets: ArrayLike) -> Self:
        """Learn from more samples in the given order, in one pass: (n, n_inputs), and (n, n_outputs) or (n,)."""
        x, y = self._checked(inputs, targets)
        if self._kept is not None:
            x, y = np.concatenate([self._kept[0], x]), np.concatenate([self._kept[1], y])
            if len(x) < self.warmup:
                self._kept = x, y
                return self
            self._set_units(x[: self.warmup], y[: self.warmup])
        self._find_missing_units(x)
        self.network.fit(self._standardised(x), (y - self._target_loc) / self._target_scale)
        self._kept = None
        self._observe(x, y)
        return self

    def predict(self, inputs: ArrayLike) -> StudentT:
        """Return the predictive distribution at each row, a StudentT over (n, n_outputs), noise included."""
        if self._kept is not None:
            return self._early().predict(inputs)
        x = np.asarray(inputs, dtype=np.float64)
        inside = self.network.predict(self._standardised(x))
        trust = self._trust(x)
        mean, variance = self._mean, self._square / self._count
        loc = self._target_loc + self._target_scale * inside.loc
        spread = trust**2 * self._target_scale**2 * inside.variance + (1 - trust**2) * variance
        return StudentT(mean + trust * (loc - mean), (1 - 2 / inside.dof) * spread, inside.dof)

    # ------------------------------------------------------------------ units

    def _set_units(self, x: Array, y: Array) -> None:
        constant = x.min(axis=0) == x.max(axis=0)
        self._loc = np.where(constant, x[0], x.mean(axis=0))
        self._scale = np.where(constant, 0.0, x.std(axis=0))  # 0: not known yet
        spread = y.std(axis=0)
        self._target_loc = y.mean(axis=0)
        self._target_scale = np.where(spread > 0, spread, np.maximum(np.abs(self._target_loc), 1e-12))

    def _find_missing_units(self, x: Array) -> None:
        """Give an input that has been constant so far the size of its first change as unit.

        Its standardised value was 0 until then, so the network has learned nothing that depends on the unit.
        """
        for column in np.flatnonzero(self._scale == 0):
            change = np.abs(x[:, column] - self._loc[column])
            if change.any():
                self._scale[column] = change[change > 0][0]

    def _standardised(self, x: Array) -> Array:
        known = self._scale > 0
        return np.where(known, x - self._loc, 0.0) / np.where(known, self._scale, 1.0)

    def _trust(self, x: Array) -> Array:
        """Return w of the class's docstring for each row, shape (n, 1)."""
        # An input that never changed is judged by how large a part of itself it changes.
        unit = np.where(self._scale > 0, self._scale, np.maximum(np.abs(self._loc), 1e-12))
        excess = (x - np.clip(x, self._low, self._high)) / unit
        return np.asarray(np.exp(-0.5 * np.sum(excess**2, axis=1, keepdims=True)))

    def _observe(self, x: Array, y: Array) -> None:
        """Update the ranges of the inputs, and mean and variance of the targets (Chan's form of Welford's sums)."""
        self._low, self._high = np.minimum(self._low, x.min(axis=0)), np.maximum(self._high, x.max(axis=0))
        total = self._count + len(y)
        step = y.mean(axis=0) - self._mean
        self._square += ((y - y.mean(axis=0)) ** 2).sum(axis=0) + step**2 * self._count * len(y) / total
        self._mean += step * len(y) / total
        self._count = total

    # ------------------------------------------------------------------ checks

    def _early(self) -> Self:
        """Return the model that would be if the warm-up ended with the samples there are."""
        if self.n_samples == 0:
            raise ValueError("AutoscaledHABNN: predict must follow at least one sample, got none; call fit or update.")
        early = deepcopy(self)
        early.warmup = self.n_samples
        return early.fit(np.empty((0, self._low.size)), np.empty((0, self._mean.size)))

    def _checked(self, inputs: ArrayLike, targets: ArrayLike) -> tuple[Array, Array]:
        x, y = np.asarray(inputs, dtype=np.float64), np.asarray(targets, dtype=np.float64)
        y = y[:, None] if y.ndim == 1 else y
        for name, value, width in (("inputs", x, self._low.size), ("targets", y, self._mean.size)):
            if value.shape != (len(x), width):
                raise ValueError(
                    f"AutoscaledHABNN: {name} must have shape ({len(x)}, {width}), got {value.shape}; reshape them."
                )
            if not np.isfinite(value).all():
                raise ValueError(f"AutoscaledHABNN: {name} must be finite, got NaN or infinity; remove such rows.")
        return x, y
