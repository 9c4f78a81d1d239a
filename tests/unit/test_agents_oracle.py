"""The oracle: planning on the true simulator with a tiny budget."""

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents.runner import Recorder, make_env, play
from agents.study import ControlStudy
from habnn_control.control.planning import ICEM

TINY = {"horizon": 20, "n_scenarios": 2, "n_candidates": 30, "n_iterations": 2}


def oracle_of(env, seed=0, **settings):
    return agents.make("oracle", env, seed, **TINY | settings)


def steps_of(agent, n):
    seen = []
    agent.learn(n, callback=seen.append)
    return seen


def actions_of(agent, n):
    return np.array([step.action for step in steps_of(agent, n)])


def mean_losses(name, **settings):
    study = ControlStudy((name,), {"setpoint": [100.0]}, 4, 60, 0, agent_settings={name: settings})
    return np.array([play(task).arrays["loss"].mean() for task in study.tasks()])


def test_oracle_beats_noop_from_the_first_steps_on():
    gain = mean_losses("noop") - mean_losses("oracle", **TINY)
    assert gain.min() > 40.0  # doing nothing is worth 298, a large budget 225
    assert gain.mean() > 10 * gain.std(ddof=1) / np.sqrt(len(gain))


def test_oracle_plans_better_with_a_larger_budget():
    few, many = (mean_losses("oracle", **TINY | {"n_candidates": n}) for n in (10, 100))
    assert many.mean() < few.mean()


def test_oracle_is_deterministic_under_its_seed():
    first, again, other = (actions_of(oracle_of(Recorder(make_env(100.0), 3), seed), 5) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_oracle_actions_are_in_the_space():
    env = make_env(10.0)
    for action in actions_of(oracle_of(env), 5):
        assert env.action_space.contains(action)


@pytest.mark.parametrize("setting", [{"wandering": True}, {"observation_type": "include_past"}])
def test_oracle_plays_variants_of_the_plant(setting):
    seen = steps_of(oracle_of(make_env(70.0, **setting)), 4)
    assert np.isfinite([step.info["loss"] for step in seen]).all()


def test_oracle_warm_starts_within_an_episode_only(monkeypatch):
    plan, starts_cold = ICEM.plan, []

    def spy(self, objective, low, high, horizon, rng, previous):
        starts_cold.append(previous is None)
        return plan(self, objective, low, high, horizon, rng, previous)

    monkeypatch.setattr(ICEM, "plan", spy)
    oracle_of(make_env(100.0, max_episode_steps=3)).learn(7)
    assert starts_cold == [True, False, False] * 2 + [True]


def test_oracle_predict_in_a_callback_is_what_it_plays_next():
    agent = oracle_of(Recorder(make_env(100.0), 3))
    expected, seen = [], []

    def ask(step):
        seen.append(step.action)
        expected.append(agent.predict(step.next_observation)[0])
        np.testing.assert_array_equal(expected[-1], agent.predict(step.next_observation)[0])

    agent.learn(5, callback=ask)
    np.testing.assert_array_equal(seen[1:], expected[:-1])
    np.testing.assert_array_equal(
        seen, actions_of(oracle_of(Recorder(make_env(100.0), 3)), 5)
    )  # asking changed nothing


def test_oracle_load_continues_within_an_episode(tmp_path):
    """Save after the third step; the loaded agent plans the fourth as the original played it."""
    agent, seen = oracle_of(Recorder(make_env(100.0), 3), seed=5), []

    def keep(step):
        seen.append(step)
        if step.timestep == 3:
            agent.save(tmp_path / "agent")

    agent.learn(4, callback=keep)
    loaded = agents.load(tmp_path / "agent", make_env(100.0))
    np.testing.assert_array_equal(loaded.predict(seen[3].observation)[0], seen[3].action)


def test_oracle_load_continues_with_a_new_episode(tmp_path):
    agent = oracle_of(Recorder(make_env(100.0), 3), seed=5)
    agent.learn(3)
    agent.save(tmp_path / "agent")
    loaded = agents.load(tmp_path / "agent", make_env(100.0))
    assert loaded.settings == TINY
    for continued in (agent, loaded):
        continued.set_env(Recorder(make_env(100.0), 8))
    np.testing.assert_array_equal(actions_of(loaded, 3), actions_of(agent, 3))


def test_oracle_load_before_any_step(tmp_path):
    oracle_of(make_env(100.0), seed=5).save(tmp_path / "agent")
    loaded = agents.load(tmp_path / "agent", Recorder(make_env(100.0), 8))
    np.testing.assert_array_equal(actions_of(loaded, 2), actions_of(oracle_of(Recorder(make_env(100.0), 8), 5), 2))


def test_predict_raises_on_observation_without_a_hidden_state():
    env = make_env(100.0)
    agent = oracle_of(env)
    observation, _ = env.reset(seed=0)
    message = (
        "oracle: observation must be the last one that learn met, got .*; it does not know the hidden state of others"
    )
    with pytest.raises(ValueError, match=message):
        agent.predict(observation)
    agent.learn(2)
    with pytest.raises(ValueError, match=message):
        agent.predict(observation + 1.0)


def test_oracle_raises_on_discrete_actions():
    with pytest.raises(
        ValueError, match=r"oracle: env must be an Industrial Benchmark with continuous .* Discrete\(27\)"
    ):
        oracle_of(make_env(100.0, action_type="discrete"))


def test_oracle_raises_on_an_environment_without_markov_state():
    class Other(gym.Env):
        observation_space = gym.spaces.Box(-1.0, 1.0, (6,))
        action_space = gym.spaces.Box(-1.0, 1.0, (3,))

        def reset(self, *, seed=None, options=None):  # noqa: ARG002
            return np.zeros(6, dtype=np.float32), {"loss": 0.0}

    with pytest.raises(ValueError, match=r"oracle: info must have 'markov_state', got \['loss'\]"):
        oracle_of(Other()).learn(1)


@pytest.mark.parametrize("name", ["horizon", "n_scenarios"])
@pytest.mark.parametrize("bad", [0, 2.5, float("nan")])
def test_oracle_raises_on_bad_sizes(name, bad):
    with pytest.raises(ValueError, match=f"oracle: {name} must be a whole number of at least 1, got {bad}"):
        oracle_of(make_env(100.0), **{name: bad})
