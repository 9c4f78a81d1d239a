"""Transform: between observed values and the scaled outputs of a regressor."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_OFFSET = 0.1  # of the first distance from the lower bound, added to all: noise near the bound
_LEAST_DISTANCE = 0.001  # of the half range: of the first value from the lower bound
_LARGEST_OUTPUT = 50.0  # exponent at which a logarithm's inverse is cut off


class Transform:
    """Between observed values and scaled outputs.

    Scaled outputs are 0 at the origin, the values of the very first observation. They are linear in the values, or
    functions of the distance from the lower bound in units of the origin's distance, so that how wide the bounds of the
    space are does not matter: its logarithm, or the inverse of softplus(x) = log(1 + exp(x)), which is like a logarithm
    below the origin and nearly linear above. A model that is linear in these outputs predicts no value below the bound.
    Along a logarithm it extrapolates upwards exponentially, along the inverse of softplus linearly.

    Parameters
    ----------
    kind : {"absolute", "delta", "log", "softplus"}
        The first two are linear.
    low, high : array, shape (n_outputs,)
        Bounds of the values.
    """

    def __init__(self, kind: str, low: Array, high: Array) -> None:
        self.kind, self.low = kind, low
        _, self.half_range = scaling(low, high)
        if kind in ("log", "softplus") and not np.isfinite(low).all():
            raise ValueError(f"model: target {kind!r} must have a lower bound, got low = {low}; use 'absolute'.")

    def _distance(self, origin: Array) -> Array:
        return np.asarray(np.maximum(origin - self.low, _LEAST_DISTANCE * self.half_range))

    def forward(self, values: Array, origin: Array) -> Array:
        """Return the scaled outputs of observed values."""
        if self.kind in ("absolute", "delta"):
            return np.asarray((values - origin) / self.half_range)
        ratio = np.maximum(values - self.low, 0.0) / self._distance(origin) + _OFFSET
        if self.kind == "log":
            return np.asarray(np.log(ratio / _AT_ORIGIN))
        return np.asarray((_inverse_softplus(ratio) - _ZERO) * _UNIT)

    def inverse(self, outputs: Array, origin: Array, noise_variance: Array | float = 0.0) -> Array:
        """Return the expected values for scaled outputs with Gaussian noise of this variance around them."""
        if self.kind == "log":
            return np.asarray(self._value(self._exponential(outputs + 0.5 * noise_variance), origin))
        if self.kind == "softplus":
            x = outputs / _UNIT + _ZERO
            slope = _sigmoid(x)
            curvature = slope * (1.0 - slope)
            return self._value(np.logaddexp(0.0, x) + 0.5 * curvature * noise_variance / _UNIT**2, origin)
        return np.asarray(origin + self.half_range * outputs)

    def slope(self, outputs: Array, origin: Array) -> Array:
        """Return the derivative of `inverse`."""
        if self.kind == "log":
            return np.asarray(self._distance(origin) * self._exponential(outputs))
        if self.kind == "softplus":
            return np.asarray(self._distance(origin) * _sigmoid(outputs / _UNIT + _ZERO) / _UNIT)
        return np.broadcast_to(self.half_range, outputs.shape)

    def _exponential(self, outputs: Array) -> Array:
        return np.asarray(_AT_ORIGIN * np.exp(np.minimum(outputs, _LARGEST_OUTPUT)))

    def _value(self, ratio: Array, origin: Array) -> Array:
        return np.asarray(self.low + self._distance(origin) * (ratio - _OFFSET))


def _inverse_softplus(ratio: Array | float) -> Array:
    return np.asarray(ratio + np.log(-np.expm1(-np.asarray(ratio))))


def _sigmoid(x: Array) -> Array:
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * x))  # does not overflow


_AT_ORIGIN = 1.0 + _OFFSET  # ratio at the origin
_ZERO = float(_inverse_softplus(_AT_ORIGIN))
_UNIT = -float(np.expm1(-_AT_ORIGIN))  # makes the slope at the origin that of the ratio


def scaling(low: Array, high: Array) -> tuple[Array, Array]:
    """Return centre and half range of each interval; 0 and 1 where it has no end."""
    bounded = np.isfinite(low) & np.isfinite(high)
    low, high = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)
    return (low + high) / 2, (high - low) / 2
