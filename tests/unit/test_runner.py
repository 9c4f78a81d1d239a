"""Playing a task: what is recorded, seeds, pretraining."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents.reporting import actuator_columns
from agents.runner import Recorder, import_plugins, logged_steps, make_env, measured_env, play
from agents.study import ControlStudy
from control_studies import COLUMNS, task_of


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


def reseeded(task, seed):
    return replace(task, settings={**task.settings, "agent_seed": seed})


def test_play_meets_the_same_plant_whatever_the_agents_seed():
    one, other = play(task_of("noop")), play(reseeded(task_of("noop"), 12345))
    np.testing.assert_array_equal(one.arrays["loss"], other.arrays["loss"])


def test_play_times_are_positive_and_decisions_within_the_wall_time():
    run = play(task_of("random", steps=50))
    assert 0 < run.numbers["decision_seconds"] < run.numbers["wall_seconds"]


def test_play_pretraining_changes_a_baseline_and_leaves_others_alone():
    cold, warm = play(task_of("a2c")), play(task_of("a2c", pretrain_steps=50))
    assert (cold.arrays["loss"] != warm.arrays["loss"]).any()
    assert len(warm.arrays["loss"]) == 12
    cold, warm = play(task_of("random")), play(task_of("random", pretrain_steps=50))
    np.testing.assert_array_equal(cold.arrays["loss"], warm.arrays["loss"])


def test_play_evaluates_a_baseline_without_learning(monkeypatch):
    """The measured run of `evaluate` is played by `predict`; `learn` is called for the training steps only."""
    learned = []
    from agents.sb3 import SB3Agent

    learn = SB3Agent.learn
    monkeypatch.setattr(SB3Agent, "learn", lambda self, n, **rest: learned.append(n) or learn(self, n, **rest))
    run = play(task_of("a2c", pretrain_steps=20, evaluate=True))
    assert learned == [20]
    assert len(run.arrays["loss"]) == 12
    plain, same = play(task_of("random", pretrain_steps=20)), play(task_of("random", pretrain_steps=20, evaluate=True))
    np.testing.assert_array_equal(plain.arrays["loss"], same.arrays["loss"])


def test_study_raises_on_evaluating_without_training():
    with pytest.raises(ValueError, match="evaluate must follow training, got pretrain_steps 0"):
        ControlStudy(["a2c"], {"setpoint": [100.0]}, 1, 5, evaluate=True)


def test_play_gives_habnn_a_log_of_a_wandering_policy():
    """The log is of another plant than the measured one, and it replaces the excitation at the start."""
    small = {"habnn": {"planner": {"n_candidates": 10, "n_iterations": 1}}}
    task = task_of("habnn", steps=3, pretrain_steps=40, agent_settings=small)
    log = logged_steps(task)
    assert len(log.actions) == 40
    np.testing.assert_array_equal(log.starts, [True] + [False] * 39)
    np.testing.assert_array_equal(log.observations[1:], log.next_observations[:-1])
    assert np.ptp(log.observations[:, 3]) > 5.0
    cold, warm = (play(one) for one in (task_of("habnn", steps=3, agent_settings=small), task))
    assert np.abs(np.diff(cold.arrays["velocity"])).min() == pytest.approx(1.0)  # full speed: excitation
    assert np.abs(np.diff(warm.arrays["velocity"])).min() < 1.0


def test_logged_steps_come_in_equal_parts_from_every_policy_at_every_level():
    (task,) = ControlStudy(
        ["habnn"], {"setpoint": [100.0]}, 1, 3, pretrain_steps=21, log_agents=["noop", "random"],
        log_arguments={"setpoint": [20.0, 70.0]},
    ).tasks()  # fmt: skip
    log = logged_steps(task)
    np.testing.assert_array_equal(np.flatnonzero(log.starts), [0, 5, 10, 15])
    assert len(log.actions) == 21
    np.testing.assert_array_equal(log.observations[[0, 5, 10, 15], 0], [20.0, 20.0, 70.0, 70.0])
    resting = [not log.actions[a:b].any() for a, b in ((0, 5), (5, 10), (10, 15), (15, 21))]
    assert resting == [True, False, True, False]


def test_study_refuses_log_settings_without_a_log_or_of_unknown_agents():
    with pytest.raises(ValueError, match="log_agents and log_arguments must go with a log, got pretrain_steps 0"):
        ControlStudy(["habnn"], {"setpoint": [100.0]}, 1, 5, log_agents=["random"])
    with pytest.raises(ValueError, match="nooop"):
        ControlStudy(["habnn"], {"setpoint": [100.0]}, 1, 5, pretrain_steps=9, log_agents=["nooop"]).check()
    with pytest.raises(ValueError, match="env-arg must be arguments that the environment accepts"):
        ControlStudy(["habnn"], {}, 1, 5, pretrain_steps=9, log_arguments={"loadd": [1.0]}).check()


def test_play_wandering_plant_changes_its_setpoint():
    fixed, wandering = (play(task_of("noop", steps=60, wandering=flag)) for flag in (False, True))
    assert np.ptp(fixed.arrays["consumption"][30:]) < np.ptp(wandering.arrays["consumption"][30:])


def test_play_pretrained_baseline_starts_from_the_plants_start():
    cold, warm = play(task_of("a2c")), play(task_of("a2c", pretrain_steps=50))
    assert abs(warm.arrays["velocity"][0] - 50) <= 1
    assert abs(cold.arrays["velocity"][0] - 50) <= 1


def test_play_passes_settings_on():
    task = task_of("hold", steps=40, agent_settings={"hold": {"velocity": 20.0}})
    assert play(task).arrays["velocity"][-1] == pytest.approx(20.0)


def test_play_goes_on_past_the_time_limit_of_the_environment():
    run = play(task_of("hold", steps=1030))
    np.testing.assert_allclose(run.arrays["velocity"][900:], 32.0)  # a reset would put it back to 50


def pendulum(agent, steps=5, **arguments):
    values = {name: [value] for name, value in arguments.items()}
    return ControlStudy([agent], values, 1, steps, 3, env="Pendulum-v1").tasks()[0]


@pytest.mark.parametrize("agent", ["random", "noop", "sac"])
def test_play_records_all_entries_of_an_environment_without_a_plant(agent):
    columns = play(pendulum(agent)).arrays
    assert list(columns) == ["loss", "entry_0", "entry_1", "entry_2"]
    np.testing.assert_allclose(columns["entry_0"] ** 2 + columns["entry_1"] ** 2, 1.0, atol=1e-5)  # cosine and sine


def test_play_loss_of_an_environment_without_one_is_minus_the_reward_vs_stepping_it():
    env = gym.make("Pendulum-v1", g=3.7)
    env.reset(seed=3)
    rewards = [env.step(np.zeros(1, dtype=np.float32))[1] for _ in range(5)]
    np.testing.assert_array_equal(play(pendulum("noop", g=3.7)).arrays["loss"], [-reward for reward in rewards])


def test_play_resets_after_an_episode_that_ends():
    velocity = play(pendulum("random", steps=12, max_episode_steps=4)).arrays["entry_2"]
    assert len(velocity) == 12
    first = [abs(velocity[k]) for k in (0, 4, 8)]
    assert max(first) < 2.0  # at most 1 at a reset, and one step later
    assert len(set(first)) == 3


def test_play_pretrains_on_an_environment_without_a_plant():
    (task,) = ControlStudy(["a2c"], {}, 1, 5, 3, pretrain_steps=20, env="Pendulum-v1").tasks()
    assert (play(task).arrays["loss"] != play(pendulum("a2c")).arrays["loss"]).any()
    log = logged_steps(replace(task, settings={**task.settings, "env_arguments": {"max_episode_steps": 8}}))
    assert np.flatnonzero(log.starts).tolist() == [0, 8, 16]


def test_recorder_records_the_newest_of_several_frames():
    env = Recorder(make_env(70.0, observation_type="include_past", n_past_timesteps=3), seed=3)
    env.reset()
    infos = [env.step(np.array([0.1, -0.2, 0.3]))[4] for _ in range(4)]
    for name in COLUMNS[1:]:
        np.testing.assert_array_equal(env.columns()[name], [info["markov_state"][name] for info in infos])


@pytest.mark.parametrize(("env", "names"), [("FrozenLake-v1", ["loss", "entry_0"]), ("Blackjack-v1", ["loss"])])
def test_recorder_takes_observations_that_are_no_vectors(env, names):
    with Recorder(gym.make(env), seed=0) as recorder:
        recorder.reset()
        recorder.step(0)
        assert list(recorder.columns()) == names


def test_measured_env_of_a_plant_has_no_time_limit():
    def limit(env):
        layers = [env]
        while hasattr(layers[-1], "env"):
            layers.append(layers[-1].env)
        return [layer._max_episode_steps for layer in layers if isinstance(layer, gym.wrappers.TimeLimit)]

    assert limit(make_env(100.0)) == []
    assert limit(make_env(100.0, max_episode_steps=5)) == [5]
    assert limit(measured_env("Pendulum-v1")) == [200]


def test_agent_says_how_it_can_be_pretrained():
    made = {name: agents.make(name, make_env(100.0)) for name in ("habnn", "a2c", "noop")}
    assert [agent.can_pretrain() for agent in made.values()] == [True, False, False]
    assert [agent.trains_in_episodes for agent in made.values()] == [False, True, False]
    with pytest.raises(NotImplementedError, match="noop: pretrain"):
        made["noop"].pretrain(None)


def test_actuator_columns_are_those_of_the_plant():
    assert actuator_columns(make_env(100.0), COLUMNS[1:]) == ["velocity", "gain", "shift"]
    assert actuator_columns(gym.make("Pendulum-v1"), ["entry_0"]) == []


def test_import_plugins_finds_modules_of_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "a_plugin_of_mine.py").write_text("import builtins\nbuiltins.plugged = True\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("builtins.plugged", False, raising=False)
    monkeypatch.setattr("sys.path", ["/nowhere", *__import__("sys").path])
    import_plugins(["a_plugin_of_mine"])
    assert __import__("builtins").plugged


def test_import_plugins_raises_on_unknown_module():
    with pytest.raises(ValueError, match="plugin: module must be one that Python can import, got 'no_such_module'"):
        import_plugins(["no_such_module"])
