"""Statistics of comparisons: interquartile means, stratified bootstrap intervals, probability of improvement, score.

All functions take *strata*: one array per condition (such as a setpoint), whose first axis runs over runs. A bootstrap
draws runs with replacement within each stratum, so that every condition keeps its weight. Intervals are percentile
intervals. Values are losses: lower is better.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]
Strata = Sequence[Array]

RESAMPLES = 2000
LEVEL = 0.95


class Estimate(NamedTuple):
    """A value with the bounds of its 95 % interval; the bounds are NaN for a single run."""

    value: float
    low: float
    high: float


def iqm(values: Array, axis: int = -1) -> Array:
    """Return the interquartile mean: the mean without the lowest and the highest quarter, rounded down."""
    return np.asarray(stats.trim_mean(values, 0.25, axis=axis))


def mean_estimate(strata: Strata, rng: np.random.Generator) -> Estimate:
    """Return the mean over strata of the mean over runs."""
    centre, low, high = mean_band(strata, rng)
    return Estimate(float(centre), float(low), float(high))


def mean_band(strata: Strata, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return the mean over strata of the mean over runs, with its interval, for each trailing entry.

    Parameters
    ----------
    strata : sequence of arrays, shape (runs, ...)
    rng : numpy Generator

    Returns
    -------
    mean, low, high : array, shape (...)
    """
    centre = np.mean([stratum.mean(axis=0) for stratum in strata], axis=0)
    resampled = np.mean([_resampled_means(stratum, rng) for stratum in strata], axis=0)
    return centre, *_interval(strata, resampled)


def iqm_estimate(strata: Strata, rng: np.random.Generator) -> Estimate:
    """Return the interquartile mean over all runs of all strata."""
    resampled = [stratum[rng.integers(len(stratum), size=(RESAMPLES, len(stratum)))] for stratum in strata]
    low, high = _interval(strata, iqm(np.concatenate(resampled, axis=1)))
    return Estimate(float(iqm(np.concatenate(strata))), float(low), float(high))


def improvement_estimate(strata: Strata, others: Strata, rng: np.random.Generator) -> Estimate:
    """Return the probability that a run has a lower loss than a run of the other agent, ties counting half.

    The mean over strata of the Mann-Whitney statistic over all pairs of runs, as rliable defines it.
    """
    values, resampled = [], []
    for mine, other in zip(strata, others, strict=True):
        wins = (mine[:, None] < other) + 0.5 * (mine[:, None] == other)  # (runs, runs of the other)
        values.append(wins.mean())
        resampled.append(np.sum(_counts(len(mine), rng) @ wins * _counts(len(other), rng), axis=1) / wins.size)
    low, high = _interval([*strata, *others], np.mean(resampled, axis=0))
    return Estimate(float(np.mean(values)), float(low), float(high))


def score_estimate(strata: Strata, noop: Strata, oracle: Strata, rng: np.random.Generator) -> Estimate:
    """Return (do nothing - agent) / (do nothing - oracle) of the means over strata: 0 is doing nothing, 1 the oracle.

    The three agents are resampled together, because run r of each met the same environment seed.
    """

    def score(means: Array) -> Array:
        return np.asarray((means[..., 1] - means[..., 0]) / (means[..., 1] - means[..., 2]))

    joint = [np.stack(columns, axis=1) for columns in zip(strata, noop, oracle, strict=True)]  # (runs, 3) each
    value = score(np.mean([stratum.mean(axis=0) for stratum in joint], axis=0))
    resampled = np.mean([_resampled_means(stratum, rng) for stratum in joint], axis=0)
    low, high = _interval(joint, score(resampled))
    return Estimate(float(value), float(low), float(high))


def _counts(runs: int, rng: np.random.Generator) -> Array:
    """Return how often each resample draws each run, shape (RESAMPLES, runs)."""
    return rng.multinomial(runs, np.full(runs, 1.0 / runs), size=RESAMPLES).astype(np.float64)


def _resampled_means(stratum: Array, rng: np.random.Generator) -> Array:
    """Return the mean over runs in each resample, shape (RESAMPLES, ...)."""
    return np.tensordot(_counts(len(stratum), rng), stratum, 1) / len(stratum)


def _interval(strata: Strata, resampled: Array) -> tuple[Array, Array]:
    """Return the percentile interval along the first axis; NaN where a stratum has a single run."""
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(resampled, (tail, 1.0 - tail), axis=0)
    if min(len(stratum) for stratum in strata) < 2:
        return np.full_like(low, np.nan), np.full_like(high, np.nan)
    return low, high
