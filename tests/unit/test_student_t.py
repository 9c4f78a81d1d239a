"""StudentT against scipy.stats, and bad input."""

import math

import numpy as np
import pytest
from scipy import stats

from habnn_control import StudentT

LOC = np.array([[-1.0, 0.0], [2.0, 1e3]])
SCALE_SQ = np.array([[0.25, 1.0], [4.0, 1e4]])
DOFS = [2.5, 12.0, 99.0, 101.0, 1e7, math.inf]


def oracle(dof):
    frozen = stats.norm(LOC, np.sqrt(SCALE_SQ)) if dof == math.inf else stats.t(dof, LOC, np.sqrt(SCALE_SQ))
    return StudentT(LOC, SCALE_SQ, dof), frozen


@pytest.mark.parametrize("dof", DOFS)
def test_student_t_density_cdf_and_quantile_vs_scipy(dof):
    ours, scipy_t = oracle(dof)
    y = LOC + np.array([[-3.0, 0.1], [0.0, 40.0]])
    np.testing.assert_allclose(ours.logpdf(y), scipy_t.logpdf(y), rtol=1e-8)
    np.testing.assert_allclose(ours.cdf(y), scipy_t.cdf(y), rtol=1e-8)
    np.testing.assert_allclose(ours.quantile(0.9), scipy_t.ppf(0.9), rtol=1e-8)
    np.testing.assert_allclose(ours.variance, scipy_t.var(), rtol=1e-8)
    np.testing.assert_allclose(ours.interval(0.5), scipy_t.interval(0.5), rtol=1e-8)
    np.testing.assert_array_equal(ours.mean, LOC)


def test_student_t_log_density_is_continuous_where_the_series_takes_over():
    y = np.array([0.3])
    below, above = (StudentT(0.0, 1.0, dof).logpdf(y) for dof in (100.0, math.nextafter(100.0, 101.0)))
    np.testing.assert_allclose(below, above, rtol=1e-13)


def test_student_t_moments_that_do_not_exist():
    assert np.isinf(StudentT(0.0, 1.0, 2.0).variance)
    assert np.isnan(StudentT(0.0, 1.0, 1.0).mean)


@pytest.mark.parametrize("dof", [5.0, math.inf])
def test_student_t_sample_vs_cdf(dof):
    ours, _ = oracle(dof)
    draws = ours.sample(np.random.default_rng(1), 4000)
    assert draws.shape == (4000, 2, 2)
    assert stats.kstest(ours.cdf(draws)[:, 1, 0], "uniform").pvalue > 1e-3
    assert ours.sample(np.random.default_rng(1)).shape == (2, 2)


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_student_t_raises_on_impossible_probability(bad):
    ours, _ = oracle(5.0)
    with pytest.raises(ValueError, match=r"StudentT: probability must be in \[0, 1\]"):
        ours.quantile(bad)
    with pytest.raises(ValueError, match=r"StudentT: coverage must be in \[0, 1\]"):
        ours.interval(bad)
