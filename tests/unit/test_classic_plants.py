"""The Plants of Gymnasium's own control problems: their loss is minus the reward that the environment pays."""

import gymnasium as gym
import numpy as np
import pytest

import agents
import envs
from agents.runner import measured_env
from tiny_agents import TINY, Seeded, steps_of

IDS = ["Pendulum-v1", "MountainCarContinuous-v0"]


def test_pendulum_loss_is_minus_the_reward():
    """Gymnasium pays for the angle before a step: the loss of the observation before, with the action of the step."""
    env = gym.make("Pendulum-v1")
    plant, (observation, _) = envs.find_plant(env), env.reset(seed=0)
    for action in np.random.default_rng(0).uniform(-2, 2, (150, 1)).astype(np.float32):
        expected = plant.loss(action, observation.astype(np.float64))
        observation, reward, _, _, _ = env.step(action)
        assert expected == pytest.approx(-float(reward), abs=1e-4)


def test_mountain_car_loss_is_minus_the_reward_until_the_goal():
    env = gym.make("MountainCarContinuous-v0")
    plant, (observation, _) = envs.find_plant(env), env.reset(seed=0)
    terminated = False
    while not terminated:
        action = np.array([1.0 if observation[1] > 0 else -1.0], np.float32)  # swings up within a hundred steps
        observation, reward, terminated, truncated, _ = env.step(action)
        assert plant.loss(action, observation) == pytest.approx(-float(reward))
        assert not truncated


@pytest.mark.parametrize("name", IDS)
def test_plant_of_a_wrapped_problem_is_found_and_an_altered_one_refused(name):
    env = gym.make(name)
    assert envs.find_plant(env).actuators is None
    with pytest.raises(ValueError, match="got RescaleAction; pass plant="):
        envs.find_plant(gym.wrappers.RescaleAction(env, np.float32(-0.5), np.float32(0.5)))


@pytest.mark.parametrize(("name", "limit"), [(IDS[0], 200), (IDS[1], 999)])
def test_measured_episodes_keep_their_time_limit(name, limit):
    assert measured_env(name).spec.max_episode_steps == limit


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("agent", ["noop", "random", "constant", "extremum-seeking", "habnn"])
def test_agents_play_the_problems_without_further_settings(name, agent):
    env = Seeded(gym.make(name), 0)
    settings = {"habnn": TINY, "constant": {"points": 3, "trial_steps": 20}}.get(agent, {})
    steps = steps_of(agents.make(agent, env, **settings), 12)
    assert [step.timestep for step in steps] == list(range(1, 13))
    assert all(env.action_space.contains(step.action) for step in steps)
