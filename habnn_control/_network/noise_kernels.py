"""Compiled mathematics of noise whose variance depends on the input: learning a log variance from residuals.

The network has two outputs per target: the mean f, and the log g of the noise variance relative to a given one. A
residual r says about the noise what the likelihood N(r; 0, s^2 + e^g) says, with s^2 the variance of f. The
distribution of e^g is taken as the inverse-gamma for which g has the mean and the variance that the network gives it;
that is conjugate to the squared noise, so that the update is a closed form, exact where f is certain. Elsewhere score
and expected curvature of the likelihood are those of a power of the conjugate one.

AGVI (Deka and Goulet, 2023) has the same purpose and the same moments of f and of the noise. Its update is linear in
the squared residual, so that one large residual moves g far; here g grows with the logarithm of the squared residual.
"""

from math import exp, isfinite, log, sqrt

import numpy as np

from habnn_control._network.jit import Floats, inlined_kernel, kernel
from habnn_control._network.joint_kernels import _condition, _hidden, _linearise, _times
from habnn_control._network.kernels import LARGEST_FACTOR, SMALLEST_V

LARGEST_LOG = 30.0  # of a noise variance relative to the given one
LARGEST_VARIANCE = 4.0  # of a log noise variance that has an inverse-gamma here; larger ones are treated alike
SMALLEST_VARIANCE = 1e-12  # below it the log noise variance is known
LARGEST_LEVERAGE = 0.9  # share of the variance of a prediction that a sample itself may have removed
_SERIES, _STEPS = 6.0, 8  # from where the asymptotic series are exact to 1e-9; iterations of the inverse


@inlined_kernel
def _polygamma(a: float) -> tuple[float, float]:
    """Return digamma and trigamma of a > 0: recurrence up to `_SERIES`, then their asymptotic series."""
    first = second = 0.0
    while a < _SERIES:
        first -= 1.0 / a
        second += 1.0 / (a * a)
        a += 1.0
    u = 1.0 / (a * a)
    first += log(a) - 0.5 / a - u * (1.0 / 12.0 - u * (1.0 / 120.0 - u * (1.0 / 252.0 - u / 240.0)))
    second += 1.0 / a + 0.5 * u + u / a * (1.0 / 6.0 - u * (1.0 / 30.0 - u * (1.0 / 42.0 - u / 30.0)))
    return first, second


@inlined_kernel
def _shape(variance: float) -> float:
    """Return the shape of the inverse-gamma whose logarithm has this variance: the inverse of trigamma."""
    a = 0.5 + 1.0 / variance
    for _ in range(_STEPS):
        _, present = _polygamma(a)
        a = max(a + 1.0 / variance - 1.0 / present, 0.5 * a)  # 1 / trigamma(a) is nearly a - 1/2
    return a


@kernel
def learn_log_noise(mean: float, variance: float, square: float, spread: float, weight: float) -> tuple[float, float]:
    """Return the change of the mean of a log noise variance by one residual, and the factor of its variance.

    Parameters
    ----------
    mean, variance : float
        Of the log noise variance before.
    square : float
        Squared residual.
    spread : float
        Variance of the prediction without noise.
    weight : float
        Power of the likelihood: 1, or less in tempered passes and for outliers. These have the squared trust in the
        observation, so that what an outlier says about the noise falls with its distance.
    """
    if variance < SMALLEST_VARIANCE:
        return 0.0, 1.0
    a = _shape(min(variance, LARGEST_VARIANCE))
    first, second = _polygamma(a)
    noise = exp(mean + first) / a  # inverse of the expected precision
    share = noise / (noise + spread)
    excess = share * (square / (noise + spread) - 1.0)
    count = 0.5 * weight * share * share
    after_first, after_second = _polygamma(a + count)
    growth = (count + 0.5 * weight * excess) / a  # at least -weight / (8 a)
    return log(1.0 + growth) - after_first + first, after_second / second


@inlined_kernel
def _learn_noise(
    loc: Floats,
    scale: Floats,
    direction: Floats,
    jacobian: Floats,
    conditioned: Floats,
    by: tuple[float, float],
    update: tuple[float, float],
    limit: float,
) -> None:
    """Condition the weights on the log noise, after the output was conditioned along `conditioned`.

    `by` has the total squared scale of that observation and the squared scale of the log noise before it; `update` what
    `learn_log_noise` returned.
    """
    total, square = by
    cross = 0.0
    for p in range(len(loc)):
        cross += conditioned[p] * jacobian[p]
    for p in range(len(loc)):
        direction[p] -= cross / total * conditioned[p]
    square -= cross * cross / total
    if square > 0.0:
        _condition(loc, scale, direction, update[0] / square, (1.0 - update[1]) / square, 1.0, limit)


@kernel
def learn(
    loc: Floats,
    scale: Floats,
    n_hidden: int,
    per_output: Floats,
    limit: float,
    dofs: tuple[float, float],
    shares: tuple[float, float, float],
    outlier_threshold: float,
    inputs: Floats,
    targets: Floats,
    trace: Floats,
) -> tuple[int, float]:
    """Learn from samples in their order, as `joint_kernels.learn` does, and from their residuals the noise.

    The scale matrix is conditioned as that of a Gaussian: residuals say how large the noise is, not, as there, how
    large the common scale of noise and weights.

    Parameters
    ----------
    per_output : array, shape (2, n_outputs)
        As there, at log noise 0.
    dofs : pair of float
        Present and largest dof.
    shares : triple of float
        Weight of a sample; share of it that earlier passes have learned, without which residual and variance of the
        prediction tell the noise (leave-one-out, exact in a linear model); weight of a sample for the noise.
    """
    z, slope = np.empty(n_hidden + 1), np.empty(n_hidden)
    jacobian, direction = np.zeros(len(loc)), np.empty(len(loc))
    jacobian_g, direction_g = np.zeros(len(loc)), np.empty(len(loc))
    dof, max_dof = dofs
    weight, known, noise_weight = shares
    for n in range(len(inputs)):
        v = 1.0 / dof
        r = 1.0 - 2.0 * v
        for i in range(targets.shape[1]):
            _hidden(loc, scale, n_hidden, inputs[n], r, z, slope)
            g = _linearise(loc, n_hidden, targets.shape[1] + i, inputs[n], z, slope, jacobian_g)
            prior_g = max(_times(scale, jacobian_g, direction_g), 0.0)
            error = targets[n, i] - _linearise(loc, n_hidden, i, inputs[n], z, slope, jacobian)
            prior = max(_times(scale, jacobian, direction), 0.0)
            if not (isfinite(prior + prior_g + g) and isfinite(error * error)):
                return n, dof
            level = exp(min(max(g + 0.5 * prior_g / r, -LARGEST_LOG), LARGEST_LOG))
            noise = per_output[0, i] * level
            trace[n, 0, i], trace[n, 1, i] = error, prior + per_output[1, i] * level * r
            trust = 1.0
            if outlier_threshold < np.inf:
                trust = 1.0 / (1.0 + error * error / (trace[n, 1, i] * outlier_threshold * outlier_threshold))
                noise = (noise + (1.0 - trust) * prior / r) / trust
            total = prior + noise * r
            reach = sqrt(LARGEST_FACTOR / max(v, SMALLEST_V) * total)
            error = min(max(error, -reach), reach)
            left = 1.0 - min(known * prior / (r * per_output[1, i] * level), LARGEST_LEVERAGE)
            given = log(per_output[1, i]) + min(max(g, -LARGEST_LOG), LARGEST_LOG)
            share = noise_weight * trust**2
            update = learn_log_noise(given, prior_g / r, (error / left) ** 2, prior / (r * left), share)
            _condition(loc, scale, direction, error / total, 1.0 / total, 1.0, limit)
            _learn_noise(loc, scale, direction_g, jacobian_g, direction, (total, prior_g), update, limit)
        dof = min(dof + weight, max_dof)
    return len(inputs), dof
