"""Statistics against scipy, exhaustive enumeration and known limits."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from habnn_control.experiments.statistics import (
    RESAMPLES,
    improvement_estimate,
    iqm,
    iqm_estimate,
    mean_band,
    mean_estimate,
    score_estimate,
)

QUANTILES = (0.025, 0.975)


def rng(seed=0):
    return np.random.default_rng(seed)


def all_resamples(values):
    return np.array(list(product(values, repeat=len(values))))


def quantiles_of_all(statistics):
    """Quantiles of the exact bootstrap distribution, loosened by five standard errors of a sampled quantile."""
    spread = 5 * np.sqrt(0.025 * 0.975 / RESAMPLES)
    return [np.quantile(statistics, np.clip((q - spread, q + spread), 0, 1)) for q in QUANTILES]


def assert_interval_matches(estimate, statistics):
    for end, (lowest, highest) in zip(estimate[1:], quantiles_of_all(statistics), strict=True):
        assert lowest - 1e-12 <= end <= highest + 1e-12


def test_iqm_drops_a_quarter_at_both_ends_vs_sorting():
    values = rng().normal(size=(3, 11))
    np.testing.assert_allclose(iqm(values), np.sort(values, axis=1)[:, 2:-2].mean(axis=1), rtol=1e-14)


def test_iqm_ignores_an_outlier():
    assert iqm(np.array([1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 1e9])) == 2.5


def test_mean_estimate_vs_enumeration():
    values = rng(1).normal(size=5)
    estimate = mean_estimate([values], rng())
    assert estimate.value == pytest.approx(values.mean())
    assert_interval_matches(estimate, all_resamples(values).mean(axis=1))


def test_mean_estimate_two_strata_vs_enumeration():
    first, second = rng(1).normal(size=4), 100 + rng(2).normal(size=3)
    estimate = mean_estimate([first, second], rng())
    assert estimate.value == pytest.approx((first.mean() + second.mean()) / 2)
    means = all_resamples(first).mean(axis=1)[:, None], all_resamples(second).mean(axis=1)
    assert_interval_matches(estimate, ((means[0] + means[1]) / 2).ravel())


def test_mean_estimate_covers_the_truth_vs_monte_carlo():
    draws = rng(3).normal(5.0, 2.0, size=(400, 50))
    covered = sum(low <= 5.0 <= high for _, low, high in (mean_estimate([row], rng()) for row in draws))
    # a percentile interval of 50 normal values covers about as much as a z interval: 94.4 %
    expected = 1 - 2 * stats.t.sf(1.96 * np.sqrt(49 / 50), 49)
    assert abs(covered / 400 - expected) < 5 * np.sqrt(expected * (1 - expected) / 400)


def test_mean_band_equals_mean_estimate_entry_by_entry():
    stratum = rng(4).normal(size=(6, 3))
    mean, low, high = mean_band([stratum], rng(5))
    for column in range(3):
        assert (mean[column], low[column], high[column]) == pytest.approx(mean_estimate([stratum[:, column]], rng(5)))


def test_iqm_estimate_vs_enumeration():
    values = rng(6).normal(size=6)
    estimate = iqm_estimate([values], rng())
    assert estimate.value == pytest.approx(stats.trim_mean(values, 0.25))
    assert_interval_matches(estimate, np.sort(all_resamples(values), axis=1)[:, 1:-1].mean(axis=1))


def test_iqm_estimate_resamples_within_strata():
    constant = [np.full(5, 1.0), np.full(5, 3.0)]  # pooled resampling would spread, stratified cannot
    assert iqm_estimate(constant, rng()) == (2.0, 2.0, 2.0)


def test_improvement_estimate_vs_mann_whitney():
    mine, other = rng(7).integers(0, 6, size=9).astype(float), rng(8).integers(1, 7, size=7).astype(float)
    statistic = stats.mannwhitneyu(other, mine).statistic  # counts pairs in which `other` is greater, ties half
    assert improvement_estimate([mine], [other], rng()).value == pytest.approx(statistic / 63)


def test_improvement_estimate_interval_vs_enumeration():
    mine, other = np.array([1.0, 2.0, 4.0, 5.0]), np.array([2.0, 3.0, 6.0])
    pairs = [
        np.mean((x[:, None] < y) + 0.5 * (x[:, None] == y))
        for x, y in product(all_resamples(mine), all_resamples(other))
    ]
    assert_interval_matches(improvement_estimate([mine], [other], rng()), np.array(pairs))


@pytest.mark.parametrize(("shift", "probability"), [(-100.0, 1.0), (100.0, 0.0)])
def test_improvement_estimate_of_separated_agents_is_certain(shift, probability):
    other = rng(9).normal(size=10)
    assert improvement_estimate([other + shift] * 2, [other] * 2, rng()) == (probability,) * 3


def test_improvement_estimate_of_equal_agents_is_one_half():
    same = [rng(9).normal(size=10)]
    estimate = improvement_estimate(same, same, rng())
    assert estimate.value == 0.5
    assert estimate.low < 0.5 < estimate.high


def test_score_estimate_is_zero_for_noop_and_one_for_oracle():
    noop, oracle = [rng(1).normal(300, 3, 8)], [rng(2).normal(210, 3, 8)]
    assert score_estimate(noop, noop, oracle, rng()) == (0.0, 0.0, 0.0)
    assert score_estimate(oracle, noop, oracle, rng()) == pytest.approx((1.0, 1.0, 1.0))


def test_score_estimate_is_the_ratio_of_means_over_setpoints():
    # findings.md: do nothing 196.9, BNN+LV 165.3, true model 149.3 over ten setpoints gives 0.66
    noop, agent, oracle = ([np.full(3, x - 50), np.full(3, x + 50)] for x in (196.9, 165.3, 149.3))
    assert score_estimate(agent, noop, oracle, rng()).value == pytest.approx(31.6 / 47.6)


def test_score_estimate_interval_uses_pairing():
    plant = rng(3).normal(0, 50, 20)  # what a seed does to every agent alike
    paired = score_estimate([250 + plant], [300 + plant], [200 + plant], rng())
    assert paired == pytest.approx((0.5, 0.5, 0.5))


def test_estimates_of_a_single_run_have_no_interval():
    single = [np.array([3.0])]
    for estimate in (
        mean_estimate(single, rng()),
        iqm_estimate(single, rng()),
        improvement_estimate(single, [np.array([4.0, 5.0])], rng()),
    ):
        assert np.isfinite(estimate.value)
        assert np.isnan(estimate[1:]).all()


def test_estimates_are_deterministic_under_their_generator():
    values = [rng(1).normal(size=9)]
    assert iqm_estimate(values, rng(3)) == iqm_estimate(values, rng(3))
    assert iqm_estimate(values, rng(3)) != iqm_estimate(values, rng(4))
