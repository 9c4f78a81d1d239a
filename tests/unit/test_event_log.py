"""TensorBoard logs of learning: every agent, every step, and nothing else changed."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest

import agents
from agents.runner import Recorder, make_env, play
from agents.study import ControlStudy

needs_tensorboard = pytest.mark.skipif(
    find_spec("tensorboard") is None, reason="tensorboard is in the tensorboard extra"
)


def scalars(folder, tag):
    """Return the steps and values of one curve, as TensorBoard reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder)).Reload().Scalars(tag)
    return [event.step for event in events], [event.value for event in events]


@needs_tensorboard
@pytest.mark.parametrize("name", ["habnn", "noop", "random", "hold", "oracle", "a2c", "sac"])
def test_learn_logs_every_step_vs_recorder(name, tmp_path):
    env = Recorder(make_env(100.0), seed=3)
    search = {"n_candidates": 10, "n_iterations": 1}
    budget = {"habnn": {"planner": search, "horizon": 3}, "oracle": {**search, "horizon": 3}}.get(name, {})
    agents.make(name, env, seed=1, **budget).learn(6, tensorboard=tmp_path / "log")
    for column in ("loss", "consumption", "fatigue"):
        steps, values = scalars(tmp_path / "log", f"plant/{column}")
        assert steps == [1, 2, 3, 4, 5, 6]
        np.testing.assert_allclose(values, env.columns()[column], rtol=1e-6)  # the file holds single precision


@needs_tensorboard
@pytest.mark.parametrize(
    ("name", "tag", "updates"), [("sac", "train/critic_loss", [6, 7, 8]), ("a2c", "train/value_loss", [6])]
)
def test_learn_logs_the_training_of_a_baseline_once_an_update(name, tag, updates, tmp_path):
    """SAC trains in every step after learning_starts, A2C after five: the log has it from the step that follows."""
    settings = {"learning_starts": 4} if name == "sac" else {}
    agents.make(name, make_env(100.0), seed=1, **settings).learn(8, tensorboard=tmp_path)
    assert scalars(tmp_path, tag)[0] == updates


@needs_tensorboard
def test_learn_replaces_the_log_of_an_interrupted_run(tmp_path):
    agents.make("random", make_env(100.0), seed=1).learn(5, tensorboard=tmp_path)
    (earlier,) = tmp_path.iterdir()
    seconds = earlier.name.split(".")[3]  # TensorBoard reads files in the order of their names
    earlier.rename(tmp_path / earlier.name.replace(seconds, str(int(seconds) - 60)))
    env = Recorder(make_env(100.0), seed=3)
    agents.make("random", env, seed=2).learn(4, tensorboard=tmp_path)
    steps, values = scalars(tmp_path, "plant/loss")
    assert steps == [1, 2, 3, 4]
    np.testing.assert_allclose(values, env.columns()["loss"], rtol=1e-6)


@needs_tensorboard
def test_play_logs_pretraining_apart(tmp_path):
    (task,) = ControlStudy(("a2c",), {"setpoint": [100.0]}, 1, 4, 3, pretrain_steps=7).tasks()
    run = play(task, tensorboard=str(tmp_path))
    folder = tmp_path / "setpoint-100/seed-3/a2c"
    assert scalars(folder / "pretraining", "plant/loss")[0] == [1, 2, 3, 4, 5, 6, 7]
    np.testing.assert_allclose(scalars(folder, "plant/loss")[1], run.arrays["loss"], rtol=1e-6)


def test_learn_raises_on_missing_tensorboard_and_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    env = Recorder(make_env(100.0), seed=3)
    with pytest.raises(ValueError, match=r"logs must have the package tensorboard, got none; .*\[tensorboard\]"):
        agents.make("noop", env).learn(3, tensorboard=tmp_path / "log")
    assert len(env.columns()["loss"]) == 0
    assert not (tmp_path / "log").exists()
