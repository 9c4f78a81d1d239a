"""What every dynamics model behind the protocol must do; a new model is tested as soon as agents.mpc names it."""

from importlib import import_module

import numpy as np
import pytest

from agents.models import MODELS
from habnn_control.control.model import Transitions
from habnn_control.control.plant import Actuators, Bounds, Plant

LOW, HIGH = np.array([0.0, 0.0, -20.0, 0.0]), np.array([100.0, 10.0, 20.0, 30.0])  # load, actuator, two outputs
BOUNDS = Bounds.of(LOW, HIGH, [-1.0], [1.0])
KNOWN = Plant(lambda _, observations: observations[..., 2], Actuators([1], [2.0]), exogenous=[0])
UNKNOWN = Plant(lambda _, observations: observations[..., 2], exogenous=[0])
SMALL = {
    "habnn": {"network": {"hidden": (12,)}},
    "ensemble": {"hidden": (12,), "training": {"every": 2}},
    "gp": {"capacity": 60, "recent": 20},  # below the length of some logs: samples are dropped
}
CASES = [(kind, plant, target) for kind in MODELS for plant in (KNOWN, UNKNOWN) for target in ("log", "delta")]


def make(kind, plant=KNOWN, target="log", seed=0):
    module, attribute = MODELS[kind]
    return getattr(import_module(module), attribute)(
        plant, BOUNDS, history=3, target=target, seed=seed, **SMALL.get(kind, {})
    )


def log_of(n, seed=0):
    """Return logged steps of a small linear process with noise."""
    rng = np.random.default_rng(seed)
    position, rows, actions = 5.0, [], rng.uniform(-1.0, 1.0, (n, 1))
    for action in [0.0, *actions[:, 0]]:
        position = float(np.clip(position + 2.0 * action, 0.0, 10.0))
        outputs = [2.0 - position + 0.2 * rng.standard_normal(), 3.0 + 2.0 * position + 0.2 * rng.standard_normal()]
        rows.append([50.0, position, *outputs])
    observations = np.array(rows)
    return Transitions(observations[:-1], actions, observations[1:], np.arange(n) == 0)


def taught(kind, plant=KNOWN, target="log", n=40):
    model, log = make(kind, plant, target), log_of(n)
    model.begin(log.observations[0])
    for action, after in zip(log.actions, log.next_observations, strict=True):
        model.observe(action, after)
    return model


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


@pytest.mark.parametrize(("kind", "plant", "target"), CASES)
def test_model_forecast_of_one_step_equals_predict(kind, plant, target):
    """To a twentieth of the interval's width: a forecast may leave out how uncertain hidden weights move the mean."""
    model = taught(kind, plant, target)
    for action in ([-0.7], [0.0], [1.0]):
        prediction = model.predict(action)
        forecast = model.forecast(model.memory, np.array([[action]]))
        assert prediction.indices.tolist() == list(plant.outputs(4)) == forecast.entries.tolist()
        expected = np.clip(prediction.mean, LOW[prediction.indices], HIGH[prediction.indices])  # as forecasts are
        difference = np.abs(forecast.observations[0, 0, prediction.indices] - expected)
        assert (difference <= 0.05 * (prediction.high - prediction.low)).all()


@pytest.mark.parametrize(("kind", "plant", "target"), CASES)
def test_model_learns(kind, plant, target):
    model, log = taught(kind, plant, target, n=200), log_of(200)
    error = model.predict([0.0]).mean[-1] - (3.0 + 2.0 * log.next_observations[-1, 1])
    assert abs(error) < 4.0  # the output moves over a range of 20


@pytest.mark.parametrize(("kind", "plant", "target"), CASES)
def test_model_forecast_has_the_declared_shapes_and_a_covariance(kind, plant, target):
    model, rng = taught(kind, plant, target), np.random.default_rng(1)
    sequences = rng.uniform(-1.0, 1.0, (5, 4, 1))
    forecast = model.forecast(model.memory, sequences)
    n_outputs = len(forecast.entries)
    assert forecast.observations.shape == (5, 4, 4)
    assert forecast.slopes.shape == (5, 4, n_outputs)
    assert forecast.noise_variance.shape == (n_outputs,)
    covariance = forecast.epistemic.over_steps()
    assert covariance.shape == (5, n_outputs, 4, 4)
    eigenvalues = np.linalg.eigvalsh(covariance)
    assert (eigenvalues >= -1e-6 * np.abs(eigenvalues).max()).all()
    weights = rng.standard_normal((5, 4, n_outputs))
    expected = np.einsum("nko,nokl,nlo->n", weights, covariance, weights)
    np.testing.assert_allclose(forecast.epistemic.of_sums(weights), expected, rtol=2e-3, atol=1e-9)
    assert (forecast.observations[..., 0] == 50.0).all()  # exogenous entries are held


@pytest.mark.parametrize(("kind", "plant", "target"), CASES)
def test_model_differences_of_plans_obey_the_triangle_inequality(kind, plant, target):
    model, rng = taught(kind, plant, target), np.random.default_rng(1)
    epistemic = model.forecast(model.memory, rng.uniform(-1.0, 1.0, (5, 4, 1))).epistemic
    weights = rng.standard_normal((5, 4, epistemic.over_steps().shape[1]))
    sums, differences = np.sqrt(epistemic.of_sums(weights)), np.sqrt(epistemic.of_differences(weights))
    slack = 1e-2 * sums.max()
    assert differences[0] <= slack
    assert (differences <= sums + sums[0] + slack).all()
    assert (differences >= np.abs(sums - sums[0]) - slack).all()


@pytest.mark.parametrize("kind", MODELS)
def test_model_forecast_follows_known_actuators_exactly(kind):
    model = taught(kind)
    sequences = np.random.default_rng(1).uniform(-1.0, 1.0, (3, 12, 1))
    positions = model.forecast(model.memory, sequences).observations[..., 1]
    for plan, reached in zip(sequences, positions, strict=True):
        here = model.memory.observation[1]
        for action, position in zip(plan[:, 0], reached, strict=True):
            here = min(max(here + 2.0 * action, 0.0), 10.0)
            assert position == pytest.approx(here)


@pytest.mark.parametrize(("kind", "plant", "target"), CASES)
def test_model_questions_change_nothing(kind, plant, target):
    model = taught(kind, plant, target)
    before = model.snapshot()
    model.predict([0.5])
    model.forecast(model.memory, np.zeros((2, 3, 1)))
    model.draw(np.random.default_rng(0)).forecast(model.memory, np.zeros((2, 3, 1)))
    other = model.next_memory(model.first_memory([40.0, 3.0, 0.0, 9.0]), [0.5], [40.0, 4.0, 1.0, 9.0])
    model.forecast(other, np.zeros((2, 3, 1)))
    assert_same(model.snapshot(), before)


@pytest.mark.parametrize(("kind", "plant", "target"), CASES)
def test_model_restore_continues_exactly(kind, plant, target):
    model, log = taught(kind, plant, target), log_of(20, seed=3)
    copy = make(kind, plant, target, seed=9)
    copy.restore(model.snapshot())
    for one in (model, copy):
        one.begin(log.observations[0])
        for action, after in zip(log.actions, log.next_observations, strict=True):
            one.observe(action, after)
    assert_same(model.snapshot(), copy.snapshot())


@pytest.mark.parametrize("kind", MODELS)
def test_model_restore_can_keep_the_memory(kind):
    model = taught(kind)
    early = model.snapshot()
    model.observe([1.0], [50.0, 7.0, -5.0, 17.0])
    memory = model.memory
    model.restore(early, keep_memory=True)
    for ours, theirs in zip(model.memory, memory, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("entry", range(4))
def test_model_refuses_an_observation_that_is_not_finite(kind, bad, entry):
    model = taught(kind)
    before, observation = model.snapshot(), np.array([50.0, 7.0, -5.0, 17.0])
    observation[entry] = bad
    with pytest.raises(ValueError, match="must be finite"):
        model.observe([1.0], observation)
    assert_same(model.snapshot(), before)
    model.skip([1.0])
    assert np.isfinite(model.predict([0.0]).mean).all()


@pytest.mark.parametrize("kind", MODELS)
def test_model_draw_has_no_epistemic_covariance_and_draws_differ(kind):
    model, sequences = taught(kind), np.random.default_rng(1).uniform(-1.0, 1.0, (4, 5, 1))
    paths = []
    for seed in range(6):
        forecast = model.draw(np.random.default_rng(seed)).forecast(model.memory, sequences)
        assert not forecast.deviations.any()
        paths.append(forecast.observations)
    assert np.ptp(paths, axis=0).max() > 0


@pytest.mark.parametrize("kind", MODELS)
def test_model_pretrains_and_refuses_a_log_that_does_not_fit(kind):
    model, log = make(kind), log_of(30)
    before = model.snapshot()
    for wrong in (log._replace(actions=log.actions[:-1]), log._replace(observations=np.full((30, 4), np.nan))):
        with pytest.raises(ValueError, match=r"transitions\.\w+ must be finite and of shape"):
            model.pretrain(wrong)
    assert_same(model.snapshot(), before)
    model.pretrain(log)
    assert model.is_sound()
    assert np.isfinite(model.predict([0.0]).mean).all()


@pytest.mark.parametrize(("kind", "plant", "target"), CASES)
def test_model_errors_are_in_predictive_standard_deviations(kind, plant, target):
    """The ends of the 90 % interval are 1.645 of them away, on either side, whatever the model learns."""
    model = taught(kind, plant, target)
    prediction = model.predict(np.array([0.3]))
    observation = np.array([50.0, 5.0, 0.0, 0.0])
    for ends, expected in ((prediction.low, -1.645), (prediction.high, 1.645)):
        observation[prediction.indices] = ends
        np.testing.assert_allclose(model.errors(prediction, observation), expected, rtol=1e-6)
