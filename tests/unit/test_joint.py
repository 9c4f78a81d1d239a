"""JointHABNN and NoiseBank: exact posteriors of linear models, Monte Carlo, streams, outliers, and bad input."""

import numpy as np
import pytest

from habnn_control import HABNN, AutoscaledHABNN, JointHABNN, NoiseBank
from habnn_control._network import joint_kernels

FIXED = 1e-18  # squared scale of hidden weights that do not learn


def wave(n=300, noise=0.05, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, size=(n, 2))
    return x, np.sin(2 * x[:, 0]) * x[:, 1] + noise * rng.standard_normal(n)


def features(net, x):
    """Return the inputs of the output layer of a network whose hidden weights are certain, with its bias."""
    width = net.settings.hidden[0]
    first = net.weight_loc[: width * (x.shape[1] + 1)].reshape(width, -1)
    hidden = np.maximum(np.column_stack([x, np.ones(len(x))]) @ first.T / np.sqrt(x.shape[1] + 1), 0)
    return np.column_stack([hidden, np.ones(len(x))]) / np.sqrt(width + 1)


def output_part(net):
    n = (net.settings.hidden[0] + 1) * net.settings.n_outputs
    return net.weight_loc[-n:], net.weight_scale_sq[-n:, -n:]


@pytest.mark.parametrize("passes", [1, 7])
def test_joint_with_certain_hidden_layer_vs_bayesian_linear_regression(passes):
    x, y = wave(60)
    net = JointHABNN(2, hidden=(8,), dof=np.inf, scale=FIXED, output_scale=0.5, noise_variance=0.1)
    phi = features(net, x)
    net.fit(x, y, passes=passes)
    precision = np.eye(9) / 0.5 + phi.T @ phi / 0.1
    loc, scale = output_part(net)
    np.testing.assert_allclose(loc, np.linalg.solve(precision, phi.T @ y / 0.1), atol=1e-7)
    np.testing.assert_allclose(scale, np.linalg.inv(precision), atol=1e-7)


def test_joint_one_sample_vs_multivariate_t_posterior():
    net = JointHABNN(2, n_outputs=1, hidden=(6,), dof=5.0, scale=FIXED, output_scale=0.7, noise_variance=0.3)
    x, y = np.array([[0.4, -1.2]]), np.array([2.5])
    phi = features(net, x)[0]
    noise_scale = 0.3 * (1 - 2 / 5)
    total = 0.7 * phi @ phi + noise_scale
    net.fit(x, y)
    loc, scale = output_part(net)
    np.testing.assert_allclose(loc, 0.7 * phi * 2.5 / total, atol=1e-8)
    factor = (5 + 2.5**2 / total) / 6
    np.testing.assert_allclose(scale, factor * (0.7 * np.eye(7) - np.outer(0.7 * phi, 0.7 * phi) / total), atol=1e-8)
    assert net.dof == 6


def test_joint_outputs_are_learned_one_after_the_other_vs_linear_regression():
    x, y = wave(40)
    both = np.column_stack([y, 1 - 2 * x[:, 0]])
    net = JointHABNN(2, 2, hidden=(8,), dof=np.inf, scale=FIXED, output_scale=0.5, noise_variance=[0.1, 0.2])
    phi = features(net, x)
    net.fit(x, both)
    loc = output_part(net)[0].reshape(2, 9)
    for row, target, noise in zip(loc, both.T, (0.1, 0.2), strict=True):
        expected = np.linalg.solve(np.eye(9) / 0.5 + phi.T @ phi / noise, phi.T @ target / noise)
        np.testing.assert_allclose(row, expected, atol=1e-7)
    assert net.predict(x).loc.shape == (40, 2)


def test_joint_prediction_vs_monte_carlo():
    x, y = wave(200)
    net = JointHABNN(2, hidden=(10,), dof=np.inf, noise_variance=0.01).fit(x, y)
    rng = np.random.default_rng(1)
    draws = rng.multivariate_normal(net.weight_loc, net.weight_scale_sq, size=20_000)
    test = np.array([[0.3, 0.5], [-1.0, 1.5]])
    inputs = np.column_stack([test, np.ones(2)])
    hidden = np.maximum(np.einsum("swk,nk->snw", draws[:, :30].reshape(-1, 10, 3), inputs) / np.sqrt(3), 0)
    outputs = (np.einsum("snw,sw->sn", hidden, draws[:, 30:40]) + draws[:, 40:]) / np.sqrt(11)
    prediction = net.predict(test, include_noise=False)
    # The linearisation leaves out the covariance of the weights of two layers in the mean: a fifth of the deviation.
    assert np.all(np.abs(prediction.loc[:, 0] - outputs.mean(axis=0)) < 0.2 * outputs.std(axis=0))
    np.testing.assert_allclose(prediction.scale_sq[:, 0], outputs.var(axis=0), rtol=0.25)
    np.testing.assert_allclose(net.predict(test).scale_sq - prediction.scale_sq, 0.01)


def test_joint_prediction_does_not_depend_on_the_number_of_rows():
    x, y = wave(1200)
    net = JointHABNN(2, noise_variance=0.01).fit(x[:100], y[:100])
    one = [net.predict(row[None]) for row in x[::300]]
    many = net.predict(x)
    np.testing.assert_allclose([p.loc[0] for p in one], many.loc[::300])
    np.testing.assert_allclose([p.scale_sq[0] for p in one], many.scale_sq[::300])


def test_joint_learns_more_from_one_pass_than_one_scale_matrix_per_neuron():
    x, y = wave(600)
    joint = JointHABNN(2, noise_variance=0.005).fit(x[:300], y[:300]).predict(x[300:]).loc[:, 0]
    single = {"covariance": "full", "dof": 150.0, "scale": 0.2, "output_scale": 0.4, "output_prior_std": 0.0}
    each = HABNN(2, noise_variance=0.005, **single).fit(x[:300], y[:300]).predict(x[300:]).loc[:, 0]
    errors = [np.sqrt(np.mean((p - y[300:]) ** 2)) for p in (joint, each)]
    assert errors[0] < 0.7 * errors[1]


def test_joint_scale_matrix_stays_positive_semidefinite():
    x, y = wave(3000, noise=0.0)
    net = JointHABNN(2, hidden=(20,), noise_variance=1e-5).fit(x, y)
    eigenvalues = np.linalg.eigvalsh(net.weight_scale_sq)
    assert eigenvalues.min() > -1e-10 * eigenvalues.max()


def test_joint_dof_grow_by_one_per_sample_in_all():
    x, y = wave(50)
    assert JointHABNN(2, dof=10.0).fit(x, y, passes=4).dof == pytest.approx(60)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_joint_raises_on_bad_samples_and_keeps_its_state(bad):
    x, y = wave(20)
    net = JointHABNN(2, hidden=(5,)).fit(x, y)
    before = net.predict(x)
    y[7] = bad
    with pytest.raises(ValueError, match="HABNN: sample 7 must be finite"):
        net.fit(x, y)
    np.testing.assert_array_equal(net.predict(x).scale_sq, before.scale_sq)
    with pytest.raises(ValueError, match="inputs must be finite"):
        net.predict([[np.nan, 0.0]])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden": ()}, "hidden must have one width"),
        ({"hidden": (5, 5)}, "hidden must have one width"),
        ({"noise_variance": 0.0}, "noise_variance must be positive"),
        ({"dof": 2.0}, "dof must be above 2"),
    ],
)
def test_joint_raises_on_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        JointHABNN(2, **settings)


def test_joint_keeps_the_last_complete_pass_on_ctrl_c(monkeypatch):
    x, y = wave(30)
    calls, kernel = [], joint_kernels.learn

    def stop_in_third(*arguments):
        calls.append(1)
        result = kernel(*arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return result

    net = JointHABNN(2, hidden=(5,))
    states = []
    monkeypatch.setattr(joint_kernels, "learn", stop_in_third)
    one_pass = net._one_pass
    monkeypatch.setattr(net, "_one_pass", lambda *a: (one_pass(*a), states.append(net.weight_loc)))
    with pytest.raises(KeyboardInterrupt):
        net.fit(x, y, passes=5)
    np.testing.assert_array_equal(net.weight_loc, states[1])
    assert net.n_samples == 30


@pytest.mark.parametrize(("noise", "best"), [(0.02, (0, 1)), (0.3, (2,)), (1.0, (3,))])
def test_noise_bank_finds_the_level_of_a_stream(noise, best):
    x, y = wave(800, noise)
    bank = NoiseBank(2).fit(x[:500], y[:500])
    assert bank.weights.sum() == pytest.approx(1)
    assert bank.weights.argmax() in best
    low, high = bank.predict(x[500:]).interval(0.9)
    assert 0.83 < np.mean((low[:, 0] < y[500:]) & (y[500:] < high[:, 0])) < 0.96


def test_noise_bank_does_not_depend_on_the_pieces_of_a_stream():
    x, y = wave(60)
    whole = NoiseBank(2, hidden=(5,)).fit(x, y)
    pieces = NoiseBank(2, hidden=(5,)).fit(x[:20], y[:20]).fit(x[20:59], y[20:59]).update(x[59], y[59:])
    np.testing.assert_allclose(pieces.weights, whole.weights, rtol=1e-9)
    np.testing.assert_allclose(pieces.predict(x).scale_sq, whole.predict(x).scale_sq, rtol=1e-9)


def test_noise_bank_with_outliers_errs_as_without():
    x, y = wave(900, noise=0.3)
    rng = np.random.default_rng(4)
    bad = np.where(rng.random(600) < 0.1, rng.uniform(-50, 50, 600), y[:600])
    clean = NoiseBank(2).fit(x[:600], y[:600]).predict(x[600:]).loc[:, 0]
    robust = NoiseBank(2, outlier_threshold=10.0).fit(x[:600], bad).predict(x[600:])
    plain = NoiseBank(2).fit(x[:600], bad).predict(x[600:]).loc[:, 0]
    error = [np.sqrt(np.mean((p - y[600:]) ** 2)) for p in (clean, robust.loc[:, 0], plain)]
    assert error[1] < 1.2 * error[0]
    assert error[2] > 5 * error[0]
    low, high = robust.interval(0.9)
    assert 0.83 < np.mean((low[:, 0] < y[600:]) & (y[600:] < high[:, 0])) < 0.97


def test_noise_bank_raises_on_passes_and_on_no_levels():
    x, y = wave(10)
    with pytest.raises(ValueError, match="passes must be 1, got 3; give noise_variance"):
        NoiseBank(2).fit(x, y, passes=3)
    with pytest.raises(ValueError, match="levels must have at least one"):
        NoiseBank(2, levels=())


def test_noise_bank_keeps_its_state_after_a_bad_sample():
    x, y = wave(30)
    bank = NoiseBank(2, hidden=(5,)).fit(x, y)
    weights, before = bank.weights, bank.predict(x).scale_sq
    with pytest.raises(ValueError, match="must be finite"):
        bank.fit(x[:3], [0.0, 1.0, np.nan])
    np.testing.assert_array_equal(bank.weights, weights)
    np.testing.assert_array_equal(bank.predict(x).scale_sq, before)


def test_autoscaled_joint_does_not_depend_on_the_scaling_of_the_data():
    x, y = wave(200)
    plain = AutoscaledHABNN(2, covariance="joint", hidden=(20,)).fit(x, y).predict(x[:5])
    scaled = AutoscaledHABNN(2, covariance="joint", hidden=(20,)).fit(1e3 * x + 7, 40 * y - 3).predict(1e3 * x[:5] + 7)
    np.testing.assert_allclose(scaled.loc, 40 * plain.loc - 3, rtol=1e-6)
    np.testing.assert_allclose(scaled.scale_sq, 1600 * plain.scale_sq, rtol=1e-6)
