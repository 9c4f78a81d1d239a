"""Forecasts of many plans at once with a regressor that predicts one step."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from habnn_control.control.encoder import Encoder
from habnn_control.control.model import Memory
from habnn_control.network import HABNN

Array = NDArray[np.float64]
Single = NDArray[np.float32]
_SINGLE = np.float32


def roll_out(encoder: Encoder, memory: Memory, actuation: Array, step: Callable[[Array], Array]) -> Array:
    """Return scaled outputs (n, horizon, n_outputs), relative to the origin, along the actuation of n plans.

    Parameters
    ----------
    encoder : Encoder
    memory : Memory
        Where all plans start.
    actuation : array, shape (n, horizon, n_actions)
        From `Encoder.actuation`.
    step : callable
        Predicted targets (n, n_outputs) for inputs (n, n_inputs).
    """
    averages = encoder.averages(memory, actuation)
    if encoder.feeds_back:
        return _step_by_step(encoder, memory, averages, step)
    n, horizon, _ = averages.shape
    outputs = step(encoder.inputs(averages.reshape(n * horizon, -1), np.empty((n * horizon, 0, encoder.n_outputs))))
    return np.clip(outputs.reshape(n, horizon, encoder.n_outputs), *encoder.target_bounds(memory))


def _step_by_step(encoder: Encoder, memory: Memory, averages: Array, step: Callable[[Array], Array]) -> Array:
    """Feed the predicted outputs back as inputs of the next step."""
    (n, horizon, _), depth = averages.shape, len(memory.past)
    low, high = encoder.target_bounds(memory)
    past = np.empty((n, depth + horizon, encoder.n_outputs))
    past[:, :depth] = memory.past
    for k in range(horizon):
        recent = past[:, k : k + depth]
        target = step(encoder.inputs(averages[:, k], recent))
        past[:, k + depth] = np.clip(encoder.accumulated(target, recent), low, high)
    return past[:, depth:]


class PointNetwork:
    """A network with its hidden weights held at their locations; single precision, where a decision spends its time.

    Attributes
    ----------
    hidden : list of array
        Weights of the hidden layers, (n_in + 1, n_out + 1) each: the last unit is always 1, the bias of the next layer.
    output : array, shape (width, n_outputs)
        Locations of the output layer's weights.
    scales : array, shape (n_outputs, width, width)
        Covariance of the output layer's weights.
    slope : float
        Slope of the activation below zero.
    """

    def __init__(self, network: HABNN) -> None:
        *hidden, output = network.point_weights()
        self.hidden, self.output = [_with_one(weight).astype(_SINGLE) for weight in hidden], output.astype(_SINGLE)
        self.slope = _SINGLE(network.settings.negative_slope)
        self.scales = network.output_covariances().astype(_SINGLE)


class MeanFunction:
    """The expected function of a point network; keeps the inputs of its output layer for `covariance`."""

    def __init__(self, network: PointNetwork) -> None:
        self._network = network
        self._seen: list[Single] = []

    def __call__(self, inputs: Array) -> Array:
        """Return the outputs (n, n_outputs) for inputs (n, n_inputs)."""
        z = np.column_stack([inputs, np.ones(len(inputs))]).astype(_SINGLE)
        for weight in self._network.hidden:
            z = z @ weight
            np.maximum(z, self._network.slope * z, out=z)
        self._seen.append(z)
        return (z @ self._network.output).astype(np.float64)

    def covariance(self, n: int) -> "OutputLayerCovariance":
        """Return the epistemic covariance of the outputs along the n plans evaluated so far."""
        z = np.stack(self._seen, axis=1) if len(self._seen) > 1 else self._seen[0]  # step by step, or all in one call
        return OutputLayerCovariance(z.reshape(n, -1, z.shape[-1]), self._network.scales)


def _with_one(weight: Array) -> Array:
    """Append a hidden unit that is always 1: the bias of the next layer."""
    return np.column_stack([weight, np.eye(len(weight))[-1]])


class OutputLayerCovariance:
    """An `EpistemicCovariance` that comes from the weights of an output layer alone.

    Parameters
    ----------
    z : array, shape (n, horizon, width)
        Inputs of the output layer along n plans.
    scales : array, shape (n_outputs, width, width)
        Covariance of the weights of each output.
    """

    def __init__(self, z: Single, scales: Single) -> None:
        self._z, self._scales = z, scales

    def over_steps(self) -> Array:
        """Return the covariance of each output over the steps of each plan, (n, n_outputs, horizon, horizon)."""
        z = self._z
        found = np.stack([(z @ scale) @ z.transpose(0, 2, 1) for scale in self._scales], axis=1, dtype=np.float64)
        diagonal = np.einsum("nokk->nok", found)
        np.maximum(1.0001 * diagonal, 0.0, out=diagonal)  # positive semidefinite in spite of rounding
        return found

    def of_sums(self, weights: Array) -> Array:
        """Return the variance (n,) of each plan's sum of outputs with weights (n, horizon, n_outputs)."""
        return self._variances(self._sums(weights))

    def of_differences(self, weights: Array) -> Array:
        """Return the variance (n,) of the difference between each plan's sum and that of the first plan."""
        sums = self._sums(weights)
        return self._variances(sums - sums[:, :1])

    def _sums(self, weights: Array) -> Single:
        """Return the sums of the output layer's inputs, (n_outputs, n, width)."""
        sums = weights.transpose(2, 0, 1)[:, :, None].astype(_SINGLE) @ self._z
        return np.asarray(sums[:, :, 0])

    def _variances(self, sums: Single) -> Array:
        return np.asarray(((sums @ self._scales) * sums).sum(axis=(0, 2)), dtype=np.float64)
