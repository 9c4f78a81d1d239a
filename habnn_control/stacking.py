"""Weights and calibration of models by held-out samples: stacking, and Student-t errors of unknown scale and tails."""

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from habnn_control.student_t import StudentT

Array = NDArray[np.float64]

HOPELESS = 8.0  # a candidate this many nats, and three standard errors, below the best is dropped
DOFS = (3.0, 4.0, 6.0, 10.0, 20.0, inf)  # candidates for the tails of the predictive distribution
PRIOR_COUNT = 2.0  # samples that the variance predicted by the networks is worth in its calibration
_EM_STEPS = 50


class Calibration(NamedTuple):
    """Squared scale of the prediction relative to the variance of the networks, per output, and its dof."""

    factor: Array
    dof: float

    def apply(self, loc: Array, variance: Array) -> StudentT:
        """Return the predictive distribution of networks with these means and variances, each (n, n_outputs)."""
        return StudentT(loc, self.factor * variance, self.dof)


def calibrate(error: Array, variance: Array) -> tuple[Calibration, Array]:
    """Return the most likely calibration of held-out errors, and the log likelihood it gives each of them, (n,).

    The factor of each output is found by the EM algorithm for the scale of a Student-t, the dof among `DOFS`.

    Parameters
    ----------
    error, variance : array, shape (n, n_outputs)
        Targets minus predicted means, and predicted variances.
    """
    square = error**2 / variance
    best, highest = Calibration(np.ones(error.shape[1]), inf), np.full(len(error), -inf)
    for dof in DOFS:
        prior = factor = np.full(error.shape[1], 1 - 2 / dof)
        for _ in range(_EM_STEPS):
            weight = 1.0 if dof == inf else (dof + 1) / (dof + square / factor)
            factor = (PRIOR_COUNT * prior + (weight * square).sum(axis=0)) / (PRIOR_COUNT + len(error))
        calibration = Calibration(factor, dof)
        likelihood = calibration.apply(np.zeros_like(error), variance).logpdf(error).sum(axis=1)
        if likelihood.sum() > highest.sum():
            best, highest = calibration, likelihood
    return best, highest


def stacking_weights(evidence: Array) -> Array:
    """Return the weights under which a mixture of the candidates makes the held-out samples most likely.

    The EM algorithm for the weights of a mixture with fixed components; stacking of predictive distributions (Yao et
    al., 2018). Candidates that held-out samples cannot tell apart share the weight.

    Parameters
    ----------
    evidence : array, shape (n_candidates, n)
        Log likelihood of each held-out sample under each candidate.
    """
    likelihood = np.exp(evidence - evidence.max(axis=0))
    weights = np.full(len(evidence), 1 / len(evidence))
    for _ in range(_EM_STEPS):
        shares = weights[:, None] * likelihood
        weights = (shares / shares.sum(axis=0)).mean(axis=1)
    return weights


def hopeless(deficit: Array) -> bool:
    """Return whether a candidate with this deficit of log likelihood per sample is clearly behind the best."""
    return float(deficit.sum()) > HOPELESS and behind(deficit, 3.0)


def behind(deficit: Array, errors: float) -> bool:
    """Return whether a deficit of log likelihood per sample is more than some standard errors of its sum."""
    return bool(deficit.sum() > errors * deficit.std() * np.sqrt(len(deficit)))


def mixture(weights: Array, pairs: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return mean and variance of a mixture of distributions with the given means and variances."""
    locs, variances = np.stack([loc for loc, _ in pairs]), np.stack([variance for _, variance in pairs])
    mean = np.tensordot(weights, locs, axes=1)
    return mean, np.tensordot(weights, variances + (locs - mean) ** 2, axes=1)
