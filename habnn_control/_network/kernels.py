"""The network's sequential loops, compiled: forward pass, backward pass, learning from a stream of samples.

Layouts: a layer's locations are (n_in + 1, n_out) with the bias last, so that the inner loops run over neurons; its
squared scales have the same shape ("diagonal") or are (n_out, n_in + 1, n_in + 1) ("full"). All layers lie in one flat
array each; `shapes` holds a row (n_in + 1, n_out, start in loc, start in scale) for each layer, and `n_in` below counts
the bias. v is 1 / dof, gain the factor 1 / sqrt(fan).
"""

from math import isfinite, sqrt

import numpy as np

from habnn_control._network.jit import Floats, exact_kernel, inlined_kernel, kernel
from habnn_control._network.rectifier import (
    BLOCK,
    COV,
    MEAN,
    MU,
    SCRATCH_SHAPE,
    TAU2,
    TINY,
    VAR,
    dof_polynomials,
    rectify_block,
    whole_lanes,
)
from habnn_control._network.tails import X_ORDER

NARROW = 4  # a layer with fewer neurons is worked along its inputs
LARGEST_FACTOR = 100.0  # by which one surprise may widen the scales: an observation further off counts as that far
ROUNDING = 4e-16
SMALLEST_SHARE = 1e-16  # of a squared scale that one update can leave: less cannot be told from rounding

# Rows of the workspace of one layer: moments of its inputs z and pre-activations a, and their changes by the data.
Z_MEAN, Z_VAR, A_MEAN, A_SCALE, CROSS, A_STEP, A_POST, INVERSE, FACTOR, CHANGE, Z_STEP, Z_PRIOR, Z_POST = range(13)
N_ROWS = 13

# Masks that change no size or place that fits in memory. They tell the compiler that an index is not negative: else it
# tests each for counting from the end, and the loop stays out of the vector lanes. Slices would tell it too, but each
# costs a locked reference count.
SIZE, PLACE = 2**28 - 1, 2**58 - 1


@inlined_kernel
def _layout(shapes: Floats, layer: int) -> tuple[int, int, int, int]:
    """Return a layer's n_in and n_out, and where it starts in loc and in scale."""
    return shapes[layer, 0] & SIZE, shapes[layer, 1] & SIZE, shapes[layer, 2] & PLACE, shapes[layer, 3] & PLACE


@inlined_kernel
def _forward_diagonal(loc: Floats, scale: Floats, shapes: Floats, layer: int, work: Floats, v: float) -> None:
    """Sum locations and squared scales over a layer's inputs, one squared scale a weight."""
    n_in, n_out, at, _ = _layout(shapes, layer)
    to_scale = 1.0 - 2.0 * v
    if n_out < NARROW:
        for i in range(n_out):
            mean = spread = 0.0
            for j in range(n_in):
                w, s = loc[at + j * n_out + i], scale[at + j * n_out + i]
                m, var = work[layer, Z_MEAN, j], work[layer, Z_VAR, j]
                mean += w * m
                spread += w * w * to_scale * var + s * (m * m + var)
            work[layer, A_MEAN, i], work[layer, A_SCALE, i] = mean, spread
        return
    for i in range(n_out):
        work[layer, A_MEAN, i] = work[layer, A_SCALE, i] = 0.0
    for j in range(n_in):
        m, var = work[layer, Z_MEAN, j], work[layer, Z_VAR, j]
        part, square = var * to_scale, m * m + var
        for i in range(n_out):
            w, s = loc[at + j * n_out + i], scale[at + j * n_out + i]
            work[layer, A_MEAN, i] += w * m
            work[layer, A_SCALE, i] += w * w * part + s * square


@inlined_kernel
def _forward_full(
    loc: Floats, scale: Floats, shapes: Floats, layer: int, work: Floats, v: float, products: Floats
) -> None:
    """Sum locations and squared scales over a layer's inputs, one scale matrix S a neuron; S z goes to `products`."""
    n_in, n_out, at_loc, at_scale = _layout(shapes, layer)
    for i in range(n_out):
        mean = spread = 0.0
        for j in range(n_in):
            row = (at_scale + (i * n_in + j) * n_in) & PLACE
            product = 0.0
            for jj in range(n_in):
                product += scale[row + jj] * work[layer, Z_MEAN, jj]
            products[at_loc + i * n_in + j] = product
            w, m = loc[at_loc + j * n_out + i], work[layer, Z_MEAN, j]
            mean += w * m
            spread += product * m + (scale[row + j] + w * w * (1.0 - 2.0 * v)) * work[layer, Z_VAR, j]
        work[layer, A_MEAN, i], work[layer, A_SCALE, i] = mean, max(spread, 0.0)


@inlined_kernel
def _forward(
    loc: Floats,
    scale: Floats,
    shapes: Floats,
    per_layer: Floats,
    inputs: Floats,
    n: int,
    v: float,
    slope: float,
    poly: Floats,
    work: Floats,
    products: Floats,
    scratch: Floats,
) -> None:
    """Pass input n through all layers, keeping each layer's moments in `work`."""
    for j in range(inputs.shape[1]):
        work[0, Z_MEAN, j] = inputs[n, j]
        work[0, Z_VAR, j] = 0.0
    for layer in range(len(shapes)):
        n_in, n_out, _, _ = _layout(shapes, layer)
        gain = per_layer[0, layer]
        work[layer, Z_MEAN, n_in - 1] = 1.0
        work[layer, Z_VAR, n_in - 1] = 0.0
        if products.size > 0:
            _forward_full(loc, scale, shapes, layer, work, v, products)
        else:
            _forward_diagonal(loc, scale, shapes, layer, work, v)
        for i in range(n_out):
            work[layer, A_MEAN, i] *= gain
            work[layer, A_SCALE, i] *= gain * gain
        if layer + 1 < len(shapes):
            _activate(n_out, layer, v, slope, poly, work, scratch)


@inlined_kernel
def _activate(n_out: int, layer: int, v: float, slope: float, poly: Floats, work: Floats, scratch: Floats) -> None:
    """Turn a layer's pre-activations into the next layer's inputs, block by block."""
    for start in range(0, n_out, BLOCK):
        n = whole_lanes(min(BLOCK, n_out - start))
        for i in range(n):
            scratch[MU + i] = work[layer, A_MEAN, start + i]
            scratch[TAU2 + i] = work[layer, A_SCALE, start + i]
        rectify_block(n, v, slope, poly, scratch)
        for i in range(n):
            work[layer + 1, Z_MEAN, start + i] = scratch[MEAN + i]
            work[layer + 1, Z_VAR, start + i] = scratch[VAR + i]
            work[layer, CROSS, start + i] = scratch[COV + i]


@inlined_kernel
def _can_learn(work: Floats, shapes: Floats, targets: Floats, n: int) -> bool:
    """Tell whether all pre-activations and the squared errors are finite numbers."""
    total = 0.0
    for layer in range(len(shapes)):
        for i in range(shapes[layer, 1]):
            total += abs(work[layer, A_MEAN, i]) + work[layer, A_SCALE, i]
    for i in range(targets.shape[1]):
        total += (targets[n, i] - work[len(shapes) - 1, A_MEAN, i]) ** 2
    return isfinite(total)


@inlined_kernel
def _posterior_factor(distance: float, v: float) -> float:
    """Return (nu + D) / (nu + 1), D the squared distance of one conditioning variable, nu = 1 / v."""
    return (1.0 + v * distance) / (1.0 + v)


@inlined_kernel
def _observe(targets: Floats, n: int, per_output: Floats, v: float, layer: int, work: Floats) -> None:
    """Condition the output layer on target n, and the noise variances on what is left."""
    for i in range(targets.shape[1]):
        noise, count, prior = per_output[0, i], per_output[1, i], work[layer, A_SCALE, i]
        error = targets[n, i] - work[layer, A_MEAN, i]
        total = prior + noise * (1.0 - 2.0 * v)
        if v > 0.0:
            reach = sqrt(LARGEST_FACTOR / v * total)
            error = min(max(error, -reach), reach)
        share = prior / total
        work[layer, A_STEP, i] = share * error
        work[layer, A_POST, i] = _posterior_factor(error * error / total, v) * prior * (1.0 - share)
        if count < np.inf:
            left = (1.0 - share) * error
            per_output[1, i] = count + 1.0
            # Sample n weighs in proportion to n: what is left of the first ones is the network's error, not noise.
            per_output[0, i] += 2.0 / (count + 2.0) * (left * left + share * noise - noise)


@inlined_kernel
def _compare(shapes: Floats, layer: int, work: Floats, gain: float, v: float) -> float:
    """Work out what the conditioned pre-activations mean for all that lies below; return the layer's summed D."""
    n_out = shapes[layer, 1]
    total = 0.0
    for i in range(n_out):
        prior, step, post = work[layer, A_SCALE, i], work[layer, A_STEP, i], work[layer, A_POST, i]
        inverse = 1.0 / prior if prior > 0.0 else 0.0
        distance = (step * step + post) * inverse if prior > 0.0 else 1.0
        factor = _posterior_factor(distance, v)
        work[layer, INVERSE, i] = gain * inverse
        work[layer, FACTOR, i] = factor
        work[layer, CHANGE, i] = post - factor * prior
        total += distance
    return total


@inlined_kernel
def _sum_over_neurons(loc: Floats, shapes: Floats, layer: int, work: Floats) -> None:
    """Add up what a layer's pre-activations say about each of its inputs."""
    n_in, n_out, at, _ = _layout(shapes, layer)
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
    """Condition a layer's inputs on its pre-activations, then the pre-activations they came from."""
    n_in, n_out, _, _ = _layout(shapes, layer)
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
        # Neurons are taken as independent: together they may claim to explain more than there is.
        post = max(post, SMALLEST_SHARE * prior)
        slope = work[layer - 1, CROSS, j] * inverse
        kept = max(work[layer - 1, A_SCALE, j] - slope * slope * prior, 0.0)
        spread = _posterior_factor((step * step + post) * inverse / to_scale, v) if known else 1.0
        work[layer - 1, A_STEP, j] = slope * step
        work[layer - 1, A_POST, j] = spread * kept + slope * slope * post


@inlined_kernel
def _update_diagonal(loc: Floats, scale: Floats, shapes: Floats, layer: int, work: Floats, limit: float) -> None:
    """Condition each neuron's weights on its pre-activation, one squared scale a weight."""
    n_in, n_out, at, _ = _layout(shapes, layer)
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
def _update_full(
    loc: Floats, scale: Floats, shapes: Floats, layer: int, work: Floats, products: Floats, limit: float
) -> None:
    """Condition each neuron's weights on its pre-activation, one scale matrix a neuron."""
    n_in, n_out, at_loc, at_scale = _layout(shapes, layer)
    for i in range(n_out):
        step, factor, change = work[layer, A_STEP, i], work[layer, FACTOR, i], work[layer, CHANGE, i]
        if step == 0.0 and change == 0.0:
            continue  # a silent neuron learns nothing
        largest = 0.0
        share = (at_loc + i * n_in) & PLACE
        for j in range(n_in):
            products[share + j] *= work[layer, INVERSE, i]
        for j in range(n_in):
            here = products[share + j]
            loc[at_loc + j * n_out + i] += step * here
            row = (at_scale + (i * n_in + j) * n_in) & PLACE
            # More than rounding can take from any direction: the matrix stays positive semidefinite.
            margin = ROUNDING * n_in * scale[row + j]
            for jj in range(n_in):  # the product of the two shares first: rounds to the same number on both sides
                scale[row + jj] = factor * scale[row + jj] + change * (here * products[share + jj])
            scale[row + j] = max(scale[row + j], 0.0) + margin
            largest = max(largest, scale[row + j])
        if largest > limit:  # a surprise widens every direction; those never observed must not widen for ever
            first = at_scale + i * n_in * n_in
            for k in range(n_in * n_in):
                scale[first + k] *= limit / largest


@kernel
def pair_products(z: Floats) -> Floats:
    """Return z_j z_k for all rows j <= k of z (width, n), in the order of numpy.triu_indices; shape (pairs, n)."""
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
def _random_walk(scale: Floats, full: bool, shapes: Floats, per_layer: Floats) -> None:
    """Let every weight drift: add the layer's walk to its squared scales."""
    for layer in range(len(shapes)):
        n_in, n_out, _, at = _layout(shapes, layer)
        walk = per_layer[1, layer]
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
    inputs: Floats,
    targets: Floats,
) -> tuple[int, float]:
    """Update the network with the samples in their order; return how many were taken, and the new dof.

    Stops before the first sample that is not finite or would overflow. `per_layer` has the rows gain, random walk and
    largest squared scale, `per_output` the rows noise variance and its count of samples.
    """
    n_layers = len(shapes)
    full = scale.size > loc.size
    work = np.ones((n_layers, N_ROWS, whole_lanes(shapes[:, :2].max())))
    products = np.empty(loc.size if full else 0)
    poly, scratch = np.empty(2 * X_ORDER), np.ones(SCRATCH_SHAPE)
    v = -1.0
    for n in range(len(inputs)):
        if v != 1.0 / dof:
            v = 1.0 / dof
            dof_polynomials(v, poly)
        _forward(loc, scale, shapes, per_layer, inputs, n, v, slope, poly, work, products, scratch)
        if not _can_learn(work, shapes, targets, n):
            return n, dof
        _observe(targets, n, per_output, v, n_layers - 1, work)
        for layer in range(n_layers - 1, -1, -1):
            distance = _compare(shapes, layer, work, per_layer[0, layer], v)
            if layer > 0:
                _update_inputs(loc, shapes, layer, work, distance, v)
            if full:
                _update_full(loc, scale, shapes, layer, work, products, per_layer[2, layer])
            else:
                _update_diagonal(loc, scale, shapes, layer, work, per_layer[2, layer])
        dof = min(dof + 1.0, max_dof)
        _random_walk(scale, full, shapes, per_layer)
    return len(inputs), dof
