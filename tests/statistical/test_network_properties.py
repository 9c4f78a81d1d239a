"""Invariants for any data: positive scales, positive semidefinite matrices, finite numbers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from habnn_control import HABNN


def assert_sound(network):
    assert np.isfinite(network.predict(np.eye(network.settings.n_inputs)).loc).all()
    assert (network.predict(np.eye(network.settings.n_inputs)).scale_sq > 0).all()
    assert (network.noise_variance > 0).all()
    for loc, scale in zip(network.weight_loc, network.weight_scale_sq, strict=True):
        assert np.isfinite(loc).all()
        assert np.isfinite(scale).all()
        if scale.ndim == 2:
            assert (scale > 0).all()
        else:
            np.testing.assert_array_equal(scale, scale.transpose(0, 2, 1))
            assert (np.einsum("ijj->ij", scale) > 0).all()
            for matrix in scale:  # as a correlation matrix, so that features of any scale count the same
                sd = np.sqrt(np.diag(matrix))
                assert np.linalg.eigvalsh(matrix / np.outer(sd, sd)).min() > -1e-6


def stressful_data(kind, n, rng):
    x = rng.normal(size=(n, 3))
    y = x[:, :1] - 0.5 * x[:, 1:2] + 0.1 * rng.normal(size=(n, 1))
    if kind == "outliers":
        hit = rng.random(n) < 0.01
        y[hit] += 1e5 * rng.choice([-1.0, 1.0], size=(hit.sum(), 1))  # 1e6 times the noise
    elif kind == "constant":
        x[:] = x[0]
    elif kind == "duplicates":
        x, y = np.repeat(x[: n // 100], 100, axis=0), np.repeat(y[: n // 100], 100, axis=0)
    elif kind == "scaled":
        x *= np.array([1e-6, 1.0, 1e6])
    return x, y


KINDS = ["outliers", "constant", "duplicates", "scaled"]


@pytest.mark.parametrize("dof", [2.1, 12.0, math.inf])
@pytest.mark.parametrize("kind", KINDS)
def test_diagonal_network_survives_1e5_updates(kind, dof):
    x, y = stressful_data(kind, 100_000, np.random.default_rng(0))
    assert_sound(HABNN(3, 1, (20,), dof=dof, noise_variance=0.01, noise_weight=10.0).fit(x, y))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dof", [2.1, 12.0, math.inf])
@pytest.mark.parametrize("kind", KINDS)
def test_full_network_survives_1e5_updates(kind, dof, seed):
    x, y = stressful_data(kind, 100_000, np.random.default_rng(seed))
    assert_sound(HABNN(3, 1, (10,), dof=dof, covariance="full", noise_variance=0.01).fit(x, y))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_deep_drifting_network_survives(kind, covariance):
    x, y = stressful_data(kind, 10_000, np.random.default_rng(2))
    assert_sound(HABNN(3, 1, (8, 8, 8), dof=3.0, covariance=covariance, drift=1e-3, max_dof=50.0).fit(x, y))


numbers = st.floats(-1e6, 1e6, allow_subnormal=False)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    hidden=st.lists(st.integers(1, 6), max_size=3),
    dof=st.one_of(st.floats(2.001, 1e6), st.just(math.inf)),
    scale=st.floats(1e-6, 1e3),
    noise=st.floats(1e-6, 1e6),
    covariance=st.sampled_from(["diagonal", "full"]),
    activation=st.sampled_from(["relu", "leaky_relu", "identity"]),
    samples=st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=30),
    drift=st.sampled_from([0.0, 0.01]),
)
def test_network_stays_sound_on_any_data(hidden, dof, scale, noise, covariance, activation, samples, drift):
    network = HABNN(
        2,
        1,
        hidden,
        dof=dof,
        scale=scale,
        covariance=covariance,
        noise_variance=noise,
        activation=activation,
        drift=drift,
    )
    data = np.array(samples)
    network.fit(data[:, :2], data[:, 2:])
    assert_sound(network)
