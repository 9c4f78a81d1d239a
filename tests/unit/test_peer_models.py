"""The linear and the Gaussian process model against scikit-learn, closed forms and Monte Carlo."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct
from sklearn.linear_model import Ridge

from agents.gaussian_process import GaussianProcessModel, Kernel, ProcessCovariance
from agents.linear import LinearModel
from habnn_control.control.plant import Actuators, Bounds, Plant

BOUNDS = Bounds.of([0.0, -20.0, 0.0], [10.0, 20.0, 30.0], [-1.0], [1.0])  # an actuator and two outputs
PLANT = Plant(lambda _, observations: observations[..., 1], Actuators([0], [2.0]))


def logged(n, seed=0):
    """Yield actions and observations of two first-order processes behind an actuator, after a first observation."""
    rng = np.random.default_rng(seed)
    position, first, second = 5.0, 0.0, 10.0
    yield None, np.array([position, first, second])
    for action in rng.uniform(-1.0, 1.0, (n, 1)):
        position = float(np.clip(position + 2.0 * action[0], 0.0, 10.0))
        first += 0.3 * (2.0 * (position - 5.0) - first) + 0.1 * rng.standard_normal()
        second += 0.2 * (2.0 * position - second) + 0.3 * rng.standard_normal()
        yield action, np.array([position, first, second])


def taught(model, n, seed=0):
    """Return the inputs and targets of all samples that a model learned from."""
    (_, start), *steps = logged(n, seed)
    model.begin(start)
    inputs, targets = [], []
    for action, observation in steps:
        inputs.append(model.encoder.next_inputs(model.memory, action)[0])
        targets.append(model.encoder.target(model.memory, observation))
        model.observe(action, observation)
    return np.array(inputs), np.array(targets)


def linear(**settings):
    return LinearModel(PLANT, BOUNDS, **{"history": 2, **settings})


def process(**settings):
    return GaussianProcessModel(PLANT, BOUNDS, **{"history": 2, "target": "absolute", "past_outputs": 1, **settings})


# ---------------------------------------------------------------------- linear


def test_linear_weights_vs_ridge_regression():
    model = linear(memory_time=np.inf, prior_std=0.5, noise_std=0.1)
    x, y = taught(model, 60)
    with_one = np.column_stack([x, np.ones(len(x))])
    ridge = Ridge(alpha=(0.1 / 0.5) ** 2, fit_intercept=False).fit(with_one, y)
    np.testing.assert_allclose(model._posterior()[0], ridge.coef_.T, atol=1e-9)


def test_linear_noise_is_that_of_the_process():
    """0.1 and 0.3 in units of half ranges of 20 and 15; the measured state is the true one, so the fit is exact."""
    model = linear(memory_time=np.inf, prior_std=1.0)
    taught(model, 3000)
    np.testing.assert_allclose(np.sqrt(model.noise_variance), [0.1 / 20, 0.3 / 15], rtol=0.05)


def test_linear_intervals_cover():
    model, inside = linear(), []
    (_, start), *steps = logged(1000, seed=5)
    model.begin(start)
    for action, observation in steps:
        prediction = model.predict(action)
        values = observation[prediction.indices]
        inside.append((prediction.low <= values) & (values <= prediction.high))
        model.observe(action, observation)
    share = np.mean(inside[200:], axis=0)  # of 800 each: a standard error of 0.011
    assert (np.abs(share - 0.9) < 5 * 0.011).all()


def test_linear_forgets_a_process_that_changed():
    """After the change, a model with a short memory predicts better than one that never forgets."""
    errors = {}
    for time in (30.0, np.inf):
        model = linear(memory_time=time)
        taught(model, 300)
        model.begin([5.0, 0.0, 10.0])
        wrong = []
        for action, observation in list(logged(150, seed=1))[1:]:
            shown = observation * [1.0, -1.0, 1.0]  # the first output now answers with the other sign
            wrong.append(abs(model.predict(action).mean[0] - shown[1]))
            model.observe(action, shown)
        errors[time] = np.mean(wrong[-50:])
    assert errors[30.0] < 0.5 * errors[np.inf]


def test_linear_draws_have_the_posterior_moments():
    model = linear(past_outputs=0)
    taught(model, 30)
    sequence = np.array([[[1.0], [-1.0], [0.5]]])
    forecast = model.forecast(model.memory, sequence)
    rng = np.random.default_rng(0)
    paths = np.array([model.draw(rng).forecast(model.memory, sequence).observations[0, :, 1:] for _ in range(1500)])
    standard_error = paths.std(axis=0) / np.sqrt(len(paths))
    assert (np.abs(paths.mean(axis=0) - forecast.observations[0, :, 1:]) < 5 * standard_error).all()
    np.testing.assert_allclose(paths.std(axis=0), forecast.deviations[0], rtol=5 / np.sqrt(2 * 1500))


@pytest.mark.parametrize("bad", [{"prior_std": 0.0}, {"noise_std": np.nan}, {"memory_time": 0.5}])
def test_linear_raises_on_bad_settings(bad):
    with pytest.raises(ValueError, match="linear: prior_std and noise_std must be positive and memory_time at least 1"):
        linear(**bad)


# ---------------------------------------------------------------------- Gaussian process


def sklearn_process(model, x, y, output):
    """Return scikit-learn's process with the hyperparameters that the model has chosen."""
    d, kernel, one = x.shape[1], model._kernel, model._posteriors()[output]
    dot = ConstantKernel(kernel.linear / (1 + d)) * DotProduct(1.0)
    law = ConstantKernel(one.variance) * (ConstantKernel(1 - kernel.linear) * RBF(kernel.length * np.sqrt(d)) + dot)
    return GaussianProcessRegressor(law, alpha=one.ratio * one.variance, optimizer=None).fit(x, y[:, output])


@pytest.mark.parametrize("output", [0, 1])
def test_process_predicts_as_scikit_learn(output):
    model = process()
    x, y = taught(model, 80)
    peer = sklearn_process(model, x, y, output)
    for action in ([-1.0], [0.3]):
        mean, std = peer.predict(model.encoder.next_inputs(model.memory, action), return_std=True)
        prediction = model.predict(action)
        scaled = model.encoder._transform.forward(prediction.mean, model.memory.origin)
        np.testing.assert_allclose(scaled[output], mean[0], atol=1e-6)
        noise = model.noise_variance[output]
        half = 1.6448536 * np.sqrt(std[0] ** 2 + noise) * model.encoder._transform.half_range[output]
        np.testing.assert_allclose((prediction.high - prediction.low)[output] / 2, half, rtol=1e-4)


def test_process_chooses_the_most_likely_hyperparameters_vs_scikit_learn():
    """No other pair of the grid has a higher marginal likelihood, by scikit-learn's count, for a single output."""
    plant = Plant(PLANT.loss, PLANT.actuators, ignored=[2])
    model = GaussianProcessModel(plant, BOUNDS, history=1, target="absolute", past_outputs=1)
    x, y = taught(model, 75)
    chosen = sklearn_process(model, x, y, 0).log_marginal_likelihood_value_
    found = model._kernel.length, model._ratios[0]
    others = []
    for length in (0.5, 1.0, 2.0, 4.0):
        for ratio in (1e-3, 1e-2, 1e-1, 1.0):
            model._kernel, model._ratios = model._kernel._replace(length=length), np.array([ratio])
            model._fitted = None
            others.append(sklearn_process(model, x, y, 0).log_marginal_likelihood_value_)
    assert chosen > max(others) - 0.5, found  # the variance has a prior, which scikit-learn does not count
    assert np.ptp(others) > 10


def test_process_keeps_recent_samples_and_drops_redundant_ones():
    model = process(capacity=40, recent=10)
    x, y = taught(model, 200)
    assert model._inputs.shape == (40, model.encoder.n_inputs)
    np.testing.assert_array_equal(model._inputs[-10:], x[-10:])
    np.testing.assert_array_equal(model._targets[-10:], y[-10:])
    kernel = Kernel(1.0, 0.3)

    def volume(samples):
        return np.linalg.slogdet(kernel(samples, samples) + 0.1 * np.eye(len(samples))).logabsdet

    assert volume(model._inputs) > volume(x[-40:]) + 1.0  # spread wider than a window of the same size


def test_kernel_of_one_input_is_one_at_the_origin_and_positive_definite():
    x = np.random.default_rng(0).normal(size=(30, 4))
    matrix = Kernel(0.5, 0.3)(x, x)
    assert np.linalg.eigvalsh(matrix).min() > 0
    assert Kernel(0.5, 0.0)(x, x).max() == pytest.approx(1.0)


def test_process_differences_are_sums_along_both_plans():
    model, rng = process(), np.random.default_rng(0)
    taught(model, 30)
    sequences = rng.uniform(-1.0, 1.0, (4, 5, BOUNDS.n_actions))
    plans = model.forecast(model.memory, sequences).epistemic
    weights = rng.normal(size=(4, 5, plans.over_steps().shape[1]))
    path = np.concatenate([plans._path, np.broadcast_to(plans._path[:1], plans._path.shape)], axis=1)
    both = ProcessCovariance(plans._kernel, plans._samples, plans._posteriors, path)
    expected = both.of_sums(np.concatenate([weights, np.broadcast_to(-weights[:1], weights.shape)], axis=1))
    np.testing.assert_allclose(plans.of_differences(weights), expected, rtol=1e-6, atol=1e-9)


def test_process_draws_have_the_posterior_moments():
    """To a tenth of the deviation: the features of the prior are an approximation."""
    model = process(past_outputs=0)
    taught(model, 40)
    sequence = np.array([[[1.0], [-1.0], [0.5]]])
    forecast = model.forecast(model.memory, sequence)
    rng = np.random.default_rng(0)
    paths = np.array([model.draw(rng).forecast(model.memory, sequence).observations[0, :, 1:] for _ in range(1500)])
    deviation = forecast.deviations[0]
    assert (np.abs(paths.mean(axis=0) - forecast.observations[0, :, 1:]) < 5 / np.sqrt(1500) * 1.2 * deviation).all()
    np.testing.assert_allclose(paths.std(axis=0), deviation, rtol=0.15)


@pytest.mark.parametrize("bad", [{"capacity": 10, "recent": 10}, {"recent": 0}, {"linear": 1.0}, {"capacity": 5.5}])
def test_process_raises_on_bad_settings(bad):
    with pytest.raises(ValueError, match="gp: capacity must be above recent, both whole and positive, and linear in"):
        process(**bad)
