"""Closed-form moments of a Student-t variable through a piecewise linear activation."""

from math import inf

import numpy as np
from numpy.typing import ArrayLike, NDArray

from habnn_control._network.rectifier import SCRATCH_SHAPE, dof_polynomials, rectify
from habnn_control._network.tails import X_ORDER

Array = NDArray[np.float64]


def relu(loc: ArrayLike, scale_sq: ArrayLike, dof: float) -> tuple[Array, Array, Array]:
    """Return mean, variance and Cov(a, z) of z = max(a, 0) for a ~ t(loc, scale_sq, dof).

    Implements Eqs. (9) and (10) of the HABNN paper and the cross-covariance of Eq. (15). Differs: the incomplete-beta
    form of the paper loses all digits by cancellation in the far tails; this form keeps a relative error of 1e-11.

    Parameters
    ----------
    loc, scale_sq : array_like
        Location mu and squared scale tau^2 >= 0 of the pre-activation; their shapes broadcast.
    dof : float
        Degrees of freedom nu, above 2; `math.inf` gives the rectified Gaussian.

    Returns
    -------
    mean, variance, cross_covariance : array
        Of the broadcast shape of `loc` and `scale_sq`.
    """
    return leaky_relu(loc, scale_sq, dof, slope=0.0)


def identity(loc: ArrayLike, scale_sq: ArrayLike, dof: float) -> tuple[Array, Array, Array]:
    """Return mean, variance and Cov(a, z) of z = a; arguments and shapes as for `relu`."""
    return leaky_relu(loc, scale_sq, dof, slope=1.0)


def leaky_relu(loc: ArrayLike, scale_sq: ArrayLike, dof: float, slope: float = 0.01) -> tuple[Array, Array, Array]:
    """Return mean, variance and Cov(a, z) of z = max(a, slope * a), 0 <= slope <= 1.

    The other arguments and the shapes are those of `relu`.
    """
    mu, tau2 = np.broadcast_arrays(np.asarray(loc, dtype=np.float64), np.asarray(scale_sq, dtype=np.float64))
    if not np.isfinite(mu).all():
        raise ValueError(f"moments: loc must be finite, got {loc!r}; remove NaN and infinity.")
    if not np.all((tau2 >= 0) & (tau2 < inf)):
        raise ValueError(f"moments: scale_sq must be finite and not negative, got {scale_sq!r}; pass tau squared.")
    if not dof > 2:
        raise ValueError(f"moments: dof must be above 2, got {dof}; the variance is infinite at 2 and below.")
    if not 0 <= slope <= 1:
        raise ValueError(f"moments: slope must be in [0, 1], got {slope}; 0 is ReLU, 1 the identity.")
    return rectified(mu, tau2, dof, slope)


def rectified(loc: Array, scale_sq: Array, dof: float, slope: float) -> tuple[Array, Array, Array]:
    """Return mean, variance and Cov(a, z) as `leaky_relu`, for arrays of equal shape and without input checks."""
    poly = np.empty(2 * X_ORDER)
    dof_polynomials(1 / dof, poly)
    mean, variance, cross = np.empty((3, loc.size))
    rectify(loc.ravel(), scale_sq.ravel(), 1 / dof, slope, poly, mean, variance, cross, np.empty(SCRATCH_SHAPE))
    return mean.reshape(loc.shape), variance.reshape(loc.shape), cross.reshape(loc.shape)
