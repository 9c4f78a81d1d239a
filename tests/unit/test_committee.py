"""HABNNCommittee: calibration, weights of the candidates, relevance of inputs, and bad input."""

import numpy as np
import pytest
from scipy import stats

from habnn_control import HABNN, AutoscaledHABNN, HABNNCommittee
from habnn_control.autoscaled import relative_effects
from habnn_control.committee import CANDIDATES, JOINT
from habnn_control.stacking import DOFS, calibrate

QUICK = {"folds": 3, "passes": 10}


def data(n=200, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, size=(n, 3))
    return x, np.sin(2 * x[:, 0]) * x[:, 1] + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("dof", [4.0, np.inf])
def test_calibration_recovers_scale_and_tails_of_errors(dof):
    rng = np.random.default_rng(1)
    variance = rng.uniform(0.5, 2, size=(4000, 2))
    draws = rng.standard_normal((4000, 2)) if dof == np.inf else rng.standard_t(dof, (4000, 2))
    calibration, _ = calibrate(np.sqrt([0.3, 5.0] * variance) * draws, variance)
    assert calibration.dof in ((dof,) if dof == 4 else (20.0, np.inf))
    np.testing.assert_allclose(calibration.factor, [0.3, 5.0], rtol=0.08)


def test_calibration_likelihood_is_the_highest_vs_scipy():
    rng = np.random.default_rng(2)
    error = rng.standard_t(6, (300, 1))
    calibration, likelihood = calibrate(error, np.ones((300, 1)))
    scales = np.exp(np.linspace(-1, 1, 401))
    best = max(
        stats.t.logpdf(error, min(dof, 1e9), scale=scale).sum() for dof in DOFS for scale in scales
    )  # 1e9: scipy's t has no Gaussian limit
    assert likelihood.sum() == pytest.approx(best, abs=0.05)
    expected = calibration.apply(np.zeros((300, 1)), np.ones((300, 1))).logpdf(error)[:, 0]
    np.testing.assert_allclose(likelihood, expected)


def test_committee_takes_the_linear_model_for_linear_data_and_a_network_otherwise():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((60, 5))
    linear = HABNNCommittee(5, passes=10).fit(x, x @ [1.0, -2.0, 0.5, 0.0, 0.0] + rng.standard_normal(60))
    assert max(linear.weights, key=lambda pair: pair[1])[0]["hidden"] == ()
    bent = HABNNCommittee(3, **QUICK).fit(*data())
    assert all(settings["hidden"] == (50,) for settings, _ in bent.weights)
    assert sum(weight for _, weight in bent.weights) == pytest.approx(1.0)


def test_committee_intervals_cover_what_they_say():
    x, y = data(1200)
    low, high = HABNNCommittee(3, **QUICK).fit(x[:300], y[:300]).predict(x[300:]).interval(0.9)
    covered = np.mean((low[:, 0] < y[300:]) & (y[300:] < high[:, 0]))
    assert 0.85 < covered < 0.95


def test_committee_is_better_than_its_members():
    x, y = data(600)
    candidates = [{"temperature": 0.1, "scale": 1.0}]
    committee = HABNNCommittee(3, candidates=candidates, **QUICK).fit(x[:200], y[:200])
    members = committee._kept[0].members
    single = np.mean([np.mean((m.predict(x[200:]).mean[:, 0] - y[200:]) ** 2) for m in members])
    assert len(members) == 3
    assert np.mean((committee.predict(x[200:]).mean[:, 0] - y[200:]) ** 2) < single


def test_committee_does_not_depend_on_the_scaling_of_the_data():
    x, y = data(90)
    settings = {**QUICK, "candidates": CANDIDATES[:4]}  # with hardly any noise, rounding errors grow to a thousandth
    raw = x * [1e3, 1e-4, 7.0] + 5
    plain = HABNNCommittee(3, **settings).fit(x, y).predict(x)
    scaled = HABNNCommittee(3, **settings).fit(raw, 250 * y - 4e3).predict(raw)
    np.testing.assert_allclose(scaled.loc, 250 * plain.loc - 4e3, rtol=1e-5)
    np.testing.assert_allclose(scaled.scale_sq, 250**2 * plain.scale_sq, rtol=1e-4)


def test_committee_fit_starts_anew_and_partial_fit_goes_on():
    x, y = data()
    once = HABNNCommittee(3, **QUICK).fit(x[:100], y[:100])
    before = once.predict(x).loc
    twice = HABNNCommittee(3, **QUICK).fit(x[100:], -y[100:]).fit(x[:100], y[:100])
    np.testing.assert_array_equal(twice.predict(x).loc, before)
    once.partial_fit(x[100:], y[100:])
    assert np.mean((once.predict(x[100:]).mean[:, 0] - y[100:]) ** 2) < np.mean((before[100:, 0] - y[100:]) ** 2)


def test_committee_keeps_its_state_when_a_fit_fails(monkeypatch):
    x, y = data(60)
    model = HABNNCommittee(3, **QUICK).fit(x, y)
    before = model.predict(x).loc
    with pytest.raises(ValueError, match="inputs must be finite"):
        model.fit(np.full((9, 3), np.nan), np.zeros(9))

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(AutoscaledHABNN, "fit", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(x, -y)
    np.testing.assert_array_equal(model.predict(x).loc, before)


def test_committee_does_not_try_noise_below_a_level_that_is_clearly_too_small(monkeypatch):
    x, _ = data(600)
    y = np.sin(x[:, 0]) + 3 * np.random.default_rng(5).standard_normal(600)  # nearly all noise
    tried = []
    fit = AutoscaledHABNN.fit

    def record(self, *arguments):
        tried.append(self.network.settings.noise_variance[0])
        return fit(self, *arguments)

    monkeypatch.setattr(AutoscaledHABNN, "fit", record)
    model = HABNNCommittee(3, folds=2).fit(x, y)
    levels = [candidate["noise_variance"] for candidate in JOINT]
    assert levels == sorted(levels, reverse=True)
    assert max(levels) in tried
    assert min(levels) not in tried
    assert max(model.weights, key=lambda pair: pair[1])[0].get("noise_variance", 1.0) == 1.0


def test_refit_of_a_fitted_model_vs_a_model_with_relevance():
    x, y = data()
    settings = {"covariance": "joint", "noise_variance": 0.01, "passes": 5, "seed": 3}
    plain = AutoscaledHABNN(3, **settings).fit(x, y)
    before = plain.predict(x)
    refit = plain.with_relevance(x, y)
    expected = AutoscaledHABNN(3, relevance=1, **settings).fit(x, y).predict(x)
    np.testing.assert_array_equal(refit.predict(x).loc, expected.loc)
    np.testing.assert_array_equal(refit.predict(x).scale_sq, expected.scale_sq)
    np.testing.assert_array_equal(plain.predict(x).loc, before.loc)
    refit.partial_fit(x[:9], y[:9])
    np.testing.assert_array_equal(plain.predict(x).loc, before.loc)


def test_refit_raises_before_a_fit_with_several_passes():
    x, y = data()
    for model in (AutoscaledHABNN(3, passes=5), AutoscaledHABNN(3).fit(x, y)):
        with pytest.raises(ValueError, match="with_relevance must follow a fit with several passes"):
            model.with_relevance(x, y)


def test_committee_weighs_down_inputs_that_do_not_matter():
    rng = np.random.default_rng(8)
    x = rng.uniform(-2, 2, size=(500, 8))
    y = np.sin(2 * x[:, 0]) * x[:, 1] + 0.1 * rng.standard_normal(500)
    settings = {"hidden": (30,), "folds": 2, "passes": 5}
    levels = [{"covariance": "joint", "noise_variance": noise} for noise in (0.2, 0.02)]
    relevant = [{**level, "relevance": 1} for level in levels]
    plain, both = (
        HABNNCommittee(8, candidates=c, **settings).fit(x[:250], y[:250]) for c in (levels, levels + relevant)
    )
    errors = [np.sqrt(np.mean((m.predict(x[250:]).mean[:, 0] - y[250:]) ** 2)) for m in (plain, both)]
    assert errors[1] < 0.9 * errors[0]


def test_committee_of_one_input_has_no_refits_by_relevance():
    x = np.random.default_rng(9).uniform(-2, 2, size=(60, 1))
    model = HABNNCommittee(1, hidden=(5,), folds=2, passes=2).fit(x, np.sin(2 * x[:, 0]))
    assert not any("relevance" in settings for settings, _ in model.weights)


@pytest.mark.parametrize(("n_inputs", "hidden"), [(3, (20, 20)), (60, (50,))])
def test_committee_of_wide_or_deep_networks_has_one_scale_matrix_per_neuron(n_inputs, hidden):
    x = np.random.default_rng(6).standard_normal((40, n_inputs))
    model = HABNNCommittee(n_inputs, hidden=hidden, folds=2, passes=2).fit(x, x[:, 0])
    assert all("noise_variance" not in settings for settings, _ in model.weights)


def test_committee_with_outliers_errs_as_without():
    x, y = data(1000)
    rng = np.random.default_rng(7)
    bad = np.where(rng.random(600) < 0.1, rng.uniform(-50, 50, 600), y[:600])
    settings = {"hidden": (30,), "folds": 3}
    models = [
        HABNNCommittee(3, **settings).fit(x[:600], y[:600]),
        HABNNCommittee(3, outlier_threshold=5.0, **settings).fit(x[:600], bad),
        HABNNCommittee(3, **settings).fit(x[:600], bad),
    ]
    clean, robust, plain = (np.sqrt(np.mean((m.predict(x[600:]).mean[:, 0] - y[600:]) ** 2)) for m in models)
    assert robust < 1.2 * clean
    assert plain > 3 * clean


@pytest.mark.parametrize("n", [2, 3, 7])
def test_committee_learns_from_very_few_samples(n):
    x, y = data(n)
    prediction = HABNNCommittee(3, **QUICK).fit(x, y).predict(x)
    assert np.isfinite(prediction.loc).all()
    assert (prediction.scale_sq > 0).all()


def test_committee_epistemic_variance_is_smaller_and_grows_outside():
    x, y = data()
    model = HABNNCommittee(3, **QUICK).fit(x, y)
    epistemic = model.predict(x, include_noise=False).variance
    assert (epistemic < model.predict(x).variance).all()
    assert model.predict(x + 10, include_noise=False).variance.mean() > 2 * epistemic.mean()


def test_relative_effects_vs_slopes_of_a_linear_network():
    network = HABNN(3, 2, (), covariance="full", dof=np.inf)
    slopes = network.point_weights()[0][:-1]  # (n_inputs, n_outputs)
    effects = np.sqrt(np.mean(slopes**2, axis=1))
    x = np.random.default_rng(0).standard_normal((5, 3))
    np.testing.assert_allclose(relative_effects(network, x), effects / np.sqrt(np.mean(effects**2)), rtol=1e-9)


def test_relevance_refit_helps_when_most_inputs_do_not_matter():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(500, 12))
    y = np.sin(x[:, 0]) + x[:, 1] ** 2
    errors = []
    for relevance in (0, 1):
        model = AutoscaledHABNN(12, passes=20, relevance=relevance).fit(x[:250], y[:250])
        errors.append(np.mean((model.predict(x[250:]).mean[:, 0] - y[250:]) ** 2))
    assert errors[1] < 0.7 * errors[0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"folds": 1}, "folds must be at least 2"),
        ({"passes": 1}, "passes must be at least 2"),
        ({"candidates": []}, "candidates must name at least one setting"),
        ({"candidates": [{"dof": 1.0}]}, "dof must be above 2"),
    ],
)
def test_committee_raises_on_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        HABNNCommittee(3, **settings)


def test_committee_raises_without_enough_samples():
    with pytest.raises(ValueError, match="predict must follow fit"):
        HABNNCommittee(3).predict(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="at least two samples"):
        HABNNCommittee(3).fit(np.zeros((1, 3)), [0.0])
