"""Properties that hold for any start, any actions and any seed."""

import gymnasium as gym
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from envs import IndustrialBenchmarkEnv

ID = "IndustrialBenchmark-v0"
seeds = st.integers(0, 2**63)
percentages = st.floats(0.0, 100.0)
starts = st.fixed_dictionaries(dict.fromkeys(("setpoint", "velocity", "gain", "shift"), percentages))
finite = st.floats(allow_nan=False, allow_infinity=False)
# Actions far outside the box included, each repeated: independent actions average out and never reach a bound.
plans = st.lists(
    st.tuples(arrays(np.float64, 3, elements=st.floats(-1.5, 1.5) | finite), st.integers(1, 40)), max_size=6
)
variants = st.fixed_dictionaries(
    {
        "wandering": st.booleans(),
        "reward_type": st.sampled_from(["classic", "delta"]),
        "observation_type": st.sampled_from(["classic", "include_past"]),
        "n_past_timesteps": st.integers(1, 4),
        "backend": st.sampled_from(["numba", "numba", "siemens"]),
    }
)
any_run = given(variant=variants, seed=seeds, start=starts, plan=plans)
quick = settings(max_examples=40, deadline=None)


def actions_of(plan):
    return [action for action, repeats in plan for _ in range(repeats)]


@quick
@any_run
def test_env_stays_in_its_space(variant, seed, start, plan):
    env = IndustrialBenchmarkEnv(**variant)
    observation, info = env.reset(seed=seed, options=start)
    assert observation in env.observation_space
    frame_size = 6
    for action in actions_of(plan):
        before = observation[1:4]
        observation, reward, terminated, truncated, info = env.step(action)
        assert observation in env.observation_space
        assert np.isfinite([reward, *info["markov_state"].values()]).all()
        moves = np.abs(observation[1:4] - before)
        assert (moves <= np.array([1.0, 10.0, 5.7517]) + 1e-9).all()
        assert info["loss"] == info["consumption"] + 3.0 * info["fatigue"]
        np.testing.assert_array_equal(observation[:frame_size], list(info["markov_state"].values())[:frame_size])
        assert (terminated, truncated) == (False, False)
    if not variant["wandering"]:
        assert observation[0] == start["setpoint"]


@quick
@any_run
def test_env_is_deterministic(variant, seed, start, plan):
    runs = []
    for _ in range(2):
        env = IndustrialBenchmarkEnv(**variant)
        first = env.reset(seed=seed, options=start)[0]
        runs.append([first, *(np.append(*env.step(action)[:2]) for action in actions_of(plan))])
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, other)


@quick
@given(variant=variants, seed=seeds, start=starts, n=st.integers(1, 5), rng_seed=seeds)
def test_vector_equals_singles(variant, seed, start, n, rng_seed):
    actions = np.random.default_rng(rng_seed).uniform(-1.2, 1.2, (30, n, 3))
    vector = gym.make_vec(ID, num_envs=n, vectorization_mode="vector_entry_point", **variant)
    observations = [vector.reset(seed=seed, options=start)[0]]
    rewards = []
    for action in actions:
        observation, reward, *_ = vector.step(action)
        observations.append(observation)
        rewards.append(reward)
    for plant in range(n):
        env = IndustrialBenchmarkEnv(**variant)
        np.testing.assert_array_equal(env.reset(seed=seed + plant, options=start)[0], observations[0][plant])
        for t, action in enumerate(actions[:, plant]):
            observation, reward, *_ = env.step(action)
            np.testing.assert_array_equal(observation, observations[t + 1][plant])
            assert reward == rewards[t][plant]
