"""The claim of the README in its quickest form: the agent learns to run the plant better than leaving it alone."""

import numpy as np
import pytest

import agents
from tiny_agents import plant, steps_of


def mean_loss(name, seed, mirror):
    """Return the mean loss over steps 201 to 300."""
    agent = agents.make(name, plant(seed=seed, mirror=mirror), seed)
    return np.mean([step.info["loss"] for step in steps_of(agent, 300)[200:]])


@pytest.mark.parametrize("mirror", [(), ("velocity", "gain", "shift")])
def test_habnn_is_at_least_50_below_noop_over_steps_201_to_300(mirror):
    """Six runs, as one in thirty or so is caught in a bad state of the plant for a hundred steps."""
    gains = [mean_loss("noop", seed, mirror) - mean_loss("habnn", seed, mirror) for seed in range(6)]
    assert np.mean(gains) >= 50.0  # doing nothing has 304
