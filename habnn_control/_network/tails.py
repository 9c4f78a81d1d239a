"""Partial moments (tail integrals) of Student's t, tabulated once over all degrees of freedom.

The ReLU moments need the first two partial moments of a standard t variable T beyond x >= 0,

    J_k(x) = E[max(T - x, 0)^k],   k = 1, 2.

The textbook forms cancel in the far tail and need one incomplete beta function per neuron.
Instead, with v = 1/dof, w = 1 + v x^2 and the decay length g = w / (x + CENTRE), we write

    J_1 = E g^2 P_1(t, v) / (1 - v)                 t = (CENTRE - x) / (CENTRE + x)
    J_2 = 2 E g^3 P_2(t, v) / ((1 - v) (1 - 2 v))   E = w^(-(dof + 1) / 2)

where P_1 and P_2 are smooth and of order one for all x in [0, inf] and v in [0, 1/2]. With the orders below, their
Chebyshev series have a relative error of 1e-12, from dof just above 2 to the Gaussian at infinity. All neurons of a
network share its dof, so an update sums over v once, and one short polynomial per neuron remains.
"""

from functools import cache
from math import inf, lgamma, log, pi

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

CENTRE = 1.5
X_ORDER = 36
V_ORDER = 22


def log_normaliser(dof: float) -> float:
    """Return the log of the standard t density at zero, the normalising constant of the density."""
    if dof == inf:
        return -0.5 * log(2 * pi)
    if dof > 100:  # Stirling's series: the difference of two large lgamma values loses digits
        return -0.5 * log(2 * pi) - 1 / (4 * dof) + 1 / (24 * dof**3) - 1 / (20 * dof**5)
    return lgamma((dof + 1) / 2) - lgamma(dof / 2) - 0.5 * log(dof * pi)


def tail_integrals(x: Array, v: Array) -> tuple[Array, Array]:
    """Return the integrals of s f(x+s) / f(x) and (1 - 2v) s^2 f(x+s) / f(x) over s > 0, each of the shape of x.

    f is the t density with dof 1/v. The integrals are computed by double-exponential quadrature; the integrands are
    positive, so no digits cancel.
    """
    node = np.linspace(-4.2, 4.2, 169)
    unit = np.exp(np.pi / 2 * np.sinh(node))
    weight = (node[1] - node[0]) * np.pi / 2 * np.cosh(node) * unit
    width = (1 + v * x**2) / (x + 1)  # decay length of the integrand
    s = width[..., None] * unit  # (..., nodes)
    x_, v_ = x[..., None], np.maximum(v, 1e-300)[..., None]
    growth = s * (2 * x_ + s) / (1 + v_ * x_**2)
    density = np.exp(-(1 + v_) / 2 * np.log1p(v_ * growth) / v_)
    mass = density * weight * width[..., None]
    j0, j1, j2 = mass.sum(-1), (mass * s).sum(-1), (mass * s**2).sum(-1)
    # Below dof 3 the second moment converges too slowly; integration by parts gives it from the other two.
    j2 = np.where(v < 1 / 3, (1 - 2 * v) * j2, (1 + v * x**2) * j0 + x * (3 * v - 1) * j1)
    return j1, j2


@cache
def chebyshev_table() -> Array:
    """Return the Chebyshev coefficients of P_1 and P_2, shape (2, X_ORDER, V_ORDER); takes a few milliseconds."""
    x_angle = np.pi * (np.arange(X_ORDER) + 0.5) / X_ORDER
    v_angle = np.pi * (np.arange(V_ORDER) + 0.5) / V_ORDER
    t, v = np.meshgrid(np.cos(x_angle), (1 + np.cos(v_angle)) / 4, indexing="ij")
    x = CENTRE * (1 - t) / (1 + t)
    density = np.vectorize(lambda v: np.exp(log_normaliser(1 / v)))(v)
    rate = (x + CENTRE) / (1 + v * x**2)
    j1, j2 = tail_integrals(x, v)
    smooth = density * (1 - v) * np.stack([j1 * rate**2, j2 * rate**3 / 2])
    to_x = np.cos(np.outer(np.arange(X_ORDER), x_angle)) * 2 / X_ORDER
    to_v = np.cos(np.outer(np.arange(V_ORDER), v_angle)) * 2 / V_ORDER
    to_x[0] /= 2
    to_v[0] /= 2
    return np.ascontiguousarray(to_x @ smooth @ to_v.T)
