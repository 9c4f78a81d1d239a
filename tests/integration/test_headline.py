"""The claim of the README in its quickest form: the agent does better than leaving the plant alone, from the start."""

import numpy as np

import agents
from tiny_agents import plant, steps_of


def mean_loss(name, seed, steps=60):
    agent = agents.make(name, plant(seed=seed), seed)
    return np.mean([step.info["loss"] for step in steps_of(agent, steps)])


def test_habnn_is_at_least_30_below_noop_over_60_steps():
    gains = [mean_loss("noop", seed) - mean_loss("habnn", seed) for seed in range(3)]
    assert np.mean(gains) >= 30.0  # doing nothing has 298
