"""The network against independent oracles: Kalman filter, TAGI and KBNN from their equations, pytagi, limits."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from habnn_control import HABNN


def data(n, n_inputs, n_outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, n_inputs))
    y = np.stack([np.sin(x[:, 0] + k) + 0.5 * x[:, -1] for k in range(n_outputs)], axis=1)
    return x, y + 0.1 * rng.normal(size=y.shape)


def rectified_gaussian(mu, var):
    sd = np.sqrt(var)
    pdf, cdf = norm.pdf(mu / sd), norm.cdf(mu / sd)
    mean = mu * cdf + sd * pdf
    square = (mu**2 + var) * cdf + mu * sd * pdf
    return mean, square - mean**2, square - mu * mean


class GaussianNetwork:
    """TAGI (one variance per weight) and KBNN (one covariance matrix per neuron), from their published equations.

    Forward: moments of sums of products of independent Gaussians. Backward: the Rauch-Tung-Striebel step
    mu + J (mu_post - mu_prior), C + J (C_post - C_prior) J', layer by layer.
    """

    def __init__(self, network):
        self.weights = [w.copy() for w in network.weight_loc]
        scales = network.weight_scale_sq
        self.covariances = [s.copy() if s.ndim == 3 else np.stack([np.diag(row) for row in s]) for s in scales]
        self.diagonal = scales[0].ndim == 2
        self.noise = network.noise_variance

    def update(self, x, y):
        mean, var, kept = x, np.zeros_like(x), []
        for weight, cov in zip(self.weights, self.covariances, strict=True):
            gain = 1 / math.sqrt(weight.shape[1])
            z, c_z = np.append(mean, 1.0), np.diag(np.append(var, 0.0))
            a = gain * weight @ z
            a_var = gain**2 * np.array(
                [w @ c_z @ w + z @ c @ z + np.trace(c @ c_z) for w, c in zip(weight, cov, strict=True)]
            )
            mean, var, cross = rectified_gaussian(a, a_var)
            kept.append((z, c_z, a, a_var, mean, var, cross, gain))
        z, c_z, a, a_var, *_ = kept[-1]
        a_post = a + a_var / (a_var + self.noise) * (y - a)
        a_var_post = a_var - a_var**2 / (a_var + self.noise)
        for layer in reversed(range(len(self.weights))):
            z, c_z, a, a_var, *_, gain = kept[layer]
            weight, cov = self.weights[layer], self.covariances[layer]
            z_gain = gain * (weight @ c_z) / a_var[:, None]  # (n_out, n_in + 1)
            z_step = z_gain.T @ (a_post - a)
            z_var_step = (z_gain**2).T @ (a_var_post - a_var)
            for i in range(len(weight)):
                j = gain * cov[i] @ z / a_var[i]
                weight[i] = weight[i] + j * (a_post[i] - a[i])
                cov[i] = cov[i] + np.outer(j, j) * (a_var_post[i] - a_var[i])
                if self.diagonal:
                    cov[i] = np.diag(np.diag(cov[i]))
            if layer:
                _, _, a, a_var, _, var, cross, _ = kept[layer - 1]
                slope = cross / var
                a_post = a + slope * z_step[:-1]
                a_var_post = a_var + slope**2 * z_var_step[:-1]


@pytest.mark.parametrize("hidden", [(), (7,), (6, 5), (4, 5, 6), (3, 4, 4, 3)])
@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_gaussian_limit_reduces_to_tagi_and_kbnn(hidden, covariance):
    network = HABNN(3, 1, hidden, dof=math.inf, scale=0.01, covariance=covariance, noise_variance=0.1, seed=4)
    oracle = GaussianNetwork(network)
    for x, y in zip(*data(60, 3), strict=True):
        network.update(x, y)
        oracle.update(x, y)
    for ours, theirs in zip(network.weight_loc, oracle.weights, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)
    for ours, theirs in zip(network.weight_scale_sq, oracle.covariances, strict=True):
        expected = theirs if covariance == "full" else np.einsum("ijj->ij", theirs)
        np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-12)
    assert network.dof == math.inf


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_large_dof_tends_to_the_gaussian_limit(covariance):
    x, y = data(80, 3, 2)

    def locations(dof):
        network = HABNN(3, 2, (8,), dof=dof, covariance=covariance, noise_variance=0.1).fit(x, y)
        return np.concatenate([w.ravel() for w in network.weight_loc])

    limit = locations(math.inf)
    errors = [np.abs(locations(dof) - limit).max() for dof in (1e3, 1e5, 1e7)]
    assert errors[1] < errors[0] / 50
    assert errors[2] < errors[1] / 50
    assert errors[2] < 1e-5


def test_linear_layer_vs_bayesian_linear_regression():
    x, y = data(50, 4)
    network = HABNN(4, 1, (), dof=math.inf, scale=0.7, covariance="full", noise_variance=0.3, seed=2)
    prior = network.weight_loc[0][0].copy()
    network.fit(x, y)
    design = np.column_stack([x, np.ones(50)]) / math.sqrt(5)  # the gain 1 / sqrt(fan) is part of the model
    precision = np.eye(5) / 0.7 + design.T @ design / 0.3
    mean = np.linalg.solve(precision, prior / 0.7 + design.T @ y[:, 0] / 0.3)
    np.testing.assert_allclose(network.weight_loc[0][0], mean, rtol=1e-10)
    np.testing.assert_allclose(network.weight_scale_sq[0][0], np.linalg.inv(precision), rtol=1e-9, atol=1e-12)


def test_random_walk_vs_kalman_filter():
    """A Kalman filter with random-walk states, written with separate prediction and correction steps."""
    drift, scale, noise = 0.2, 0.5, 0.3
    network = HABNN(1, 1, (), dof=math.inf, scale=scale, covariance="full", noise_variance=noise, drift=drift)
    mean, cov = network.weight_loc[0][0].copy(), scale * np.eye(2)
    for x, y in zip(*data(30, 1), strict=True):
        network.update(x, y)
        h = np.append(x, 1.0) / math.sqrt(2)
        gain = cov @ h / (h @ cov @ h + noise)
        mean, cov = mean + gain * (y[0] - h @ mean), cov - np.outer(gain, h @ cov) + drift * scale * np.eye(2)
    np.testing.assert_allclose(network.weight_loc[0][0], mean, rtol=1e-10)
    np.testing.assert_allclose(network.weight_scale_sq[0][0], cov, rtol=1e-9, atol=1e-12)


def test_student_t_linear_layer_vs_conditional_t():
    """With a certain input and full covariance, the posterior of the weights is the conditional of a joint t."""
    nu, noise = 6.0, 0.4
    network = HABNN(2, 1, (), dof=nu, scale=0.5, covariance="full", noise_variance=noise, seed=1)
    mu, sigma = network.weight_loc[0][0].copy(), 0.5 * np.eye(3)
    x, y = np.array([0.3, -1.2]), 2.5
    network.update(x, y)
    h = np.append(x, 1.0) / math.sqrt(3)
    s_a = h @ sigma @ h
    s_y = s_a + noise * (nu - 2) / nu
    error = y - h @ mu
    distance = error**2 / s_y
    a_post, s_a_post = s_a / s_y * error, (nu + distance) / (nu + 1) * (s_a - s_a**2 / s_y)
    j = sigma @ h / s_a
    factor = (nu + (a_post**2 + s_a_post) / s_a) / (nu + 1)
    expected = factor * (sigma - np.outer(j, j) * s_a) + np.outer(j, j) * s_a_post
    np.testing.assert_allclose(network.weight_loc[0][0], mu + j * a_post, rtol=1e-13)
    np.testing.assert_allclose(network.weight_scale_sq[0][0], expected, rtol=1e-12)
    assert network.dof == nu + 1


def test_wide_network_does_not_depend_on_the_block_size():
    """The moments of a neuron do not depend on the width of its layer; 130 neurons need three blocks."""
    small = HABNN(3, 1, (10,), covariance="diagonal", fan="in")
    wide = HABNN(3, 1, (130,), covariance="diagonal", fan="in")
    for layer, axis in ((0, 0), (1, 1)):
        wide.weight_loc[layer][:] = 0.0
        target = wide.weight_loc[layer] if axis == 0 else wide.weight_loc[layer][:, :10]
        source = small.weight_loc[layer] if axis == 0 else small.weight_loc[layer][:, :10]
        target[:10] = source
    wide.weight_loc[1][:, -1] = small.weight_loc[1][:, -1]
    wide.weight_scale_sq[1][:, 10:-1] = 0.0
    x, _ = data(5, 3)
    np.testing.assert_allclose(wide.predict(x).loc * math.sqrt(131), small.predict(x).loc * math.sqrt(11), rtol=1e-12)


def test_gaussian_diagonal_vs_pytagi():
    pytagi_nn = pytest.importorskip("pytagi.nn", reason="pytagi is in the regression extra")
    hidden, noise, scale = 12, 0.25, 0.04
    ours = HABNN(3, 1, (hidden,), dof=math.inf, scale=scale, noise_variance=noise, seed=3)
    gains = [1 / math.sqrt(4), 1 / math.sqrt(hidden + 1)]
    theirs = pytagi_nn.Sequential(pytagi_nn.Linear(3, hidden), pytagi_nn.MixtureReLU(), pytagi_nn.Linear(hidden, 1))
    theirs.set_threads(1)
    state = {}
    for key, (layer, gain) in zip(("Linear.0", "Linear.2"), enumerate(gains), strict=True):
        loc, var = gain * ours.weight_loc[layer], gain**2 * ours.weight_scale_sq[layer]
        state[key] = tuple(
            np.ascontiguousarray(part, dtype=np.float32).ravel().tolist()
            for part in (loc[:, :-1], var[:, :-1], loc[:, -1], var[:, -1])
        )
    theirs.load_state_dict(state)
    updater = pytagi_nn.OutputUpdater(theirs.device)
    x, y = data(40, 3)
    for row, target in zip(x, y, strict=True):
        mean, var = theirs(row.astype(np.float32))
        prediction = ours.predict(row[None])
        np.testing.assert_allclose(prediction.mean[0, 0], mean[0], rtol=2e-3, atol=2e-3)
        np.testing.assert_allclose(prediction.variance[0, 0] - noise, var[0], rtol=5e-3)
        updater.update(
            output_states=theirs.output_z_buffer,
            mu_obs=target.astype(np.float32),
            var_obs=np.array([noise], dtype=np.float32),
            delta_states=theirs.input_delta_z_buffer,
        )
        theirs.backward()
        theirs.step()
        ours.update(row, target)


def test_outlier_is_clipped_to_the_limit():
    """Beyond D = 100 dof an outlier has the effect of one at the limit; below, the scales grow with the distance."""

    def after(y):
        return HABNN(2, 1, (), dof=6.0, scale=0.5, covariance="full", noise_variance=0.4).update([0.3, -1.2], y)

    network = HABNN(2, 1, (), dof=6.0, scale=0.5, covariance="full", noise_variance=0.4)
    prior = network.predict([[0.3, -1.2]])
    limit = prior.loc[0, 0] + math.sqrt(100 * 6.0 * prior.scale_sq[0, 0])
    np.testing.assert_allclose(after(limit * 1e6).weight_loc[0], after(limit).weight_loc[0], rtol=1e-12)
    np.testing.assert_allclose(after(limit * 1e6).weight_scale_sq[0], after(limit).weight_scale_sq[0], rtol=1e-12)
    assert (after(0.99 * limit).weight_scale_sq[0][0].diagonal() < after(limit).weight_scale_sq[0][0].diagonal()).all()
