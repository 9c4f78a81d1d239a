"""The adapter to the Siemens package changes neither NumPy's global state nor the package."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import gymnasium as gym
import numpy as np
import pytest

from envs import IndustrialBenchmarkEnv


def trajectory(env, seed, steps=50):
    rng = np.random.default_rng(seed)
    observations = [env.reset(seed=seed)[0]]
    return np.array(observations + [env.step(rng.uniform(-1.0, 1.0, 3))[0] for _ in range(steps)])


def test_siemens_does_not_change_numpy_global_generator():
    np.random.seed(123)  # noqa: NPY002 (the state that must not change)
    before = np.random.get_state()  # noqa: NPY002
    trajectory(IndustrialBenchmarkEnv(backend="siemens", wandering=True), seed=0)
    after = np.random.get_state()  # noqa: NPY002
    assert before[0] == after[0]
    np.testing.assert_array_equal(before[1], after[1])
    assert before[2:] == after[2:]
    assert not hasattr(np, "float")


def test_siemens_instances_interleave_independently():
    seeds = [1, 2, 3]
    alone = [trajectory(IndustrialBenchmarkEnv(backend="siemens"), seed) for seed in seeds]
    env = [IndustrialBenchmarkEnv(backend="siemens") for _ in seeds]
    rngs = [np.random.default_rng(seed) for seed in seeds]
    together = [[e.reset(seed=seed)[0]] for e, seed in zip(env, seeds, strict=True)]
    for _ in range(50):
        for i, rng in enumerate(rngs):
            together[i].append(env[i].step(rng.uniform(-1.0, 1.0, 3))[0])
    np.testing.assert_array_equal(together, alone)


def test_siemens_instances_run_in_threads_independently():
    alone = [trajectory(IndustrialBenchmarkEnv(backend="siemens"), seed, 200) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        threaded = list(pool.map(lambda s: trajectory(IndustrialBenchmarkEnv(backend="siemens"), s, 200), range(4)))
    np.testing.assert_array_equal(threaded, alone)


def test_siemens_never_imports_old_gym_nor_changes_the_package():
    program = (
        "import sys, gymnasium, envs\n"
        "env = gymnasium.make('IndustrialBenchmark-v0', backend='siemens')\n"
        "env.reset(seed=0); env.step(env.action_space.sample())\n"
        "assert 'gym' not in sys.modules\n"
        "import numpy, industrial_benchmark_python.IDS as package\n"
        "assert package.np is numpy and not hasattr(numpy, 'float')\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


@pytest.mark.parametrize("arguments", [{}, {"action_type": "discrete"}, {"observation_type": "include_past"}])
def test_siemens_has_the_same_spaces_and_info(arguments):
    ours, theirs = (gym.make("IndustrialBenchmark-v0", backend=name, **arguments) for name in ("numba", "siemens"))
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    infos = []
    for env in (ours, theirs):
        env.reset(seed=0)
        infos.append(env.step(ours.action_space.sample())[4])
    assert infos[0].keys() == infos[1].keys()
    assert list(infos[0]["markov_state"]) == list(infos[1]["markov_state"])
    assert {type(value) for info in infos for value in info["markov_state"].values()} == {float}
