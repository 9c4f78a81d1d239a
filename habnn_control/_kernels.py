"""The network's sequential loops, compiled: forward pass, backward pass, learning from a stream of samples.

Layouts: a layer's locations are (n_in + 1, n_out) with the bias last, so that the inner loops run over neurons; its
squared scales have the same shape ("diagonal") or are (n_out, n_in + 1, n_in + 1) ("full"). All layers lie in one flat
array each; `shapes` holds a row (n_in + 1, n_out, start in loc, start in scale) for each layer, and `n_in` below counts
the bias. v is 1 / dof, gain the factor 1 / sqrt(fan).
"""

from math import isfinite

import numpy as np

from habnn_control._jit import Floats, exact_kernel, kernel
from habnn_control._rectifier import SCRATCH_SHAPE, TINY, dof_polynomials, rectify
from habnn_control._tails import X_ORDER

NARROW = 4  # a layer with fewer neurons is worked along its inputs
SMALLEST_SHARE = 1e-16  # of a squared scale that one update can leave: less cannot be told from rounding

# Rows of the workspace of one layer: moments of its inputs z and pre-activations a, and their changes by the data.
Z_MEAN, Z_VAR, A_MEAN, A_SCALE, CROSS, A_STEP, A_POST, FACTOR, Z_STEP, Z_PRIOR, Z_POST = range(11)
N_ROWS = 11


@kernel
def _forward_diagonal(loc: Floats, scale: Floats, shape: Floats, work: Floats, v: float) -> None:
    """Sum locations and squared scales over a layer's inputs, one squared scale a weight."""
    n_in, n_out, at = shape[0], shape[1], shape[2]
    z_mean, z_var, a_mean, a_scale = work[Z_MEAN], work[Z_VAR], work[A_MEAN], work[A_SCALE]
    to_scale = 1.0 - 2.0 * v
    if n_out < NARROW:
        for i in range(n_out):
            mean = spread = 0.0
            for j in range(n_in):
                w, m = loc[at + j * n_out + i], z_mean[j]
                mean += w * m
                spread += w * w * to_scale * z_var[j] + scale[at + j * n_out + i] * (m * m + z_var[j])
            a_mean[i], a_scale[i] = mean, spread
        return
    for i in range(n_out):
        a_mean[i] = a_scale[i] = 0.0
    for j in range(n_in):
        m, part, square = z_mean[j], z_var[j] * to_scale, z_mean[j] ** 2 + z_var[j]
        w, s = loc[at + j * n_out : at + (j + 1) * n_out], scale[at + j * n_out : at + (j + 1) * n_out]
        for i in range(n_out):
            a_mean[i] += w[i] * m
            a_scale[i] += w[i] * w[i] * part + s[i] * square


@kernel
def _forward_full(loc: Floats, scale: Floats, shape: Floats, work: Floats, v: float, products: Floats) -> None:
    """Sum locations and squared scales over a layer's inputs, one scale matrix S a neuron; S z goes to `products`."""
    n_in, n_out, at_loc, at_scale = shape[0], shape[1], shape[2], shape[3]
    z_mean, z_var = work[Z_MEAN], work[Z_VAR]
    for i in range(n_out):
        mean = spread = 0.0
        for j in range(n_in):
            start = at_scale + (i * n_in + j) * n_in
            row = scale[start : start + n_in]
            product = 0.0
            for jj in range(n_in):
                product += row[jj] * z_mean[jj]
            products[at_loc + i * n_in + j] = product
            w = loc[at_loc + j * n_out + i]
            mean += w * z_mean[j]
            spread += product * z_mean[j] + (row[j] + w * w * (1.0 - 2.0 * v)) * z_var[j]
        work[A_MEAN, i], work[A_SCALE, i] = mean, max(spread, 0.0)


@kernel
def _forward(
    loc: Floats,
    scale: Floats,
    shapes: Floats,
    gains: Floats,
    x: Floats,
    v: float,
    slope: float,
    poly: Floats,
    work: Floats,
    products: Floats,
    scratch: Floats,
) -> None:
    """Pass one input through all layers, keeping each layer's moments in `work`."""
    for j in range(x.size):
        work[0, Z_MEAN, j] = x[j]
        work[0, Z_VAR, j] = 0.0
    for layer in range(len(shapes)):
        n_in, n_out, gain = shapes[layer, 0], shapes[layer, 1], gains[layer]
        here = work[layer]
        here[Z_MEAN, n_in - 1] = 1.0
        here[Z_VAR, n_in - 1] = 0.0
        if products.size > 0:
            _forward_full(loc, scale, shapes[layer], here, v, products)
        else:
            _forward_diagonal(loc, scale, shapes[layer], here, v)
        a_mean, a_scale = here[A_MEAN, :n_out], here[A_SCALE, :n_out]
        for i in range(n_out):
            a_mean[i] *= gain
            a_scale[i] *= gain * gain
        if layer + 1 < len(shapes):
            z_mean, z_var = work[layer + 1, Z_MEAN, :n_out], work[layer + 1, Z_VAR, :n_out]
            rectify(a_mean, a_scale, v, slope, poly, z_mean, z_var, here[CROSS, :n_out], scratch)


@kernel
def _can_learn(work: Floats, shapes: Floats, y: Floats) -> bool:
    """Tell whether all pre-activations and the squared errors are finite numbers."""
    total = 0.0
    for layer in range(len(shapes)):
        for i in range(shapes[layer, 1]):
            total += abs(work[layer, A_MEAN, i]) + work[layer, A_SCALE, i]
    for i in range(y.size):
        total += (y[i] - work[len(shapes) - 1, A_MEAN, i]) ** 2
    return isfinite(total)


@kernel
def _posterior_factor(step: float, post: float, prior: float, v: float) -> float:
    """Return (nu + D) / (nu + 1) with D = (step^2 + post) / prior of one conditioning variable, nu = 1 / v."""
    return (1.0 + v * (step * step + post) / prior) / (1.0 + v) if prior > 0.0 else 1.0


@kernel
def _observe(y: Floats, noise: Floats, noise_count: Floats, v: float, work: Floats) -> None:
    """Condition the output layer on y, and the noise variances on what is left."""
    for i in range(y.size):
        prior = work[A_SCALE, i]
        error = y[i] - work[A_MEAN, i]
        total = prior + noise[i] * (1.0 - 2.0 * v)
        share = prior / total
        work[A_STEP, i] = share * error
        work[A_POST, i] = _posterior_factor(error, 0.0, total, v) * prior * (1.0 - share)
        if noise_count[i] < np.inf:
            left = (1.0 - share) * error
            noise_count[i] += 1.0
            # Sample n weighs in proportion to n: what is left of the first ones is the network's error, not noise.
            noise[i] += 2.0 / (noise_count[i] + 1.0) * (left * left + share * noise[i] - noise[i])


@kernel
def _sum_over_neurons(loc: Floats, shape: Floats, work: Floats, gain: float) -> float:
    """Add up what a layer's pre-activations say about each of its inputs; return the layer's summed distance D."""
    n_in, n_out, at = shape[0], shape[1], shape[2]
    a_scale, a_step, a_post, inverse = work[A_SCALE], work[A_STEP], work[A_POST], work[FACTOR]
    z_step, z_prior, z_post = work[Z_STEP], work[Z_PRIOR], work[Z_POST]
    distance = 0.0
    for i in range(n_out):
        inverse[i] = gain / a_scale[i] if a_scale[i] > 0.0 else 0.0
        distance += (a_step[i] * a_step[i] + a_post[i]) / a_scale[i] if a_scale[i] > 0.0 else 1.0
    if n_out < NARROW:
        for j in range(n_in):
            z_step[j] = z_prior[j] = z_post[j] = 0.0
        for i in range(n_out):
            c, step, prior, post = inverse[i], a_step[i], a_scale[i], a_post[i]
            for j in range(n_in):
                w = c * loc[at + j * n_out + i]
                z_step[j] += w * step
                z_prior[j] += w * w * prior
                z_post[j] += w * w * post
        return distance
    for j in range(n_in):
        row = loc[at + j * n_out : at + (j + 1) * n_out]
        step = prior = post = 0.0
        for i in range(n_out):
            w = inverse[i] * row[i]
            step += w * a_step[i]
            prior += w * w * a_scale[i]
            post += w * w * a_post[i]
        z_step[j], z_prior[j], z_post[j] = step, prior, post
    return distance


@kernel
def _update_inputs(loc: Floats, shape: Floats, here: Floats, before: Floats, gain: float, v: float) -> None:
    """Condition a layer's inputs on its pre-activations, then the pre-activations they came from."""
    n_out = shape[1]
    distance = _sum_over_neurons(loc, shape, here, gain)
    factor = (1.0 + v * distance) / (1.0 + v * n_out)
    z_var, z_step, z_prior, z_post = here[Z_VAR], here[Z_STEP], here[Z_PRIOR], here[Z_POST]
    a_prior, cross, a_step, a_post = before[A_SCALE], before[CROSS], before[A_STEP], before[A_POST]
    for j in range(shape[0] - 1):
        prior = z_var[j] * (1.0 - 2.0 * v)
        step = prior * z_step[j]
        # Neurons are taken as independent: together they may claim to explain more than there is.
        post = max(factor * (prior - prior * prior * z_prior[j]) + prior * prior * z_post[j], SMALLEST_SHARE * prior)
        slope = cross[j] / z_var[j] if z_var[j] > TINY else 0.0
        kept = max(a_prior[j] - slope * slope * prior, 0.0)
        spread = (1.0 + v * (step * step + post) / prior) / (1.0 + v) if z_var[j] > TINY else 1.0
        a_step[j] = slope * step
        a_post[j] = spread * kept + slope * slope * post


@kernel
def _update_weights(
    loc: Floats, scale: Floats, shape: Floats, here: Floats, gain: float, v: float, products: Floats
) -> None:
    """Condition each neuron's weights on its pre-activation."""
    n_out = shape[1]
    prior, step, post, factor = here[A_SCALE], here[A_STEP], here[A_POST], here[FACTOR]
    for i in range(n_out):  # step and post become the coefficients of S z and of its square
        inverse = gain / prior[i] if prior[i] > 0.0 else 0.0
        factor[i] = _posterior_factor(step[i], post[i], prior[i], v)
        post[i] = (post[i] - factor[i] * prior[i]) * inverse * inverse
        step[i] *= inverse
    if products.size > 0:
        _update_full(loc, scale, shape, step, post, factor, products)
    else:
        _update_diagonal(loc, scale, shape, step, post, factor, here[Z_MEAN])


@kernel
def _update_diagonal(
    loc: Floats, scale: Floats, shape: Floats, step: Floats, post: Floats, factor: Floats, z_mean: Floats
) -> None:
    n_in, n_out, at = shape[0], shape[1], shape[2]
    if n_out < NARROW:
        for i in range(n_out):
            a, b, c = step[i], post[i], factor[i]
            for j in range(n_in):
                k = at + j * n_out + i
                s = scale[k]
                product = s * z_mean[j]
                loc[k] += a * product
                scale[k] = max(c * s + b * product * product, SMALLEST_SHARE * s)
        return
    for j in range(n_in):
        m = z_mean[j]
        w, s = loc[at + j * n_out : at + (j + 1) * n_out], scale[at + j * n_out : at + (j + 1) * n_out]
        for i in range(n_out):
            product = s[i] * m
            w[i] += step[i] * product
            s[i] = max(factor[i] * s[i] + post[i] * product * product, SMALLEST_SHARE * s[i])


@exact_kernel
def _update_full(
    loc: Floats, scale: Floats, shape: Floats, step: Floats, post: Floats, factor: Floats, products: Floats
) -> None:
    n_in, n_out, at_loc, at_scale = shape[0], shape[1], shape[2], shape[3]
    for i in range(n_out):
        if step[i] == 0.0 and post[i] == 0.0:
            continue  # a silent neuron learns nothing
        product = products[at_loc + i * n_in : at_loc + (i + 1) * n_in]
        for j in range(n_in):
            loc[at_loc + j * n_out + i] += step[i] * product[j]
            start = at_scale + (i * n_in + j) * n_in
            row = scale[start : start + n_in]
            least = SMALLEST_SHARE * row[j]
            keep, add, here = factor[i], post[i], product[j]
            for jj in range(n_in):  # the product of the two inputs first: rounds to the same number on both sides
                row[jj] = keep * row[jj] + add * (here * product[jj])
            row[j] = max(row[j], least)


@kernel
def pair_products(z: Floats) -> Floats:
    """Return z_j z_k for all j <= k of each row, in the order of numpy.triu_indices."""
    n, width = z.shape
    pairs = np.empty((n, width * (width + 1) // 2))
    for row in range(n):
        at = 0
        for j in range(width):
            factor = z[row, j]
            for k in range(j, width):
                pairs[row, at + k - j] = factor * z[row, k]
            at += width - j
    return pairs


@kernel
def _random_walk(scale: Floats, full: bool, shapes: Floats, walk: Floats) -> None:
    """Let every weight drift: add the layer's `walk` to its squared scales."""
    for layer in range(len(shapes)):
        n_in, n_out, at = shapes[layer, 0], shapes[layer, 1], shapes[layer, 3]
        if walk[layer] > 0.0:
            for k in range(n_in * n_out):
                scale[at + (k * n_in + k % n_in if full else k)] += walk[layer]


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
    inputs: Floats,
    targets: Floats,
) -> tuple[int, float]:
    """Update the network with the samples in their order; return how many were taken, and the new dof.

    Stops before the first sample that is not finite or would overflow. `per_layer` has the rows gain and random walk,
    `per_output` the rows noise variance and its count of samples.
    """
    n_layers = len(shapes)
    gains, walk, noise, noise_count = per_layer[0], per_layer[1], per_output[0], per_output[1]
    full = scale.size > loc.size
    work = np.empty((n_layers, N_ROWS, shapes[:, :2].max() + 1))
    products = np.empty(loc.size if full else 0)
    poly, scratch = np.empty(2 * X_ORDER), np.empty(SCRATCH_SHAPE)
    v = -1.0
    for n in range(len(inputs)):
        if v != 1.0 / dof:
            v = 1.0 / dof
            dof_polynomials(v, poly)
        _forward(loc, scale, shapes, gains, inputs[n], v, slope, poly, work, products, scratch)
        if not _can_learn(work, shapes, targets[n]):
            return n, dof
        _observe(targets[n], noise, noise_count, v, work[n_layers - 1])
        for layer in range(n_layers - 1, -1, -1):
            if layer > 0:
                _update_inputs(loc, shapes[layer], work[layer], work[layer - 1], gains[layer], v)
            _update_weights(loc, scale, shapes[layer], work[layer], gains[layer], v, products)
        dof = min(dof + 1.0, max_dof)
        _random_walk(scale, full, shapes, walk)
    return len(inputs), dof
