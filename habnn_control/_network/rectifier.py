"""Compiled moments of a t variable through ReLU and leaky ReLU, for many neurons with one common dof."""

from math import log, sqrt

import numpy as np
from numpy.polynomial.chebyshev import cheb2poly

from habnn_control._network.jit import Floats, inlined_exact_kernel, inlined_kernel, kernel
from habnn_control._network.tails import CENTRE, V_ORDER, X_ORDER, chebyshev_table

# Neurons are processed in blocks of whole vector registers, at constant offsets of one flat array. The vectorised loop
# then needs neither a check for overlapping arrays nor a scalar remainder loop.
BLOCK, LANES = 64, 8
MU, TAU2, MEAN, VAR, COV = range(0, 5 * BLOCK, BLOCK)  # offsets of the quantities of a block
SCRATCH_SHAPE = (5 * BLOCK,)
TINY = 1e-300
LARGEST_RATIO = 1e60  # bound on |location| / scale; beyond it the tails are zero in float64

# The tail table in the monomial basis of its argument t, dof axis first; a constant of the compiled code. The monomial
# coefficients are of order one as well, so nothing cancels, and a term costs half of a Chebyshev term.
_POWERS = np.array([[cheb2poly(series) for series in side.T] for side in chebyshev_table()])  # (2, V_ORDER, X_ORDER)
TABLE = np.ascontiguousarray(_POWERS.swapaxes(0, 1).reshape(V_ORDER, 2 * X_ORDER))


@kernel
def dof_polynomials(v: float, out: Floats) -> None:
    """Sum the tail table over its dof axis at dof = 1 / v; write the coefficients of P_1 and P_2 in t to `out`."""
    u = 4.0 * v - 1.0
    before, term = 1.0, u
    for i in range(2 * X_ORDER):
        out[i] = TABLE[0, i]
    for j in range(1, V_ORDER):
        for i in range(2 * X_ORDER):
            out[i] += term * TABLE[j, i]
        before, term = term, 2.0 * u * term - before


# exp and log1p without calls to the C library, which would prevent vectorisation, made of the bit patterns of float64.
# They are not shared with envs/_kernels/elementary.py: the rounding there is part of the reproducible trajectories of
# the plant (no fused operations), and its log serves another range. Here fused operations are allowed, log1p must be
# accurate near u = 0, and exp must saturate. One implementation would change the result bits of the other.
_MANTISSA, _ONE, _TWO_52 = np.int64(0x000FFFFFFFFFFFFF), np.int64(0x3FF0000000000000), np.int64(0x4330000000000000)
_EXPONENT_BITS, _EXPONENT_BIAS = np.int64(52), np.int64(1023)
_TO_EXPONENT = 2.0**52 + 1023
_ROUND = 1.5 * 2.0**52  # adding and subtracting it rounds to an integer
_LN2, _LN2_HIGH, _LN2_LOW = log(2.0), 6.93147180369123816490e-01, 1.90821492927058770002e-10


@inlined_exact_kernel
def _log1p(u: float) -> float:
    """Return log(1 + u) for u >= 0, from the exponent and the mantissa of 1 + u."""
    bits = np.float64(1.0 + u).view(np.int64)
    exponent = np.int64((bits >> _EXPONENT_BITS) | _TWO_52).view(np.float64) - _TO_EXPONENT
    mantissa = np.int64((bits & _MANTISSA) | _ONE).view(np.float64)
    large = mantissa > 1.4142135623730951
    power = exponent + 1.0 if large else exponent
    part = 0.5 * mantissa - 1.0 if large else mantissa - 1.0
    rest = u if power == 0.0 else part  # u itself has the digits that 1 + u rounds off
    s = rest / (2.0 + rest)
    z = s * s
    p = 1 / 13 + z * (1 / 15 + z * (1 / 17 + z * (1 / 19 + z * (1 / 21))))
    p = 1.0 + z * (1 / 3 + z * (1 / 5 + z * (1 / 7 + z * (1 / 9 + z * (1 / 11 + z * p)))))
    return 2.0 * s * p + power * _LN2


@inlined_exact_kernel
def _exp(y: float) -> float:
    """Return exp(y) for y <= 0, at least 3e-308: a power of two times a Taylor series on |r| <= ln(2) / 2."""
    x = max(y, -708.0)
    shifted = x * (1.0 / _LN2) + _ROUND
    k = shifted - _ROUND
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = 1 / 5040 + r * (1 / 40320 + r * (1 / 362880 + r * (1 / 3628800 + r * (1 / 39916800 + r * (1 / 479001600)))))
    p = 1.0 + r * (1.0 + r * (1 / 2 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720 + r * p))))))
    power = (np.float64(shifted).view(np.int64) + _EXPONENT_BIAS) << _EXPONENT_BITS
    return p * np.int64(power).view(np.float64)


@inlined_kernel
def _tail_integrals(x: float, v: float, poly: Floats) -> tuple[float, float]:
    """Return the tail integrals J_1 and J_2 of `tails` beyond x for dof = 1 / v."""
    inverse = 1.0 / (CENTRE + x)
    t = 2.0 * CENTRE * inverse - 1.0
    p1, p2 = poly[X_ORDER - 1], poly[2 * X_ORDER - 1]
    for k in range(X_ORDER - 2, -1, -1):
        p1 = p1 * t + poly[k]
        p2 = p2 * t + poly[X_ORDER + k]
    u = v * x * x
    log_density = -0.5 * (1.0 / v + 1.0) * _log1p(u) if v > 0.0 else -0.5 * x * x
    length = (1.0 + u) * inverse
    j1 = _exp(log_density) * length * length / (1.0 - v)
    return j1 * p1, j1 * p2 * length * 2.0 / (1.0 - 2.0 * v)


@inlined_kernel
def _moments(mu: float, tau2: float, v: float, slope: float, poly: Floats) -> tuple[float, float, float]:
    """Return mean, variance and Cov(a, z) of z = max(a, slope a) for one neuron, Eqs. (9), (10) and (15).

    For a positive location relu(a) = a + relu(-a) is used, so that the tail integral is the small term.
    """
    ratio = 1.0 / (1.0 - 2.0 * v)  # variance / scale_sq
    rest = 1.0 - slope
    tau = sqrt(tau2)
    distance = abs(mu) / tau
    x = distance if distance < LARGEST_RATIO else LARGEST_RATIO  # also where the scale is 0
    j1, j2 = _tail_integrals(x, v, poly)
    positive = mu > 0.0
    relu_mean = (mu if positive else 0.0) + max(tau * j1, TINY if tau2 > 0.0 else 0.0)
    relu_cross = ratio - j2 - x * j1 if positive else j2 + x * j1
    relu_var = (ratio - j2 - 2.0 * x * j1 if positive else j2) - j1 * j1
    cross = tau2 * (slope * ratio + rest * relu_cross)
    var = rest * rest * tau2 * relu_var + slope * (2.0 * cross - slope * ratio * tau2)
    return slope * mu + rest * relu_mean, var, cross


@inlined_kernel
def whole_lanes(n: int) -> int:
    """Return n rounded up to a multiple of LANES."""
    return (n + LANES - 1) // LANES * LANES


@inlined_kernel
def rectify_block(n: int, v: float, slope: float, poly: Floats, scratch: Floats) -> None:
    """Write the moments of z = max(a, slope a) for n <= BLOCK t-distributed a with dof = 1 / v to `scratch`.

    Reads locations and squared scales at MU and TAU2 of `scratch`; writes means, variances and Cov(a, z) at MEAN, VAR
    and COV.
    """
    for i in range(whole_lanes(n)):
        scratch[MEAN + i], scratch[VAR + i], scratch[COV + i] = _moments(
            scratch[MU + i], scratch[TAU2 + i], v, slope, poly
        )


@kernel
def rectify(
    loc: Floats,
    scale_sq: Floats,
    v: float,
    slope: float,
    poly: Floats,
    mean: Floats,
    var: Floats,
    cov: Floats,
    scratch: Floats,
) -> None:
    """Write the moments of `rectify_block` to `mean`, `var` and `cov`, for arrays of any length.

    `scratch` is a workspace of shape SCRATCH_SHAPE.
    """
    for start in range(0, loc.size, BLOCK):
        n = min(BLOCK, loc.size - start)
        for i in range(n):  # plain loops: numba's slice assignment takes as long as the moments
            scratch[MU + i] = loc[start + i]
            scratch[TAU2 + i] = scale_sq[start + i]
        rectify_block(n, v, slope, poly, scratch)
        for i in range(n):
            mean[start + i] = scratch[MEAN + i]
            var[start + i] = scratch[VAR + i]
            cov[start + i] = scratch[COV + i]
