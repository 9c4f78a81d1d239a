"""HABNNRegressor: scikit-learn's estimator checks, pipelines and incremental learning."""

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from habnn_control import HABNN, HABNNRegressor
from habnn_control.network import OFFLINE

RNG = np.random.default_rng(0)
X = 50 * RNG.normal(size=(200, 3)) + 100
Y = 20 * np.sin(X[:, 0] / 50) + X[:, 1]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([HABNNRegressor()])
def test_regressor_vs_sklearn_estimator_checks(estimator, check):
    check(estimator)


def test_regressor_works_in_pipeline_and_grid_search():
    pipeline = TransformedTargetRegressor(
        make_pipeline(StandardScaler(), HABNNRegressor()), transformer=StandardScaler()
    )
    grid = {
        "regressor__habnnregressor__covariance": ["diagonal", "full"],
        "regressor__habnnregressor__dof": [3.0, 12.0],
    }
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, Y)
    assert search.best_score_ > 0.9
    assert len(search.cv_results_["params"]) == 4


def test_regressor_returns_std_and_distribution():
    model = HABNNRegressor().fit(X / 50, Y / 50)
    mean, std = model.predict(X / 50, return_std=True)
    distribution = model.predict_dist(X / 50)
    assert mean.shape == std.shape == (200,)
    np.testing.assert_array_equal(distribution.mean, mean)
    np.testing.assert_array_equal(distribution.std, std)
    assert model.predict_dist(X / 50, include_noise=False).variance.mean() < distribution.variance.mean()


def test_regressor_partial_fit_continues_where_fit_starts_afresh():
    x, y = X / 50, Y / 50
    pieces = HABNNRegressor().partial_fit(x[:100], y[:100]).partial_fit(x[100:], y[100:])
    np.testing.assert_array_equal(pieces.predict(x), HABNNRegressor().fit(x, y).predict(x))
    np.testing.assert_array_equal(pieces.fit(x, y).predict(x), HABNNRegressor().fit(x, y).predict(x))


def test_regressor_tempered_passes_vs_habnn():
    x, y = X / 50, Y / 50
    model = HABNNRegressor(**OFFLINE, passes=5, random_state=3).fit(x, y)
    network = HABNN.offline(3, seed=3).fit(x, y, passes=5, seed=3)
    np.testing.assert_array_equal(model.predict(x), network.predict(x).mean[:, 0])
    np.testing.assert_array_equal(model.fit(x, y).predict(x), network.predict(x).mean[:, 0])


def test_regressor_raises_on_bad_passes_when_it_fits():
    with pytest.raises(ValueError, match="HABNN: passes must be at least 1"):
        HABNNRegressor(passes=0).fit(X, Y)


def test_regressor_raises_on_bad_setting_when_it_fits():
    with pytest.raises(ValueError, match="HABNN: dof must be above 2"):
        HABNNRegressor(dof=1.0).fit(X, Y)
