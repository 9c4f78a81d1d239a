"""Streams of hostile samples: finite and positive semidefinite scales, and a network that learns clean data again."""

import logging
import math

import numpy as np
import pytest

from habnn_control import HABNN
from habnn_control._network import kernels
from habnn_control._network.factors import update_factorised
from real_scripts import script

SCRIPT = script("_attack_network")
NETWORKS, clean, streams, learn = (SCRIPT[name] for name in ("NETWORKS", "clean", "streams", "learn"))
least_eigenvalue, error = SCRIPT["least_eigenvalue"], SCRIPT["error"]


@pytest.mark.parametrize("name", NETWORKS)
def test_attacks_leave_finite_scales_and_a_network_that_learns(name):
    x, y = clean(5000, seed=8)
    expected = error(NETWORKS[name]().fit(x, y))
    for attack, hostile in streams().items():
        network = NETWORKS[name]()
        learn(network, *hostile)
        assert least_eigenvalue(network) > -1e-9, attack
        assert learn(network, x, y) == 0, attack
        assert error(network) < 1.5 * expected, attack


def test_alternating_targets_keep_matrices_positive_semidefinite_all_along():
    """The case of the attack report: NaN scales by update 967, eigenvalue ratios of -7 long before."""
    network, rng = NETWORKS["control"](), np.random.default_rng(0)
    for n in range(1500):
        network.update(rng.normal(size=6), [1e6 * (-1) ** n] * 2)
        if n % 10 == 0:
            assert least_eigenvalue(network) > -1e-12


def test_factorised_update_vs_direct_update():
    rng = np.random.default_rng(0)
    n, root = 8, rng.normal(size=(8, 8))
    scale, z = root @ root.T, rng.normal(size=8)
    gain, growth = 0.4, 1.7
    prior = gain**2 * z @ scale @ z + 0.3
    post, share, flat = 0.2 * prior, np.zeros(n), scale.ravel().copy()
    update_factorised(flat, 0, n, z, gain, prior, post, growth, share)
    wanted = gain * scale @ z / prior
    np.testing.assert_allclose(share, wanted, rtol=1e-12)
    direct = growth * scale + (post - growth * prior) * np.outer(wanted, wanted)
    np.testing.assert_allclose(flat.reshape(n, n), direct, rtol=1e-11, atol=1e-12)


def test_factorised_update_of_a_singular_matrix_stays_positive_semidefinite():
    """A matrix that has a rounding error below zero where the input looks, and a noise-free observation."""
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    scale = basis @ np.diag([1e6, 1e6, 1.0, 1e-8, 0.0, -1e-10]) @ basis.T
    flat, share = (scale + scale.T).ravel() / 2, np.zeros(6)
    update_factorised(flat, 0, 6, basis[:, 5] + 1e-8 * basis[:, 0], 1.0, 1e-20, 1e-30, 100.0, share)
    values = np.linalg.eigvalsh(flat.reshape(6, 6))
    assert np.isfinite(share).all()
    assert values[0] > -1e-14 * values[-1]
    np.testing.assert_array_equal(flat.reshape(6, 6), flat.reshape(6, 6).T)


def test_ordinary_data_never_start_a_trial():
    network = HABNN.control(6, 2)
    network.fit(*clean(2000, seed=1))
    assert network._learner.networks() == [network._parameters]
    assert not network.get_state()["suspects"]


def test_one_outlier_keeps_what_was_learned(caplog):
    """The network that starts from the prior is no better than one that knows 2000 clean samples and an outlier."""
    network = HABNN.control(6, 2)
    network.fit(*clean(2000, seed=1))
    before = error(network)
    network.update(np.zeros(6), [1e4, 0.0])
    network.fit(*clean(3300, seed=2))
    assert not caplog.records
    assert network.n_samples == 5301
    assert error(network) < 1.1 * before


def test_lost_network_says_that_it_starts_anew(caplog):
    network = HABNN.kbnn(6, 2)
    network.fit(*streams()["constant 1e6"])
    with caplog.at_level(logging.WARNING):
        network.fit(*clean(500, seed=2))
    assert "it takes over the parameters" in caplog.text
    assert network.n_samples < 500


@pytest.mark.parametrize("name", ["control", "tagi"])
def test_fit_after_an_attack_is_equal_to_updates(name):
    one, other = NETWORKS[name](), NETWORKS[name]()
    stream = [np.concatenate(parts) for parts in zip(streams()["alternating 1e6"], clean(700, 3), strict=True)]
    one.fit(*stream)
    learn(other, *stream)
    for key, value in one.get_state().items():
        np.testing.assert_array_equal(value, other.get_state()[key])


def test_saved_network_continues_in_the_middle_of_a_trial(tmp_path):
    network = NETWORKS["control"]()
    network.fit(*streams()["alternating 1e6"]).fit(*clean(80, seed=4))
    assert "rival_loc" in network.get_state()
    network.save(tmp_path / "net")
    loaded = HABNN.load(tmp_path / "net")
    x, y = clean(300, seed=5)
    expected = network.fit(x, y).get_state()
    for key, value in loaded.fit(x, y).get_state().items():
        np.testing.assert_array_equal(value, expected[key])


def test_trial_starts_from_the_locations_before_the_first_sample():
    """Locations that were set by hand before the first sample are the prior too."""
    network = NETWORKS["control"]()
    network.weight_loc[0][...] = 0.125
    network.fit(*streams()["alternating 1e6"]).fit(*clean(2, seed=4))
    rival = network._learner.networks()[1]
    np.testing.assert_array_equal(rival.prior_loc, network._parameters.prior_loc)
    np.testing.assert_array_equal(rival.prior_loc[: 7 * 10], 0.125)


@pytest.mark.parametrize("size", [1e80, 9e99])
def test_inputs_too_large_to_square_raise_and_change_nothing(size):
    network = HABNN.control(6, 2)
    before = network.get_state()
    with pytest.raises(ValueError, match="HABNN: sample 0 must be finite and small enough to square"):
        network.update(np.full(6, size), [0.0, 0.0])
    for key, value in network.get_state().items():
        np.testing.assert_array_equal(value, before[key])


def test_gaussian_weights_clip_errors_beyond_a_thousand_scales():
    def step(target):
        network = HABNN(1, 1, (), dof=math.inf, scale=1.0, covariance="full", prior_std=0.0)
        return network.update([1.0], [target]).weight_loc[0][0, 0]

    limit = math.sqrt(kernels.LARGEST_FACTOR / kernels.SMALLEST_V * 2)  # prior variance 1 and noise 1
    assert step(1e100) == step(2 * limit) == pytest.approx(step(limit))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("loc", math.nan),
        ("scale", math.nan),
        ("scale", -1.0),
        ("per_output", 0.0),
        ("dof", 0.5),
        ("n_samples", -1),
        ("n_samples", 1.5),
    ],
)
@pytest.mark.parametrize("preset", [HABNN.control, HABNN.tagi])
def test_set_state_raises_on_values_that_no_network_has_and_changes_nothing(preset, name, value):
    network = preset(6, 2).fit(*clean(10, seed=0))
    before, state = network.get_state(), network.get_state()
    if name in ("dof", "n_samples"):
        state[name] = value
    else:
        state[name].flat[0] = value
    state["loc"][1] = 7.0
    with pytest.raises(ValueError, match="HABNN: state"):
        network.set_state(state)
    for key, old in before.items():
        np.testing.assert_array_equal(network.get_state()[key], old)
