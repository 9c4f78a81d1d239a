"""Moments through ReLU and leaky ReLU against quadrature, the paper's form, sampling and limits."""

import math

import numpy as np
import pytest
from scipy import special, stats
from scipy.integrate import quad

from habnn_control.moments import identity, leaky_relu, relu

DOFS = [2.01, 2.5, 3.0, 5.0, 12.0, 40.0, 1e3, 1e6, math.inf]
RATIOS = [-30.0, -8.0, -2.0, -0.3, 0.0, 0.3, 2.0, 8.0, 30.0]


def log_density(log_t, dof):
    """Return the log of the standard t density at t = exp(log_t), also where t overflows."""
    if dof == math.inf:
        return -0.5 * math.exp(min(2 * log_t, 700.0)) - 0.5 * math.log(2 * math.pi)
    constant = math.log(special.poch(dof / 2, 0.5)) - 0.5 * math.log(dof * math.pi)
    return constant - (dof + 1) / 2 * np.logaddexp(0.0, 2 * log_t - math.log(dof))


def tail(weight_power, shift, x, dof):
    """Return the integral of (shift + s)^weight_power f(x + s) over s > 0, by adaptive quadrature in log s."""
    log_x = math.log(x) if x > 0 else -math.inf

    def integrand(u):
        log_weight = 0.0
        if weight_power:
            s = math.exp(u) if u < 700 else math.inf
            value = shift + s if shift else s
            log_weight = weight_power * (math.log(abs(value)) if math.isfinite(value) and value else u)
            if value == 0:
                return 0.0
        return math.exp(min(u + log_weight + log_density(np.logaddexp(log_x, u), dof), 700.0))

    pieces = [(-60, -6), (-6, -2), (-2, 0), (0, 2), (2, 6), (6, 40), (40, 500), (500, 4500)]
    return sum(quad(integrand, *piece, epsabs=0, epsrel=1e-11, limit=400)[0] for piece in pieces)


def moments_by_quadrature(ratio, dof):
    """Return mean, variance and Cov(a, z) of z = max(a, 0) for a standard t shifted by `ratio`.

    All integrals are of positive functions, so that no digits cancel.
    """
    density = stats.norm.pdf if dof == math.inf else stats.t(dof).pdf
    x = abs(ratio)
    if ratio <= 0:
        mean = tail(1, 0.0, x, dof)
        above = tail(0, 0.0, x, dof)
        variance = tail(2, -mean, x, dof) + mean**2 * (1 - above)
        return mean, variance, tail(2, 0.0, x, dof) + x * mean

    def body(f):
        knots = [k for k in (0.5, 1, 2, 4, 8, 16) if k < x]
        return sum(
            quad(lambda s: f(s) * density(s), a, b, epsabs=0, epsrel=1e-12, limit=400)[0]
            for a, b in zip([0, *knots], [*knots, x], strict=True)
        )

    half, first, second = 0.5, tail(1, 0.0, 0.0, dof), tail(2, 0.0, 0.0, dof)
    mean = body(lambda s: x - s) + x * half + first
    below = tail(0, 0.0, x, dof)
    excess = x - mean  # as small as the tail, so that the square below does not cancel
    variance = body(lambda s: (excess - s) ** 2) + second + 2 * excess * first + excess**2 * half + mean**2 * below
    return mean, variance, second + x * first - body(lambda s: (x - s) * s)


@pytest.mark.parametrize("dof", DOFS)
@pytest.mark.parametrize("ratio", RATIOS)
def test_relu_moments_vs_quadrature(ratio, dof):
    expected = np.array(moments_by_quadrature(ratio, dof))
    for scale in (1e-150, 1.0, 1e150):
        mean, variance, cross = relu(ratio * scale, scale**2, dof)
        wanted = expected * [scale, scale**2, scale**2]
        representable = wanted > 1e-290
        np.testing.assert_allclose(np.array([mean, variance, cross])[representable], wanted[representable], rtol=1e-9)
        assert mean > 0


@pytest.mark.parametrize("dof", [3.0, 12.0, 80.0])
def test_relu_moments_vs_incomplete_beta_form_of_the_paper(dof):
    mu, tau2 = np.array([-2.0, -0.4, 0.3, 1.7]), 0.8
    z = mu**2 / (dof * tau2 + mu**2)
    gammas = special.gamma((dof + 1) / 2) / special.gamma(dof / 2)
    above = stats.t.cdf(mu / math.sqrt(tau2), dof)
    peak = (
        gammas
        / math.sqrt(math.pi * dof * tau2)
        * dof
        * tau2
        / (dof - 1)
        * (1 + mu**2 / (dof * tau2)) ** ((1 - dof) / 2)
    )
    mean = peak + mu * above
    incomplete = special.betainc(1.5, (dof - 2) / 2, z) * special.beta(1.5, (dof - 2) / 2)
    square = dof * tau2 / (2 * (dof - 2)) + np.sign(mu) * dof * tau2 / (2 * math.sqrt(math.pi)) * gammas * incomplete
    square += 2 * mu * (mean - mu * above) + mu**2 * above
    ours = relu(mu, tau2, dof)
    np.testing.assert_allclose(ours, [mean, square - mean**2, square - mu * mean], rtol=1e-10)


def test_relu_moments_vs_truncated_gaussian():
    mu, tau = np.linspace(-5, 5, 21), 1.3
    ours = relu(mu, tau**2, math.inf)
    pdf, cdf = stats.norm.pdf(mu / tau), stats.norm.cdf(mu / tau)
    mean = mu * cdf + tau * pdf
    square = (mu**2 + tau**2) * cdf + mu * tau * pdf
    np.testing.assert_allclose(ours, [mean, square - mean**2, square - mu * mean], rtol=1e-8)


def test_relu_moments_at_large_dof_tend_to_the_gaussian():
    mu = np.linspace(-4, 4, 9)
    gaussian = np.array(relu(mu, 1.0, math.inf))
    errors = [np.abs(np.array(relu(mu, 1.0, dof)) / gaussian - 1).max() for dof in (1e4, 1e6, 1e8)]
    assert errors[0] < 0.02
    assert errors[1] < errors[0] / 50
    assert errors[2] < errors[1] / 50


def test_relu_mean_stays_positive_where_the_tail_underflows():
    mean, variance, cross = relu([-1e3, -1e100], [1.0, 1e-200], math.inf)
    assert (mean > 0).all()
    assert np.isfinite([variance, cross]).all()


def test_relu_of_a_certain_value_is_that_value():
    mean, variance, cross = relu([-2.0, 0.0, 3.0], 0.0, 5.0)
    np.testing.assert_array_equal(mean, [0.0, 0.0, 3.0])
    np.testing.assert_array_equal([variance, cross], 0.0)


@pytest.mark.parametrize("dof", [4.5, math.inf])
def test_leaky_relu_moments_vs_monte_carlo(dof):
    rng, n, slope = np.random.default_rng(3), 400_000, 0.2
    a = 0.4 + 1.5 * (rng.standard_normal(n) if dof == math.inf else rng.standard_t(dof, n))
    z = np.maximum(a, slope * a)
    mean, variance, cross = leaky_relu(0.4, 1.5**2, dof, slope)
    for sample, value in ((z, mean), ((z - mean) ** 2, variance), ((z - mean) * (a - 0.4), cross)):
        assert abs(sample.mean() - value) < 5 * sample.std() / math.sqrt(n)


def test_leaky_relu_spans_relu_and_identity():
    mu, tau2 = np.array([-1.0, 2.0]), np.array([0.5, 3.0])
    np.testing.assert_array_equal(leaky_relu(mu, tau2, 7.0, 0.0), relu(mu, tau2, 7.0))
    np.testing.assert_allclose(identity(mu, tau2, 7.0), [mu, tau2 * 7 / 5, tau2 * 7 / 5], rtol=1e-15)


def test_relu_broadcasts_and_keeps_shape():
    mean, variance, cross = relu(np.zeros((3, 1)), np.ones((1, 200)), 5.0)
    assert mean.shape == variance.shape == cross.shape == (3, 200)
    assert np.unique(mean).size == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((math.nan, 1.0, 5.0), "moments: loc must be finite"),
        ((0.0, -1.0, 5.0), "moments: scale_sq must be finite and not negative"),
        ((0.0, math.inf, 5.0), "moments: scale_sq must be finite and not negative"),
        ((0.0, 1.0, 2.0), "moments: dof must be above 2"),
        ((0.0, 1.0, math.nan), "moments: dof must be above 2"),
        ((0.0, 1.0, 5.0, 1.5), r"moments: slope must be in \[0, 1\]"),
    ],
)
def test_leaky_relu_raises_on_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        leaky_relu(*arguments)
