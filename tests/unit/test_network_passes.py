"""Tempered passes of HABNN: exactness for linear models, inferred noise, interruption and bad input."""

import math

import numpy as np
import pytest

from habnn_control import HABNN
from habnn_control._network import kernels

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.stack([np.sin(X[:, 0]), X[:, 1] - 0.5 * X[:, 2]], axis=1) + 0.1 * RNG.normal(size=(60, 2))


def assert_same(network, state):
    for name, value in network.get_state().items():
        np.testing.assert_array_equal(value, state[name])


@pytest.mark.parametrize("passes", [2, 7, 40])
def test_tempered_passes_of_a_linear_model_vs_bayesian_linear_regression(passes):
    network = HABNN(3, 2, (), dof=math.inf, scale=0.7, covariance="full", noise_variance=[0.3, 0.02], seed=2)
    prior = network.weight_loc[0].copy()
    network.fit(X, Y, passes=passes, seed=passes)
    design = np.column_stack([X, np.ones(60)]) / math.sqrt(4)
    for i, noise in enumerate((0.3, 0.02)):
        precision = np.eye(4) / 0.7 + design.T @ design / noise
        mean = np.linalg.solve(precision, prior[i] / 0.7 + design.T @ Y[:, i] / noise)
        np.testing.assert_allclose(network.weight_loc[0][i], mean, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(network.weight_scale_sq[0][i], np.linalg.inv(precision), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("passes", [1, 5])
def test_student_t_linear_model_vs_normal_inverse_gamma(passes):
    """With D of the observation, the posterior of n samples is the exact multivariate t, tempered or not.

    Weights N(m, s C) and noise N(0, s R) share one factor s ~ InvGamma(nu / 2, nu / 2). The posterior of the weights is
    a t with nu + n dof and scale matrix (nu + D) / (nu + n) times the Gaussian posterior covariance, where D is the
    squared Mahalanobis distance of all targets under the Gaussian model.
    """
    nu, noise, n = 1e6, 0.4, 30
    x, y = X[:n], 3 * Y[:n, 0]
    settings = {"scale": 0.5, "covariance": "full", "noise_variance": noise, "seed": 1}
    network = HABNN(3, 1, (), dof=nu, output_distance="observation", **settings)
    mu = network.weight_loc[0][0].copy()
    r = noise * (nu - 2) / nu  # the scale of the noise stays fixed while the dof grow by 3e-5 of themselves
    network.fit(x, y, passes=passes)
    h = np.column_stack([x, np.ones(n)]) / math.sqrt(4)
    cov = 0.5 * h @ h.T + r * np.eye(n)
    error = y - h @ mu
    distance = error @ np.linalg.solve(cov, error)
    gain = 0.5 * h.T @ np.linalg.inv(cov)
    expected = (nu + distance) / (nu + n) * (0.5 * np.eye(4) - gain @ h * 0.5)
    np.testing.assert_allclose(network.weight_loc[0][0], mu + gain @ error, rtol=1e-4)
    np.testing.assert_allclose(network.weight_scale_sq[0][0], expected, rtol=2e-4, atol=1e-8)
    assert network.dof == pytest.approx(nu + n)


@pytest.mark.parametrize("output_distance", ["observation", "pre_activation"])
def test_one_sample_vs_multivariate_t_posterior(output_distance):
    """D of the observation gives the conditional of the joint t of weights and target; D of a does not."""
    nu, noise = 6.0, 0.4
    settings = {"dof": nu, "scale": 0.5, "covariance": "full", "noise_variance": noise, "seed": 1}
    network = HABNN(2, 1, (), output_distance=output_distance, **settings)
    mu = network.weight_loc[0][0].copy()
    x, y = np.array([0.3, -1.2]), 4.5
    network.update(x, y)
    h = np.append(x, 1.0) / math.sqrt(3)
    joint = np.block([[0.5 * np.eye(3), 0.5 * h[:, None]], [0.5 * h, 0.5 * h @ h + noise * (nu - 2) / nu]])
    gain = joint[:3, 3] / joint[3, 3]
    error = y - h @ mu
    exact = (nu + error**2 / joint[3, 3]) / (nu + 1) * (joint[:3, :3] - np.outer(gain, joint[3, :3]))
    np.testing.assert_allclose(network.weight_loc[0][0], mu + gain * error, rtol=1e-12)
    deviation = np.abs(network.weight_scale_sq[0][0] - exact).max() / np.abs(exact).max()
    assert deviation < 1e-12 if output_distance == "observation" else deviation > 0.1


@pytest.mark.parametrize("output_distance", ["observation", "pre_activation"])
def test_output_distance_does_not_matter_for_gaussian_weights(output_distance):
    network = HABNN.kbnn(3, 2, output_distance=output_distance).fit(X, Y)
    np.testing.assert_allclose(network.weight_scale_sq[1], HABNN.kbnn(3, 2).fit(X, Y).weight_scale_sq[1], rtol=1e-12)


def test_one_pass_ignores_seed_and_keeps_the_order():
    assert_same(HABNN(3, 2).fit(X, Y, passes=1, seed=3), HABNN(3, 2).fit(X, Y).get_state())


def test_tempered_passes_are_deterministic_and_each_has_its_own_order():
    first = HABNN.offline(3, 2).fit(X, Y, passes=3, seed=1)
    assert_same(HABNN.offline(3, 2).fit(X, Y, passes=3, seed=1), first.get_state())
    other = HABNN.offline(3, 2).fit(X, Y, passes=3, seed=2)
    assert np.abs(first.weight_loc[1] - other.weight_loc[1]).max() > 1e-9


def test_tempered_passes_count_every_sample_once():
    network = HABNN(3, 2, (5,), dof=20.0, noise_weight=3.0).fit(X, Y, passes=8)
    assert network.dof == pytest.approx(80.0)
    assert network.n_samples == 60
    np.testing.assert_allclose(network.get_state()["per_output"][1], 63.0)
    assert HABNN(3, 2, dof=20.0, max_dof=50.0).fit(X, Y, passes=8).dof == 50.0


def test_tempered_passes_add_the_process_noise_once_per_sample():
    """Weights of inputs that are always zero learn nothing, so their squared scales show the process noise alone."""
    x = np.column_stack([X[:, :2], np.zeros(60)])
    for passes in (1, 6):
        network = HABNN(3, 2, (), dof=math.inf, scale=0.5, drift=0.01, covariance="full").fit(x, Y, passes=passes)
        np.testing.assert_allclose(network.weight_scale_sq[0][:, 2, 2], 0.5 * (1 + 0.01 * 60), rtol=1e-10)


def test_tempered_passes_learn_more_than_one_pass():
    rng = np.random.default_rng(5)
    x = rng.uniform(-2, 2, size=(400, 2))
    y = np.sin(2 * x[:, 0]) * x[:, 1]
    error = [
        np.mean((HABNN.offline(2).fit(x[:300], y[:300], passes=k).predict(x[300:]).mean[:, 0] - y[300:]) ** 2)
        for k in (1, 50)
    ]
    assert error[1] < 0.1 * error[0]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_noise_is_inferred_per_output_vs_truth(seed):
    """Smooth functions, 800 samples: the sampling error of a variance is sqrt(2 / 800) = 5 %."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.7, 1.7, size=(800, 2))
    clean = np.stack([np.sin(1.5 * x[:, 0]) + 0.5 * x[:, 1], x[:, 0] * x[:, 1], 1.2 * np.cos(x[:, 1])], axis=1)
    std = np.array([0.5, 0.2, 0.05])
    network = HABNN.offline(2, 3, seed=seed).fit(x, clean + std * rng.normal(size=clean.shape), passes=100)
    np.testing.assert_allclose(network.noise_variance, std**2, rtol=0.2)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_noise_neither_collapses_nor_stays_large_without_noise(covariance):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(300, 3))
    y = np.tanh(x[:, 0]) + 0.3 * x[:, 1]
    network = HABNN.offline(3, covariance=covariance).fit(x[:250], y[:250], passes=50)
    prediction = network.predict(x[250:])
    assert 1e-5 < network.noise_variance[0] < 0.01 * y.var()
    assert np.mean((prediction.mean[:, 0] - y[250:]) ** 2) < 0.02 * y.var()
    assert np.isfinite(prediction.logpdf(y[250:, None])).all()


def test_fixed_noise_stays_fixed():
    np.testing.assert_array_equal(HABNN(3, 2, noise_variance=[0.3, 0.2]).fit(X, Y, passes=4).noise_variance, [0.3, 0.2])


def test_temperature_scales_the_noise_of_learning_only():
    """For a linear Gaussian model, temperature T has the posterior of the noise variance T times as large."""
    settings = {"dof": math.inf, "scale": 0.7, "covariance": "full"}
    cold = HABNN(3, 2, (), noise_variance=0.5, temperature=0.1, **settings).fit(X, Y, passes=4)
    plain = HABNN(3, 2, (), noise_variance=0.05, **settings).fit(X, Y)
    np.testing.assert_allclose(cold.weight_loc[0], plain.weight_loc[0], rtol=1e-10)
    np.testing.assert_allclose(cold.weight_scale_sq[0], plain.weight_scale_sq[0], rtol=1e-9, atol=1e-14)
    np.testing.assert_array_equal(cold.noise_variance, 0.5)


@pytest.mark.parametrize("complete", [0, 1, 3])
def test_interrupt_leaves_the_last_complete_pass(complete, monkeypatch):
    """Five passes interrupted in pass number `complete` + 1 leave the state that a snapshot after each pass shows."""
    states, learn = [], kernels.learn
    network = HABNN.offline(3, 2)
    start = network.get_state()

    def interrupted(*arguments):
        states.append(network.get_state())
        result = learn(*arguments)
        if len(states) == complete + 1:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(kernels, "learn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        network.fit(X, Y, passes=5)
    assert_same(network, states[complete])
    assert network.n_samples == (60 if complete else 0)
    assert network.dof == pytest.approx(150 + 60 * complete / 5)
    assert (complete == 0) == all(np.array_equal(start[name], states[complete][name]) for name in start)


def test_progress_bar_counts_the_passes(capsys):
    HABNN(3, 2).fit(X, Y, passes=3, progress_bar=True)
    assert "3/3" in capsys.readouterr().err
    HABNN(3, 2).fit(X, Y, passes=3)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"passes": 0}, ValueError, "HABNN: passes must be at least 1, got 0"),
        ({"passes": -3}, ValueError, "HABNN: passes must be at least 1"),
        ({"passes": 2.0}, TypeError, "HABNN: passes must be a whole number, got 2.0"),
        ({"passes": True}, TypeError, "HABNN: passes must be a whole number"),
        ({"passes": None}, TypeError, "HABNN: passes must be a whole number"),
        ({"passes": 3, "seed": -1}, ValueError, "HABNN: seed must be at least 0"),
        ({"passes": 3, "seed": 0.5}, TypeError, "HABNN: seed must be a whole number"),
    ],
)
def test_fit_raises_on_bad_passes_and_keeps_the_state(arguments, error, message):
    network = HABNN.offline(3, 2).fit(X, Y, passes=2)
    before = network.get_state()
    with pytest.raises(error, match=message):
        network.fit(X, Y, **arguments)
    assert_same(network, before)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e200])
def test_tempered_passes_raise_on_a_bad_sample_and_keep_the_state(bad):
    network = HABNN.offline(3, 2).fit(X, Y)
    before = network.get_state()
    with pytest.raises(ValueError, match=r"HABNN: sample 7 must be finite"):
        network.fit(np.where(np.arange(60)[:, None] == 7, bad, X), Y, passes=3)
    assert_same(network, before)


def test_tempered_passes_over_no_samples_change_nothing():
    network = HABNN(3, 2)
    before = network.get_state()
    assert_same(network.fit(np.empty((0, 3)), np.empty((0, 2)), passes=4), before)
