"""Units: between observed values and what a network learns."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
TARGETS = ("absolute", "delta", "log")
_LOG_OFFSET = 0.03  # of the range, added before the logarithm: noise near the lower bound must not dominate


class Transform:
    """Between observed values and the network's targets."""

    def __init__(self, kind: str, low: Array, high: Array, gain: float) -> None:
        self.log, self.gain = kind == "log", gain
        self.centre, self.unit = units(low, high)
        self.shift = _LOG_OFFSET * 2 * self.unit - low
        if self.log and not np.isfinite(low).all():
            raise ValueError(f"TransitionModel: target 'log' must have a lower bound, got low = {low}; use 'absolute'.")

    def forward(self, values: Array) -> Array:
        """Return the targets of observed values."""
        if self.log:
            return np.asarray(self.gain * np.log(np.maximum(values + self.shift, 1e-3 * self.unit)))
        return np.asarray(self.gain * (values - self.centre) / self.unit)

    def inverse(self, targets: Array, noise: Array | float = 0.0) -> Array:
        """Return the expected values for targets with Gaussian noise of variance `noise` around them."""
        if self.log:
            return self._exp(targets + 0.5 * noise / self.gain) - self.shift
        return self.centre + self.unit * targets / self.gain

    def slope(self, targets: Array) -> Array:
        """Return the derivative of `inverse`."""
        return self._exp(targets) / self.gain if self.log else np.broadcast_to(self.unit / self.gain, targets.shape)

    def _exp(self, targets: Array) -> Array:
        return np.asarray(np.exp(np.minimum(targets / self.gain, 50.0)))


def units(low: Array, high: Array) -> tuple[Array, Array]:
    """Return centre and half range of each interval; 0 and 1 where it has no end."""
    bounded = np.isfinite(low) & np.isfinite(high)
    low, high = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)
    return (low + high) / 2, (high - low) / 2
