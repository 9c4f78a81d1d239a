"""Outlier weights of HABNN against the weighted-likelihood filter, quadrature, and contaminated training data."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from habnn_control import HABNN
from habnn_control._network.settings import NetworkSettings


def data(seed, n=900):
    """Return standardised samples, and the targets with a tenth of them replaced by uniform draws from [-50, 50]."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.7, 1.7, size=(n, 3))
    y = np.sin(1.5 * x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + 0.2 * rng.normal(size=n)
    y = (y - y.mean()) / y.std()
    return x, y, np.where(rng.random(n) < 0.1, rng.uniform(-50, 50, n), y)


def offline_error(x, targets, y, **settings):
    network = HABNN.offline(3, **settings).fit(x[:600], targets[:600], passes=60)
    return math.sqrt(np.mean((network.predict(x[600:]).mean[:, 0] - y[600:]) ** 2))


def test_outlier_weight_of_a_linear_model_vs_weighted_likelihood_filter():
    """A Kalman filter whose innovation variance is divided by w^2 = 1 / (1 + r^2 / c^2)."""
    noise, c = 0.3, 2.5
    settings = {"dof": math.inf, "scale": 0.5, "covariance": "full", "noise_variance": noise}
    network = HABNN(3, 1, (), outlier_threshold=c, **settings)
    mean, cov = network.weight_loc[0][0].copy(), 0.5 * np.eye(4)
    x, _, y = data(0, 60)
    for row, target in zip(x, y, strict=True):
        network.update(row, [target])
        h = np.append(row, 1.0) / 2
        error, prior = target - h @ mean, h @ cov @ h
        r_sq = error**2 / (prior + noise)
        gain = cov @ h / ((prior + noise) * (1 + r_sq / c**2))
        mean, cov = mean + gain * error, cov - np.outer(gain, h @ cov)
    np.testing.assert_allclose(network.weight_loc[0][0], mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(network.weight_scale_sq[0][0], cov, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("c", [0.5, 2.0, 3.0, 8.0, 50.0, 200.0])
def test_outlier_consistency_vs_quadrature(c):
    settings: NetworkSettings = HABNN(1, outlier_threshold=c).settings
    expected = 2 * quad(lambda r: r**2 / (1 + r**2 / c**2) ** 2 * norm.pdf(r), 0, 12, epsabs=1e-13)[0]
    assert settings.outlier[1] == pytest.approx(expected, rel=1e-6)


def test_outlier_step_vanishes_with_the_distance():
    """The step of the location falls as 1 / error beyond the threshold; the Gaussian step grows with the error."""

    def step(error, c):
        network = HABNN(1, 1, (), dof=math.inf, scale=1.0, covariance="full", outlier_threshold=c, prior_std=0.0)
        return network.update([1.0], [error]).weight_loc[0][0, 0]

    assert step(1e3, 3.0) == pytest.approx(0.1 * step(1e2, 3.0), rel=0.02)
    assert step(1e3, math.inf) == pytest.approx(10 * step(1e2, math.inf))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_outliers_leave_the_robust_network_as_good_as_clean_data(seed):
    x, y, outliers = data(seed)
    clean = offline_error(x, y, y)
    assert offline_error(x, outliers, y, outlier_threshold=5.0) < 1.2 * clean
    assert offline_error(x, outliers, y) > 2 * clean
    assert offline_error(x, y, y, outlier_threshold=5.0) < 1.02 * clean


def test_outliers_do_not_inflate_the_inferred_noise():
    x, _, outliers = data(4)
    network = HABNN.offline(3, outlier_threshold=5.0).fit(x, outliers, passes=60)
    clean = HABNN.offline(3).fit(x, data(4)[1], passes=60)
    np.testing.assert_allclose(network.noise_variance, clean.noise_variance, rtol=0.3)


def test_outliers_in_one_pass_with_noise_learned_online():
    x, y, outliers = data(5, 1500)
    settings = {"covariance": "full", "output_prior_std": 0.0, "output_scale": 1.0, "scale": 0.1, "noise_weight": 10.0}

    def error(targets, c):
        network = HABNN(3, 1, noise_variance=1.0, outlier_threshold=c, **settings).fit(x[:1000], targets[:1000])
        return math.sqrt(np.mean((network.predict(x[1000:]).mean[:, 0] - y[1000:]) ** 2))

    assert error(outliers, 5.0) < 1.2 * error(y, math.inf)
    assert error(outliers, math.inf) > 1.5 * error(y, math.inf)
    assert error(y, 5.0) < 1.1 * error(y, math.inf)  # the price on clean data: 6 % here
