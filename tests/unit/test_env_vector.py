"""IndustrialBenchmarkVectorEnv against Gymnasium's SyncVectorEnv of single environments."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode

ID = "IndustrialBenchmark-v0"
VARIANTS = [
    {},
    {"wandering": True, "setpoint": 98.0},
    {"reward_type": "delta", "action_type": "discrete"},
    {"observation_type": "include_past", "n_past_timesteps": 4},
    {"backend": "siemens", "wandering": True},
]


def make_both(num_envs, **arguments):
    vector = gym.make_vec(ID, num_envs=num_envs, vectorization_mode="vector_entry_point", **arguments)
    return vector, gym.make_vec(ID, num_envs=num_envs, vectorization_mode="sync", **arguments)


@pytest.mark.parametrize("arguments", VARIANTS)
@pytest.mark.parametrize("seed", [12, [5, 5, 1, 70]])
def test_vector_equals_singles_vs_sync_vector_env(arguments, seed):
    """Compare all returned numbers, infos and masks over truncated episodes and their automatic resets."""
    vector, singles = make_both(4, max_episode_steps=30, **arguments)
    assert vector.observation_space == singles.observation_space
    assert vector.action_space == singles.action_space
    vector.action_space.seed(0)
    returned = [env.reset(seed=seed, options={"gain": 30.0}) for env in (vector, singles)]
    assert data_equivalence(*returned, exact=True)
    truncations = 0
    for _ in range(100):
        actions = vector.action_space.sample()
        returned = [env.step(actions) for env in (vector, singles)]
        assert data_equivalence(*returned, exact=True)
        truncations += returned[0][3].sum()
    assert truncations == 3 * 4
    returned = [env.reset() for env in (vector, singles)]
    assert data_equivalence(*returned, exact=True)


def test_vector_group_size_does_not_matter():
    """70 plants need one group of 64 and a remainder; each plant equals the single environment."""
    vector = gym.make_vec(ID, num_envs=70, setpoint=100.0)
    observations = [vector.reset(seed=0)[0]]
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (130, 70, 3))
    observations += [vector.step(action)[0] for action in actions]
    for plant in (0, 7, 63, 64, 69):
        env = gym.make(ID, setpoint=100.0)
        expected = [env.reset(seed=plant)[0]] + [env.step(action[plant])[0] for action in actions]
        np.testing.assert_array_equal(np.array(observations)[:, plant], expected)


def test_vector_partial_reseed_keeps_other_streams():
    vector, singles = make_both(3)
    for seeds in ([1, 2, 3], [None, 9, None]):
        returned = [env.reset(seed=seeds) for env in (vector, singles)]
        assert data_equivalence(*returned, exact=True)
        for _ in range(5):
            returned = [env.step(np.zeros((3, 3), dtype=np.float32)) for env in (vector, singles)]
            assert data_equivalence(*returned, exact=True)


def test_vector_declares_its_autoreset_and_its_limit():
    vector = gym.make_vec(ID, num_envs=2, vectorization_mode="vector_entry_point")
    assert vector.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert vector.max_episode_steps == 1000


def test_vector_options_per_plant():
    vector = gym.make_vec(ID, num_envs=3)
    observations, _ = vector.reset(seed=0, options={"setpoint": np.array([10.0, 50.0, 100.0]), "shift": 20.0})
    np.testing.assert_array_equal(observations[:, 0], [10.0, 50.0, 100.0])
    np.testing.assert_array_equal(observations[:, 3], 20.0)


@pytest.mark.parametrize("backend", ["numba", "siemens"])
def test_vector_set_state_continues_exactly(backend):
    arguments = {"num_envs": 3, "max_episode_steps": 40, "wandering": True, "backend": backend}
    vector = gym.make_vec(ID, **arguments)
    vector.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (130, 3, 3))
    for action in actions[:40]:  # the next step restarts all plants
        vector.step(action)
    saved = vector.get_state()
    expected = [vector.step(action) for action in actions[40:]]
    other = gym.make_vec(ID, **arguments)
    for restored in (vector, other):
        restored.set_state(saved)
        found = [restored.step(action) for action in actions[40:]]
        assert data_equivalence(found, expected, exact=True)


def test_vector_info_is_a_copy():
    vector, untouched = (gym.make_vec(ID, num_envs=2) for _ in range(2))
    vector.reset(seed=0)
    untouched.reset(seed=0)
    for _ in range(3):
        observations, rewards, *_, info = vector.step(np.zeros((2, 3)))
        expected = untouched.step(np.zeros((2, 3)))
        np.testing.assert_array_equal(observations, expected[0])
        for array in (observations, rewards, info["loss"], *info["markov_state"].values()):
            array[:] = 0


@pytest.mark.parametrize(
    ("action_type", "actions", "error", "message"),
    [
        ("continuous", np.full((2, 3), np.nan), ValueError, "action must be finite"),
        ("continuous", np.zeros(3), ValueError, r"action must have shape \(2, 3\), got \(3,\)"),
        ("continuous", [["a", "b", "c"]] * 2, TypeError, "action must be an array of numbers"),
        ("discrete", [0, 27], ValueError, r"action must be from 0 to 26, got \[ 0 27\]"),
        ("discrete", [0.0, 1.0], ValueError, "actions must be 2 integers from 0 to 26"),
        ("discrete", 3, ValueError, r"actions must be 2 integers from 0 to 26, got shape \(\)"),
    ],
)
def test_vector_raises_on_bad_actions(action_type, actions, error, message):
    vector, untouched = (gym.make_vec(ID, num_envs=2, action_type=action_type) for _ in range(2))
    vector.reset(seed=0)
    untouched.reset(seed=0)
    with pytest.raises(error, match=f"IndustrialBenchmark: {message}"):
        vector.step(actions)
    assert data_equivalence(vector.get_state(), untouched.get_state(), exact=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_envs": 0}, "num_envs must be an integer of at least 1, got 0"),
        ({"num_envs": 2, "max_episode_steps": -5}, "max_episode_steps must be an integer of at least 1, got -5"),
        ({"num_envs": 2, "setpoint": -1.0}, "setpoint must be from 0 to 100, got -1.0"),
    ],
)
def test_vector_raises_on_bad_argument(arguments, message):
    with pytest.raises(ValueError, match=f"IndustrialBenchmark: {message}"):
        gym.make_vec(ID, **arguments)


def test_vector_raises_on_wrong_number_of_seeds():
    vector = gym.make_vec(ID, num_envs=3)
    with pytest.raises(ValueError, match="seed must be an integer or 3 integers, got 2"):
        vector.reset(seed=[1, 2])


def test_vector_raises_on_damaged_state():
    vector = gym.make_vec(ID, num_envs=3)
    vector.reset(seed=0)
    state = vector.get_state()
    with pytest.raises(ValueError, match=r"state\['steps'\] and state\['ended'\] must be 3 integers and booleans"):
        vector.set_state({**state, "steps": [1, 2]})
    assert data_equivalence(vector.get_state(), state, exact=True)
