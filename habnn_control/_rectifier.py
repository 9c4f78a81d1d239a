"""Moments through the rectifier, compiled: many neurons at once, one dof for all."""

from math import log, sqrt

import numpy as np

from habnn_control._jit import Floats, exact_kernel, kernel
from habnn_control._tails import CENTRE, V_ORDER, X_ORDER, chebyshev_table

BLOCK = 64  # neurons handled together, the last block padded: loops of constant length fill the vector lanes
# Rows of the scratch array. Helpers take the whole array: passing on a slice of it costs a locked reference count.
MU, TAU2, X, T, P1, P2, SPARE1, SPARE2 = range(8)
SCRATCH_SHAPE = (8, BLOCK)
TINY = 1e-300
LARGEST_RATIO = 1e60  # of |location| to scale: beyond, the tails are zero to every digit

# The tail table with its dof axis first, a constant of the compiled code.
TABLE = np.ascontiguousarray(np.moveaxis(chebyshev_table(), 2, 0).reshape(V_ORDER, 2 * X_ORDER))


@kernel
def dof_polynomials(v: float, out: Floats) -> None:
    """Sum the tail table over its dof axis: polynomials in the rectifier's argument alone, for dof = 1 / v."""
    u = 4.0 * v - 1.0
    before, term = 1.0, u
    for i in range(2 * X_ORDER):
        out[i] = TABLE[0, i]
    for j in range(1, V_ORDER):
        for i in range(2 * X_ORDER):
            out[i] += term * TABLE[j, i]
        before, term = term, 2.0 * u * term - before


@kernel
def _chebyshev(poly: Floats, scratch: Floats) -> None:
    """Write the two series of `poly` at T / 2 to P1 and P2, by Clenshaw's rule, four orders a sweep.

    The series go side by side because each alone would wait for its own last result.
    """
    t, p, q, older_p, older_q = scratch[T], scratch[P1], scratch[P2], scratch[SPARE1], scratch[SPARE2]
    for i in range(BLOCK):
        p[i] = q[i] = older_p[i] = older_q[i] = 0.0
    for k in range(X_ORDER - 1, 0, -4):
        a3, a2, a1, a0 = poly[k], poly[k - 1], poly[k - 2], poly[k - 3]
        c3, c2, c1, c0 = poly[X_ORDER + k], poly[X_ORDER + k - 1], poly[X_ORDER + k - 2], poly[X_ORDER + k - 3]
        for i in range(BLOCK):
            x = t[i]
            p3 = x * p[i] - older_p[i] + a3
            q3 = x * q[i] - older_q[i] + c3
            p2 = x * p3 - p[i] + a2
            q2 = x * q3 - q[i] + c2
            older_p[i] = x * p2 - p3 + a1
            older_q[i] = x * q2 - q3 + c1
            p[i] = x * older_p[i] - p2 + a0
            q[i] = x * older_q[i] - q2 + c0
    for i in range(BLOCK):  # the rule's last step takes half of x
        p[i] -= 0.5 * t[i] * older_p[i]
        q[i] -= 0.5 * t[i] * older_q[i]


# Bit patterns of float64: they let the two functions below run in vector lanes, which calls to the C library do not.
_MANTISSA, _ONE, _TWO_52 = np.int64(0x000FFFFFFFFFFFFF), np.int64(0x3FF0000000000000), np.int64(0x4330000000000000)
_EXPONENT_BIAS = 1023
_TO_EXPONENT = 2.0**52 + _EXPONENT_BIAS
_ROUND = 1.5 * 2.0**52  # adding and subtracting it rounds to a whole number
_LN2, _LN2_HIGH, _LN2_LOW = log(2.0), 6.93147180369123816490e-01, 1.90821492927058770002e-10


@exact_kernel
def _log_density(v: float, scratch: Floats) -> None:
    """Write the log of w^(-(1 / v + 1) / 2), w = 1 + v x^2, to row T: exponent and mantissa of w apart."""
    x, out, w, exponent = scratch[X], scratch[T], scratch[SPARE1], scratch[SPARE2]
    w_bits, exponent_bits = w.view(np.int64), exponent.view(np.int64)
    for i in range(BLOCK):
        w[i] = 1.0 + v * x[i] * x[i]
        out[i] = (v * x[i] * x[i] - (w[i] - 1.0)) / w[i]  # what rounding w lost
    for i in range(BLOCK):
        exponent_bits[i] = (w_bits[i] >> 52) | _TWO_52
        w_bits[i] = (w_bits[i] & _MANTISSA) | _ONE
    factor = -0.5 * (1.0 / v + 1.0)
    for i in range(BLOCK):
        large = w[i] > 1.4142135623730951
        mantissa = 0.5 * w[i] if large else w[i]
        power = exponent[i] - _TO_EXPONENT + (1.0 if large else 0.0)
        s = (mantissa - 1.0) / (mantissa + 1.0)
        z = s * s
        p = 1 / 13 + z * (1 / 15 + z * (1 / 17 + z * (1 / 19 + z * (1 / 21))))
        p = 1.0 + z * (1 / 3 + z * (1 / 5 + z * (1 / 7 + z * (1 / 9 + z * (1 / 11 + z * p)))))
        out[i] = factor * (2.0 * s * p + (power * _LN2 + out[i]))


@exact_kernel
def _exp(scratch: Floats) -> None:
    """Replace y <= 0 in row T by exp(y), at least 3e-308: a power of two times a Taylor series on half a binade."""
    y, power = scratch[T], scratch[SPARE1]
    power_bits = power.view(np.int64)
    for i in range(BLOCK):
        x = max(y[i], -708.0)
        power[i] = x * (1.0 / _LN2) + _ROUND
        k = power[i] - _ROUND
        r = (x - k * _LN2_HIGH) - k * _LN2_LOW
        p = 1 / 5040 + r * (1 / 40320 + r * (1 / 362880 + r * (1 / 3628800 + r * (1 / 39916800 + r * (1 / 479001600)))))
        y[i] = 1.0 + r * (1.0 + r * (1 / 2 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720 + r * p))))))
    for i in range(BLOCK):
        power_bits[i] = (power_bits[i] + _EXPONENT_BIAS) << 52
    for i in range(BLOCK):
        y[i] *= power[i]


@kernel
def rectify(
    loc: Floats,
    scale_sq: Floats,
    v: float,
    slope: float,
    poly: Floats,
    mean: Floats,
    var: Floats,
    cross: Floats,
    scratch: Floats,
) -> None:
    """Moments of z = max(a, slope a) for independent t-distributed a with dof = 1 / v: mean, variance, Cov(a, z).

    For a positive location, relu(a) = a + relu(-a): only the small part is a tail. `scratch` has SCRATCH_SHAPE.
    """
    mu, tau2, x, t, p1, p2 = scratch[MU], scratch[TAU2], scratch[X], scratch[T], scratch[P1], scratch[P2]
    ratio = 1.0 / (1.0 - 2.0 * v)  # variance / scale_sq
    norm1 = 1.0 / (1.0 - v)
    norm2 = 2.0 * norm1 * ratio
    rest = 1.0 - slope
    for start in range(0, loc.size, BLOCK):
        n = min(BLOCK, loc.size - start)
        for i in range(n):  # plain loops: numba's slice assignment costs as much as the mathematics here
            mu[i] = loc[start + i]
            tau2[i] = scale_sq[start + i]
        for i in range(n, BLOCK):
            mu[i] = tau2[i] = 1.0
        for i in range(BLOCK):
            distance = abs(mu[i]) / sqrt(tau2[i])
            x[i] = distance if distance < LARGEST_RATIO else LARGEST_RATIO  # also where the scale is 0
            t[i] = 2.0 * (CENTRE - x[i]) / (CENTRE + x[i])
        _chebyshev(poly, scratch)
        if v > 0.0:
            _log_density(v, scratch)
        else:
            for i in range(BLOCK):
                t[i] = -0.5 * x[i] * x[i]
        _exp(scratch)
        for i in range(BLOCK):  # the tail integrals J_1 and J_2
            length = (1.0 + v * x[i] * x[i]) / (CENTRE + x[i])
            p1[i] *= t[i] * length * length * norm1
            p2[i] *= t[i] * length * length * length * norm2
        for i in range(BLOCK):
            relu_mean = max(mu[i], 0.0) + max(sqrt(tau2[i]) * p1[i], TINY if tau2[i] > 0.0 else 0.0)
            t[i] = slope * mu[i] + rest * relu_mean
        for i in range(n):
            mean[start + i] = t[i]
        for i in range(BLOCK):
            relu_cross = ratio - p2[i] - x[i] * p1[i] if mu[i] > 0.0 else p2[i] + x[i] * p1[i]
            t[i] = tau2[i] * (slope * ratio + rest * relu_cross)
        for i in range(n):
            cross[start + i] = t[i]
        for i in range(BLOCK):
            relu_var = (ratio - p2[i] - 2.0 * x[i] * p1[i] if mu[i] > 0.0 else p2[i]) - p1[i] * p1[i]
            t[i] = rest * rest * tau2[i] * relu_var + slope * (2.0 * t[i] - slope * ratio * tau2[i])
        for i in range(n):
            var[start + i] = t[i]
