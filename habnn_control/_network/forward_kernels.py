"""Compiled forward pass of one sample through the network, and the workspace that it shares with the backward pass.

Layout: the locations of a layer are (n_in + 1, n_out) with the bias last, so that the inner loops run over neurons. Its
squared scales are (n_in + 1, n_out) with diagonal, (n_out, n_in + 1, n_in + 1) with full covariance. The locations of
all layers are stored in one flat array, their squared scales in another. Each row of `shapes` describes one layer:
n_in + 1, n_out, first index in loc, first index in scale. Below, `n_in` counts the bias.

Symbols: z are the inputs of a layer, a its pre-activations, v = 1 / nu the inverse dof, gain = 1 / sqrt(fan). The
posterior of a variable is stored as step (change of its location) and post (its new squared scale). D is the squared
Mahalanobis distance of Eq. (13) of the HABNN paper.
"""

from habnn_control._network.jit import Floats, inlined_kernel
from habnn_control._network.rectifier import BLOCK, COV, MEAN, MU, TAU2, VAR, rectify_block, whole_lanes

NARROW = 4  # in a layer with fewer neurons the inner loop runs over the inputs

# Rows of the workspace per layer: moments of its inputs z and pre-activations a, and their changes by the sample.
Z_MEAN, Z_VAR, A_MEAN, A_SCALE, CROSS, A_STEP, A_POST, INVERSE, FACTOR, CHANGE, Z_STEP, Z_PRIOR, Z_POST = range(13)
N_ROWS = 13

# Masks that change no size and no index that fits in memory. They tell the compiler that an index is not negative.
# Without them, numba tests each index for counting from the end, which prevents vectorisation. Slices would have the
# same effect, but each costs an atomic reference count.
SIZE, PLACE = 2**28 - 1, 2**58 - 1


@inlined_kernel
def layout(shapes: Floats, layer: int) -> tuple[int, int, int, int]:
    """Return n_in and n_out of a layer, and its first index in loc and in scale."""
    return shapes[layer, 0] & SIZE, shapes[layer, 1] & SIZE, shapes[layer, 2] & PLACE, shapes[layer, 3] & PLACE


@inlined_kernel
def _forward_diagonal(loc: Floats, scale: Floats, shapes: Floats, layer: int, work: Floats, v: float) -> None:
    """Write location and squared scale of the pre-activations of a layer to `work`, gain excluded; diagonal covariance.

    Implements Eqs. (6) and (7) of the HABNN paper.
    """
    n_in, n_out, at, _ = layout(shapes, layer)
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
    """Write location and squared scale of the pre-activations of a layer to `work`, gain excluded; full covariance.

    Implements Eqs. (6) and (7) of the HABNN paper. The products S z, with the scale matrix S of each neuron, are kept
    in `products` for the update.
    """
    n_in, n_out, at_loc, at_scale = layout(shapes, layer)
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
def forward(
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
    """Propagate input n through all layers and write the moments of each layer to `work`."""
    for j in range(inputs.shape[1]):
        work[0, Z_MEAN, j] = inputs[n, j]
        work[0, Z_VAR, j] = 0.0
    for layer in range(len(shapes)):
        n_in, n_out, _, _ = layout(shapes, layer)
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
    """Write the moments of the next layer's inputs, and Cov(a, z), to `work`, from the pre-activations of a layer."""
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
