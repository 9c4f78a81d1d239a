"""Long training: exact resumption, evaluation, and the study around it."""

import numpy as np
import pandas as pd
import pytest

import agents.baselines
from agents.baselines import LEVELS, BaselineStudy, counts, play, steps_to
from agents.training import TRAINED, Trainer
from habnn_control.experiments.engine import run_study
from tiny_agents import benchmark

FEW = {"runs": 1, "on_policy_steps": 300, "off_policy_steps": 130, "evaluation_plants": 2, "evaluation_steps": 12}


def trained(name, n, path=None):
    trainer = Trainer(name, seed=1, n_envs=2 if name[:3] in ("ppo", "a2c") else None, setpoint=100)
    if path is not None:
        assert trainer.load(path).tolist() == [[1.0, 2.0]]
    trainer.learn(n)
    return trainer


@pytest.mark.parametrize("name", TRAINED)
def test_training_resumes_exactly(name, tmp_path):
    """Interrupted and taken up by another process, training leads to the same policy as without interruption."""
    half, whole = (110, 125) if name[:3] in ("sac", "td3") else (60, 130)
    direct = trained(name, half)
    direct.save(tmp_path / "latest", np.array([[1.0, 2.0]]))
    direct.learn(whole)
    resumed = trained(name, whole, tmp_path / "latest")
    assert direct.n_steps == resumed.n_steps >= whole
    np.testing.assert_array_equal(direct.evaluate(2, 5, seed=3), resumed.evaluate(2, 5, seed=3))


def test_training_continues_differently_from_a_fresh_start(tmp_path):
    """The test above can fail: a trainer without the checkpoint ends elsewhere."""
    direct, fresh = trained("a2c", 130), Trainer("a2c", seed=2, n_envs=2, setpoint=100)
    fresh.learn(130)
    assert (direct.evaluate(2, 5, seed=3) != fresh.evaluate(2, 5, seed=3)).any()


def test_policy_file_holds_what_acting_needs(tmp_path):
    trainer = trained("a2c", 60)
    trainer.save_policy(tmp_path / "policy")
    other = Trainer("a2c", seed=5, n_envs=2, setpoint=100)
    other.load_policy(tmp_path / "policy")
    np.testing.assert_array_equal(trainer.evaluate(2, 5, seed=3), other.evaluate(2, 5, seed=3))
    with pytest.raises(ValueError, match="must be a checkpoint of ppo, got one of a2c"):
        Trainer("ppo", seed=5, n_envs=2, setpoint=100).load_policy(tmp_path / "policy")


def test_evaluation_plays_fresh_plants_with_the_policy():
    """The losses are those that single environments with the same seeds give for the same actions."""
    trainer = trained("ppo", 40)
    losses = trainer.evaluate(2, 4, seed=11)
    expected = np.zeros(4)
    for seed in (11, 12):
        env = benchmark()
        observation, _ = env.reset(seed=seed)
        for k in range(4):
            scaled = trainer._scaled.normalize_obs(observation.astype(np.float32))
            observation, _, _, _, info = env.step(trainer.model.predict(scaled, deterministic=True)[0])
            expected[k] += info["loss"] / 2
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


def test_counts_are_log_spaced_and_end_at_the_total():
    assert counts(1000) == [0, 10, 32, 100, 316, 1000]
    assert counts(500) == [0, 10, 32, 100, 316, 500]
    assert counts(5) == [0, 5]


def test_steps_to_is_the_first_crossing():
    steps, losses = np.array([0.0, 10.0, 100.0, 1000.0]), np.array([300.0, 229.0, 240.0, 220.0])
    assert steps_to(steps, losses, 230.0) == 10.0
    assert steps_to(steps, losses, 221.0) == 1000.0
    assert steps_to(steps, losses, 100.0) == np.inf


def test_study_trains_plays_and_tabulates(tmp_path):
    study = BaselineStudy(("a2c", "noop"), n_envs=4, **FEW)
    assert not run_study(study, lambda task: play(task, tmp_path), tmp_path)
    curves, reached = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("curves", "reached"))
    trained_rows, online = curves[curves["agent"] == "a2c"], curves[curves["agent"] == "noop"]
    # A rollout of A2C is 5 steps of 4 plants: it ends at multiples of 20.
    assert trained_rows["steps"].tolist() == [0, 20, 40, 100, 300]
    assert online["steps"].tolist() == [10, 12]
    assert np.isfinite(curves["loss"]).all()
    assert reached["level"].tolist() == [*LEVELS, *LEVELS]
    kept = {path.name for path in (tmp_path / "checkpoints/a2c/0").iterdir()}
    assert kept == {"latest", *(f"policy-{n}" for n in (0, 20, 40, 100, 300))}


def test_study_goes_on_from_the_last_checkpoint(tmp_path, monkeypatch):
    """Stopped inside the training, the study ends with the rows of one that was not stopped."""
    study = BaselineStudy(("a2c",), n_envs=4, **FEW)
    (task,) = study.tasks()
    whole = play(task, tmp_path / "whole").arrays
    learned = []

    def stop(trainer, n_steps):
        if n_steps > 40:
            raise KeyboardInterrupt
        learned.append(n_steps)
        original(trainer, n_steps)

    original = Trainer.learn
    monkeypatch.setattr(Trainer, "learn", stop)
    with pytest.raises(KeyboardInterrupt):
        play(task, tmp_path / "stopped")
    monkeypatch.setattr(Trainer, "learn", lambda trainer, n: (learned.append(n), original(trainer, n)))
    resumed = play(task, tmp_path / "stopped").arrays
    for name, values in whole.items():
        np.testing.assert_array_equal(resumed[name], values, err_msg=name)
    assert learned == [0, 10, 32, 100, 300]  # nothing twice


def test_study_raises_on_unknown_agents():
    with pytest.raises(ValueError, match=r"baselines: agent must be one of .* got 'pppo'; did you mean 'ppo'"):
        BaselineStudy(("pppo",))
    assert agents.baselines.TRAINED[:2] == ("ppo", "ppo-past")
