"""Compiled backward pass of the network, and learning from a stream of samples.

`forward_kernels` explains the layout of the arrays and the symbols.
"""

from math import isfinite, sqrt

import numpy as np

from habnn_control._network.factors import ROUNDING, update_factorised
from habnn_control._network.forward_kernels import (
    A_MEAN,
    A_POST,
    A_SCALE,
    A_STEP,
    CHANGE,
    CROSS,
    FACTOR,
    INVERSE,
    N_ROWS,
    NARROW,
    PLACE,
    Z_MEAN,
    Z_POST,
    Z_PRIOR,
    Z_STEP,
    Z_VAR,
    forward,
    layout,
)
from habnn_control._network.jit import Floats, exact_kernel, inlined_kernel, kernel
from habnn_control._network.rectifier import SCRATCH_SHAPE, TINY, dof_polynomials, whole_lanes
from habnn_control._network.tails import X_ORDER

LARGEST_CANCELLATION = 1e5  # ratio of a sum's terms to the sum, above which an update goes through the Cholesky factor
LARGEST_GROWTH = 10.0  # factor on a scale matrix, above which an update goes through the factor
WIDE = 1e-3  # squared scale relative to the limit, above which an update goes through the factor: 1000 times the prior
LARGEST_FACTOR = 100.0  # bound on the scale inflation by one outlier; an error beyond it is clipped to this bound
SMALLEST_V = 1e-4  # weights with more than 1 / SMALLEST_V degrees of freedom have the bound of these
LARGEST_SQUARE = 1e140  # bound on the moments of pre-activations: products of two of them do not overflow
SMALLEST_SHARE = 1e-16  # smallest part of a squared scale that one update leaves; anything less is rounding error

# What `learn` tells of a sample. Data are scaled to order one; anything beyond LARGEST_VALUE is a fault or not scaled.
ORDINARY, SURPRISING, LARGE = range(3)
LARGEST_VALUE = 1e3
SURPRISE = 25.0  # predictive scales
# When `learn` stops: at the end of the samples, or after the first sample that is not ORDINARY, or not LARGE.
NEVER, AT_SUSPICION, AT_USUAL_SIZE = range(3)


@inlined_kernel
def _can_learn(work: Floats, shapes: Floats, targets: Floats, n: int) -> bool:
    """Return whether the moments of all pre-activations and the squared errors of target n are far from overflow."""
    total = errors = 0.0
    for layer in range(len(shapes)):
        for i in range(shapes[layer, 1]):
            total += abs(work[layer, A_MEAN, i]) + work[layer, A_SCALE, i]
    for i in range(targets.shape[1]):
        errors += (targets[n, i] - work[len(shapes) - 1, A_MEAN, i]) ** 2
    return total < LARGEST_SQUARE and isfinite(errors)


@inlined_kernel
def _suspicion(
    inputs: Floats, targets: Floats, n: int, per_output: Floats, v: float, layer: int, work: Floats, errors: Floats
) -> int:
    """Return whether sample n is ORDINARY, SURPRISING or LARGE; add its squared errors to `errors`."""
    largest = 0.0
    for j in range(inputs.shape[1]):
        largest = max(largest, abs(inputs[n, j]))
    suspicion = ORDINARY
    for i in range(targets.shape[1]):
        largest = max(largest, abs(targets[n, i]))
        square = (targets[n, i] - work[layer, A_MEAN, i]) ** 2
        errors[i] += square
        if square > SURPRISE * SURPRISE * (work[layer, A_SCALE, i] + per_output[0, i] * (1.0 - 2.0 * v)):
            suspicion = SURPRISING
    return LARGE if largest > LARGEST_VALUE else suspicion


@inlined_kernel
def _posterior_factor(distance: float, v: float, d: float) -> float:
    """Return the factor (nu + D) / (nu + d) of Eq. (13) for conditioning variables at squared distance D."""
    return (1.0 + v * distance) / (1.0 + v * d)


@inlined_kernel
def _observe(
    targets: Floats, n: int, per_output: Floats, weight: float, outlier: Floats, v: float, layer: int, work: Floats
) -> None:
    """Condition the output layer on target n, and update the noise variances from the posterior residuals.

    In a tempered pass a sample has the `weight` 1 / k and k times the noise variance. The posterior of this likelihood,
    if scale and noise share one inverse-gamma factor, has the factor (nu + D) / (nu + weight).
    """
    for i in range(targets.shape[1]):
        noise, count, prior = per_output[0, i], per_output[1, i], work[layer, A_SCALE, i]
        error = targets[n, i] - work[layer, A_MEAN, i]
        trust = 1.0
        if outlier[0] < np.inf:
            expected = prior + (per_output[3, i] if len(per_output) > 2 else noise) * (1.0 - 2.0 * v)
            trust = 1.0 / (1.0 + error * error / (expected * outlier[0] * outlier[0]))
            # The predictive variance of the target is divided by `trust`.
            noise = (noise + (1.0 - trust) * prior / (1.0 - 2.0 * v)) / trust
        total = prior + noise * (1.0 - 2.0 * v)
        reach = sqrt(LARGEST_FACTOR / max(v, SMALLEST_V) * total)
        error = min(max(error, -reach), reach)
        share = prior / total
        work[layer, A_STEP, i] = share * error
        work[layer, A_POST, i] = _posterior_factor(error * error / total, v, weight) * prior * (1.0 - share)
        work[layer, CHANGE, i], work[layer, FACTOR, i] = error, total  # for `_compare`
        if count < np.inf:
            residual = (1.0 - share) * error
            per_output[1, i] = count + 1.0
            # The weight of sample n is proportional to n: early residuals are errors of the network, not noise.
            if trust < 1.0:
                square = trust * trust * (residual * residual + share * noise) / outlier[1]
                per_output[0, i] += 2.0 / (count + 2.0) * (square - per_output[0, i])
            else:
                per_output[0, i] += 2.0 / (count + 2.0) * (residual * residual + share * noise - noise)
        if len(per_output) > 2:
            residual = (1.0 - share) * error
            per_output[2, i] += trust * trust * (residual * residual + share * noise) / outlier[1]


@inlined_kernel
def _compare(shapes: Floats, layer: int, work: Floats, gain: float, v: float, weight: float, exact: bool) -> float:
    """Write the terms of the update that depend on the pre-activations alone to `work`; return the sum of D.

    D is that of the pre-activations, or with `exact` that of the observations, which `_observe` wrote to `work`.
    """
    n_out = shapes[layer, 1]
    total = 0.0
    for i in range(n_out):
        prior, step, post = work[layer, A_SCALE, i], work[layer, A_STEP, i], work[layer, A_POST, i]
        inverse = 1.0 / prior if prior > 0.0 else 0.0
        distance = (step * step + post) * inverse if prior > 0.0 else 1.0
        factor = _posterior_factor(distance, v, 1.0)
        if exact:
            distance = work[layer, CHANGE, i] ** 2 / work[layer, FACTOR, i]
            factor = _posterior_factor(distance, v, weight)
            distance += 1.0 - weight  # the factor of the layer's inputs counts each neuron as one variable
        work[layer, INVERSE, i] = gain * inverse
        work[layer, FACTOR, i] = factor
        work[layer, CHANGE, i] = post - factor * prior
        total += distance
    return total


@inlined_kernel
def _sum_over_neurons(loc: Floats, shapes: Floats, layer: int, work: Floats) -> None:
    """Sum the contributions of all pre-activations of a layer to the update of each of its inputs."""
    n_in, n_out, at, _ = layout(shapes, layer)
    if n_out < NARROW:
        for j in range(n_in):
            work[layer, Z_STEP, j] = work[layer, Z_PRIOR, j] = work[layer, Z_POST, j] = 0.0
        for i in range(n_out):
            inverse, step = work[layer, INVERSE, i], work[layer, A_STEP, i]
            prior, post = work[layer, A_SCALE, i], work[layer, A_POST, i]
            for j in range(n_in):
                w = inverse * loc[at + j * n_out + i]
                work[layer, Z_STEP, j] += w * step
                work[layer, Z_PRIOR, j] += w * w * prior
                work[layer, Z_POST, j] += w * w * post
        return
    for j in range(n_in):
        step = prior = post = 0.0
        for i in range(n_out):
            w = work[layer, INVERSE, i] * loc[at + j * n_out + i]
            step += w * work[layer, A_STEP, i]
            prior += w * w * work[layer, A_SCALE, i]
            post += w * w * work[layer, A_POST, i]
        work[layer, Z_STEP, j], work[layer, Z_PRIOR, j], work[layer, Z_POST, j] = step, prior, post


@inlined_kernel
def _update_inputs(loc: Floats, shapes: Floats, layer: int, work: Floats, distance: float, v: float) -> None:
    """Condition the inputs of a layer on its pre-activations, then the pre-activations of the layer before.

    Implements Eqs. (12) and (13) of the HABNN paper with the cross-covariances of Eqs. (15) and (16).
    """
    n_in, n_out, _, _ = layout(shapes, layer)
    _sum_over_neurons(loc, shapes, layer, work)
    factor = (1.0 + v * distance) / (1.0 + v * n_out)
    to_scale = 1.0 - 2.0 * v
    for j in range(n_in - 1):
        var = work[layer, Z_VAR, j]
        known = var > TINY
        inverse = 1.0 / var if known else 0.0
        prior = var * to_scale
        step = prior * work[layer, Z_STEP, j]
        post = factor * (prior - prior * prior * work[layer, Z_PRIOR, j]) + prior * prior * work[layer, Z_POST, j]
        # Neurons are treated as independent, so their summed variance reductions can exceed the prior variance.
        post = max(post, SMALLEST_SHARE * prior)
        slope = work[layer - 1, CROSS, j] * inverse
        kept = max(work[layer - 1, A_SCALE, j] - slope * slope * prior, 0.0)
        spread = _posterior_factor((step * step + post) * inverse / to_scale, v, 1.0) if known else 1.0
        work[layer - 1, A_STEP, j] = slope * step
        work[layer - 1, A_POST, j] = spread * kept + slope * slope * post


@inlined_kernel
def _update_diagonal(loc: Floats, scale: Floats, shapes: Floats, layer: int, work: Floats, limit: float) -> None:
    """Condition the weights of each neuron on its pre-activation, Eqs. (12) and (13); diagonal covariance."""
    n_in, n_out, at, _ = layout(shapes, layer)
    if n_out < NARROW:
        for i in range(n_out):
            inverse, step = work[layer, INVERSE, i], work[layer, A_STEP, i]
            factor, change = work[layer, FACTOR, i], work[layer, CHANGE, i]
            for j in range(n_in):
                s = scale[at + j * n_out + i]
                share = s * work[layer, Z_MEAN, j] * inverse
                loc[at + j * n_out + i] += step * share
                scale[at + j * n_out + i] = min(max(factor * s + change * share * share, SMALLEST_SHARE * s), limit)
        return
    for j in range(n_in):
        m = work[layer, Z_MEAN, j]
        for i in range(n_out):
            s = scale[at + j * n_out + i]
            share = s * m * work[layer, INVERSE, i]
            changed = work[layer, FACTOR, i] * s + work[layer, CHANGE, i] * share * share
            loc[at + j * n_out + i] += work[layer, A_STEP, i] * share
            scale[at + j * n_out + i] = min(max(changed, SMALLEST_SHARE * s), limit)


@exact_kernel
def _is_delicate(
    scale: Floats, first: int, n: int, layer: int, work: Floats, i: int, gain: float, limit: float
) -> bool:
    """Return whether the direct update of neuron i could lose positive semidefiniteness to rounding errors.

    It cancels where the scale matrix is narrow along the input and wide across it, which is what surprises make of it.
    """
    terms = largest = 0.0
    for j in range(n):
        m, s = work[layer, Z_MEAN, j], scale[(first + j * (n + 1)) & PLACE]
        terms += s * m * m
        largest = max(largest, s)
    cancels = not gain * gain * terms <= LARGEST_CANCELLATION * work[layer, A_SCALE, i]
    return cancels or largest > WIDE * limit or not work[layer, FACTOR, i] <= LARGEST_GROWTH


@exact_kernel
def _update_direct(
    scale: Floats, first: int, n: int, products: Floats, share: int, factor: float, change: float
) -> None:
    """Update the scale matrix of one neuron in place: factor S + change s s', with s at `share` of `products`."""
    share = share & PLACE
    for j in range(n):
        here = products[share + j]
        row = (first + j * n) & PLACE
        # Exceeds the rounding error in any direction, so that the matrix stays positive semidefinite.
        margin = ROUNDING * n * scale[row + j]
        for jj in range(n):  # the product of the two shares comes first: the matrix stays exactly symmetric
            scale[row + jj] = factor * scale[row + jj] + change * (here * products[share + jj])
        scale[row + j] = max(scale[row + j], 0.0) + margin


@exact_kernel
def _limit_scale(scale: Floats, first: int, n: int, limit: float) -> None:
    """Scale a matrix down until no diagonal element exceeds the limit.

    Outliers inflate every direction, but only data shrink one: this bounds the unobserved directions.
    """
    largest = 0.0
    for j in range(n):
        largest = max(largest, scale[(first + j * (n + 1)) & PLACE])
    if largest > limit:
        for k in range(n * n):
            scale[first + k] *= limit / largest


@exact_kernel
def _update_full(
    loc: Floats, scale: Floats, shapes: Floats, layer: int, work: Floats, products: Floats, gain: float, limit: float
) -> None:
    """Condition the weights of each neuron on its pre-activation, Eqs. (12) and (13); full covariance."""
    n_in, n_out, at_loc, at_scale = layout(shapes, layer)
    for i in range(n_out):
        step, factor, change = work[layer, A_STEP, i], work[layer, FACTOR, i], work[layer, CHANGE, i]
        if step == 0.0 and change == 0.0:
            continue  # an inactive neuron: its update is zero
        first = at_scale + i * n_in * n_in
        share = (at_loc + i * n_in) & PLACE
        if _is_delicate(scale, first, n_in, layer, work, i, gain, limit):
            prior, post = work[layer, A_SCALE, i], work[layer, A_POST, i]
            z, row = work[layer, Z_MEAN], products[share : share + n_in]
            update_factorised(scale, first, n_in, z, gain, prior, post, factor, row)
        else:
            for j in range(n_in):
                products[share + j] *= work[layer, INVERSE, i]
            _update_direct(scale, first, n_in, products, share, factor, change)
        for j in range(n_in):
            loc[at_loc + j * n_out + i] += step * products[share + j]
        _limit_scale(scale, first, n_in, limit)


@kernel
def pair_products(z: Floats) -> Floats:
    """Return the products z_j z_k of all rows j <= k of z (width, n), shape (pairs, n).

    The order of the pairs is that of numpy.triu_indices.
    """
    width, n = z.shape
    pairs = np.empty((width * (width + 1) // 2, n))
    at = 0
    for j in range(width):
        for k in range(j, width):
            for sample in range(n):
                pairs[at, sample] = z[j, sample] * z[k, sample]
            at += 1
    return pairs


@inlined_kernel
def _random_walk(scale: Floats, full: bool, shapes: Floats, per_layer: Floats, weight: float) -> None:
    """Add the process noise of each layer, times the weight of a sample, to the squared scales of its weights."""
    for layer in range(len(shapes)):
        n_in, n_out, _, at = layout(shapes, layer)
        walk = weight * per_layer[1, layer]
        if walk > 0.0:
            for k in range(n_in * n_out):
                scale[at + (k * n_in + k % n_in if full else k)] += walk


@kernel
def learn(
    loc: Floats,
    scale: Floats,
    shapes: Floats,
    per_layer: Floats,
    per_output: Floats,
    dof: float,
    max_dof: float,
    slope: float,
    weight: float,
    outlier: Floats,
    exact: bool,
    inputs: Floats,
    targets: Floats,
    errors: Floats,
    stop: int,
) -> tuple[int, float, int]:
    """Learn from samples in their order, in place.

    Returns the number of samples learned from, the new dof, and whether the last sample was suspicious.

    Implements Algorithm 1 of the HABNN paper per sample. Stops before the first sample that is not finite or would
    overflow. `parameters.Parameters` describes the arrays `shapes`, `per_layer` and `per_output`.

    Parameters
    ----------
    weight : float
        Number of samples that each sample counts as: 1, or 1 / k in one of k tempered passes, whose `per_output` has k
        times the noise variance.
    outlier : array, shape (2,)
        Standardised residual c at which the weight w^2 = 1 / (1 + r^2 / c^2) of an observation is one half, infinity
        to weight all equally; and the mean of w^4 r^2 for a standard normal r, which makes the noise estimate unbiased.
    exact : bool
        Whether the weights of the output layer take the D of the observation instead of that of the pre-activation.
    inputs : array, shape (n, n_inputs)
    targets : array, shape (n, n_outputs)
    errors : array, shape (n_outputs,)
        The squared errors of the predictions before each update are added to it.
    stop : {NEVER, AT_SUSPICION, AT_USUAL_SIZE}
    """
    n_layers = len(shapes)
    full = scale.size > loc.size
    work = np.ones((n_layers, N_ROWS, whole_lanes(shapes[:, :2].max())))
    products = np.empty(loc.size if full else 0)
    poly, scratch = np.empty(2 * X_ORDER), np.ones(SCRATCH_SHAPE)
    v, suspicion = -1.0, ORDINARY
    for n in range(len(inputs)):
        if v != 1.0 / dof:
            v = 1.0 / dof
            dof_polynomials(v, poly)
        forward(loc, scale, shapes, per_layer, inputs, n, v, slope, poly, work, products, scratch)
        if not _can_learn(work, shapes, targets, n):
            return n, dof, ORDINARY
        suspicion = _suspicion(inputs, targets, n, per_output, v, n_layers - 1, work, errors)
        _observe(targets, n, per_output, weight, outlier, v, n_layers - 1, work)
        for layer in range(n_layers - 1, -1, -1):
            distance = _compare(shapes, layer, work, per_layer[0, layer], v, weight, exact and layer == n_layers - 1)
            if layer > 0:
                _update_inputs(loc, shapes, layer, work, distance, v)
            if full:
                _update_full(loc, scale, shapes, layer, work, products, per_layer[0, layer], per_layer[2, layer])
            else:
                _update_diagonal(loc, scale, shapes, layer, work, per_layer[2, layer])
        dof = min(dof + weight, max_dof)
        _random_walk(scale, full, shapes, per_layer, weight)
        if (stop == AT_SUSPICION and suspicion != ORDINARY) or (stop == AT_USUAL_SIZE and suspicion != LARGE):
            return n + 1, dof, suspicion
    return len(inputs), dof, suspicion
