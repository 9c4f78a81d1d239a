"""Playing a task: what is recorded, seeds, pretraining."""

import numpy as np
import pytest

from agents.runner import Recorder, check_setpoint, logged_steps, make_env, play
from habnn_control.experiments.engine import COLUMNS, Study


def task_of(agent, steps=12, **changes):
    return Study((agent,), (100.0,), 1, steps, 3).tasks()[0]._replace(**changes)


def test_recorder_records_what_the_environment_gave():
    env = Recorder(make_env(70.0), seed=3)
    env.reset(seed=999)  # an agent's wish, which does not count
    infos = [env.step(np.array([0.1, -0.2, 0.3]))[4] for _ in range(4)]
    columns = env.columns()
    assert tuple(columns) == COLUMNS
    np.testing.assert_array_equal(columns["loss"], [info["loss"] for info in infos])
    np.testing.assert_array_equal(columns["gain"], [info["markov_state"]["gain"] for info in infos])
    np.testing.assert_allclose(columns["loss"], columns["consumption"] + 3 * columns["fatigue"])
    assert env.env_seconds > 0


def test_recorder_seeds_the_first_reset_only():
    def two_episodes():
        env = Recorder(make_env(100.0), seed=3)
        env.reset(seed=1)
        first = env.step(np.zeros(3))[4]["loss"]
        env.reset(seed=1)
        return first, env.step(np.zeros(3))[4]["loss"]

    assert two_episodes() == two_episodes()
    assert len(set(two_episodes())) == 2


def test_play_meets_the_same_plant_whatever_the_agents_seed():
    one, other = play(task_of("noop")), play(task_of("noop", agent_seed=12345))
    np.testing.assert_array_equal(one.columns["loss"], other.columns["loss"])


def test_play_times_are_positive_and_decisions_within_the_wall_time():
    run = play(task_of("random", steps=50))
    assert 0 < run.decision_seconds < run.wall_seconds


def test_play_pretraining_changes_a_baseline_and_leaves_others_alone():
    cold, warm = play(task_of("a2c")), play(task_of("a2c", pretrain_steps=50))
    assert (cold.columns["loss"] != warm.columns["loss"]).any()
    assert len(warm.columns["loss"]) == 12
    cold, warm = play(task_of("random")), play(task_of("random", pretrain_steps=50))
    np.testing.assert_array_equal(cold.columns["loss"], warm.columns["loss"])


def test_play_gives_habnn_a_log_of_a_wandering_policy():
    """The log is of another plant than the measured one, and it replaces the excitation at the start."""
    task = task_of("habnn", steps=3, pretrain_steps=40)
    log = logged_steps(task)
    assert len(log.actions) == 40
    np.testing.assert_array_equal(log.starts, [True] + [False] * 39)
    np.testing.assert_array_equal(log.observations[1:], log.next_observations[:-1])
    assert np.ptp(log.observations[:, 3]) > 5.0
    cold, warm = (play(one, n_candidates=10, n_iterations=1) for one in (task._replace(pretrain_steps=0), task))
    assert np.abs(np.diff(cold.columns["velocity"])).min() == pytest.approx(1.0)  # full speed: excitation
    assert np.abs(np.diff(warm.columns["velocity"])).min() < 1.0


def test_play_wandering_plant_changes_its_setpoint():
    fixed, wandering = (play(task_of("noop", steps=60, wandering=flag)) for flag in (False, True))
    assert np.ptp(fixed.columns["consumption"][30:]) < np.ptp(wandering.columns["consumption"][30:])


def test_play_pretrained_baseline_starts_from_the_plants_start():
    cold, warm = play(task_of("a2c")), play(task_of("a2c", pretrain_steps=50))
    assert abs(warm.columns["velocity"][0] - 50) <= 1
    assert abs(cold.columns["velocity"][0] - 50) <= 1


def test_play_passes_settings_on():
    assert play(task_of("hold", steps=40), velocity=20.0).columns["velocity"][-1] == pytest.approx(20.0)


def test_play_goes_on_past_the_time_limit_of_the_environment():
    run = play(task_of("hold", steps=1030))
    np.testing.assert_allclose(run.columns["velocity"][900:], 32.0)  # a reset would put it back to 50


@pytest.mark.parametrize(("bad", "nearest"), [(-3.0, "0"), (120.0, "100"), (float("nan"), "0")])
def test_check_setpoint_raises_on_values_out_of_range(bad, nearest):
    with pytest.raises(ValueError, match=rf"setpoint must be in 0..100, got .*; the nearest is {nearest}"):
        check_setpoint(bad)
