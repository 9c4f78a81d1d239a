"""Every wrapper of Gymnasium around the benchmark: refused with a clear error, or the Plant's kinematics stay true."""

import inspect
import re
import sys
from types import ModuleType

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers

import agents
import envs
from habnn_control.control.plant import Actuators, Plant
from tiny_agents import PointMass

LOW, HIGH = np.zeros(6), np.full(6, 10.0)
TRANSPARENT = {  # must pass
    "TimeLimit": {"max_episode_steps": 100},
    "OrderEnforcing": {},
    "PassiveEnvChecker": {},
    "RecordEpisodeStatistics": {},
    "RecordVideo": {"video_folder": None, "episode_trigger": lambda _: False},
}
ARGUMENTS = TRANSPARENT | {  # of the wrappers that need some; the others are made with the environment alone
    "AddRenderObservation": {},
    "AtariPreprocessing": None,  # for Atari games only
    "ClipReward": {"min_reward": -1.0, "max_reward": 1.0},
    "DelayObservation": {"delay": 2},
    "DiscretizeAction": {"bins": 3},
    "DiscretizeObservation": {"bins": 3},
    "DtypeObservation": {"dtype": np.float32},
    "FilterObservation": {"filter_keys": [0]},
    "FrameStackObservation": {"stack_size": 3},
    "HumanRendering": None,  # needs a screen
    "MaxAndSkipObservation": {"skip": 2},
    "ObstructView": {"obstructed_pixels_ratio": 0.1, "obstruction_width": 10},
    "AddWhiteNoise": {"probability_of_noise_per_pixel": 0.1},
    "RepeatAction": {"num_repeats": 2},
    "RescaleAction": {"min_action": np.float32(-10.0), "max_action": np.float32(10.0)},
    "RescaleObservation": {"min_obs": LOW, "max_obs": HIGH},
    "ReshapeObservation": {"shape": (3, 2)},
    "ResizeObservation": {"shape": (4, 4)},
    "StickyAction": {"repeat_action_probability": 0.5},
    "TransformAction": {"func": lambda action: action, "action_space": None},
    "TransformObservation": {"func": lambda observation: observation, "observation_space": None},
    "TransformReward": {"func": lambda reward: reward},
}
NAMES = sorted(
    name
    for name, kind in vars(wrappers).items()
    if inspect.isclass(kind) and issubclass(kind, gym.Wrapper) and ARGUMENTS.get(name, {}) is not None
)


def wrapped(name, tmp_path):
    """Return the benchmark inside the wrapper, or None if Gymnasium itself refuses the pair."""
    env = gym.make("IndustrialBenchmark-v0", setpoint=100, render_mode="rgb_array")
    arguments = dict(ARGUMENTS.get(name, {}))
    if name == "RecordVideo":
        arguments["video_folder"] = str(tmp_path)
    try:
        return getattr(wrappers, name)(env, **arguments)
    except (AssertionError, TypeError, ValueError, AttributeError, ImportError, gym.error.Error):
        return None


def made_or_refused(env):
    try:
        return agents.make("habnn", env, model={"network": {"hidden": (4,)}}), ""
    except (ValueError, TypeError) as error:
        return None, str(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_wrapper_is_refused_or_keeps_the_kinematics(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "moviepy", ModuleType("moviepy"))  # RecordVideo asks for it; no video is written
    env = wrapped(name, tmp_path)
    if env is None:
        assert name not in TRANSPARENT
        pytest.skip("Gymnasium does not put this wrapper around the benchmark")
    agent, refusal = made_or_refused(env)
    if agent is None:
        assert name not in TRANSPARENT, refusal
        assert re.search(rf"{name}|mpc: env must have", refusal)  # the wrapper, or the space that it made
        return
    observation, _ = env.reset(seed=0)
    memory = agent.model.first_memory(observation)
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (30, 3)).astype(np.float32)
    forecast = agent.model.forecast(memory, actions[None].astype(np.float64)).observations[0]
    reached = [env.step(action)[0] for action in actions]
    np.testing.assert_allclose(forecast[:, 1:4], np.array(reached)[:, 1:4], atol=1e-9)


def test_the_walk_meets_refused_and_accepted_wrappers():
    """A walk over too few wrappers would prove nothing."""
    assert len(NAMES) > 20
    assert {*TRANSPARENT, "RescaleAction", "RescaleObservation", "StickyAction"} <= set(NAMES)


@pytest.mark.parametrize("name", ["RescaleAction", "RescaleObservation", "StickyAction", "MaxAndSkipObservation"])
def test_find_plant_raises_on_a_wrapper_that_alters_the_plant(name, tmp_path):
    message = rf"plant: the wrappers .* got {name}; pass plant=Plant\(...\) for the wrapped environment, or give the wr"
    with pytest.raises(ValueError, match=message):
        envs.find_plant(wrapped(name, tmp_path))


class Percent(gym.ActionWrapper):
    """Actions in percent, and the description that belongs to them."""

    def __init__(self, env):
        super().__init__(env)
        self.action_space = gym.spaces.Box(-100.0, 100.0, (3,))
        inner = envs.find_plant(env)
        steps = [step / 100.0 for step in inner.actuators.steps]
        self.plant = Plant(inner.loss, Actuators(inner.actuators.entries, steps), inner.exogenous)

    def action(self, action):
        return np.asarray(action) / 100.0


def test_wrapper_with_its_own_description_is_accepted():
    env = Percent(gym.make("IndustrialBenchmark-v0", setpoint=100))
    agent = agents.make("habnn", env, model={"network": {"hidden": (4,)}})
    observation, _ = env.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-100.0, 100.0, (20, 3))
    forecast = agent.model.forecast(agent.model.first_memory(observation), actions[None]).observations[0]
    reached = [env.step(action)[0] for action in actions]
    np.testing.assert_allclose(forecast[:, 1:4], np.array(reached)[:, 1:4], atol=1e-4)


def test_plant_argument_overrides_a_wrapper():
    env = gym.wrappers.RescaleAction(gym.make("IndustrialBenchmark-v0"), np.float32(-10.0), np.float32(10.0))
    inner = env.unwrapped.plant
    steps = [step / 10.0 for step in inner.actuators.steps]
    own = Plant(inner.loss, Actuators(inner.actuators.entries, steps), inner.exogenous)
    assert agents.make("habnn", env, plant=own).plant is own


def test_find_plant_is_none_without_a_description():
    assert envs.find_plant(gym.make("CartPole-v1")) is None
    assert envs.find_plant(gym.wrappers.RescaleObservation(PointMass(), np.float32(-1), np.float32(1))) is None
