"""Laws that methods of the regression study obey on average, with tolerances from the number of draws."""

import numpy as np
import pytest

from habnn_control.autoscaled import AutoscaledHABNN
from habnn_control.regression.methods.pbp import PBP


def test_autoscaled_intervals_cover_as_they_claim_on_raw_units():
    inside, total = 0, 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x = rng.uniform(100, 900, size=(1500, 2))
        y = 4e4 + 9e3 * np.sin(x[:, 0] / 150) + 2e3 * rng.standard_normal(1500)
        low, high = AutoscaledHABNN(2, seed=seed).fit(x[:1000], y[:1000]).predict(x[1000:]).interval(0.9)
        inside += int(((low[:, 0] <= y[1000:]) & (y[1000:] <= high[:, 0])).sum())
        total += 500
    # Five standard errors for the draws, and 0.05 because the network's function is an approximation.
    assert abs(inside / total - 0.9) < 5 * np.sqrt(0.9 * 0.1 / total) + 0.05


def test_pbp_forward_moments_vs_monte_carlo():
    pbp, rng, draws = PBP(3, 1), np.random.default_rng(0), 20_000
    x = np.array([0.5, -1.0, 2.0])
    pbp.fit(np.empty((0, 3)), np.empty(0))  # the prior
    first = pbp._means[0] + np.sqrt(pbp._variances[0]) * rng.standard_normal((draws, 50, 4))
    second = pbp._means[1] + np.sqrt(pbp._variances[1]) * rng.standard_normal((draws, 1, 51))
    hidden = np.maximum(first @ np.append(x, 1.0) / 2, 0)  # (draws, 50)
    output = (np.einsum("dij,dj->di", second[:, :, :-1], hidden) + second[:, :, -1])[:, 0] / np.sqrt(51)
    prediction = pbp.predict(x[None])
    assert abs(output.mean() - prediction.mean[0]) < 5 * output.std() / np.sqrt(draws)
    variance = prediction.variance[0] - pbp.noise_variance
    assert variance == pytest.approx(output.var(), rel=5 * np.sqrt(3 / draws))
