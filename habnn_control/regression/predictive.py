"""Predictive distributions: the interface of the study, and that of methods that sample whole networks."""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, ndtr

Array = NDArray[np.float64]


class Predictive(Protocol):
    """A predictive distribution over n scalar targets, as the study scores it."""

    @property
    def mean(self) -> Array:
        """The mean of each target, (n,)."""
        ...

    def logpdf(self, y: ArrayLike) -> Array:
        """Return the log density of each target, (n,)."""
        ...

    def cdf(self, y: ArrayLike) -> Array:
        """Return the probability of a value at most `y`, (n,)."""
        ...


class GaussianMixture(NamedTuple):
    """A mixture of equally likely Gaussians, one per sampled network.

    Attributes
    ----------
    loc : array, shape (draws, n)
        Output of each network.
    variance : array, shape (draws, n), (draws, 1) or ()
        Variance of the observation noise of each network.
    """

    loc: Array
    variance: Any

    @property
    def mean(self) -> Array:
        """The mean of each target, (n,)."""
        return np.asarray(self.loc.mean(axis=0))

    def logpdf(self, y: ArrayLike) -> Array:
        """Return the log density of each target, (n,)."""
        square = (np.asarray(y, dtype=np.float64) - self.loc) ** 2 / self.variance
        each = -0.5 * (square + np.log(2 * np.pi * self.variance))
        return np.asarray(logsumexp(each, axis=0) - np.log(len(self.loc)))

    def cdf(self, y: ArrayLike) -> Array:
        """Return the probability of a value at most `y`, (n,)."""
        standard = (np.asarray(y, dtype=np.float64) - self.loc) / np.sqrt(self.variance)
        return np.asarray(ndtr(standard).mean(axis=0))
