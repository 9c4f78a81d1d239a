"""Propagated moments, function samples and calibration against Monte Carlo, with derived tolerances."""

import math

import numpy as np
import pytest
from scipy import stats

from habnn_control import HABNN

X = np.array([[0.5, -1.0, 2.0], [0.0, 0.3, -0.2]])


def within_standard_errors(samples, value, n_errors=5.0):
    error = samples.std(axis=0) / math.sqrt(len(samples))
    return np.abs(samples.mean(axis=0) - value) < n_errors * error


@pytest.mark.parametrize("dof", [8.0, math.inf])
@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_linear_prediction_vs_monte_carlo(covariance, dof):
    """Without a hidden layer the propagated moments are exact."""
    network = HABNN(3, 2, (), dof=dof, covariance=covariance, scale=0.3).fit(X, X[:, :2])
    rng = np.random.default_rng(0)
    draws = np.stack([network.sample_function(rng)(X) for _ in range(20_000)])  # (draws, inputs, outputs)
    prediction = network.predict(X, include_noise=False)
    assert within_standard_errors(draws, prediction.mean).all()
    assert within_standard_errors((draws - prediction.mean) ** 2, prediction.variance).all()


@pytest.mark.parametrize("activation", ["relu", "leaky_relu"])
def test_layer_moments_vs_monte_carlo(activation):
    """With Gaussian weights every step of the forward pass has the exact first two moments."""
    network = HABNN(3, 1, (6,), dof=math.inf, scale=0.2, activation=activation, slope=0.1, seed=1)
    rng, n = np.random.default_rng(1), 200_000
    (w1, w2), (s1, s2) = network.weight_loc, network.weight_scale_sq
    x = np.append(X[0], 1.0)
    a = (w1 + np.sqrt(s1) * rng.standard_normal((n, *w1.shape))) @ x / 2  # (draws, 6); four weights per neuron
    z = np.maximum(a, (0.1 if activation == "leaky_relu" else 0.0) * a)
    weights = w2[0] + np.sqrt(s2[0]) * rng.standard_normal((n, 7))
    y = (np.einsum("nj,nj->n", weights[:, :6], z) + weights[:, 6]) / math.sqrt(7)
    prediction = network.predict(X[:1], include_noise=False)
    assert within_standard_errors(y, prediction.mean[0, 0])
    assert within_standard_errors((y - prediction.mean[0, 0]) ** 2, prediction.variance[0, 0])


def test_function_samples_are_whole_functions():
    """One draw is one fixed function; two draws differ."""
    network = HABNN.control(3, 1).fit(X, X[:, :1])
    function = network.sample_function(np.random.default_rng(3))
    np.testing.assert_array_equal(function(X), function(X))
    assert (function(X) != network.sample_function(np.random.default_rng(4))(X)).all()
    np.testing.assert_array_equal(function(X), network.sample_function(np.random.default_rng(3))(X))


@pytest.mark.parametrize(("dof", "covariance"), [(math.inf, "full"), (math.inf, "diagonal"), (12.0, "full")])
def test_intervals_cover_data_drawn_from_the_model(dof, covariance):
    """For functions drawn from the prior and noisy data, predictive intervals have their nominal coverage."""
    noise, n_functions, n_train, n_test = 0.05, 60, 150, 40
    hits = {level: [] for level in (0.5, 0.9, 0.99)}
    for seed in range(n_functions):
        rng = np.random.default_rng(seed)
        network = HABNN(
            2, 1, (30,), dof=dof, scale=0.01, covariance=covariance, noise_variance=noise,
            output_prior_std=0.0, output_scale=1.0, seed=seed,
        )  # fmt: skip
        truth = network.sample_function(rng)
        x = rng.normal(size=(n_train + n_test, 2))
        y = truth(x) + math.sqrt(noise) * rng.standard_normal((n_train + n_test, 1))
        prediction = network.fit(x[:n_train], y[:n_train]).predict(x[n_train:])
        for level, shares in hits.items():
            low, high = prediction.interval(level)
            shares.append(((low <= y[n_train:]) & (y[n_train:] <= high)).mean())
    for level, shares in hits.items():
        # Hits within one function are dependent, so the standard error is that of the coverage per function.
        binomial = math.sqrt(level * (1 - level) / (n_functions * n_test))
        tolerance = 4 * max(np.std(shares) / math.sqrt(n_functions), binomial)
        assert abs(np.mean(shares) - level) < tolerance, (level, np.mean(shares), tolerance)


def test_one_step_ahead_predictions_are_calibrated_while_learning():
    """The probability integral transforms of predictions before each update are uniform."""
    noise, transforms = 0.05, []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        network = HABNN.kbnn(2, hidden=(20,), noise_variance=noise, output_prior_std=0.0, output_scale=1.0, seed=seed)
        truth = network.sample_function(rng)
        for _ in range(30):
            x = rng.normal(size=(1, 2))
            y = truth(x) + math.sqrt(noise) * rng.standard_normal((1, 1))
            transforms.append(network.predict(x).cdf(y)[0, 0])
            network.update(x[0], y[0])
    assert stats.kstest(transforms, "uniform").pvalue > 1e-3


@pytest.mark.parametrize(("hidden", "dof"), [((), 8.0), ((), math.inf), ((1,), math.inf)])
def test_uncertain_inputs_vs_monte_carlo(hidden, dof):
    """With one neuron per layer the independence of neurons is no approximation; inputs and weights are both drawn."""
    network = HABNN(3, 1, hidden, dof=dof, scale=0.05, seed=2).fit(X, X[:, :1])
    variance = np.array([[0.3, 0.0, 1.5], [0.01, 0.2, 0.0]])
    rng, draws = np.random.default_rng(3), []
    for _ in range(40_000):
        draws.append(network.sample_function(rng)(X + np.sqrt(variance) * rng.standard_normal(X.shape)))
    prediction = network.predict(X, include_noise=False, input_variance=variance)
    tolerance = 0.03 if hidden else 0.0  # the pre-activation is a product, only nearly Gaussian
    drawn = np.stack(draws)
    for samples, value in ((drawn, prediction.mean), ((drawn - prediction.mean) ** 2, prediction.variance)):
        error = samples.std(axis=0) / math.sqrt(len(samples))
        assert (np.abs(samples.mean(axis=0) - value) < 5 * error + tolerance * np.abs(value)).all()
    assert (prediction.variance > network.predict(X, include_noise=False).variance).all()


def test_certain_inputs_are_the_limit_of_uncertain_ones():
    network = HABNN(3, 2, (5,), covariance="full").fit(X, X[:, :2])
    for ours, theirs in zip(network.predict(X, input_variance=np.zeros_like(X)), network.predict(X), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("bad", [np.zeros((2, 2)), np.full((2, 3), -1.0), np.full((2, 3), np.nan)])
def test_predict_raises_on_bad_input_variance(bad):
    with pytest.raises(ValueError, match=r"HABNN: input_variance must have the shape \(2, 3\) of the inputs and be"):
        HABNN(3).predict(X, input_variance=bad)
