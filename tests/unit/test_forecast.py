"""The transition model looking ahead, against formulas, Monte Carlo and the plant."""

from math import inf, sqrt

import numpy as np
import pytest

from agents.runner import make_env
from envs import ACTUATOR_STEPS
from habnn_control.control.transition_model import Kinematics, TransitionModel
from linear_plant import CERTAIN, PLANT_HIGH, PLANT_LOW, STEP, make_model, trained


@pytest.mark.parametrize("target", ["absolute", "delta", "log"])
@pytest.mark.parametrize("fed_back", [{"memory": 2, "averages": (4.0,)}, {"memory": 0}])
@pytest.mark.parametrize("known", [True, False])
def test_forecast_is_stepping_predict_by_hand(target, known, fed_back):
    """Play the expected observation after each action as if it had come."""
    changes = fed_back if known else {"kinematics": None, **fed_back}
    model = make_model(target=target, network={**CERTAIN, "hidden": (8,)}, **changes)
    model.begin([80.0, 5.0, 3.0])
    model.follow([0.5], [80.0, 6.0, 2.0])
    sequences = np.random.default_rng(3).uniform(-1, 1, (4, 6, 1))
    forecast = model.forecast(sequences)
    start = model.get_state()
    for sequence, ahead in zip(sequences, forecast.observations, strict=True):
        model.set_state(start)
        position = 6.0
        for action, observation in zip(sequence, ahead, strict=True):
            expected = np.array([80.0, 0.0, 0.0])
            position = np.clip(position + STEP * action[0], 0.0, 10.0)
            expected[1] = position
            prediction = model.predict(action)
            expected[model.outputs] = np.clip(prediction.mean, PLANT_LOW[model.outputs], PLANT_HIGH[model.outputs])
            np.testing.assert_allclose(observation, expected, rtol=1e-5, atol=1e-5)  # forecasts are of single precision
            model.follow(action, expected)


def test_forecast_follows_a_drawn_function():
    model = trained(network={"hidden": (8,)})
    sequences = np.random.default_rng(3).uniform(-1, 1, (3, 5, 1))
    drawn = [
        model.forecast(sequences, "samples", [model.network.sample_function(np.random.default_rng(s))])
        for s in (0, 0, 1)
    ]
    np.testing.assert_array_equal(drawn[0].observations, drawn[1].observations)
    assert (drawn[0].observations[..., 2] != drawn[2].observations[..., 2]).all()
    assert not drawn[0].deviations.any()
    expected = model.forecast(sequences).observations[..., 2]
    assert 0 < np.abs(drawn[0].observations[..., 2] - expected).max() < 10.0


def autoregression(target):
    """Return a model that knows x' = 0.8 x + 0.5 a + noise of sd 0.1 exactly, in targets, and has just seen x = 0."""
    model = TransitionModel(
        [-1.0],
        [1.0],
        [-1.0],
        [1.0],
        history=0,
        memory=1,
        averages=(),
        target=target,
        input_gain=1.0,
        network={**CERTAIN, "hidden": (), "dof": inf, "noise_variance": 0.01},
    )
    model.network.weight_loc[0][:] = np.array([0.5, 0.8, 0.0]) * sqrt(3)  # the fan rule divides by it
    model.begin([0.0])
    return model


@pytest.mark.parametrize("target", ["absolute", "log"])
def test_forecast_moments_of_an_autoregression_vs_its_formula(target):
    """Variance of what the last noise left: 0.8^2 of the one before, which the noise of that step was added to."""
    model = autoregression(target)
    actions = np.random.default_rng(0).uniform(-0.3, 0.3, (3, 6, 1))
    forecast = model.forecast(actions, "moments")
    mean, variance = np.zeros(3), 0.0
    for k in range(6):
        mean = 0.8 * mean + 0.5 * actions[:, k, 0]
        variance = 0.64 * (variance + (0.01 if k else 0.0))
        if target == "log":
            value = 1.06 * np.exp(mean + 0.5 * (variance + 0.01)) - 1.06  # the lognormal mean; x = 0 is at 1.06
            deviation = 1.06 * np.exp(mean) * sqrt(variance)
        else:
            value, deviation = mean, np.full(3, sqrt(variance))
        np.testing.assert_allclose(forecast.observations[:, k, 0], value, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(forecast.deviations[:, k, 0], deviation, rtol=1e-6, atol=1e-6)
    assert not model.forecast(actions, "mean").deviations[:, -1].max() > 1e-5  # feeds the mean back: no doubt grows


def test_forecast_moments_of_a_slow_average_vs_its_formula():
    """One noisy value enters the average with a quarter, and the output answers with 0.8 of that."""
    network = {**CERTAIN, "hidden": (), "dof": inf, "noise_variance": 0.01}
    model = TransitionModel(
        [-1.0], [1.0], [-1.0], [1.0], history=0, memory=0, averages=(4.0,), target="absolute", network=network
    )
    model.network.weight_loc[0][:] = np.array([0.5, 0.8, 0.0]) * sqrt(3)
    model.begin([0.0])
    forecast = model.forecast(np.full((1, 2, 1), 0.1), "moments")
    assert forecast.deviations[0, 1, 0] == pytest.approx(0.8 * 0.25 * 0.1, rel=1e-6)


def test_forecast_moments_of_known_rectifiers_vs_monte_carlo():
    """Many noisy rollouts of the same function: mean and spread of where they are after two steps."""
    network = {**CERTAIN, "hidden": (1,), "dof": inf, "noise_variance": 0.01}
    model = TransitionModel(
        [-1.0], [1.0], [-1.0], [1.0], history=0, averages=(), memory=1, target="absolute", network=network, seed=4
    )
    model.begin([0.2])
    actions = np.array([[[0.3], [-0.2]]])
    forecast = model.forecast(actions, "moments")
    function, n = model.network.sample_function(np.random.default_rng(0)), 200_000
    rng, x = np.random.default_rng(1), np.zeros(n)  # relative to the first observation
    for action in actions[0, :, 0]:
        expected = function(np.column_stack([np.full(n, 2.0 * action), x]))[:, 0]
        x = expected + 0.1 * rng.standard_normal(n)
    value, deviation = forecast.observations[0, 1, 0] - 0.2, forecast.deviations[0, 1, 0]
    assert deviation > 0.001
    assert abs(expected.mean() - value) < 5 * expected.std() / sqrt(n) + 1e-6
    assert abs(expected.std() / deviation - 1) < 0.02


def test_forecast_samples_have_the_mean_and_spread_of_their_functions():
    model = trained(target="log", network={"hidden": (8,)})
    sequences = np.random.default_rng(3).uniform(-1, 1, (3, 5, 1))
    functions = [model.network.sample_function(np.random.default_rng(s)) for s in range(6)]
    each = np.stack([model.forecast(sequences, "samples", [function]).observations for function in functions])
    together = model.forecast(sequences, "samples", functions)
    np.testing.assert_allclose(together.observations, each.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(together.deviations[..., 0], each.std(axis=0)[..., 2], rtol=1e-9, atol=1e-12)
    assert (together.information > 0).all()


def test_forecast_raises_on_unknown_propagation_with_the_nearest():
    with pytest.raises(ValueError, match=r"propagation must be one of .*, got 'moment'; did you mean 'moments'\?"):
        trained().forecast(np.zeros((1, 1, 1)), "moment")


@pytest.mark.parametrize(("propagation", "n"), [("samples", 0), ("mean", 1)])
def test_forecast_raises_on_functions_that_do_not_fit(propagation, n):
    model = trained()
    with pytest.raises(ValueError, match=f"functions must be given with 'samples' and only then, got {n} with"):
        model.forecast(np.zeros((1, 1, 1)), propagation, [model.network.sample_function(np.random.default_rng(0))] * n)


def test_forecast_moves_the_actuators_vs_the_plant():
    """Steerings along random actions, large enough to meet the bounds, equal those of the Industrial Benchmark."""
    env = make_env(70.0)
    observation, _ = env.reset(seed=0)
    space, box = env.observation_space, env.action_space
    model = TransitionModel(
        space.low,
        space.high,
        box.low,
        box.high,
        kinematics=Kinematics((1, 2, 3), ACTUATOR_STEPS),
        exogenous=(0,),
        network={"hidden": (5,)},
    )
    rng = np.random.default_rng(1)
    sequences = np.clip(rng.uniform(-1, 1, (6, 1, 3)) + rng.uniform(-1, 1, (6, 40, 3)), -1, 1).astype(np.float32)
    start = env.unwrapped.get_state()
    model.begin(observation)
    forecast = model.forecast(sequences.astype(np.float64))
    for sequence, ahead in zip(sequences, forecast.observations, strict=True):
        env.unwrapped.set_state(start)
        real = np.array([env.step(action)[0] for action in sequence])
        np.testing.assert_array_equal(ahead[:, :4], real[:, :4])
    assert (forecast.observations[..., 2] == 100.0).any()
    assert (forecast.observations[..., 2] == 0.0).any()


def test_forecast_knows_less_where_it_has_not_been():
    model = make_model(history=0, memory=0)
    model.begin([50.0, 2.0, 1.0])
    for k in range(60):
        position = 2.0 + k % 2
        model.observe([0.5 if k % 2 else -0.5], [50.0, position, -position])
    far = model.forecast(np.array([[[1.0], [1.0], [1.0]], [[0.0], [0.0], [0.0]]])).deviations
    assert far[0, 2, 0] > 3 * far[1, 2, 0]


def test_forecast_information_is_the_fall_of_entropy_of_linear_regression():
    """0.5 log det of the weights' covariance before and after a plan, the regression done by its own formulas."""
    noise, prior = 0.05, 1.0
    network = {"hidden": (), "dof": inf, "output_scale": prior, "noise_variance": noise, "noise_weight": inf}
    model = TransitionModel(
        [-1.0, -1.0],
        [1.0, 1.0],
        [-1.0],
        [1.0],
        offset_time=inf,
        history=1,
        memory=0,
        target="absolute",
        network=network,
    )
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
    (information,) = model.forecast(candidate).information
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
    """What is not known about the outputs of a plan, over its steps: design x covariance of the weights x design'."""
    noise = 0.05
    network = {"hidden": (), "dof": inf, "output_scale": 1.0, "noise_variance": noise, "noise_weight": inf}
    model = TransitionModel(
        [-1.0], [1.0], [-1.0], [1.0], history=1, memory=0, averages=(), target="absolute", network=network
    )
    model.begin([0.0])
    rng, rows = np.random.default_rng(0), []
    for action in rng.uniform(-1, 1, (5, 1)):
        rows.append(model._next_inputs(action)[0])
        model.observe(action, action / 2)
    candidate = rng.uniform(-1, 1, (1, 3, 1))
    covariances = model.forecast(candidate).covariances[0, 0]
    for action in candidate[0]:
        rows.append(model._next_inputs(action)[0])
        model.follow(action, action / 2)
    design = np.column_stack([np.array(rows), np.ones(len(rows))]) / sqrt(3)
    weights = np.linalg.inv(np.eye(3) + design[:5].T @ design[:5] / noise)
    np.testing.assert_allclose(covariances, design[5:] @ weights @ design[5:].T, rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize("fed_back", [{"memory": 2}, {"memory": 0}])
@pytest.mark.parametrize("target", ["absolute", "log"])
def test_forecast_total_deviation_is_that_of_its_covariances(target, fed_back):
    """One vector a candidate tells what all covariances of its steps tell."""
    model, rng = trained(target=target, network={"hidden": (20,)}, **fed_back), np.random.default_rng(3)
    forecast = model.forecast(rng.uniform(-1, 1, (5, 6, 1)))
    gradients = rng.normal(size=(5, 6, 1))
    expected = np.sqrt(np.einsum("nk,nkl,nl->n", gradients[..., 0], forecast.covariances[:, 0], gradients[..., 0]))
    np.testing.assert_allclose(forecast.total_deviation(gradients), expected, rtol=1e-3)
    assert (expected > 0).all()
