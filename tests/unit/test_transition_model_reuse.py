"""The transition model evaluates its network once per step, and never reuses what is no longer right."""

import numpy as np
import pytest

from habnn_control import HABNN
from habnn_control.control.model import Transitions
from linear_plant import UNKNOWN, LinearPlant, assert_same_model, logged, trained


@pytest.fixture
def evaluations(monkeypatch):
    """Count the calls of the network's predict."""
    calls, predict = [], HABNN.predict
    monkeypatch.setattr(HABNN, "predict", lambda *a, **k: calls.append(1) or predict(*a, **k))
    return calls


def test_observe_after_predict_of_the_same_action_evaluates_the_network_once(evaluations):
    model = trained(3)
    evaluations.clear()
    model.predict([0.5])
    model.predict(np.array([0.5], dtype=np.float32))  # 0.5 is exact in single precision
    model.observe([0.5], [50.0, 6.0, 3.0])
    assert len(evaluations) == 1


def test_observe_does_not_reuse_the_prediction_of_another_action(evaluations):
    model, fresh = trained(3), trained(3)
    evaluations.clear()
    model.predict([0.5])
    model.observe([-0.5], [50.0, 6.0, 3.0])
    assert len(evaluations) == 2
    fresh.observe([-0.5], [50.0, 6.0, 3.0])
    assert_same_model(model, fresh)


def test_predict_does_not_reuse_an_action_that_the_caller_has_changed_since(evaluations):
    model, action = trained(3), np.array([0.5])
    first = model.predict(action)
    action[0] = -0.5
    evaluations.clear()
    assert model.predict(action).mean != first.mean
    assert len(evaluations) == 1


def learned_black_box(steps):
    return trained(steps, plant=UNKNOWN, past_outputs=2)


CHANGES = {
    "observe": lambda model: model.observe([0.5], [50.0, 6.0, 3.0]),
    "begin": lambda model: model.begin([50.0, 2.0, 1.0]),
    "skip": lambda model: model.skip([0.5]),
    "restore": lambda model: model.restore(learned_black_box(5).snapshot()),
    "restore, memory kept": lambda model: model.restore(learned_black_box(5).snapshot(), keep_memory=True),
    "pretrain": lambda model: model.pretrain(Transitions(*logged(LinearPlant(3), 4), np.zeros(4))),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_predict_of_a_changed_model_is_not_that_of_before(change):
    """A twin that made no prediction before the change says what is right after it."""
    model, twin = learned_black_box(3), learned_black_box(3)
    before = model.predict([0.5])
    for each in (model, twin):
        change(each)
    after = model.predict([0.5])
    np.testing.assert_array_equal(after, twin.predict([0.5]))
    assert (after.mean != before.mean).all()
