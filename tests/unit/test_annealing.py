"""Annealed passes: exact discounted regression, precision, outliers, the search for the noise, and bad input."""

from itertools import pairwise

import numpy as np
import pytest

from habnn_control import AutoscaledHABNN, HABNNCommittee, JointHABNN
from habnn_control._network import annealing
from habnn_control._network.annealing import MEMORY, falling_levels, recommended_passes
from habnn_control.committee import ANNEALED, CANDIDATES, LOWER, _settings

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


def rmse(model, x, y):
    return np.sqrt(np.mean((model.predict(x).mean[:, 0] - y) ** 2))


def test_annealed_passes_vs_discounted_linear_regression(monkeypatch):
    monkeypatch.setattr(annealing, "LARGEST_SINGLE", 0.0)
    x, y = wave(60)
    net = JointHABNN(2, hidden=(8,), dof=np.inf, scale=FIXED, output_scale=0.5)
    phi, levels = features(net, x), (0.4, 0.1)
    assert len(list(net.anneal(x, y, levels))) == 2
    precision, information = np.eye(9) / 0.5, np.zeros(9)
    for memory, level in zip((1.0, MEMORY), levels, strict=True):
        precision = memory * precision + (1 - MEMORY) * phi.T @ phi / level
        information = memory * information + (1 - MEMORY) * phi.T @ y / level
    np.testing.assert_allclose(net.weight_loc[-9:], np.linalg.solve(precision, information), atol=1e-6)
    np.testing.assert_allclose(net.weight_scale_sq[-9:, -9:], np.linalg.inv(precision), atol=1e-6)
    assert net.noise_variance == [0.1]
    assert net.n_samples == 60


def test_annealed_forgetting_leaves_weights_without_samples_within_the_widest_scale():
    x, y = wave(50)
    x[:, 1] = 0.0  # its weights learn nothing
    net = JointHABNN(2, hidden=(6,), annealed=True).fit(x, y, passes=40)
    scales = np.diag(net.weight_scale_sq)[:18].reshape(6, 3)
    np.testing.assert_allclose(scales[:, 1], annealing.WIDEST * 0.2, rtol=1e-3)


def test_annealed_single_precision_vs_double(monkeypatch):
    x, y = wave(200, noise=0.2)
    settings = {"noise_variance": 0.05, "annealed": True, "hidden": (20,)}
    single = JointHABNN(2, **settings).fit(x, y, passes=4).predict(x)
    monkeypatch.setattr(annealing, "LARGEST_SINGLE", 0.0)
    double = JointHABNN(2, **settings).fit(x, y, passes=4).predict(x)
    np.testing.assert_allclose(single.loc, double.loc, atol=1e-3)
    np.testing.assert_allclose(single.scale_sq, double.scale_sq, rtol=1e-3)


def test_annealed_passes_that_fail_in_single_precision_are_repeated_in_double(monkeypatch):
    x, y = wave(80)
    factorise, calls = annealing.lapack.spotrf, []

    def fail_in_the_second_pass(*arguments, **settings):
        calls.append(1)
        return factorise(*arguments, **settings) if len(calls) < 8 else (None, 1)

    with monkeypatch.context() as patch:
        patch.setattr(annealing.lapack, "spotrf", fail_in_the_second_pass)
        repeated = JointHABNN(2, annealed=True).fit(x, y, passes=3).predict(x)
    monkeypatch.setattr(annealing, "LARGEST_SINGLE", 0.0)
    expected = JointHABNN(2, annealed=True).fit(x, y, passes=3).predict(x)
    np.testing.assert_array_equal(repeated.loc, expected.loc)
    np.testing.assert_array_equal(repeated.scale_sq, expected.scale_sq)


def test_annealed_network_of_two_outputs_vs_networks_of_one():
    x, y = wave(90)
    both = np.column_stack([y, y])
    net = JointHABNN(2, 2, hidden=(10,), annealed=True, noise_variance=0.02).fit(x, both, passes=6)
    single = JointHABNN(2, 1, hidden=(10,), annealed=True, noise_variance=0.02).fit(x, y, passes=6)
    assert rmse(net, x, y) < 1.6 * rmse(single, x, y)
    prediction = net.predict(x).loc
    np.testing.assert_allclose(prediction[:, 0], prediction[:, 1], atol=0.15)


def test_annealed_passes_learn_much_more_than_one_pass():
    x, y = wave(900)
    annealed, one = (JointHABNN(2, noise_variance=1e-3, annealed=True).fit(x[:300], y[:300], passes=p) for p in (8, 1))
    assert rmse(annealed, x[300:], y[300:]) < 0.7 * rmse(one, x[300:], y[300:])


def test_annealed_network_with_outliers_errs_as_without():
    x, y = wave(900)
    rng = np.random.default_rng(4)
    bad = np.where(rng.random(600) < 0.1, rng.uniform(-50, 50, 600), y[:600])
    settings = {"noise_variance": 0.01, "annealed": True}
    clean = JointHABNN(2, **settings).fit(x[:600], y[:600], passes=8)
    robust = JointHABNN(2, outlier_threshold=5.0, **settings).fit(x[:600], bad, passes=8)
    plain = JointHABNN(2, **settings).fit(x[:600], bad, passes=8)
    error = [rmse(net, x[600:], y[600:]) for net in (clean, robust, plain)]
    assert error[1] < 1.2 * error[0]
    assert error[2] > 5 * error[0]


def test_annealed_network_goes_on_with_tempered_passes():
    x, y = wave(60)
    net = JointHABNN(2, annealed=True).fit(x, y, passes=4)
    before = net.predict(x[:5]).scale_sq
    net.fit(x, y, passes=4)
    assert net.n_samples == 120
    assert (net.predict(x[:5]).scale_sq < before).all()  # nothing is forgotten


def test_falling_levels_end_with_the_noise_and_never_fall_below_it():
    for noise in (1.0, 0.02, 1e-4):
        levels = list(falling_levels(np.array([noise]), recommended_passes(10_000, noise)))
        assert levels[-1] == noise
        assert min(levels) == noise
        assert all(low <= high for high, low in pairwise(levels))
    assert list(falling_levels(np.array([1e-4]), 2))[-1] == pytest.approx(1e-4)
    assert recommended_passes(200, 1e-4) > recommended_passes(200, 0.1) > recommended_passes(5000, 0.1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_annealed_network_raises_on_bad_samples_and_keeps_its_state(bad):
    x, y = wave(20)
    net = JointHABNN(2, hidden=(5,), annealed=True)
    before = net.weight_loc
    y[7] = bad
    with pytest.raises(ValueError, match="HABNN: sample 7 must be finite"):
        net.fit(x, y, passes=3)
    np.testing.assert_array_equal(net.weight_loc, before)
    assert net.n_samples == 0


def test_annealed_raises_with_noise_that_depends_on_the_input():
    with pytest.raises(ValueError, match="annealed must be False if heteroscedastic"):
        JointHABNN(2, annealed=True, heteroscedastic=True)


def test_autoscaled_gains_vs_inputs_that_are_multiplied():
    x, y = wave(80)
    settings = {"covariance": "joint", "noise_variance": 0.01, "passes": 4, "annealed": True}
    standard = (x - x.mean(axis=0)) / x.std(axis=0)
    given = AutoscaledHABNN(2, gains=(0.5, 2.0), **settings).fit(x, y).predict(x).loc
    target = (y - y.mean()) / y.std()
    net = JointHABNN(2, noise_variance=0.01, annealed=True).fit(standard * [0.5, 2.0], target, passes=4)
    np.testing.assert_allclose(given, y.mean() + y.std() * net.predict(standard * [0.5, 2.0]).loc, rtol=1e-6)


@pytest.mark.parametrize("gains", [(1.0,), (1.0, 0.0), (1.0, np.nan), (1.0, np.inf)])
def test_autoscaled_raises_on_gains(gains):
    with pytest.raises(ValueError, match="gains must be 2 positive numbers"):
        AutoscaledHABNN(2, gains=gains)


def test_autoscaled_anneal_raises_on_a_model_that_has_learned():
    x, y = wave(20)
    model = AutoscaledHABNN(2, covariance="joint", noise_variance=0.1, warmup=5).fit(x, y)
    for one in (model, AutoscaledHABNN(2)):
        with pytest.raises(ValueError, match="anneal must be called on a new model"):
            next(one.anneal(x, y, [0.1]))


@pytest.mark.parametrize(("noise", "least", "most"), [(2.0, 0.06, 1.0), (0.001, 6e-5, 0.015)])
def test_committee_search_finds_the_noise(noise, least, most):
    x, y = wave(400, noise)
    model = HABNNCommittee(2, folds=3).fit(x, y)
    levels = [settings["noise_variance"] for settings, _ in model.weights if "noise_variance" in settings]
    assert least <= max(levels) <= most
    assert len(levels) <= 2


def test_committee_candidates_are_two_noise_variances_sixteenfold_apart():
    x, y = wave(200, 0.3)
    kept = HABNNCommittee(2)._search(x, y, np.arange(40))
    levels = [one.settings["noise_variance"] for one in kept if one.settings.get("annealed")]
    every = [settings["noise_variance"] for settings in ANNEALED[1:]]
    assert every.index(levels[1]) - every.index(levels[0]) == LOWER
    gains = np.array(kept[-1].extra["gains"])
    assert np.mean(gains**4) == pytest.approx(1.0, rel=0.01)  # their squares are relative to the quadratic mean


def test_committee_file_of_before_annealing_is_loaded():
    x, y = wave(60)
    old = HABNNCommittee(2, hidden=(5,), folds=2, passes=3)
    old._annealed, old._settings = False, _settings(old._given, annealed=False)
    tree = old.fit(x, y)._tree()
    del tree["annealed"]
    loaded = HABNNCommittee._from_tree(tree)
    np.testing.assert_array_equal(loaded.predict(x).loc, old.predict(x).loc)
    assert len(loaded._settings) == len(CANDIDATES)
