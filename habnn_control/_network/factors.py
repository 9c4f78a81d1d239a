"""Compiled update of a scale matrix through its Cholesky factor, for samples at which a direct update would cancel."""

from math import sqrt

import numpy as np

from habnn_control._network.jit import Floats, exact_kernel

ROUNDING = 4e-16  # relative rounding error per term of an update, about two machine epsilons


@exact_kernel
def factorise(scale: Floats, first: int, n: int, factor: Floats) -> int:
    """Write the Cholesky factor of a positive semidefinite matrix to `factor`, columns first; return its rank.

    Pivots on the largest remaining diagonal element and stops where the rest is rounding error, so that an error in the
    matrix as large as that is projected away.

    Parameters
    ----------
    scale : array
        Holds the symmetric matrix (n, n) from the index `first` on.
    factor : array, shape (n, n)
        Row k receives column k of the factor: the matrix is the sum of the outer products of these rows.
    """
    rest = np.empty(n)
    for j in range(n):
        rest[j] = max(scale[first + j * n + j], 0.0)
    least = ROUNDING * n * rest.max()
    for k in range(n):
        pivot = int(np.argmax(rest))
        if not rest[pivot] > least:
            return k
        root = sqrt(rest[pivot])
        for j in range(n):
            factor[k, j] = scale[first + pivot * n + j]
        for column in range(k):
            part = factor[column, pivot]
            for j in range(n):
                factor[k, j] -= part * factor[column, j]
        for j in range(n):
            # 0 where an earlier pivot left nothing; bounded, as it is in exact arithmetic, elsewhere
            bound = sqrt(rest[j])
            factor[k, j] = min(max(factor[k, j] / root, -bound), bound)
            rest[j] -= factor[k, j] * factor[k, j]
        factor[k, pivot], rest[pivot] = root, 0.0
    return n


@exact_kernel
def update_factorised(
    scale: Floats, first: int, n: int, z: Floats, gain: float, prior: float, post: float, growth: float, share: Floats
) -> None:
    """Condition one scale matrix S on its pre-activation through its factor; positive semidefinite whatever the input.

    The update growth (S - prior s s') + post s s' with s = gain S z / prior is that of `_update_full`. Written as
    L (I - c u u') L' with S = L L' and u = L' z, it has a square root (Potter's form), from which it is multiplied out.

    Parameters
    ----------
    z : array, shape (n,)
        Means of the inputs.
    prior, post : float
        Squared scale of the pre-activation before and after the sample.
    growth : float
        Factor (nu + D) / (nu + 1) of the part of S that the sample does not determine.
    share : array, shape (n,)
        Receives s.
    """
    factor = np.zeros((n, n))
    rank = factorise(scale, first, n, factor)
    u = np.zeros(rank)
    for k in range(rank):
        for j in range(n):
            u[k] += factor[k, j] * z[j]
    square = 0.0
    for k in range(rank):
        square += u[k] * u[k]
    known = max(prior, gain * gain * square)
    # Part of the squared scale along u that stays; at least a rounding error.
    kept = max(1.0 - gain * gain * square / known * (1.0 - post / (growth * prior)), ROUNDING)
    along = (1.0 - sqrt(kept)) / square if square > 0.0 else 0.0
    for j in range(n):
        share[j] = 0.0
    for k in range(rank):
        for j in range(n):
            share[j] += factor[k, j] * u[k]
    for k in range(rank):
        for j in range(n):
            factor[k, j] = sqrt(growth) * (factor[k, j] - along * u[k] * share[j])
    for j in range(n):
        share[j] *= gain / known
    _multiply_out(factor, rank, n, scale, first)


@exact_kernel
def _multiply_out(factor: Floats, rank: int, n: int, scale: Floats, first: int) -> None:
    """Write the sum of the outer products of the first `rank` rows of `factor` to the matrix at `first`."""
    for k in range(n * n):
        scale[first + k] = 0.0
    for k in range(rank):
        for j in range(n):
            part = factor[k, j]
            for jj in range(n):
                scale[first + j * n + jj] += part * factor[k, jj]
