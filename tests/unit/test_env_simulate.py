"""Losses of `simulate` against stepping the environment."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.seeding import np_random

import envs

HORIZON = 40


@pytest.fixture
def situation():
    """Return an environment after 20 steps, its info, and the noise of its next steps."""
    env = gym.make("IndustrialBenchmark-v0", setpoint=85.0)
    env.reset(seed=8)
    for _ in range(20):
        *_, info = env.step(np.array([-1.0, -0.5, 0.3]))
    stream = np_random(8)[0].random((1 + 20 + HORIZON, envs.N_NOISE))
    return env, info, stream[21:]


def test_simulate_vs_stepping_the_env(situation):
    env, info, noise = situation
    actions = np.random.default_rng(0).uniform(-1.5, 1.5, (70, HORIZON, 3))
    losses = envs.simulate(info["markov_state"], actions, noise[None])
    assert losses.shape == (70, HORIZON)
    saved = env.unwrapped.get_state()
    for candidate in (0, 63, 64, 69):
        env.unwrapped.set_state(saved)
        expected = [env.unwrapped.step(action)[4]["loss"] for action in actions[candidate]]
        np.testing.assert_array_equal(losses[candidate], expected)


def test_simulate_accepts_an_array_and_noise_per_sequence(situation):
    _, info, _ = situation
    state = np.array(list(info["markov_state"].values()))
    actions = np.zeros((5, HORIZON, 3))
    noise = envs.draw_noise(np.random.default_rng(0), 5, HORIZON)
    together = envs.simulate(state, actions, noise)
    alone = [envs.simulate(info["markov_state"], actions[i : i + 1], noise[i : i + 1])[0] for i in range(5)]
    np.testing.assert_array_equal(together, alone)
    assert np.unique(together[:, -1]).size == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": np.zeros((HORIZON, 3))}, r"actions must have shape \(n, horizon, 3\), got \(40, 3\)"),
        ({"actions": np.full((2, HORIZON, 3), np.nan)}, "actions must be finite"),
        ({"noise": np.zeros((3, HORIZON, 8))}, r"noise must have shape \(2, 40, 8\) or \(1, 40, 8\), got \(3, 40, 8\)"),
        ({"noise": np.ones((1, HORIZON, 8))}, r"noise in \[0, 1\)"),
        ({"markov_state": {"velocity": 3.0}}, "markov_state must have all 21 variables"),
        ({"markov_state": np.zeros(21)}, "markov_state must be 21 values of a plant"),
        ({"markov_state": np.zeros(20)}, "markov_state must be 21 values of a plant"),
    ],
)
def test_simulate_raises_on_bad_input(situation, change, message):
    _, info, noise = situation
    arguments = {"markov_state": info["markov_state"], "actions": np.zeros((2, HORIZON, 3)), "noise": noise[None]}
    with pytest.raises(ValueError, match=f"simulate: .*{message}"):
        envs.simulate(**(arguments | change))
