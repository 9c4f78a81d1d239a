"""The methods of the regression study: names, variants, missing packages, and that each one learns."""

import numpy as np
import pytest

from habnn_control import HABNN
from habnn_control.regression import methods
from habnn_control.regression.methods import METHODS, pbp
from habnn_control.regression.methods.base import NOISE_SHARES, NoiseChosen, gaussian

# The paper-table is meant not to learn; the long chain of NUTS is `nuts` with other lengths.
LEARNING = [name for name in METHODS if name not in ("constant", "paper-table", "nuts-long")]


def data(n=250, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 3))
    return x, x @ [0.8, -0.5, 0.2] + noise * rng.standard_normal(n)


def fitted(name, x, y, seed=0):
    package = METHODS[methods.split(name)[0]].package
    pytest.importorskip(package, reason=f"{package} is in the regression extra")
    method = methods.build(name, x.shape[1], seed)
    method.tune(x, y)
    method.fit(x, y)
    return method


@pytest.mark.parametrize("name", LEARNING)
def test_method_beats_the_constant_and_repeats_itself(name):
    x, y = data()
    test_x, test_y = data(200, seed=1)
    method = fitted(name, x, y)
    prediction = method.predict(test_x)
    constant = fitted("constant", x, y).predict(test_x)
    assert prediction.mean.shape == prediction.logpdf(test_y).shape == prediction.cdf(test_y).shape == (200,)
    assert np.mean((prediction.mean - test_y) ** 2) < 0.4 * np.mean((constant.mean - test_y) ** 2)
    assert prediction.logpdf(test_y).mean() > constant.logpdf(test_y).mean()
    again = fitted(name, x, y).predict(test_x)
    np.testing.assert_array_equal(again.mean, prediction.mean)


@pytest.mark.parametrize("name", ["habnn", "pbp", "dropout", "laplace"])
def test_method_depends_on_its_seed(name):
    x, y = data(60)
    assert not np.array_equal(fitted(name, x, y).predict(x).mean, fitted(name, x, y, seed=1).predict(x).mean)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("dropout:epochs=2", "rate=0.03"),
        ("dropout:epochs=2", "dropout=0.5"),
        ("ensemble:epochs=2", "rate=0.05"),
        ("habnn-joint", "heteroscedastic=1"),
    ],
)
def test_setting_of_a_method_changes_it(name, changes):
    x, y = data(60)
    changed = fitted(f"{name}{',' if ':' in name else ':'}{changes}", x, y)
    assert not np.allclose(changed.predict(x).logpdf(y), fitted(name, x, y).predict(x).logpdf(y))


def test_nuts_draws_as_often_as_it_is_told():
    x, y = data(40)
    assert fitted("nuts:warmup=12,draws=7,depth=3", x, y)._draws["precision"].shape == (7,)


@pytest.mark.parametrize("name", ["pytagi", "dropout", "svi"])
def test_method_takes_every_32_bit_seed(name):
    x, y = data(30)
    assert np.isfinite(fitted(name, x, y, seed=2**32 - 1).predict(x).mean).all()


@pytest.mark.parametrize("name", ["dropout", "laplace"])
def test_method_leaves_the_global_random_state_alone(name):
    torch = pytest.importorskip("torch")
    x, y = data(40)
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    fitted(name, x, y).predict(x)
    assert torch.equal(before[0], torch.random.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002


def test_tagi_and_kbnn_are_limits_of_habnn():
    x, y = data()
    priors = {"tagi": {"prior_std": 0.5, "output_prior_std": 0.0}, "kbnn": {}}
    for name, covariance in (("tagi", "diagonal"), ("kbnn", "full")):
        method = fitted(name, x, y, seed=4)
        settings = {"covariance": covariance, "noise_variance": method.noise_variance, "seed": 4, **priors[name]}
        network = HABNN(3, 1, (50,), dof=np.inf, scale=0.3, **settings).fit(x, y)
        np.testing.assert_array_equal(method.predict(x).mean, network.predict(x).mean[:, 0])


def test_noise_chosen_is_the_most_likely_on_the_last_tenth_vs_formula():
    class Zero(NoiseChosen):
        def fit(self, x, y):  # noqa: ARG002
            self.rows = len(x)

        def predict(self, x):
            return gaussian(np.zeros(len(x)), np.full(len(x), self.noise_variance))

    rng = np.random.default_rng(0)
    y = np.concatenate([rng.standard_normal(900), np.sqrt(0.1) * rng.standard_normal(100)])
    zero = Zero(1, 0)
    zero.tune(y[:, None], y)
    assert zero.rows == 900
    assert zero.noise_variance == pytest.approx(0.1 * y[:900].var())
    assert 0.1 in NOISE_SHARES


def test_pbp_learns_the_noise():
    x, y = data(1500, noise=0.4)
    method = fitted("pbp", x, y)
    test_x, _ = data(100, seed=1)
    variance = method.predict(test_x).variance.mean()
    assert 0.4**2 * 0.85 < variance < 0.4**2 * 1.6  # the rest is the weights' own uncertainty


def pbp_layers(n_inputs=2, seed=0):
    """Return means and variances of both layers, and shape and rate of the noise precision."""
    rng = np.random.default_rng(seed)
    first, second = (50, n_inputs + 1), (51,)
    spreads = [rng.uniform(0.1, 1, size=shape) for shape in (first, second)]
    return rng.standard_normal(first), spreads[0], rng.standard_normal(second), spreads[1], np.array([6.0, 6.0])


def test_pbp_update_vs_kalman_gain():
    """With a certain hidden layer the network is linear in its output weights: one step is a diagonal Kalman filter."""
    mean1, var1, mean2, var2, noise = pbp_layers()
    var1[:] = 1e-14
    hidden = np.append(np.maximum(mean1 @ [0.7, -0.4, 1.0], 0) / np.sqrt(3), 1.0) / np.sqrt(51)
    mean, variance = mean2.copy(), var2.copy()
    total = hidden**2 @ variance + 6 / 5
    pbp.assumed_density_filter(np.array([[0.7, -0.4, 1.0]]), np.array([2.0]), mean1, var1, mean2, var2, noise)
    np.testing.assert_allclose(mean2, mean + variance * hidden * (2 - hidden @ mean) / total, atol=1e-5)
    np.testing.assert_allclose(var2, variance - (variance * hidden) ** 2 / total, atol=1e-5)


def test_pbp_update_vs_automatic_differentiation():
    torch = pytest.importorskip("torch")
    layers = pbp_layers()
    x, y = torch.tensor([0.7, -0.4, 1.0], dtype=torch.float64), 2.0
    means, spreads = ([torch.tensor(layers[k], requires_grad=True) for k in part] for part in ((0, 2), (1, 3)))
    loc, var = means[0] @ x / 3**0.5, spreads[0] @ x**2 / 3
    normal = torch.distributions.Normal(0, 1)
    below, density = normal.cdf(loc / var.sqrt()), normal.log_prob(loc / var.sqrt()).exp()
    z = loc * below + var.sqrt() * density
    z_var = (loc**2 + var) * below + loc * var.sqrt() * density - z**2
    z, z_var = (torch.cat([part, torch.tensor([end], dtype=torch.float64)]) for part, end in ((z, 1.0), (z_var, 0.0)))
    total = (z_var @ means[1] ** 2 + (z**2 + z_var) @ spreads[1]) / 51 + 6 / 5
    torch.distributions.Normal(z @ means[1] / 51**0.5, total.sqrt()).log_prob(torch.tensor(y)).backward()
    pbp.assumed_density_filter(x.numpy()[None], np.array([y]), *layers)
    for new_mean, new_spread, mean, spread in zip(layers[:4:2], layers[1:4:2], means, spreads, strict=True):
        wanted = spread - spread**2 * (mean.grad**2 - 2 * spread.grad)
        np.testing.assert_allclose(new_mean, (mean + spread * mean.grad).detach(), rtol=1e-10)
        np.testing.assert_allclose(new_spread, wanted.detach(), rtol=1e-10)


def test_paper_table_is_nearly_a_constant_of_variance_50_vs_paper():
    """The printed NLL on Wine, Naval and Kin8nm is 0.5 log(2 pi 50) = 2.875, whatever the model learned."""
    x, y = data(900)
    test_x, test_y = data(200, seed=1)
    nll = -fitted("paper-table", x + 10, y).predict(test_x + 10).logpdf(test_y).mean()
    assert nll == pytest.approx(0.5 * np.log(2 * np.pi * 50), abs=0.03)


def test_pbp_learns_more_in_more_epochs():
    x, _ = data(300)
    y = np.sin(2 * x[:, 0])
    errors = [np.mean((fitted(name, x, y).predict(x).mean - y) ** 2) for name in ("pbp", "pbp:epochs=20")]
    assert errors[1] < 0.8 * errors[0]


def test_variant_changes_the_network():
    x, y = data(50)
    wanted = HABNN.paper(3, hidden=(50, 50), scale=0.5, seed=0).fit(x, y).predict(x).mean[:, 0]
    np.testing.assert_array_equal(fitted("habnn:scale=0.5,layers=2", x, y).predict(x).mean, wanted)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("habn", "did you mean 'habnn'"),
        (
            "habnn:scal=1",
            "must change scale, dof, layers, outlier_threshold, got 'habnn:scal=1'; did you mean 'scale'",
        ),
        ("pbp:scale=1", "a variant of pbp must change epochs"),
        ("habnn:scale=big", "must read NAME:SETTING=NUMBER"),
    ],
)
def test_check_raises_on_name(name, message):
    with pytest.raises(ValueError, match=message):
        methods.check(name)


def test_check_raises_on_missing_extra(monkeypatch):
    monkeypatch.setattr("habnn_control.support.extras.find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"nuts must have the package numpyro, got none; install the regression extra"):
        methods.check("nuts")
