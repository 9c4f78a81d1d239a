"""MPC agents with tiny networks and budgets, and the plants they are tested on."""

import gymnasium as gym
import numpy as np

import agents
import envs  # noqa: F401  # registers the environments
from agents.registry import merge
from habnn_control.control.plant import Plant

TINY = {
    "horizon": 5,
    "hold": 2,
    "model": {"history": 2, "target": "log", "network": {"hidden": (8,)}},
    "planner": {"n_candidates": 12, "n_iterations": 2},
    "exploration": {"excitation": {"length": 4}},
}


def habnn(env, seed=0, **settings):
    return agents.make("habnn", env, seed, **merge(TINY, settings))


def benchmark(setpoint=100.0, **settings):
    return gym.make("IndustrialBenchmark-v0", setpoint=setpoint, max_episode_steps=-1, **settings)


class Seeded(gym.Wrapper):
    """Seed the first reset, whoever calls it."""

    def __init__(self, env, seed):
        super().__init__(env)
        self._seed = seed

    def reset(self, *, seed=None, options=None):
        seed, self._seed = self._seed, None
        return super().reset(seed=seed, options=options)


def plant(seed=3, **settings):
    return Seeded(benchmark(**settings), seed)


def steps_of(agent, n, **keywords):
    seen = []
    agent.learn(n, callback=seen.append, **keywords)
    return seen


def assert_same_steps(ours, theirs):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a.action, b.action)
        np.testing.assert_array_equal(a.next_observation, b.next_observation)


class PointMass(gym.Env):
    """A mass on a line that is pushed: position and velocity, to be brought to 0."""

    observation_space = gym.spaces.Box(-5.0, 5.0, (2,))
    action_space = gym.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self, limit=None):
        self.limit = limit

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        super().reset(seed=seed)
        self.clock = 0
        self.state = np.array([self.np_random.uniform(2.0, 3.0) * self.np_random.choice([-1.0, 1.0]), 0.0])
        return self.state.astype(np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.clock += 1
        position, velocity = self.state
        velocity = 0.9 * velocity + 0.3 * action[0]
        self.state = np.clip([position + velocity, velocity], -5.0, 5.0)
        return self.state.astype(np.float32), -abs(float(self.state[0])), False, self.clock == self.limit, {}


def distance(actions, observations):
    return np.abs(observations[..., 0])


POINT_MASS = merge(
    TINY,
    {
        "plant": Plant(distance),
        "model": {"history": 0, "target": "delta"},
        "exploration": {"risk": 0.0},
        "horizon": 10,
        "hold": 0,
    },
)


def point_mass_agent(env, seed=0, **settings):
    return agents.make("habnn", env, seed, **merge(POINT_MASS, settings))
