"""The transition model looking ahead, against formulas, Monte Carlo and the plant."""

from math import inf, sqrt

import numpy as np
import pytest

from agents.runner import make_env
from envs import find_plant
from habnn_control.control.model import FactorCovariance
from habnn_control.control.plant import Bounds
from habnn_control.control.rollout import OutputLayerCovariance
from habnn_control.control.transition_model import TransitionModel
from linear_plant import CERTAIN, PLANT, PLANT_HIGH, PLANT_LOW, STEP, UNKNOWN, black_box, follow, make_model, trained


@pytest.mark.parametrize("target", ["absolute", "delta", "log", "softplus"])
@pytest.mark.parametrize("past_outputs", [2, 0])
@pytest.mark.parametrize("plant", [PLANT, UNKNOWN], ids=["known", "unknown"])
def test_forecast_is_stepping_predict_by_hand(target, plant, past_outputs):
    """Play the expected observation after each action as if it had come."""
    model = make_model(plant, target=target, past_outputs=past_outputs, network={**CERTAIN, "hidden": (8,)})
    model.begin([80.0, 5.0, 3.0])
    follow(model, [0.5], [80.0, 6.0, 2.0])
    sequences = np.random.default_rng(3).uniform(-1, 1, (4, 6, 1))
    start, outputs = model.snapshot(), model.encoder.outputs
    forecast = model.forecast(model.memory, sequences)
    for sequence, ahead in zip(sequences, forecast.observations, strict=True):
        model.restore(start)
        position = 6.0
        for action, observation in zip(sequence, ahead, strict=True):
            expected = np.array([80.0, 0.0, 0.0])
            position = np.clip(position + STEP * action[0], 0.0, 10.0)
            expected[1] = position
            prediction = model.predict(action)
            expected[outputs] = np.clip(prediction.mean, PLANT_LOW[outputs], PLANT_HIGH[outputs])
            np.testing.assert_allclose(observation, expected, rtol=1e-5, atol=1e-5)  # forecasts are of single precision
            follow(model, action, expected)


def test_forecast_starts_from_the_memory_it_is_given():
    """The memory of another episode, and the model itself, stay as they are."""
    model, twin = trained(), trained()
    sequences = np.random.default_rng(3).uniform(-1, 1, (4, 6, 1))
    memory = model.next_memory(model.first_memory([80.0, 5.0, 3.0]), [0.5], [80.0, 6.0, 2.0])
    other, here = model.forecast(memory, sequences).observations, model.forecast(model.memory, sequences).observations
    assert (other[..., 2] != here[..., 2]).all()
    assert (other[..., 0] == 80.0).all()
    for name, value in model.snapshot().items():
        np.testing.assert_array_equal(value, twin.snapshot()[name])
    twin.restore(twin.snapshot() | {f"memory_{name}": value for name, value in memory._asdict().items()})
    np.testing.assert_array_equal(twin.forecast(twin.memory, sequences).observations, other)


def test_draw_follows_one_function_of_the_posterior():
    model = trained(network={"hidden": (8,)})
    sequences = np.random.default_rng(3).uniform(-1, 1, (3, 5, 1))
    drawn = [model.draw(np.random.default_rng(seed)).forecast(model.memory, sequences) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(drawn[0].observations, drawn[1].observations)
    assert (drawn[0].observations[..., 2] != drawn[2].observations[..., 2]).all()
    assert not drawn[0].deviations.any()
    expected = model.forecast(model.memory, sequences).observations[..., 2]
    assert 0 < np.abs(drawn[0].observations[..., 2] - expected).max() < 10.0


@pytest.mark.parametrize("target", ["absolute", "delta", "log", "softplus"])
def test_draw_feeds_the_function_its_own_values_vs_single_steps(target):
    """The same draw, followed one step at a time with the noiseless values that it predicts."""
    model = trained(target=target, past_outputs=2, network={"hidden": (8,)})
    sequence = np.random.default_rng(3).uniform(-1, 1, (5, 1))
    ahead = model.draw(np.random.default_rng(1)).forecast(model.memory, sequence[None]).observations[0]
    function, encoder, memory = model.network.sample_function(np.random.default_rng(1)), model.encoder, model.memory
    for action, observation in zip(sequence, ahead, strict=True):
        output = function(encoder.next_inputs(memory, action))[0]
        noiseless = np.clip(encoder.next_values(memory, output), PLANT_LOW[2:], PLANT_HIGH[2:])
        after = np.array([50.0, np.clip(memory.observation[1] + STEP * action[0], 0.0, 10.0), *noiseless])
        memory = encoder.next_memory(memory, action, after)
        expected = encoder.values(memory, memory.past[-1], model.network.noise_variance)
        np.testing.assert_allclose(observation, [50.0, after[1], *expected], rtol=1e-9)


def autoregression(target):
    """Return a model that knows x' = 0.8 x + 0.5 a + noise of sd 0.1 exactly, in targets, and has just seen x = 0."""
    network = {**CERTAIN, "hidden": (), "dof": inf, "noise_variance": 0.01}
    model = black_box(history=0, past_outputs=1, target=target, network=network)
    model.network.weight_loc[0][:] = np.array([0.25, 0.8, 0.0]) * sqrt(3)  # the fan rule divides by it; inputs are 2 a
    model.begin([0.0])
    return model


@pytest.mark.parametrize("target", ["absolute", "log"])
def test_forecast_of_an_autoregression_vs_its_formula(target):
    """The mean is fed back, so that no epistemic variance grows where the weights are known."""
    model = autoregression(target)
    actions = np.random.default_rng(0).uniform(-0.3, 0.3, (3, 6, 1))
    forecast = model.forecast(model.memory, actions)
    mean = np.zeros(3)
    for k in range(6):
        mean = 0.8 * mean + 0.5 * actions[:, k, 0]
        # The lognormal mean; x = 0 is at 1.1, its distance from -1 and a tenth of that.
        value = 1.1 * np.exp(mean + 0.5 * 0.01) - 1.1 if target == "log" else mean
        np.testing.assert_allclose(forecast.observations[:, k, 0], value, rtol=1e-5, atol=1e-6)  # single precision
    assert not forecast.deviations[:, -1].max() > 1e-5


def test_forecast_moves_the_actuators_vs_the_plant():
    """Positions along random actions, large enough to meet the bounds, equal those of the Industrial Benchmark."""
    env = make_env(70.0)
    observation, _ = env.reset(seed=0)
    space, box = env.observation_space, env.action_space
    bounds = Bounds.of(space.low, space.high, box.low, box.high)
    model = TransitionModel(find_plant(env), bounds, network={"hidden": (5,)})
    rng = np.random.default_rng(1)
    sequences = np.clip(rng.uniform(-1, 1, (6, 1, 3)) + rng.uniform(-1, 1, (6, 40, 3)), -1, 1).astype(np.float32)
    start = env.unwrapped.get_state()
    model.begin(observation)
    forecast = model.forecast(model.memory, sequences.astype(np.float64))
    for sequence, ahead in zip(sequences, forecast.observations, strict=True):
        env.unwrapped.set_state(start)
        real = np.array([env.step(action)[0] for action in sequence])
        np.testing.assert_array_equal(ahead[:, :4], real[:, :4])
    assert (forecast.observations[..., 2] == 100.0).any()
    assert (forecast.observations[..., 2] == 0.0).any()


def test_forecast_knows_less_where_it_has_not_been():
    model = make_model(history=0, past_outputs=0)
    model.begin([50.0, 2.0, 1.0])
    for k in range(60):
        position = 2.0 + k % 2
        model.observe([0.5 if k % 2 else -0.5], [50.0, position, -position])
    sequences = np.array([[[1.0], [1.0], [1.0]], [[0.0], [0.0], [0.0]]])
    far = model.forecast(model.memory, sequences).deviations
    assert far[0, 2, 0] > 3 * far[1, 2, 0]


def test_forecast_information_is_the_fall_of_entropy_of_linear_regression():
    """0.5 log det of the weights' covariance before and after a plan, the regression done by its own formulas."""
    noise, prior = 0.05, 1.0
    network = {"hidden": (), "dof": inf, "output_scale": prior, "noise_variance": noise, "noise_weight": inf}
    model = black_box(n_observed=2, offset_time=inf, history=1, past_outputs=0, network=network)
    rows, before = [], np.zeros(2)
    update = model.network.update
    model.network.update = lambda x, y: (rows.append(x), update(x, y))
    rng = np.random.default_rng(0)
    model.begin(before)
    for _ in range(6):
        action = rng.uniform(-1, 1, 1)
        before = np.array([0.5 * before[0] + 0.3 * action[0], 0.2 * before[1]]) + 0.1 * rng.standard_normal(2)
        model.observe(action, before)
    candidate = rng.uniform(-1, 1, (1, 4, 1))
    (information,) = model.forecast(model.memory, candidate).information
    for action in candidate[0]:
        model.observe(action, before)  # tells us the inputs of the candidate
    design = np.column_stack([np.array(rows), np.ones(len(rows))]) / sqrt(len(rows[0]) + 1)

    def entropy(part):
        precision = np.eye(design.shape[1]) / prior + part.T @ part / noise
        return -0.5 * np.linalg.slogdet(precision)[1]

    expected = 2 * (entropy(design[:-4]) - entropy(design))  # two outputs
    assert expected > 0.01
    assert information == pytest.approx(expected, rel=1e-3)  # covariances are of single precision


def test_forecast_covariances_of_linear_regression_vs_its_formula():
    """Epistemic covariance of a plan's outputs over its steps: design x covariance of the weights x design'."""
    noise = 0.05
    network = {"hidden": (), "dof": inf, "output_scale": 1.0, "noise_variance": noise, "noise_weight": inf}
    model = black_box(history=1, past_outputs=0, network=network)
    model.begin([0.0])
    rng, rows = np.random.default_rng(0), []
    for action in rng.uniform(-1, 1, (5, 1)):
        rows.append(model.encoder.next_inputs(model.memory, action)[0])
        model.observe(action, action / 2)
    candidate = rng.uniform(-1, 1, (1, 3, 1))
    memory = model.memory
    covariances = model.forecast(memory, candidate).covariances[0, 0]
    for action in candidate[0]:
        rows.append(model.encoder.next_inputs(memory, action)[0])
        memory = model.next_memory(memory, action, action / 2)
    design = np.column_stack([np.array(rows), np.ones(len(rows))]) / sqrt(3)
    weights = np.linalg.inv(np.eye(3) + design[:5].T @ design[:5] / noise)
    np.testing.assert_allclose(covariances, design[5:] @ weights @ design[5:].T, rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize("past_outputs", [2, 0])
@pytest.mark.parametrize("target", ["absolute", "log"])
def test_forecast_total_deviation_is_that_of_its_covariances(target, past_outputs):
    """One vector per plan tells what all covariances of its steps tell."""
    model = trained(target=target, past_outputs=past_outputs, network={"hidden": (20,)})
    rng = np.random.default_rng(3)
    forecast = model.forecast(model.memory, rng.uniform(-1, 1, (5, 6, 1)))
    gradients = rng.normal(size=(5, 6, 1))
    expected = np.sqrt(np.einsum("nk,nkl,nl->n", gradients[..., 0], forecast.covariances[:, 0], gradients[..., 0]))
    np.testing.assert_allclose(forecast.total_deviation(gradients), expected, rtol=1e-3)
    assert (expected > 0).all()


def along_both(weights):
    """Return weights of each plan's steps followed by those of the first plan, with the opposite sign."""
    first = np.broadcast_to(-weights[:1], weights.shape)
    return np.concatenate([weights, first], axis=1)


def test_output_layer_differences_are_sums_along_both_plans():
    rng = np.random.default_rng(0)
    z, root = rng.normal(size=(4, 3, 5)).astype(np.float32), rng.normal(size=(2, 5, 5)).astype(np.float32)
    scales, weights = root @ root.swapaxes(1, 2), rng.normal(size=(4, 3, 2))
    both = np.concatenate([z, np.broadcast_to(z[:1], z.shape)], axis=1)
    expected = OutputLayerCovariance(both, scales).of_sums(along_both(weights))
    found = OutputLayerCovariance(z, scales).of_differences(weights)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_factor_covariance_vs_monte_carlo():
    rng, n = np.random.default_rng(1), 40_000
    factors, weights = rng.normal(size=(4, 2, 3, 6)), rng.normal(size=(4, 3, 2))
    drawn = np.einsum("nokf,of...->nko...", factors, rng.standard_normal((2, 6, n)))
    sums = np.einsum("nko,nko...->n...", weights, drawn)
    covariance = FactorCovariance(factors)
    tolerance = 6 * np.sqrt(2 / n)
    np.testing.assert_allclose(sums.var(axis=1), covariance.of_sums(weights), rtol=tolerance)
    found = covariance.of_differences(weights)
    np.testing.assert_allclose((sums - sums[0]).var(axis=1)[1:], found[1:], rtol=tolerance)
    assert found[0] == 0.0
    assert covariance.over_steps()[2, 1, 0, 2] == pytest.approx(factors[2, 1, 0] @ factors[2, 1, 2])
