"""The adapter to Stable-Baselines3's VecEnv, beside SB3's own DummyVecEnv over single environments."""

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize

from agents.sb3_vector import SB3VectorEnv

N, LENGTH = 3, 5
PAST = {"observation_type": "include_past", "n_past_timesteps": 4}


def dummy(**variant):
    def make():
        return gym.make("IndustrialBenchmark-v0", setpoint=100, max_episode_steps=LENGTH, **variant)

    env = DummyVecEnv([make] * N)
    env.seed(7)
    return env


def adapter(**variant):
    return SB3VectorEnv(N, LENGTH, seed=7, setpoint=100, **variant)


@pytest.mark.parametrize("variant", [{}, PAST, {"mirror": ["gain"]}, {"reward_type": "delta"}], ids=str)
def test_adapter_vs_dummy_vec_env(variant):
    """Same seeds, same actions, over three ends of episodes: observations, rewards, dones and infos are the same."""
    ours, theirs = adapter(**variant), dummy(**variant)
    np.testing.assert_allclose(ours.reset(), theirs.reset(), rtol=1e-6)
    for k, actions in enumerate(np.random.default_rng(0).uniform(-1, 1, (3 * LENGTH + 2, N, 3)).astype(np.float32)):
        mine, others = ours.step(actions), theirs.step(actions)
        for a, b in zip(mine[:3], others[:3], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
        assert mine[2].all() == ((k + 1) % LENGTH == 0)
        for a, b in zip(mine[3], others[3], strict=True):
            assert ("terminal_observation" in a) == ("terminal_observation" in b)
            assert a.get("TimeLimit.truncated", False) == b["TimeLimit.truncated"]
            if "terminal_observation" in a:
                np.testing.assert_allclose(a["terminal_observation"], b["terminal_observation"], rtol=1e-6)
                assert not np.allclose(a["terminal_observation"], mine[0][0])


def test_adapter_has_sb3s_types():
    env = adapter(**PAST)
    observations = env.reset()
    assert env.observation_space.shape == (24,)
    assert observations.dtype == np.float32 == env.observation_space.dtype
    observations, rewards, dones, infos = env.step(np.zeros((N, 3), np.float32))
    assert all(env.observation_space.contains(row) for row in observations)
    assert (rewards.dtype, dones.dtype, len(infos)) == (np.float32, np.bool_, N)
    assert env.get_attr("plant") == [env.plant] * N
    assert env.env_is_wrapped(gym.Wrapper, [0, 2]) == [False, False]


def test_adapter_seed_counts_from_the_next_reset_on():
    ours, theirs = adapter(), dummy()
    for env in (ours, theirs):
        env.seed(21)
    np.testing.assert_allclose(ours.reset(), theirs.reset(), rtol=1e-6)
    assert not np.allclose(ours.reset(), SB3VectorEnv(N, LENGTH, seed=21, setpoint=100).reset())  # streams go on


def test_adapter_state_continues_exactly():
    one, other = adapter(), SB3VectorEnv(N, LENGTH, seed=99, setpoint=100)
    actions = np.random.default_rng(0).uniform(-1, 1, (14, N, 3)).astype(np.float32)
    one.reset()
    other.reset()
    for row in actions[:7]:
        one.step(row)
    other.set_state(one.get_state())
    for row in actions[7:]:
        for a, b in zip(one.step(row)[:3], other.step(row)[:3], strict=True):
            np.testing.assert_array_equal(a, b)


def test_adapter_trains_ppo_inside_sb3s_wrappers():
    env = VecNormalize(VecMonitor(adapter()))
    model = PPO("MlpPolicy", env, n_steps=10, batch_size=15, n_epochs=1, device="cpu")
    before = model.policy.action_net.weight.detach().clone()
    model.learn(60)
    assert model.num_timesteps == 60
    assert (model.policy.action_net.weight != before).any()
    assert len(model.ep_info_buffer) == 60 // LENGTH
    assert all(info["l"] == LENGTH for info in model.ep_info_buffer)


def test_adapter_refuses_what_plants_do_not_have():
    with pytest.raises(ValueError, match="SB3VectorEnv: episode_steps must be a positive integer, got 0"):
        SB3VectorEnv(2, 0)
    env = adapter()
    with pytest.raises(NotImplementedError, match="SB3VectorEnv: setpoint must be given when the environment is made"):
        env.set_attr("setpoint", 3)
    with pytest.raises(NotImplementedError, match="SB3VectorEnv: reset must be called on the attribute `vector`"):
        env.env_method("reset")
