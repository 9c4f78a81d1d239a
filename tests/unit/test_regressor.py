"""HABNNRegressor: scikit-learn's estimator checks, pipelines, incremental learning, and the quality of its defaults."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from habnn_control import HABNN, AutoscaledHABNN, HABNNCommittee, HABNNRegressor

RNG = np.random.default_rng(0)
X = 50 * RNG.normal(size=(200, 3)) + 100
Y = 20 * np.sin(X[:, 0] / 50) + X[:, 1]
QUICK = {"folds": 2, "passes": 3}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([HABNNRegressor(**QUICK)])
def test_regressor_vs_sklearn_estimator_checks(estimator, check):
    check(estimator)


def test_regressor_works_in_pipeline_and_grid_search():
    pipeline = make_pipeline(StandardScaler(), HABNNRegressor(**QUICK))
    grid = {"habnnregressor__hidden": [(5,), (20,)], "habnnregressor__candidates": [None, [{"temperature": 0.1}]]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, Y)
    assert search.best_score_ > 0.9
    assert len(search.cv_results_["params"]) == 4


def test_regressor_returns_std_and_distribution():
    model = HABNNRegressor(**QUICK).fit(X, Y)
    mean, std = model.predict(X, return_std=True)
    distribution = model.predict_dist(X)
    assert mean.shape == std.shape == (200,)
    np.testing.assert_array_equal(distribution.mean, mean)
    np.testing.assert_array_equal(distribution.std, std)
    assert model.predict_dist(X, include_noise=False).variance.mean() < distribution.variance.mean()


def test_regressor_fit_vs_committee():
    model = HABNNRegressor(**QUICK, random_state=3).fit(X, Y)
    wanted = HABNNCommittee(3, **QUICK, seed=3).fit(X, Y).predict(X)
    np.testing.assert_array_equal(model.predict(X), wanted.mean[:, 0])
    np.testing.assert_array_equal(model.fit(X, Y).predict(X), wanted.mean[:, 0])  # fit starts anew


def test_regressor_partial_fit_learns_a_stream_vs_autoscaled():
    model = HABNNRegressor().partial_fit(X[:120], Y[:120]).partial_fit(X[120:], Y[120:])
    wanted = AutoscaledHABNN(3, covariance="joint").fit(X, Y).predict(X)
    np.testing.assert_allclose(model.predict(X), wanted.mean[:, 0], rtol=1e-6)


def test_regressor_partial_fit_of_a_wide_network_has_one_scale_matrix_per_neuron():
    model = HABNNRegressor(hidden=(600,)).partial_fit(X, Y)
    assert isinstance(model.model_.network, HABNN)


def test_regressor_partial_fit_continues_after_fit():
    model = HABNNRegressor(**QUICK).fit(X[:100], Y[:100])
    before = model.predict(X)
    assert np.abs(model.partial_fit(X[100:], Y[100:]).predict(X) - before).max() > 0
    assert isinstance(model.model_, HABNNCommittee)


def test_regressor_default_on_diabetes_vs_bayesian_ridge():
    """What a user gets without a thought: errors and intervals as good as those of a well-tried linear model."""
    x, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    train, test = order[:221], order[221:]
    model = HABNNRegressor().fit(x[train], y[train])
    mean, std = BayesianRidge().fit(x[train], y[train]).predict(x[test], return_std=True)
    nll = np.mean(0.5 * ((y[test] - mean) / std) ** 2 + np.log(std) + 0.5 * np.log(2 * np.pi))
    ours = model.predict_dist(x[test])
    assert np.sqrt(np.mean((ours.mean - y[test]) ** 2)) < 1.03 * np.sqrt(np.mean((mean - y[test]) ** 2))
    assert -ours.logpdf(y[test]).mean() < 1.01 * nll
    low, high = ours.interval(0.9)
    assert 0.85 < np.mean((low < y[test]) & (y[test] < high)) < 0.95


def test_regressor_raises_on_bad_passes_when_it_fits():
    with pytest.raises(ValueError, match="passes must be at least 2"):
        HABNNRegressor(passes=0).fit(X, Y)


def test_regressor_raises_on_bad_setting_when_it_fits():
    with pytest.raises(ValueError, match="HABNN: dof must be above 2"):
        HABNNRegressor(candidates=[{"dof": 1.0}]).fit(X, Y)
