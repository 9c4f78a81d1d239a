"""HABNN: architectures, learning, prediction, files and bad input."""

import json
import math
import zipfile

import numpy as np
import pytest

from habnn_control import HABNN
from habnn_control.moments import relu

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2]], axis=1)
PRESETS = [HABNN.paper, HABNN.tagi, HABNN.kbnn, HABNN.control, HABNN.offline]


def snapshot(network):
    return [np.copy(value) for value in network.get_state().values()]


def assert_same(network, before):
    for now, then in zip(network.get_state().values(), before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "identity"])
@pytest.mark.parametrize("hidden", [(), (5,), (5, 4), (5, 4, 3), (4, 4, 4, 4)])
def test_network_learns_with_every_architecture(hidden, activation, covariance):
    network = HABNN(3, 2, hidden, covariance=covariance, activation=activation, noise_variance=0.1, scale=0.05)
    target = X @ np.array([[1.0, -0.5], [0.5, 1.0], [0.0, 0.3]])
    before = np.mean((network.predict(X).mean - target) ** 2)
    for _ in range(5):
        network.fit(X, target)
    assert np.mean((network.predict(X).mean - target) ** 2) < 0.5 * before
    assert [w.shape for w in network.weight_loc] == [
        (n_out, n_in + 1) for n_in, n_out in zip((3, *hidden), (*hidden, 2), strict=True)
    ]


@pytest.mark.parametrize("preset", PRESETS)
def test_network_update_one_by_one_equals_fit(preset):
    at_once, one_by_one = preset(3, 2).fit(X, Y), preset(3, 2)
    for x, y in zip(X, Y, strict=True):
        one_by_one.update(x, y)
    assert_same(at_once, snapshot(one_by_one))
    assert at_once.n_samples == 40


@pytest.mark.parametrize("preset", PRESETS)
def test_network_prediction_does_not_depend_on_the_batch(preset):
    network = preset(3, 2).fit(X, Y)
    many = np.tile(X, (120, 1))  # more than one chunk
    np.testing.assert_allclose(network.predict(many).loc, np.tile(network.predict(X).loc, (120, 1)), rtol=1e-12)
    for i in (0, 7):
        np.testing.assert_allclose(
            network.predict(X[i : i + 1]).scale_sq[0], network.predict(X).scale_sq[i], rtol=1e-10
        )


@pytest.mark.parametrize("preset", PRESETS)
def test_network_prediction_equals_the_forward_pass_inside_learning(preset):
    """The forward pass for batches (BLAS) and the one inside learning (kernel) are different code; they must agree."""
    network = preset(3, 1).fit(X[:20], Y[:20, :1])
    x, y = X[20], 3.0
    prior = network.predict(x[None], include_noise=False)
    total = prior.scale_sq[0, 0] + network.noise_variance[0] * (1 - 2 / network.dof)
    scales = [s.copy() if s.ndim == 3 else np.stack([np.diag(row) for row in s]) for s in network.weight_scale_sq]
    gains = [1 / math.sqrt(w.shape[network.settings.fan == "in"]) for w in network.weight_loc]
    x_one = np.append(x, 1.0)
    spread = np.einsum("j,ijk,k->i", x_one, scales[0], x_one)
    hidden, _, _ = relu(gains[0] * network.weight_loc[0] @ x_one, gains[0] ** 2 * spread, network.dof)
    before = network.weight_loc[-1][0].copy()
    network.update(x, y)
    step = gains[1] * scales[1][0] @ np.append(hidden, 1.0) * (y - prior.loc[0, 0]) / total
    np.testing.assert_allclose(network.weight_loc[-1][0] - before, step, rtol=1e-7, atol=1e-12)


def test_network_separates_epistemic_from_observation_variance():
    network = HABNN(3, 2, noise_variance=[0.5, 2.0]).fit(X, Y)
    full, epistemic = network.predict(X), network.predict(X, include_noise=False)
    np.testing.assert_allclose(full.variance - epistemic.variance, np.tile([0.5, 2.0], (40, 1)), rtol=1e-10)
    assert (epistemic.variance > 0).all()
    np.testing.assert_array_equal(network.noise_variance, [0.5, 2.0])


def test_network_epistemic_variance_grows_far_from_the_data():
    network = HABNN.control(3, 2).fit(X, Y)
    near, far = network.predict(X, include_noise=False), network.predict(20 * X, include_noise=False)
    assert (far.variance > 5 * near.variance).mean() > 0.9


def test_presets_have_the_settings_of_their_names():
    paper = HABNN.paper(3).settings
    assert (paper.hidden, paper.scale, paper.dof, paper.covariance, paper.fan) == ((50,), 0.01, 12.0, "diagonal", "out")
    assert 0.85 < np.concatenate([w.ravel() for w in HABNN.paper(8).weight_loc]).std() < 1.15
    assert HABNN.tagi(3).settings.covariance == "diagonal"
    assert HABNN.kbnn(3).settings.covariance == "full"
    assert HABNN.tagi(3).dof == HABNN.kbnn(3).dof == math.inf
    np.testing.assert_array_equal(HABNN.control(3).predict(X).mean, 0.0)
    assert HABNN.paper(3, hidden=(7,)).settings.hidden == (7,)


@pytest.mark.parametrize(("fan", "divisors"), [("in", (4, 51)), ("out", (50, 2))])
def test_fan_rule_divides_by_its_count(fan, divisors):
    network = HABNN(3, 2, fan=fan, scale=1e-12)
    hidden = np.maximum(np.append(X[0], 1.0) @ network.weight_loc[0].T / math.sqrt(divisors[0]), 0)
    expected = np.append(hidden, 1.0) @ network.weight_loc[1].T / math.sqrt(divisors[1])
    np.testing.assert_allclose(network.predict(X[:1]).loc[0], expected, rtol=1e-5, atol=1e-5)


def test_dof_grows_by_one_per_sample_up_to_the_cap():
    assert HABNN(3, 2, dof=5.0).fit(X, Y).dof == 45.0
    assert HABNN(3, 2, dof=5.0, max_dof=20.0).fit(X, Y).dof == 20.0


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_drift_keeps_the_network_adaptive(covariance):
    def error_after_a_change_of_the_function(drift):
        network = HABNN(1, 1, (), dof=math.inf, covariance=covariance, drift=drift, noise_variance=0.1, scale=1.0)
        x = np.random.default_rng(1).normal(size=(400, 1))
        network.fit(x, 2 * x).fit(x[:20], -2 * x[:20])
        return np.abs(network.predict(x).mean + 2 * x).mean()

    assert error_after_a_change_of_the_function(0.05) < 0.2 * error_after_a_change_of_the_function(0.0)


def test_noise_is_learned_online():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(3000, 1))
    y = np.column_stack([0.8 * x[:, 0], -x[:, 0]]) + rng.normal(size=(3000, 2)) * [0.2, 0.05]
    network = HABNN(1, 2, (20,), covariance="full", noise_variance=1.0, noise_weight=5.0, scale=0.1).fit(x, y)
    np.testing.assert_allclose(np.sqrt(network.noise_variance), [0.2, 0.05], rtol=0.1)


def test_network_is_deterministic():
    assert_same(HABNN(3, 2, seed=5).fit(X, Y), snapshot(HABNN(3, 2, seed=5).fit(X, Y)))
    assert np.abs(HABNN(3, 2, seed=5).weight_loc[0] - HABNN(3, 2, seed=6).weight_loc[0]).min() > 0


@pytest.mark.parametrize("preset", PRESETS)
def test_save_and_load_continue_bit_for_bit(preset, tmp_path):
    network = preset(3, 2, drift=1e-3).fit(X[:20], Y[:20])
    network.save(tmp_path / "network")
    loaded = HABNN.load(tmp_path / "network")
    assert loaded.settings == network.settings
    assert_same(loaded.fit(X[20:], Y[20:]), snapshot(network.fit(X[20:], Y[20:])))
    assert loaded.n_samples == 40
    np.testing.assert_array_equal(loaded.predict(X).loc, network.predict(X).loc)


def test_load_raises_on_damaged_and_foreign_files(tmp_path):
    path = tmp_path / "network"
    HABNN(3, 2).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="damaged or foreign"):
        HABNN.load(path)
    np.savez(tmp_path / "foreign.npz", a=np.zeros(3))
    with pytest.raises(ValueError, match="foreign"):
        HABNN.load(tmp_path / "foreign.npz")
    with pytest.raises(FileNotFoundError):
        HABNN.load(tmp_path / "nothing")


def test_saved_file_has_a_readable_header(tmp_path):
    HABNN(3, 2).save(tmp_path / "network")
    header = json.loads(zipfile.ZipFile(tmp_path / "network").read("header.json"))
    assert header["kind"] == "HABNN"
    assert header["settings"]["n_inputs"] == 3


def test_set_state_raises_on_another_shape():
    with pytest.raises(ValueError, match=r"HABNN: state loc must have shape \(302,\), got \(251,\)"):
        HABNN(3, 2).set_state(HABNN(3, 1).get_state())


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"dof": 2.0}, ValueError, "HABNN: dof must be above 2, got 2.0"),
        ({"dof": math.nan}, ValueError, "HABNN: dof must be above 2"),
        ({"scale": 0.0}, ValueError, "HABNN: scale must be positive and finite"),
        ({"scale": math.inf}, ValueError, "HABNN: scale must be positive and finite"),
        ({"output_scale": -1.0}, ValueError, "HABNN: output_scale must be positive"),
        ({"prior_std": -1.0}, ValueError, "HABNN: prior_std must be finite and not negative"),
        ({"noise_variance": 0.0}, ValueError, "HABNN: noise_variance must be positive"),
        ({"noise_variance": [1.0, 1.0, 1.0]}, ValueError, "HABNN: noise_variance must be a number or one per output"),
        ({"noise_weight": 0.0}, ValueError, "HABNN: noise_weight must be positive"),
        ({"drift": math.nan}, ValueError, "HABNN: drift must be finite"),
        ({"max_dof": 3.0}, ValueError, "HABNN: max_dof must be at least dof = 12"),
        ({"slope": 2.0}, ValueError, r"HABNN: slope must be in \[0, 1\]"),
        ({"covariance": "ful"}, ValueError, "did you mean 'full'"),
        ({"activation": "tanh"}, ValueError, "HABNN: activation must be one of relu, leaky_relu, identity"),
        ({"fan": "both"}, ValueError, "HABNN: fan must be one of in, out"),
        ({"hidden": (0,)}, ValueError, "HABNN: hidden must be at least 1"),
        ({"hidden": (5.5,)}, TypeError, "HABNN: hidden must be a whole number"),
        ({"n_outputs": 0}, ValueError, "HABNN: n_outputs must be at least 1"),
        ({"seed": -1}, ValueError, "HABNN: seed must be at least 0"),
        ({"temperature": 0.0}, ValueError, "HABNN: temperature must be positive and finite"),
        ({"temperature": math.inf}, ValueError, "HABNN: temperature must be positive and finite"),
        ({"outlier_threshold": 0.0}, ValueError, "HABNN: outlier_threshold must be positive"),
        ({"outlier_threshold": math.nan}, ValueError, "HABNN: outlier_threshold must be positive"),
        ({"output_distance": "observed"}, ValueError, "did you mean 'observation'"),
        ({"scale": "wide"}, TypeError, "HABNN: scale must be a number"),
    ],
)
def test_network_raises_on_bad_setting(settings, error, message):
    with pytest.raises(error, match=message):
        HABNN(3, **settings)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X[0, :2], Y[0], r"HABNN: x must have shape \(3,\), got \(2,\)"),
        (X[0], Y[0, :1], r"HABNN: y must have shape \(2,\), got \(1,\)"),
        ([0.0, math.nan, 0.0], Y[0], "HABNN: sample 0 must be finite"),
        ([0.0, math.inf, 0.0], Y[0], "HABNN: sample 0 must be finite"),
        (X[0], [0.0, -math.inf], "HABNN: sample 0 must be finite"),
        ([1e200, 0.0, 0.0], Y[0], "small enough to square"),
        (X[0], [1e200, 0.0], "small enough to square"),
    ],
)
def test_update_raises_on_bad_sample_and_keeps_the_state(x, y, message, covariance):
    network = HABNN(3, 2, (5,), covariance=covariance, noise_weight=3.0).fit(X[:5], Y[:5])
    before = snapshot(network)
    with pytest.raises(ValueError, match=message):
        network.update(x, y)
    assert_same(network, before)


@pytest.mark.parametrize(
    ("inputs", "targets", "message"),
    [
        (X[:, :2], Y, r"HABNN: inputs must have shape \(n, 3\), got \(40, 2\)"),
        (X[0], Y[0], r"HABNN: inputs must have shape \(n, 3\), got \(3,\)|targets must have shape"),
        (X, Y[:, 0], r"HABNN: targets must have shape \(n, 2\)"),
        (X[:5], Y[:4], "HABNN: targets must have one row per sample, got 4 for 5"),
        (np.where(np.arange(40)[:, None] == 7, math.nan, X), Y, "HABNN: sample 7 must be finite"),
    ],
)
def test_fit_raises_on_bad_data_and_keeps_the_state(inputs, targets, message):
    network = HABNN(3, 2).fit(X, Y)
    before = snapshot(network)
    with pytest.raises(ValueError, match=message):
        network.fit(inputs, targets)
    assert_same(network, before)


def test_predict_raises_on_bad_inputs():
    with pytest.raises(ValueError, match=r"HABNN: inputs must be finite, got .* in row 1"):
        HABNN(3).predict([[0.0, 0.0, 0.0], [0.0, math.nan, 0.0]])
    with pytest.raises(ValueError, match="HABNN: inputs must have shape"):
        HABNN(3).predict(np.zeros((2, 4)))


def test_repr_shows_the_architecture():
    assert repr(HABNN(3, 2).fit(X, Y)) == "HABNN(3-50-2, diagonal, dof=52, n_samples=40)"


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_add_bias_noise_adds_to_the_variance_at_every_input(covariance):
    network = HABNN(3, 2, hidden=(5,), covariance=covariance, seed=1)
    inputs = np.random.default_rng(0).standard_normal((4, 3))
    before = network.predict(inputs)
    network.add_bias_noise([0.3, 0.0])
    after = network.predict(inputs)
    np.testing.assert_array_equal(after.mean, before.mean)
    np.testing.assert_allclose(after.variance - before.variance, [[0.3, 0.0]] * 4, atol=1e-12)


@pytest.mark.parametrize("bad", [[0.1], [-0.1, 0.0], [np.nan, 0.0]])
def test_add_bias_noise_raises_on_bad_variances(bad):
    network = HABNN(3, 2, hidden=(5,))
    with pytest.raises(ValueError, match="HABNN: variances must be finite, not negative and of shape"):
        network.add_bias_noise(bad)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_inflate_output_scale_multiplies_the_epistemic_variance(covariance):
    """A linear network has only its output layer, so that its whole epistemic variance is multiplied."""
    network = HABNN(3, 2, hidden=(), covariance=covariance, seed=1).fit(X, Y)
    before = network.predict(X, include_noise=False)
    network.inflate_output_scale(7.0)
    after = network.predict(X, include_noise=False)
    np.testing.assert_array_equal(after.mean, before.mean)
    np.testing.assert_allclose(after.variance, 7 * before.variance, rtol=1e-12)


@pytest.mark.parametrize("bad", [0.9, np.inf, np.nan])
def test_inflate_output_scale_raises_on_bad_factor(bad):
    with pytest.raises(ValueError, match="HABNN: factor must be at least 1 and finite, got"):
        HABNN(3, 2, hidden=(5,)).inflate_output_scale(bad)
