"""ReplayHABNN: exactness for linear models, the buffer, gains from a refresh, and bad input."""

import math

import numpy as np
import pytest

from habnn_control import HABNN, ReplayHABNN
from habnn_control._network import kernels

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(250, 2))
Y = (np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * RNG.normal(size=250))[:, None]


def stream(model, n=250):
    for x, y in zip(X[:n], Y[:n], strict=True):
        model.update(x, y)
    return model


def linear():
    return HABNN(2, 1, (), dof=math.inf, scale=0.7, covariance="full", noise_variance=0.3)


@pytest.mark.parametrize("capacity", [1, 7, 250, 400])
def test_refresh_of_a_linear_model_vs_one_pass(capacity):
    """The Gaussian posterior of a linear model does not depend on the order, so a refresh changes nothing."""
    model, plain = ReplayHABNN(linear(), capacity, passes=5), linear().fit(X, Y)
    stream(model, 100).refresh()
    for x, y in zip(X[100:], Y[100:], strict=True):
        model.update(x, y)
    for network in (model.network, model.refresh().network):
        np.testing.assert_allclose(network.weight_loc[0], plain.weight_loc[0], rtol=1e-10)
        np.testing.assert_allclose(network.weight_scale_sq[0], plain.weight_scale_sq[0], rtol=1e-9, atol=1e-13)
        assert network.n_samples == 250
    assert model.n_kept == min(capacity, 250)


def test_refresh_with_all_samples_kept_vs_fit():
    model = stream(ReplayHABNN(HABNN.offline(2), capacity=250, passes=10, seed=4)).refresh()
    seed = int(np.random.default_rng(4).integers(2**31))
    wanted = HABNN.offline(2).fit(X, Y, passes=10, seed=seed).get_state()
    for name, value in model.network.get_state().items():
        np.testing.assert_array_equal(value, wanted[name])


def test_updates_without_refresh_vs_habnn():
    plain = stream(HABNN.control(2))
    np.testing.assert_array_equal(
        stream(ReplayHABNN(HABNN.control(2), capacity=9)).predict(X).loc, plain.predict(X).loc
    )


def test_refresh_learns_more_from_the_same_stream():
    grid = RNG.uniform(-1.8, 1.8, size=(300, 2))
    truth = np.sin(2 * grid[:, 0]) * grid[:, 1]
    model = stream(ReplayHABNN(HABNN.offline(2), capacity=200, passes=50))
    before = np.mean((model.predict(grid).mean[:, 0] - truth) ** 2)
    assert np.mean((model.refresh().predict(grid).mean[:, 0] - truth) ** 2) < 0.3 * before


def test_refresh_keeps_the_state_when_interrupted(monkeypatch):
    model, learn, calls = stream(ReplayHABNN(HABNN.control(2), passes=5)), kernels.learn, []
    before = model.network.get_state()

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return learn(*arguments)

    monkeypatch.setattr(kernels, "learn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.refresh()
    for name, value in model.network.get_state().items():
        np.testing.assert_array_equal(value, before[name])


def test_replay_raises_on_bad_input_and_keeps_the_buffer():
    with pytest.raises(ValueError, match="refresh must follow at least one sample"):
        ReplayHABNN(linear()).refresh()
    with pytest.raises(ValueError, match="capacity must be at least 1"):
        ReplayHABNN(linear(), capacity=0)
    with pytest.raises(TypeError, match="passes must be a whole number"):
        ReplayHABNN(linear(), passes=1.5)
    model = stream(ReplayHABNN(linear(), capacity=5), 3)
    with pytest.raises(ValueError, match="must be finite"):
        model.update([math.nan, 0.0], [0.0])
    assert model.n_kept == model.network.n_samples == 3
