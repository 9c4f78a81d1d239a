"""The agent interface and the reference policies, on a plant small enough to know the right answer."""

import json
import re
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest

import agents
import envs  # noqa: F401  # registers the environments
from agents.base import Agent
from habnn_control.control.plant import Actuators
from habnn_control.control.plant import Plant as Description

REACH = np.array([1.0, 10.0, 5.75])
ACTUATORS = Actuators([1, 2, 3], REACH)


class Plant(gym.Env):
    """Three actuators that move as in the Industrial Benchmark; the loss is their distance from 50."""

    def __init__(self, discrete=False, limit=None):
        self.observation_space = gym.spaces.Box(0.0, 1000.0, (6,))
        self.action_space = gym.spaces.Discrete(27) if discrete else gym.spaces.Box(-1.0, 1.0, (3,))
        self.plant = Description(lambda _, observations: observations[..., 1], None if discrete else ACTUATORS)
        self.limit = limit
        self.resets = self.steps = 0

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        super().reset(seed=seed)
        self.resets += 1
        self.clock = 0
        self.positions = self.np_random.uniform(45.0, 55.0, 3)
        return self.observe(), {}

    def observe(self):
        return np.array([100.0, *self.positions, 0.0, 0.0], dtype=np.float32)

    def step(self, action):
        assert self.action_space.contains(action)
        self.steps += 1
        self.clock += 1
        if isinstance(self.action_space, gym.spaces.Box):
            self.positions = np.clip(self.positions + REACH * action, 0.0, 100.0)
        loss = float(np.abs(self.positions - 50.0).sum())
        return self.observe(), -loss, False, self.clock == self.limit, {"loss": loss}


@pytest.fixture
def plant():
    return Plant()


def actions_of(agent, steps):
    seen = []
    agent.learn(steps, callback=lambda step: seen.append(step.action))
    return np.array(seen)


@pytest.mark.parametrize("name", ["noop", "random"])
@pytest.mark.parametrize("discrete", [False, True])
def test_learn_makes_exactly_one_env_step_a_timestep(name, discrete):
    env = Plant(discrete, limit=4)
    seen = []
    agent = agents.make(name, env)
    assert agent.learn(10, callback=seen.append) is agent
    assert env.steps == 10
    assert env.resets == 3  # at the start and after steps 4 and 8
    assert [step.timestep for step in seen] == list(range(1, 11))
    assert [step.truncated for step in seen] == [t in (4, 8) for t in range(1, 11)]


def test_learn_hands_the_callback_what_the_environment_gave(plant):
    seen = []
    plant.reset(seed=3)
    agents.make("random", plant).learn(5, callback=seen.append)
    for before, after in pairwise(seen):
        np.testing.assert_array_equal(before.next_observation, after.observation)
        np.testing.assert_allclose(
            after.next_observation[1:4], after.observation[1:4] + REACH * after.action, rtol=1e-5
        )
        assert after.reward == -after.info["loss"]


def test_learn_stops_when_the_callback_says_so(plant):
    agents.make("noop", plant).learn(10, callback=lambda step: step.timestep < 3)
    assert plant.steps == 3


@pytest.mark.parametrize("name", ["noop", "random", "hold"])
def test_learn_resumes_without_a_reset_unless_the_episode_is_over(name):
    halves, whole = (agents.make(name, Plant(limit=4)) for _ in range(2))
    for agent in (halves, whole):
        agent.env.reset(seed=0)
    seen, expected = [], []
    for steps in (3, 5, 2):  # the second ends with an episode
        halves.learn(steps, callback=seen.append, resume=True)
    whole.learn(10, callback=expected.append)
    assert halves.env.resets == whole.env.resets == 1 + 3  # ours, then at the start and after steps 4 and 8
    for ours, theirs in zip(seen, expected, strict=True):
        np.testing.assert_array_equal(ours.next_observation, theirs.next_observation)


def test_learn_resets_in_another_environment_and_without_resume(plant):
    agent = agents.make("noop", plant)
    agent.learn(2)
    agent.learn(2)
    assert plant.resets == 2
    agent.set_env(other := Plant())
    agent.learn(2, resume=True)
    assert (plant.resets, other.resets) == (2, 1)


def test_load_resumes_where_the_agent_was_saved(plant, tmp_path):
    agents.make("random", plant).learn(3).save(tmp_path / "agent")
    loaded, seen, before = agents.load(tmp_path / "agent", plant), [], plant.observe()
    loaded.learn(1, callback=seen.append, resume=True)
    assert plant.resets == 1
    np.testing.assert_array_equal(seen[0].observation, before)


def test_learn_progress_bar_shows_the_loss(plant, capsys):
    agents.make("noop", plant).learn(3, progress_bar=True)
    assert "noop" in (text := capsys.readouterr().err)
    assert "loss=" in text


@pytest.mark.parametrize("bad", [0, -1, 2.5, float("nan")])
def test_learn_raises_on_bad_total_timesteps(plant, bad):
    with pytest.raises(ValueError, match="noop: total_timesteps must be a positive integer, got"):
        agents.make("noop", plant).learn(bad)
    assert plant.resets == 0


def test_noop_keeps_all_actuators_still(plant):
    assert not actions_of(agents.make("noop", plant), 3).any()


def test_noop_is_the_middle_of_the_27_discrete_actions():
    assert agents.make("noop", Plant(discrete=True)).predict(np.zeros(6))[0] == 13


def test_noop_stays_in_a_box_without_zero(plant):
    plant.action_space = gym.spaces.Box(np.float32(0.5), np.float32(1.0), (3,))
    np.testing.assert_array_equal(agents.make("noop", plant).predict(np.zeros(6))[0], 0.5)


def test_noop_raises_on_discrete_space_without_a_neutral_action(plant):
    plant.action_space = gym.spaces.Discrete(5)
    with pytest.raises(ValueError, match=r"noop: action space must be a Box or Discrete\(27\), got Discrete\(5\)"):
        agents.make("noop", plant)


def test_random_raises_on_unbounded_space(plant):
    plant.action_space = gym.spaces.Box(-np.inf, np.inf, (3,))
    with pytest.raises(ValueError, match="random: action space must be a bounded Box or Discrete"):
        agents.make("random", plant)


def test_random_is_uniform_over_the_box_vs_moments(plant):
    drawn = actions_of(agents.make("random", plant, seed=1), 3000)
    error = 1.0 / np.sqrt(3.0 * 3000)
    assert np.abs(drawn.mean(axis=0)).max() < 5 * error
    assert np.abs(drawn.var(axis=0) - 1 / 3).max() < 5 * np.sqrt(4 / 45 / 3000)


def test_random_is_uniform_over_discrete_actions_vs_counts():
    drawn = actions_of(agents.make("random", Plant(discrete=True), seed=1), 2700)
    counts = np.bincount(drawn, minlength=27)
    assert ((counts - 100) ** 2 / 100).sum() < 26 + 5 * np.sqrt(2 * 26)


def test_random_is_deterministic_under_its_seed(plant):
    first, again, other = (actions_of(agents.make("random", plant, seed=seed), 5) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()


def test_hold_reaches_its_point_and_stays(plant):
    seen = []
    agents.make("hold", plant, velocity=60.0, gain=20.0, shift=70.0).learn(40, callback=seen.append)
    np.testing.assert_allclose(seen[-1].next_observation[1:4], [60.0, 20.0, 70.0], atol=0.02)
    assert np.abs(seen[-1].action).max() < 0.02


@pytest.mark.parametrize("bad", [-1.0, 101.0, float("nan")])
def test_hold_raises_on_gain_out_of_range(plant, bad):
    with pytest.raises(ValueError, match=r"hold: gain must be in 0..100, got"):
        agents.make("hold", plant, gain=bad)


def test_hold_raises_on_discrete_actions():
    with pytest.raises(ValueError, match="hold: env must be an Industrial Benchmark with continuous actions"):
        agents.make("hold", Plant(discrete=True))


@pytest.mark.parametrize("name", ["noop", "random", "hold"])
def test_predict_batch_has_one_action_a_row(plant, name):
    agent = agents.make(name, plant)
    batch, state = agent.predict(np.full((4, 6), 50.0), state="kept")
    assert state == "kept"
    assert batch.shape == (4, 3)
    assert all(plant.action_space.contains(row) for row in batch)


@pytest.mark.parametrize("name", ["noop", "a2c"])
@pytest.mark.parametrize("shape", [(5,), (), (6, 5), (2, 2, 6)])
def test_predict_raises_on_wrong_shape(plant, name, shape):
    message = rf"{name}: observation must have shape \(6,\) or .*, got {re.escape(str(shape))}"
    with pytest.raises(ValueError, match=message):
        agents.make(name, plant).predict(np.zeros(shape))


@pytest.mark.parametrize("name", ["hold", "a2c"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_predict_raises_on_observation_that_is_not_finite(plant, name, bad):
    with pytest.raises(ValueError, match=f"{name}: observation must have finite values, got"):
        agents.make(name, plant).predict(np.array([100.0, 50.0, bad, 50.0, 0.0, 0.0]))


@pytest.mark.parametrize("name", ["noop", "random", "hold"])
def test_load_continues_where_save_stopped(plant, tmp_path, name):
    agent = agents.make(name, plant, seed=5)
    agent.learn(3)
    agent.save(tmp_path / "agent")
    loaded = agents.load(tmp_path / "agent", plant)
    assert isinstance(loaded, Agent)
    assert (loaded.name, loaded.seed) == (name, 5)
    observation = plant.observe()
    for _ in range(3):
        np.testing.assert_array_equal(loaded.predict(observation)[0], agent.predict(observation)[0])


def test_load_keeps_settings(plant, tmp_path):
    agents.make("hold", plant, gain=20.0).save(str(tmp_path / "agent"))
    loaded = agents.load(str(tmp_path / "agent"), plant)
    assert loaded.settings == {"gain": 20.0}
    assert loaded.predict(np.array([100, 32, 20, 70, 0, 0]))[0] == pytest.approx(0)


def test_load_raises_on_other_spaces(plant, tmp_path):
    agents.make("noop", plant).save(tmp_path / "agent")
    with pytest.raises(ValueError, match=r"load: env must have the spaces .*Box.*got .*Discrete\(27\)"):
        agents.load(tmp_path / "agent", Plant(discrete=True))


def test_load_raises_on_foreign_file(plant, tmp_path):
    (tmp_path / "agent").write_text(json.dumps({"agent": "noop"}))
    with pytest.raises(ValueError, match="must be a habnn_control file of kind 'agent', got a damaged or foreign"):
        agents.load(tmp_path / "agent", plant)


def test_set_env_raises_on_other_spaces(plant):
    with pytest.raises(ValueError, match="noop: env must have the spaces"):
        agents.make("noop", plant).set_env(Plant(discrete=True))


@pytest.mark.parametrize(("typo", "right"), [("nop", "noop"), ("rnadom", "random"), ("HOLD", "hold")])
def test_make_raises_on_unknown_name_with_the_nearest(plant, typo, right):
    with pytest.raises(
        ValueError, match=rf"agents: name must be one of .*noop.*, got '{typo}'; did you mean '{right}'\?"
    ):
        agents.make(typo, plant)


def test_make_raises_on_unknown_setting_with_the_nearest(plant):
    with pytest.raises(ValueError, match=r"hold: setting must be one of .*, got 'gian'; did you mean 'gain'\?"):
        agents.make("hold", plant, gian=3.0)


def test_wander_stays_within_its_reach_and_moves_everything():
    env = gym.make("IndustrialBenchmark-v0", setpoint=100, max_episode_steps=-1)
    seen = []
    agents.make("wander", env, seed=1, reach=20.0).learn(400, callback=lambda step: seen.append(step.next_observation))
    positions = np.array(seen)[:, 1:4]
    assert positions.min() >= 30.0 - 1e-4
    assert positions.max() <= 70.0 + 1e-4
    assert (np.ptp(positions, axis=0) > 25.0).all()


def test_wander_raises_on_too_large_a_reach():
    with pytest.raises(ValueError, match=r"wander: reach must be in 0\.\.50, got 60"):
        agents.make("wander", gym.make("IndustrialBenchmark-v0"), reach=60.0)


def test_ib_opt_reaches_the_published_level():
    """Measured on Siemens' own simulator at setpoint 100: 237.5 over the first 60 steps (doing nothing: 298)."""
    losses = []
    for seed in range(12):
        env = gym.make("IndustrialBenchmark-v0", setpoint=100, max_episode_steps=-1)
        env.reset(seed=seed)
        seen = []
        agents.make("ib-opt", env).learn(60, callback=lambda step, seen=seen: seen.append(step.info["loss"]))
        losses.append(np.mean(seen))
    standard_error = np.std(losses, ddof=1) / np.sqrt(len(losses))
    assert abs(np.mean(losses) - 237.5) < 5 * standard_error
    assert standard_error < 2.5


def test_ib_opt_predicts_as_it_learns():
    env = gym.make("IndustrialBenchmark-v0", setpoint=60, max_episode_steps=-1)
    env.reset(seed=1)
    agent, seen = agents.make("ib-opt", env), []
    agent.learn(12, callback=seen.append)
    state = None
    for step in seen:
        action, state = agent.predict(step.observation, state)
        np.testing.assert_array_equal(action, step.action)
