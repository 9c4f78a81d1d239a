"""Kernel and environment against the Siemens code, with the same start, actions and noise."""

import sys
from importlib.util import find_spec, module_from_spec
from itertools import product
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.seeding import np_random

from envs._kernels import benchmark
from envs._kernels.benchmark import (
    DIRECTION,
    DOMAIN,
    HIDDEN_GAIN,
    HIDDEN_VELOCITY,
    LATCH,
    N_MARKOV,
    N_NOISE,
    N_NOISE_WANDERING,
    RESPONSE,
)
from envs._kernels.goldstone import STRONGEST, penalty
from envs.siemens import load_ids, read_ids

CORNERS = list(product((-1.0, 1.0), repeat=3))


class Replay:
    """A substitute for numpy.random that returns the draws of one row of our noise to the Siemens code."""

    def __init__(self):
        self.queues = {}

    def load(self, row, ramp_ends, turns_back):
        """Queue the draws of one step in the order in which IDS requests them."""
        radius, angle = np.sqrt(-2.0 * np.log(1.0 - row[6])), 2.0 * np.pi * row[7]
        new_ramp = [row[9], row[10]] if ramp_ends else []
        self.queues = {
            "exponential": [-0.1 * np.log(1.0 - row[0]), -0.1 * np.log(1.0 - row[1])],
            "binomial": [row[2], row[3]],
            "rand": [*new_ramp, *([row[11]] if turns_back else []), row[4], row[5]],
            "randn": [radius * np.sin(angle)],
            "normal": [radius * np.cos(angle)],
            "randint": [1 + int(99.0 * row[8])],
        }

    def seed(self, seed):
        pass

    def exponential(self, scale):
        assert scale == 0.1
        return self.queues["exponential"].pop(0)

    def binomial(self, _n, p):
        return int(self.queues["binomial"].pop(0) < p)

    def rand(self):
        return self.queues["rand"].pop(0)

    def randn(self):
        return self.queues["randn"].pop(0)

    def normal(self, mean, deviation):
        return mean + deviation * self.queues["normal"].pop(0)

    def randint(self, low, high):
        assert (low, high) == (1, 100)
        return self.queues["randint"].pop(0)


def siemens_trajectory(setpoint, wandering, actions, noise):
    """Return the states (steps + 1, N_STATE) of an IDS object of the package, from its construction on."""
    replay = Replay()
    replay.load(noise[0], ramp_ends=True, turns_back=False)
    if wandering and not 0.0 <= setpoint + (0.0 if noise[0, 10] < 0.1 else 2.0 * noise[0, 9] - 1.0) <= 100.0:
        replay.load(noise[0], ramp_ends=True, turns_back=True)
    ids = load_ids(replay)(p=setpoint, stationary_p=not wandering)
    states = [read_ids(ids)]
    for action, row in zip(actions, noise[1:], strict=True):
        ramp_ends = wandering and ids._p_step == ids._p_steps
        slope = ids._p_ch if not ramp_ends else (0.0 if row[10] < 0.1 else 2.0 * row[9] - 1.0)
        replay.load(row, ramp_ends, wandering and not 0.0 <= ids.state["p"] + slope <= 100.0)
        ids.step(action)
        assert not replay.queues["rand"], "IDS drew fewer uniforms than queued"
        states.append(read_ids(ids))
    return np.array(states)


def our_trajectory(setpoint, wandering, actions, noise):
    states = [benchmark.fresh(np.array([[setpoint, 50.0, 50.0, 50.0]]))]
    for action, row in zip([np.zeros(3), *actions], noise, strict=True):
        states.append(benchmark.step(states[-1], action[None], row[None], wandering))
    return np.concatenate(states[1:])


def assert_same(ours, siemens, wandering):
    compared = slice(None) if wandering else slice(N_MARKOV)  # without wandering the kernel does not update the ramp
    np.testing.assert_allclose(ours[:, compared], siemens[:, compared], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("wandering", [False, True])
@pytest.mark.parametrize("setpoint", [0.0, 1.0, 10.0, 20.0, 35.0, 50.0, 65.0, 80.0, 90.0, 99.0, 100.0])
def test_step_full_markov_state_vs_siemens(setpoint, wandering):
    rng = np.random.default_rng([int(setpoint), wandering])
    # Correlated actions, some beyond the bounds, reach more states of the plant than independent ones.
    actions = np.clip(np.cumsum(rng.normal(0.0, 0.5, (1000, 3)), axis=0) % 4.0 - 2.0, -1.5, 1.5)
    noise = rng.random((1001, N_NOISE_WANDERING))
    ours = our_trajectory(setpoint, wandering, actions, noise)
    assert_same(ours, siemens_trajectory(setpoint, wandering, actions, noise), wandering)
    if wandering:
        assert np.ptp(ours[:, 0]) > 5.0


@pytest.mark.parametrize("wandering", [False, True])
def test_step_saturated_corners_vs_siemens(wandering):
    """Long maximal actions into each corner and back reach the latches and the extreme mis-calibration states."""
    rng = np.random.default_rng(7)
    visited = []
    for corner in CORNERS:
        for setpoint in (10.0, 60.0, 100.0):
            back = rng.choice(len(CORNERS))
            actions = np.repeat([corner, CORNERS[back], corner], [120, 40, 60], axis=0)
            noise = rng.random((len(actions) + 1, N_NOISE_WANDERING))
            ours = our_trajectory(setpoint, wandering, actions, noise)
            assert_same(ours, siemens_trajectory(setpoint, wandering, actions, noise), wandering)
            visited.append(ours)
    states = np.concatenate(visited)
    assert (states[:, HIDDEN_GAIN] == LATCH).any()
    assert (states[:, HIDDEN_VELOCITY] == LATCH).any()
    for direction, domain in product((-STRONGEST, STRONGEST), (-1.0, 1.0)):
        assert ((states[:, DIRECTION] == direction) & (states[:, DOMAIN] == domain)).any()
    assert {(d, r) for d, r in states[:, [DOMAIN, RESPONSE]]} == set(product((-1.0, 1.0), repeat=2))


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_step_mirrored_direction_vs_siemens(side):
    """A step across the safe zone at an extreme direction rotates it past 90 degrees, where it is mirrored."""
    # Half a step to one side, 25 steps in which the direction moves from one end to the other, one full step across.
    shifts = np.concatenate([[0.5 * side], np.zeros(25), [-side], np.zeros(25), [side]])
    actions = np.stack([np.zeros_like(shifts), np.zeros_like(shifts), shifts], axis=1)
    noise = np.random.default_rng(3).random((len(actions) + 1, N_NOISE_WANDERING))
    ours = our_trajectory(50.0, False, actions, noise)
    assert_same(ours, siemens_trajectory(50.0, False, actions, noise), False)
    crossings = np.flatnonzero(np.diff(ours[1:, DOMAIN])) + 1
    assert len(crossings) >= 2
    np.testing.assert_array_equal(np.abs(ours[crossings, DIRECTION]), STRONGEST)
    np.testing.assert_array_equal(
        ours[crossings + 1, DIRECTION], ours[crossings, DIRECTION] * (STRONGEST - 1) / STRONGEST
    )


def test_penalty_vs_siemens():
    """Compare all 13 directions over the whole range of the effective shift."""
    environment = load_ids(np.random.RandomState(0))().gsEnvironment
    for direction in range(-STRONGEST, STRONGEST + 1):
        for position in np.linspace(-1.5, 1.5, 101):
            expected = environment.reward(direction, position)
            assert penalty(direction, position) == pytest.approx(expected, rel=1e-12, abs=1e-12)


class ReplayingIBGym:
    """IBGym of the package, with our noise and a substitute for old gym."""

    def __init__(self, monkeypatch, noise, **arguments):
        spaces = SimpleNamespace(Discrete=lambda n: n, Box=lambda low, high: (low, high))
        monkeypatch.setitem(sys.modules, "gym", SimpleNamespace(Env=object, spaces=spaces))
        spec = find_spec("industrial_benchmark_python.IBGym")
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        random = SimpleNamespace(seed=lambda _: None, randint=lambda *_: 0)
        module.np = SimpleNamespace(**{**vars(np), "random": random})
        self.replay, self.noise = Replay(), iter(noise)
        module.IDS = load_ids(self.replay)
        self._load(constructing=True)
        self.gym = module.IBGym(**arguments)

    def _load(self, constructing=False):
        self.replay.load(np.append(next(self.noise), np.zeros(4)), ramp_ends=constructing, turns_back=False)

    def step(self, action):
        self._load()
        return self.gym.step(action)


@pytest.mark.parametrize("reward_type", ["classic", "delta"])
@pytest.mark.parametrize("action_type", ["continuous", "discrete"])
@pytest.mark.parametrize("observation_type", ["classic", "include_past"])
def test_env_observation_reward_and_info_vs_siemens(monkeypatch, reward_type, action_type, observation_type):
    arguments = {
        "setpoint": 70.0,
        "reward_type": reward_type,
        "action_type": action_type,
        "observation_type": observation_type,
        "n_past_timesteps": 5,
    }
    reference = ReplayingIBGym(monkeypatch, np_random(11)[0].random((201, N_NOISE)), **arguments)
    env = gym.make("IndustrialBenchmark-v0", **arguments)
    observation, info = env.reset(seed=11)
    expected = np.hstack(reference.gym.observation)
    np.testing.assert_allclose(observation, expected, rtol=1e-9)
    env.action_space.seed(0)
    for _ in range(200):
        action = env.action_space.sample()
        observation, reward, terminated, truncated, info = env.step(action)
        # In float64, as our environment computes: IDS would multiply a float32 action in float32.
        expected, expected_reward, _, expected_info = reference.step(
            action.astype(np.float64) if action.shape else action
        )
        np.testing.assert_allclose(observation, expected, rtol=1e-9)
        assert reward == pytest.approx(expected_reward, rel=1e-9, abs=1e-9)
        assert list(info["markov_state"]) == list(expected_info)
        assert info["markov_state"] == pytest.approx(dict(expected_info), rel=1e-9, abs=1e-9)
        assert info["loss"] == pytest.approx(reference.gym.IB.state["cost"], rel=1e-9)
        assert not terminated
        assert not truncated


def test_reset_options_vs_siemens():
    """The start positions are set before the first step of IDS, which fills its cost buffer at this operating point."""
    replay = Replay()

    class PlacedIDS(load_ids(replay)):
        def defineNewSequence(self):  # called by the constructor directly before its first step
            self.state.update(v=20.0, g=80.0, h=35.0)
            super().defineNewSequence()

    row = np_random(5)[0].random(N_NOISE)
    replay.load(np.append(row, np.zeros(4)), ramp_ends=True, turns_back=False)
    expected = read_ids(PlacedIDS(p=90.0))[:N_MARKOV]
    for backend in ("numba", "siemens"):
        env = gym.make("IndustrialBenchmark-v0", setpoint=10.0, backend=backend)
        _, info = env.reset(seed=5, options={"velocity": 20.0, "gain": 80.0, "shift": 35.0, "setpoint": 90.0})
        found = np.array(list(info["markov_state"].values()))
        certain = slice(None) if backend == "numba" else [0, 1, 2, 3, *range(6, 19)]  # without the noisy entries
        np.testing.assert_allclose(found[certain], expected[certain], rtol=1e-9)


def test_step_is_pure():
    rng = np.random.default_rng(0)
    states = benchmark.fresh(rng.uniform(0.0, 100.0, (50, 4)))
    actions, noise = rng.uniform(-1.0, 1.0, (50, 3)), rng.random((50, N_NOISE_WANDERING))
    copies = states.copy(), actions.copy(), noise.copy()
    first, second = (benchmark.step(states, actions, noise, True) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    for array, copy in zip((states, actions, noise), copies, strict=True):
        np.testing.assert_array_equal(array, copy)
