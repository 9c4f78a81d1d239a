"""Noise that depends on the input: the update against quadrature, AGVI and leave-one-out, and what it learns."""

import numpy as np
import pytest
from scipy import optimize, special, stats

from habnn_control import AutoscaledHABNN, HABNNCommittee, HABNNRegressor, JointHABNN, NoiseBank
from habnn_control._network.noise_kernels import learn_log_noise

RESIDUALS = (0.0, 0.3, 1.0, 2.0, 4.0)  # squared, relative to the predicted variance


def by_quadrature(variance, square, spread, log_prior=None):
    """Return the change of the mean of g, and the factor of its variance, by one residual: a sum over a fine grid."""
    g = np.sqrt(variance) * np.linspace(-14, 14, 8001)
    prior = -0.5 * g**2 / variance if log_prior is None else log_prior(g)
    total = spread + np.exp(g)
    density = np.exp(prior - 0.5 * np.log(total) - 0.5 * square / total)
    density /= density.sum()
    mean = density @ g
    return mean, density @ (g - mean) ** 2 / variance


def agvi(variance, square, spread):
    """Return the same by the equations of AGVI (Deka and Goulet, 2023), with the exponential as activation."""
    noise = np.exp(variance / 2)
    own = noise**2 * np.expm1(variance)  # variance of the noise variance
    gain = noise / (noise + spread)
    mean, left = gain**2 * square, noise * spread / (noise + spread)  # squared mean and variance of the error
    smooth = own / (3 * own + 2 * noise**2)
    back = variance * noise / own
    change = smooth**2 * (2 * left**2 + 4 * left * mean - 3 * own - 2 * noise**2)
    return back * smooth * (mean + left - noise), 1 + back**2 * change / variance


@pytest.mark.parametrize("variance", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("square", RESIDUALS)
def test_log_noise_of_a_certain_mean_is_exact_vs_quadrature_with_an_inverse_gamma(variance, square):
    shape = optimize.brentq(lambda a: special.polygamma(1, a) - variance, 0.1, 100)
    first = special.digamma(shape)
    expected = by_quadrature(variance, square, 0.0, lambda g: -shape * g - np.exp(first - g))
    np.testing.assert_allclose(learn_log_noise(0.0, variance, square, 0.0, 1.0), expected, atol=2e-5)


@pytest.mark.parametrize("spread", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("square", RESIDUALS[:-1])
def test_log_noise_vs_quadrature_with_a_gaussian(spread, square):
    square *= 1 + spread
    mean, factor = learn_log_noise(0.0, 0.3, square, spread, 1.0)
    expected = by_quadrature(0.3, square, spread)
    assert mean == pytest.approx(expected[0], abs=0.05 * np.sqrt(0.3))
    assert factor == pytest.approx(expected[1], abs=0.15)


@pytest.mark.parametrize("variance", [0.3, 1.0, 2.5])
def test_log_noise_is_closer_to_quadrature_than_agvi(variance):
    errors = []
    for spread in (0.0, 0.1, 1.0, 5.0):
        for square in np.array(RESIDUALS) * (1 + spread):
            expected = by_quadrature(variance, square, spread)[0]
            ours, theirs = learn_log_noise(0.0, variance, square, spread, 1.0)[0], agvi(variance, square, spread)[0]
            errors.append((abs(ours - expected), abs(theirs - expected)))
    ours, theirs = np.mean(errors, axis=0)
    assert ours < 0.8 * theirs


def test_log_noise_grows_with_the_logarithm_of_a_gross_residual():
    changes = [learn_log_noise(0.0, 0.5, square, 0.1, 1.0)[0] for square in (1e2, 1e4, 1e6)]
    np.testing.assert_allclose(np.diff(changes), np.log(100), rtol=0.1)
    assert agvi(0.5, 1e6, 0.1)[0] > 1e4


def test_log_noise_that_is_known_does_not_change():
    assert learn_log_noise(0.0, 0.0, 9.0, 0.1, 1.0) == (0.0, 1.0)


@pytest.mark.parametrize("weight", [0.05, 0.5])
def test_log_noise_learns_in_proportion_to_a_small_weight(weight):
    whole, factor = learn_log_noise(0.0, 1e-3, 2.0, 0.1, 1.0)
    part, part_factor = learn_log_noise(0.0, 1e-3, 2.0, 0.1, weight)
    assert part == pytest.approx(weight * whole, rel=1e-2)
    assert 1 - part_factor == pytest.approx(weight * (1 - factor), rel=1e-2)


def test_residual_without_the_share_of_a_sample_vs_leave_one_out():
    """The identity behind `known`: r / (1 - s^2 / noise) and s^2 / (1 - s^2 / noise) in a linear model."""
    rng = np.random.default_rng(0)
    phi, noise = rng.standard_normal((12, 4)), 0.3
    y = rng.standard_normal(12)
    covariance = np.linalg.inv(np.eye(4) + phi.T @ phi / noise)
    spread, loc = phi[0] @ covariance @ phi[0], covariance @ phi.T @ y / noise
    rest = np.linalg.inv(np.eye(4) + phi[1:].T @ phi[1:] / noise)
    left = 1 - spread / noise
    assert (y[0] - phi[0] @ loc) / left == pytest.approx(y[0] - phi[0] @ rest @ phi[1:].T @ y[1:] / noise)
    assert spread / left == pytest.approx(phi[0] @ rest @ phi[0])


def fan(n, seed=0):
    """Return inputs and targets whose noise has the standard deviation exp(x / 2 - 2), and that deviation."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, size=(n, 1))
    deviation = np.exp(x[:, 0] / 2 - 2)
    return x, np.sin(2 * x[:, 0]) + deviation * rng.standard_normal(n), deviation


def noise_deviation(net, x):
    return np.sqrt(net.predict(x).variance - net.predict(x, include_noise=False).variance)[:, 0]


@pytest.mark.parametrize("level", [0.003, 0.03])
def test_joint_learns_how_noise_depends_on_the_input(level):
    x, y, _ = fan(600)
    test, target, deviation = fan(2000, seed=1)
    net = JointHABNN(1, noise_variance=level, heteroscedastic=True).fit(x, y, passes=10)
    plain = JointHABNN(1, noise_variance=float(np.mean(deviation**2))).fit(x, y, passes=10)
    assert np.mean(np.abs(np.log(noise_deviation(net, test) / deviation))) < 0.15
    own, other = (net.predict(test).logpdf(target[:, None]).mean() for net in (net, plain))
    truth = stats.norm.logpdf(target, np.sin(2 * test[:, 0]), deviation).mean()
    assert other < truth - 0.15
    assert own > truth - 0.05


def test_joint_with_constant_noise_learns_that_it_is_constant():
    rng = np.random.default_rng(2)
    x = rng.uniform(-2, 2, size=(600, 1))
    y = np.sin(2 * x[:, 0]) + 0.2 * rng.standard_normal(600)
    net = JointHABNN(1, noise_variance=0.01, heteroscedastic=True).fit(x, y, passes=10)
    deviation = noise_deviation(net, np.linspace(-1.9, 1.9, 50)[:, None])
    assert np.mean(np.abs(np.log(deviation / 0.2))) < 0.15


def test_joint_learns_the_noise_of_each_output():
    x, y, deviation = fan(600)
    both = np.column_stack([y, -x[:, 0] + 0.1 * np.random.default_rng(3).standard_normal(600)])
    net = JointHABNN(1, 2, noise_variance=0.01, heteroscedastic=True).fit(x, both, passes=10)
    noise = net.predict(x).variance - net.predict(x, include_noise=False).variance
    assert np.mean(np.abs(np.log(np.sqrt(noise[:, 0]) / deviation))) < 0.2
    assert np.mean(np.abs(np.log(np.sqrt(noise[:, 1]) / 0.1))) < 0.2


def test_joint_scale_matrix_of_learned_noise_stays_positive_semidefinite():
    x, y, _ = fan(2000)
    net = JointHABNN(1, hidden=(20,), noise_variance=0.01, heteroscedastic=True).fit(x, y).fit(x, y, passes=4)
    eigenvalues = np.linalg.eigvalsh(net.weight_scale_sq)
    assert eigenvalues.min() > -1e-10 * eigenvalues.max()


def test_noise_of_a_gross_outlier_stays_near_it_with_a_threshold():
    x, y, deviation = fan(600)
    bad = np.where(np.random.default_rng(4).random(600) < 0.1, 50.0, y)
    settings = {"noise_variance": 0.03, "heteroscedastic": True}
    robust = JointHABNN(1, outlier_threshold=5.0, **settings).fit(x, bad, passes=10)
    plain = JointHABNN(1, **settings).fit(x, bad, passes=10)
    ratios = [np.median(noise_deviation(net, x) / deviation) for net in (robust, plain)]
    assert ratios[0] < 2
    assert ratios[1] > 5


def test_noise_bank_learns_a_stream_with_input_dependent_noise():
    x, y, _ = fan(800)
    test, target, _ = fan(1000, seed=1)
    scores = [
        NoiseBank(1, heteroscedastic=switch).fit(x, y).predict(test).logpdf(target[:, None]).mean()
        for switch in (False, True)
    ]
    assert scores[1] > scores[0] + 0.05


def test_committee_and_regressor_take_heteroscedastic():
    x, y, _ = fan(300)
    test, target, _ = fan(1000, seed=1)
    quick = {"folds": 3, "passes": 6, "candidates": [{"covariance": "joint", "noise_variance": 0.01}]}
    scores = [
        HABNNRegressor(heteroscedastic=switch, **quick).fit(x, y).predict_dist(test).logpdf(target).mean()
        for switch in (False, True)
    ]
    assert scores[1] > scores[0] + 0.05
    stream = HABNNRegressor(heteroscedastic=True).partial_fit(x, y)
    assert all(network.heteroscedastic for network in stream.model_.network.networks)


def test_heteroscedastic_raises_where_it_is_not_possible():
    with pytest.raises(TypeError, match="JointHABNN: heteroscedastic must be True or False, got 'yes'"):
        JointHABNN(1, heteroscedastic="yes")
    with pytest.raises(ValueError, match="AutoscaledHABNN: heteroscedastic must be False without covariance='joint'"):
        AutoscaledHABNN(1, heteroscedastic=True)
    with pytest.raises(ValueError, match="HABNNCommittee: heteroscedastic must be False without joint networks"):
        HABNNCommittee(3, hidden=(20, 20), heteroscedastic=True)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_joint_with_learned_noise_raises_on_bad_samples_and_keeps_its_state(bad):
    x, y, _ = fan(20)
    net = JointHABNN(1, hidden=(5,), heteroscedastic=True).fit(x, y)
    before = net.predict(x)
    y[7] = bad
    with pytest.raises(ValueError, match="HABNN: sample 7 must be finite"):
        net.fit(x, y)
    np.testing.assert_array_equal(net.predict(x).scale_sq, before.scale_sq)
