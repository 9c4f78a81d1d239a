"""ModelChoice: the form of a model that foresees losses is found from the plant's own steps."""

from types import SimpleNamespace

import numpy as np
import pytest

from habnn_control.control.model import Transitions
from habnn_control.control.model_choice import ModelChoice, make_model, model_forms
from habnn_control.control.plant import Actuators, Bounds, Plant
from habnn_control.control.transition_model import TransitionModel

BOUNDS = Bounds.of([0.0, 0.0], [1.0, 100.0], [-1.0], [1.0])
PLANT = Plant(lambda _, observations: observations[..., 1], Actuators([0], [0.1]))
SMALL = {"history": 4, "network": {"hidden": (40,)}}


def steps(accumulates, n, seed=0):
    """Yield steps of an actuator, and of an output that follows it or accumulates its distance from the middle."""
    rng, position, output = np.random.default_rng(seed), 0.5, 30.0
    yield None, np.array([position, output])
    move = 0.0
    for k in range(n):
        move = rng.uniform(-1, 1) if k % 4 == 0 else move
        position = float(np.clip(position + 0.1 * move, 0, 1))
        output = output + 5 * (position - 0.5) if accumulates else 20 + 20 * position
        output = float(np.clip(output + 0.2 * rng.standard_normal(), 0, 100))
        yield np.array([move]), np.array([position, output])


def learn(model, accumulates, n=240):
    for action, observation in steps(accumulates, n):
        if action is None:
            model.begin(observation)
        else:
            model.observe(action, observation)
    return model


def test_choice_finds_what_accumulates():
    forms = model_forms(PLANT, BOUNDS)
    following, accumulating = (forms[learn(make_model(PLANT, BOUNDS, **SMALL), kind).used] for kind in (False, True))
    assert following == {"target": "softplus", "past_outputs": 0}
    assert accumulating["past_outputs"] > 0


def test_choice_forecasts_as_the_model_in_use():
    choice = learn(make_model(PLANT, BOUNDS, **SMALL), True)
    plans = np.random.default_rng(1).uniform(-1, 1, (3, 5, 1))
    used = choice.models[choice.used]
    expected = used.forecast(used.memory, plans).observations
    np.testing.assert_array_equal(choice.forecast(choice.memory, plans).observations, expected)
    np.testing.assert_array_equal(choice.predict(np.zeros(1)).mean, used.predict(np.zeros(1)).mean)


def test_choice_continues_from_its_snapshot_in_the_middle_of_a_block():
    """The copy goes on as the original: the same errors, and the same model in use."""
    path = list(steps(True, 130))
    choice, copy = (make_model(PLANT, BOUNDS, **SMALL) for _ in range(2))
    choice.begin(path[0][1])
    for k, (action, observation) in enumerate(path[1:]):
        choice.observe(action, observation)
        if k == 67:
            copy.restore(choice.snapshot())
        elif k > 67:
            copy.observe(action, observation)
    assert copy.used == choice.used
    np.testing.assert_array_equal(copy._errors, choice._errors)
    plans = np.zeros((2, 5, 1))
    np.testing.assert_array_equal(
        copy.forecast(copy.memory, plans).observations, choice.forecast(choice.memory, plans).observations
    )


def test_choice_is_not_needed_where_the_form_is_given():
    assert isinstance(make_model(PLANT, BOUNDS, target="delta", **SMALL), TransitionModel)
    assert isinstance(make_model(PLANT, BOUNDS, past_outputs=1, **SMALL), TransitionModel)
    assert isinstance(make_model(PLANT, BOUNDS, **SMALL), ModelChoice)


def test_forms_have_no_logarithm_without_a_lower_bound_and_no_open_loop_without_actuators():
    unbounded = Bounds.of([0.0, -np.inf], [1.0, np.inf], [-1.0], [1.0])
    assert [form["target"] for form in model_forms(PLANT, unbounded)] == ["absolute", "absolute", "delta"]
    unknown = Plant(PLANT.loss)
    assert all(form["past_outputs"] > 0 for form in model_forms(unknown, BOUNDS))


def test_choice_pretrain_changes_nothing_where_a_log_does_not_fit():
    choice = learn(make_model(PLANT, BOUNDS, **SMALL), True, 20)
    before = choice.snapshot()
    with pytest.raises(ValueError, match=r"model: transitions.observations must be finite"):
        choice.pretrain(Transitions(np.full((3, 2), np.nan), np.zeros((3, 1)), np.zeros((3, 2)), np.zeros(3)))
    for name, part in choice.snapshot().items():
        np.testing.assert_array_equal(part, before[name])


class Stub:
    """A model that predicts one loss for ever, and may refuse observations."""

    memory = None

    def __init__(self, value, largest=np.inf):
        self.value, self.largest, self.learned, self.skipped = value, largest, 0, 0

    def observe(self, action, observation):  # noqa: ARG002
        if observation[1] > self.largest:
            raise ValueError("too large")
        self.learned += 1

    def skip(self, action, observation=None):  # noqa: ARG002
        self.skipped += 1

    def snapshot(self):
        return {"value": np.array(self.value)}

    def restore(self, snapshot, keep_memory=False):  # noqa: ARG002
        self.value = float(snapshot["value"])

    def forecast(self, memory, sequences):  # noqa: ARG002
        observations = np.zeros((*sequences.shape[:2], 2))
        observations[..., 1] = self.value
        return SimpleNamespace(observations=observations)


def played(models, losses):
    choice = ModelChoice(PLANT, models)
    for loss in losses:
        choice.observe(np.zeros(1), np.array([0.5, loss]))
    return choice


def test_choice_is_the_first_model_that_is_near_to_the_best():
    assert played([Stub(8.0), Stub(9.0)], [10.0] * 15).used == 1  # errors 2 and 1
    assert played([Stub(8.8), Stub(9.0)], [10.0] * 15).used == 0  # errors 1.2 and 1: not worth another form
    assert played([Stub(8.0), Stub(9.0)], [10.0] * 14).used == 0  # no block is complete


def test_choice_recovers_from_predictions_and_losses_that_are_not_finite():
    bad = Stub(np.nan)
    choice = played([bad, Stub(9.0)], [10.0] * 15)
    assert choice.used == 1
    for loss in [np.nan] * 15 + [10.0] * 150:
        bad.value = 10.0
        choice.observe(np.zeros(1), np.array([0.5, loss]))
    assert choice.used == 0


def test_step_that_one_model_refuses_is_skipped_by_it_alone():
    choice = played([Stub(1.0), Stub(1.0, largest=5.0)], [3.0, 7.0, 4.0])
    assert [(model.learned, model.skipped) for model in choice.models] == [(3, 0), (2, 1)]
    with pytest.raises(ValueError, match="too large"):
        played([Stub(1.0, largest=5.0), Stub(1.0)], [7.0])


@pytest.mark.parametrize("every", [2, 10])
def test_choice_is_made_though_readings_are_missing(every):
    """Each missing reading began the block anew: a sensor that failed once in ten steps left the first form in use."""
    choice = make_model(PLANT, BOUNDS, **SMALL)
    for k, (action, observation) in enumerate(steps(True, 300)):
        if action is None:
            choice.begin(observation)
        elif k % every == 0:
            choice.skip(action, choice.forecast(choice.memory, action[None, None]).observations[0, 0])
        else:
            choice.observe(action, observation)
    assert choice._n_blocks >= (300 - 300 // every) // 15 - 2
    assert model_forms(PLANT, BOUNDS)[choice.used]["past_outputs"] > 0
