"""One step of looking ahead, in its three forms, and what each candidate remembers on the way."""

import numpy as np
from numpy.typing import NDArray

from habnn_control.network import HABNN, FunctionSample

Array = NDArray[np.float64]


class OutputLayerUncertainty:
    """A network's expected function with the hidden weights at their locations; remembers what its output layer saw."""

    feeds_variance = False

    def __init__(self, network: HABNN) -> None:
        *self.hidden, self.output = network.point_weights()
        self.slope = network.settings.negative_slope
        self._scales = network.output_covariances().astype(np.float32)
        self._seen: list[Array] = []

    def __call__(self, inputs: Array, _: Array | None) -> tuple[Array, float]:
        z = inputs
        for weight in self.hidden:
            z = z @ weight[:-1]
            z += weight[-1]
            np.maximum(z, self.slope * z, out=z)
        z = np.column_stack([z, np.ones(len(z))])
        self._seen.append(z)
        return z @ self.output, 0.0

    def covariances(self, n: int) -> Array:
        """Return the covariance of each output over the steps n candidates saw, (n, n_outputs, horizon, horizon)."""
        z = np.stack(self._seen, axis=1, dtype=np.float32)  # single precision: half the time of a decision is here
        z = z.reshape(n, -1, z.shape[-1])  # all steps may have come in one call
        found = np.stack([(z @ scale) @ z.transpose(0, 2, 1) for scale in self._scales], axis=1, dtype=np.float64)
        diagonal = np.einsum("nokk->nok", found)
        np.maximum(1.0001 * diagonal, 0.0, out=diagonal)  # positive semidefinite in spite of rounding
        return found


class Moments:
    """Mean and variance of a network's function at inputs that are uncertain themselves."""

    feeds_variance = True

    def __init__(self, network: HABNN) -> None:
        self.network = network

    def __call__(self, inputs: Array, variance: Array | None) -> tuple[Array, Array]:
        distribution = self.network.predict(inputs, include_noise=False, input_variance=variance)
        return distribution.mean, distribution.variance


class Certain:
    """The values of one function."""

    feeds_variance = False

    def __init__(self, function: FunctionSample) -> None:
        self.function = function

    def __call__(self, inputs: Array, _: Array | None) -> tuple[Array, float]:
        return self.function(inputs), 0.0


class Trail:
    """Targets and their slow averages along n candidates, growing step by step.

    Parameters
    ----------
    past : array, shape (depth, n_outputs)
        What all candidates begin with, newest last.
    slow : array, shape (n_averages, n_outputs)
    n, horizon : int
        Number of candidates, and of steps that will be appended.
    keep, take : array, shape (n_averages,)
        Shares of the old average and of the new value in the new average.
    """

    def __init__(self, past: Array, slow: Array, n: int, horizon: int, keep: Array, take: Array) -> None:
        self._depth, self._at = len(past), 0
        self._past = np.empty((n, len(past) + horizon, past.shape[1]))
        self._past[:, : len(past)] = past
        self.slow = np.repeat(slow[None], n, axis=0)
        self._keep, self._take = keep[:, None], take[:, None]

    @property
    def recent(self) -> Array:
        """The last `depth` values, (n, depth, n_outputs)."""
        return self._past[:, self._at : self._at + self._depth]

    @property
    def appended(self) -> Array:
        """All values appended, (n, horizon, n_outputs)."""
        return self._past[:, self._depth :]

    def append(self, values: Array) -> None:
        """Take one more value (n, n_outputs) of every candidate."""
        self._past[:, self._depth + self._at] = values
        self.slow = self._keep * self.slow + self._take * values[:, None]
        self._at += 1
