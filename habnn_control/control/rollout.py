"""One step of looking ahead, in its three forms, and what each candidate remembers on the way."""

import numpy as np
from numpy.typing import NDArray

from habnn_control.network import HABNN, FunctionSample

Array = NDArray[np.float64]
Single = NDArray[np.float32]
_SINGLE = np.float32


class OutputLayerUncertainty:
    """A network's expected function with the hidden weights at their locations; remembers what its output layer saw.

    In single precision: this is where the time of a decision goes.
    """

    feeds_variance = False

    def __init__(self, network: HABNN) -> None:
        *hidden, output = network.point_weights()
        self._hidden, self._output = [_with_one(weight).astype(_SINGLE) for weight in hidden], output.astype(_SINGLE)
        self._slope = _SINGLE(network.settings.negative_slope)
        self._scales = network.output_covariances().astype(_SINGLE)
        self._seen: list[Single] = []

    def __call__(self, inputs: Array, _: Array | None) -> tuple[Array, float]:
        z = np.column_stack([inputs, np.ones(len(inputs))]).astype(_SINGLE)
        for weight in self._hidden:
            z = z @ weight
            np.maximum(z, self._slope * z, out=z)
        self._seen.append(z)
        return (z @ self._output).astype(np.float64), 0.0

    def doubt(self, n: int) -> "OutputLayerDoubt":
        """Return what is not known about the outputs along the n candidates that were followed."""
        z = np.stack(self._seen, axis=1) if len(self._seen) > 1 else self._seen[0]  # step by step, or all in one call
        return OutputLayerDoubt(z.reshape(n, -1, z.shape[-1]), self._scales)


def _with_one(weight: Array) -> Array:
    """Append a unit that is always 1: the bias of the next layer."""
    return np.column_stack([weight, np.eye(len(weight))[-1]])


class OutputLayerDoubt:
    """Doubt about the weights of an output layer that sees z (n, horizon, width), covariances `scales` an output."""

    def __init__(self, z: Single, scales: Single) -> None:
        self._z, self._scales = z, scales

    def covariances(self) -> Array:
        """Return those of each output over the steps, (n, n_outputs, horizon, horizon)."""
        z = self._z
        found = np.stack([(z @ scale) @ z.transpose(0, 2, 1) for scale in self._scales], axis=1, dtype=np.float64)
        diagonal = np.einsum("nokk->nok", found)
        np.maximum(1.0001 * diagonal, 0.0, out=diagonal)  # positive semidefinite in spite of rounding
        return found

    def variances(self, weights: Array) -> Array:
        """Return those (n,) of the outputs summed up with weights (n, horizon, n_outputs): one vector a candidate."""
        sums = weights.transpose(2, 0, 1)[:, :, None].astype(_SINGLE) @ self._z  # (n_outputs, n, 1, width)
        sums = sums[:, :, 0]
        return np.asarray(((sums @ self._scales) * sums).sum(axis=(0, 2)), dtype=np.float64)


class PathDoubt:
    """Doubt given by its covariances (n, n_outputs, horizon, horizon)."""

    def __init__(self, covariances: Array) -> None:
        self._covariances = covariances

    def covariances(self) -> Array:
        """Return them."""
        return self._covariances

    def variances(self, weights: Array) -> Array:
        """Return those (n,) of the outputs summed up with weights (n, horizon, n_outputs)."""
        rows = weights.transpose(0, 2, 1)[:, :, None]  # (n, n_outputs, 1, horizon)
        return np.asarray((rows @ self._covariances @ rows.swapaxes(2, 3)).sum(axis=(1, 2, 3)))


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
