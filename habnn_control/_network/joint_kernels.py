"""Compiled mathematics of a network with one hidden layer and one scale matrix for all of its weights.

The weights are one vector: the rows of the hidden layer, each with its bias last, then those of the output layer.
The scale matrix is symmetric; the kernels read and write its lower triangle only.
"""

from math import erfc, exp, isfinite, pi, sqrt

import numpy as np

from habnn_control._network.jit import Floats, inlined_kernel, kernel
from habnn_control._network.kernels import LARGEST_FACTOR, SMALLEST_SHARE, SMALLEST_V

TINY = 1e-24  # squared scale of a pre-activation below which the activation function is not smoothed
GROWTH = 1e6  # bound on a squared scale, relative to the largest prior one


@inlined_kernel
def _hidden(loc: Floats, scale: Floats, n_hidden: int, x: Floats, r: float, z: Floats, slope: Floats) -> None:
    """Write the mean post-activations and the mean slopes of the rectifier for one input, with its bias entry, x.

    Both are means over the pre-activations, Gaussians with the variance that the scale matrix gives them: a statistical
    linearisation, which is smooth where the weights are not certain.
    """
    n_in = len(x)
    for i in range(n_hidden):
        first = i * n_in
        a = variance = 0.0
        for j in range(n_in):
            a += loc[first + j] * x[j]
            row = 0.0
            for k in range(j):
                row += scale[first + j, first + k] * x[k]
            variance += x[j] * (2.0 * row + scale[first + j, first + j] * x[j])
        a /= sqrt(n_in)
        s = sqrt(max(variance / (r * n_in), TINY))
        below = 0.5 * erfc(-a / (s * sqrt(2.0)))
        slope[i] = below
        z[i] = max(a * below + s * exp(-0.5 * (a / s) ** 2) / sqrt(2.0 * pi), 0.0)
    z[n_hidden] = 1.0


@inlined_kernel
def _linearise(loc: Floats, n_hidden: int, output: int, x: Floats, z: Floats, slope: Floats, out: Floats) -> float:
    """Write the derivatives of the mean of one output with respect to all weights to `out`; return the mean."""
    n_in, width = len(x), n_hidden + 1
    first = n_hidden * n_in
    gain = 1.0 / sqrt(width)
    mean = 0.0
    out[first:] = 0.0
    for i in range(width):
        weight = loc[first + output * width + i]
        out[first + output * width + i] = gain * z[i]
        mean += gain * weight * z[i]
        if i < n_hidden:
            back = gain * weight * slope[i] / sqrt(n_in)
            for j in range(n_in):
                out[i * n_in + j] = back * x[j]
    return mean


@inlined_kernel
def _times(scale: Floats, jacobian: Floats, out: Floats) -> float:
    """Write the product of the scale matrix and the derivatives to `out`; return their quadratic form."""
    n = len(jacobian)
    out[:] = 0.0
    for i in range(n):
        here, total = jacobian[i], 0.0
        for j in range(i):
            total += scale[i, j] * jacobian[j]
            out[j] += scale[i, j] * here
        out[i] += total + scale[i, i] * here
    square = 0.0
    for i in range(n):
        square += out[i] * jacobian[i]
    return square


@inlined_kernel
def _condition(
    loc: Floats, scale: Floats, direction: Floats, step: float, change: float, factor: float, limit: float
) -> None:
    """Update locations and scale matrix by one observation: factor (S - change s s'), with s the `direction`."""
    n = len(loc)
    largest = 0.0
    for i in range(n):
        loc[i] += step * direction[i]
        here = change * direction[i]
        for j in range(i):
            scale[i, j] = factor * (scale[i, j] - here * direction[j])
        left = scale[i, i] - here * direction[i]
        scale[i, i] = factor * max(left, SMALLEST_SHARE * scale[i, i])
        largest = max(largest, scale[i, i])
    if largest > limit:
        for i in range(n):
            for j in range(i + 1):
                scale[i, j] *= limit / largest


@kernel
def learn(
    loc: Floats,
    scale: Floats,
    n_hidden: int,
    per_output: Floats,
    limit: float,
    dof: float,
    max_dof: float,
    weight: float,
    outlier_threshold: float,
    inputs: Floats,
    targets: Floats,
    trace: Floats,
) -> tuple[int, float]:
    """Learn from samples in their order, in place; return the number of samples learned from, and the new dof.

    Each output is one observation: the weights are conditioned on it exactly, as a multivariate t, under the
    linearised network. Stops before the first sample that is not finite.

    Parameters
    ----------
    per_output : array, shape (2, n_outputs)
        Noise variances in learning, k times those of the data in k tempered passes, and noise variances of the data.
    limit : float
        Largest squared scale.
    weight : float
        As in `kernels.learn`.
    outlier_threshold : float
        Standardised residual at which the weight of an observation is one half.
    inputs : array, shape (n, n_inputs + 1)
        With ones in the last column.
    targets : array, shape (n, n_outputs)
    trace : array, shape (n, 2, n_outputs)
        Error and squared scale of the prediction of each sample before its update.
    """
    z, slope = np.empty(n_hidden + 1), np.empty(n_hidden)
    jacobian, direction = np.zeros(len(loc)), np.empty(len(loc))
    for n in range(len(inputs)):
        v = 1.0 / dof
        r = 1.0 - 2.0 * v
        for i in range(targets.shape[1]):
            _hidden(loc, scale, n_hidden, inputs[n], r, z, slope)
            mean = _linearise(loc, n_hidden, i, inputs[n], z, slope, jacobian)
            prior = max(_times(scale, jacobian, direction), 0.0)
            error = targets[n, i] - mean
            if not (isfinite(prior) and isfinite(error * error)):
                return n, dof
            noise = per_output[0, i]
            trace[n, 0, i], trace[n, 1, i] = error, prior + per_output[1, i] * r
            trust = 1.0
            if outlier_threshold < np.inf:
                trust = 1.0 / (1.0 + error * error / (trace[n, 1, i] * outlier_threshold * outlier_threshold))
                noise = (noise + (1.0 - trust) * prior / r) / trust
            total = prior + noise * r
            reach = sqrt(LARGEST_FACTOR / max(v, SMALLEST_V) * total)
            error = min(max(error, -reach), reach)
            # An observation that is hardly trusted says little about the common scale of the weights, too.
            factor = (1.0 + v * trust * error * error / total) / (1.0 + v * weight)
            _condition(loc, scale, direction, error / total, 1.0 / total, factor, limit)
        dof = min(dof + weight, max_dof)
    return len(inputs), dof
