"""Student's t-distribution: the type of every prediction."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from habnn_control._network.tails import log_normaliser

Array = NDArray[np.float64]


class StudentT(NamedTuple):
    """Independent Student-t marginals; `scale_sq` is tau^2, not the variance.

    Attributes
    ----------
    loc : array
        Location mu.
    scale_sq : array
        Squared scale tau^2, same shape as `loc`.
    dof : float
        Degrees of freedom nu; `math.inf` is the Gaussian.
    """

    loc: Any
    scale_sq: Any
    dof: float

    @property
    def mean(self) -> Array:
        """The mean, of the shape of `loc`; NaN for dof <= 1, where it does not exist."""
        loc = np.asarray(self.loc, dtype=np.float64)
        return loc if self.dof > 1 else np.full_like(loc, np.nan)

    @property
    def variance(self) -> Array:
        """The variance tau^2 nu / (nu - 2), of the shape of `scale_sq`; infinite for dof <= 2."""
        scale_sq = np.asarray(self.scale_sq, dtype=np.float64)
        if not self.dof > 2:
            return np.full_like(scale_sq, np.inf)
        return scale_sq / (1 - 2 / self.dof)

    @property
    def std(self) -> Array:
        """The standard deviation, of the shape of `scale_sq`."""
        return np.asarray(np.sqrt(self.variance))

    @property
    def _scale(self) -> Array:
        return np.sqrt(np.asarray(self.scale_sq, dtype=np.float64))

    def logpdf(self, y: ArrayLike) -> Array:
        """Return the log density at `y`, elementwise; `y` broadcasts against `loc`."""
        square = ((np.asarray(y, dtype=np.float64) - self.loc) / self._scale) ** 2
        gaussian = self.dof == math.inf
        body = -0.5 * square if gaussian else -0.5 * (self.dof + 1) * np.log1p(square / self.dof)
        return np.asarray(log_normaliser(self.dof) - np.log(self._scale) + body)

    def cdf(self, y: ArrayLike) -> Array:
        """Return the cumulative distribution function at `y`, elementwise; `y` broadcasts against `loc`."""
        standard = (np.asarray(y, dtype=np.float64) - self.loc) / self._scale
        if self.dof == math.inf:
            return np.asarray(special.ndtr(standard))
        return np.asarray(special.stdtr(self.dof, standard))

    def quantile(self, probability: ArrayLike) -> Array:
        """Return the quantiles at `probability`, elementwise; `probability` broadcasts against `loc`."""
        p = np.asarray(probability, dtype=np.float64)
        if not np.all((p >= 0) & (p <= 1)):
            raise ValueError(
                f"StudentT: probability must be in [0, 1], got {probability!r}; pass fractions, not percent."
            )
        standard = special.ndtri(p) if self.dof == math.inf else special.stdtrit(self.dof, p)
        return np.asarray(self.loc + self._scale * standard)

    def interval(self, coverage: float = 0.9) -> tuple[Array, Array]:
        """Return the lower and upper ends of the central interval of probability `coverage`, each shaped as `loc`."""
        if not 0 <= coverage <= 1:
            raise ValueError(f"StudentT: coverage must be in [0, 1], got {coverage}; pass a fraction, not percent.")
        return self.quantile((1 - coverage) / 2), self.quantile((1 + coverage) / 2)

    def sample(self, rng: np.random.Generator, size: int | None = None) -> Array:
        """Draw from every marginal independently.

        Parameters
        ----------
        rng : Generator
        size : int, optional
            Number of draws.

        Returns
        -------
        array, shape (size, *loc.shape), or loc.shape without `size`
        """
        loc = np.asarray(self.loc, dtype=np.float64)
        shape = loc.shape if size is None else (size, *loc.shape)
        standard = rng.standard_normal(shape) if self.dof == math.inf else rng.standard_t(self.dof, shape)
        return np.asarray(loc + self._scale * standard)
