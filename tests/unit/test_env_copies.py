"""Copies of environments, states from outside, and actions that are not numbers."""

import copy
import pickle

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest

import envs  # noqa: F401  # registers the environments

COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
    "cloudpickle": lambda env: cloudpickle.loads(cloudpickle.dumps(env)),
}
REST = np.zeros(3, dtype=np.float32)


def walk(env, n):
    return np.array([env.step(REST)[0] for _ in range(n)])


@pytest.mark.parametrize("backend", ["numba", "siemens"])
@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("wandering", [False, True])
def test_copies_of_an_environment_continue_independently(backend, name, wandering):
    env = gym.make("IndustrialBenchmark-v0", backend=backend, setpoint=70, wandering=wandering)
    env.reset(seed=1)
    walk(env, 3)
    twin = COPIES[name](env)
    first = walk(env, 5)
    np.testing.assert_array_equal(walk(twin, 5), first)  # as if the original had not moved
    walk(twin, 7)
    state = env.unwrapped.get_state()
    following = walk(env, 2)
    env.unwrapped.set_state(state)
    np.testing.assert_array_equal(walk(env, 2), following)
    assert twin.unwrapped.np_random is not env.unwrapped.np_random


@pytest.mark.parametrize(
    "action",
    [
        ["1", "0", "0"],
        np.array(["2020-01-01"] * 3, dtype="datetime64[D]"),
        np.array([1, 2, 3], dtype="timedelta64[s]"),
        np.array([1 + 1j, 0, 0]),
        [None, 0, 0],
        [10**400, 0, 0],
    ],
)
def test_step_raises_on_actions_that_are_not_real_numbers(action):
    env = gym.make("IndustrialBenchmark-v0")
    env.reset(seed=0)
    before = env.unwrapped.get_state()
    with pytest.raises(TypeError, match="action must be an array of numbers"):
        env.unwrapped.step(action)
    np.testing.assert_array_equal(env.unwrapped.get_state()["plants"], before["plants"])


@pytest.mark.parametrize("value", ["50", np.datetime64("2020-01-01"), 10**400])
def test_reset_raises_on_options_that_are_not_real_numbers(value):
    env = gym.make("IndustrialBenchmark-v0")
    with pytest.raises(TypeError, match="must be a number from 0 to 100"):
        env.reset(options={"velocity": value})


def change(state, name, index, value):
    changed = copy.deepcopy(state)
    changed[name] = changed[name].tolist() if isinstance(value, int) else changed[name]
    target = changed[name]
    for k in index[:-1]:
        target = target[k]
    target[index[-1]] = value
    return changed


@pytest.mark.parametrize(
    ("name", "index", "value"),
    [
        ("plants", (0, 4), -1.0),  # fatigue
        ("plants", (0, 5), 1e9),  # consumption
        ("plants", (0, 9), 1e6),  # an operational cost that the plant cannot have
        ("plants", (0, 4), 10**400),
        ("frames", (0, 0, 0), 101.0),
        ("frames", (0, 0, 4), -3.0),
        ("frames", (0, 0, 4), 10**400),
    ],
)
def test_set_state_raises_on_states_outside_the_observation_space(name, index, value):
    env = gym.make("IndustrialBenchmark-v0").unwrapped
    env.reset(seed=0)
    before = env.get_state()
    with pytest.raises((TypeError, ValueError), match=rf"state\['{name}'\] must"):
        env.set_state(change(before, name, index, value))
    np.testing.assert_array_equal(env.get_state()["plants"], before["plants"])


def test_set_state_raises_on_generators_that_overflow():
    env = gym.make("IndustrialBenchmark-v0").unwrapped
    env.reset(seed=0)
    state = env.get_state()
    state["generators"][0] = state["generators"][0] | {"uinteger": 10**30}
    with pytest.raises(ValueError, match="states of NumPy's PCG64"):
        env.set_state(state)
