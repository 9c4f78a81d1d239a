"""The probability distribution of the plant, without shared noise: many short runs against the Siemens class."""

import gymnasium as gym
import numpy as np
import pytest
from scipy.stats import ks_2samp

from envs import MARKOV_NAMES
from envs.siemens import load_ids, read_ids

N_RUNS, N_STEPS = 400, 25
CHECKED = ("setpoint", "fatigue", "consumption", "hv", "hg")  # the random variables
# Low gain and velocity latch within the run; the other policies stay in the regimes of high and of low stress.
POLICIES = {"idle": (0.0, 0.0, 0.0), "latching": (-1.0, -1.0, 0.5), "gentle": (0.3, 0.2, -0.2)}


def siemens_states(setpoint, wandering, action):
    """Return states (runs, 2, variables) after half of the steps and at the end, from the Siemens class."""
    ids_class = load_ids(np.random.RandomState(1))
    states = []
    for run in range(N_RUNS):
        plant = ids_class(p=setpoint, stationary_p=not wandering, inital_seed=run)
        half = []
        for t in range(N_STEPS):
            plant.step(np.array(action))
            if t in (N_STEPS // 2, N_STEPS - 1):
                half.append(read_ids(plant))
        states.append(half)
    return np.array(states)


def our_states(setpoint, wandering, action):
    """Return states (runs, 2, variables) after half of the steps and at the end, from the vector environment."""
    vector = gym.make_vec("IndustrialBenchmark-v0", num_envs=N_RUNS, setpoint=setpoint, wandering=wandering)
    vector.reset(seed=1000)
    states = []
    for t in range(N_STEPS):
        *_, info = vector.step(np.tile(action, (N_RUNS, 1)))
        if t in (N_STEPS // 2, N_STEPS - 1):
            states.append([info["markov_state"][name] for name in MARKOV_NAMES])
    return np.array(states).transpose(2, 0, 1)


@pytest.mark.parametrize(("setpoint", "wandering"), [(100.0, False), (40.0, False), (95.0, True)])
@pytest.mark.parametrize("policy", POLICIES)
def test_plant_law_vs_siemens(setpoint, wandering, policy):
    """Two-sample Kolmogorov-Smirnov test per random variable; family-wise level 0.1 % (Bonferroni)."""
    ours = our_states(setpoint, wandering, POLICIES[policy])
    theirs = siemens_states(setpoint, wandering, POLICIES[policy])
    level = 1e-3 / (9 * 2 * len(CHECKED))
    for moment in range(2):
        for name in CHECKED:
            column = MARKOV_NAMES.index(name)
            # A released hidden variable is deterministic; rounding removes the last digits of the two computations.
            samples = (states[:, moment, column].round(9) for states in (ours, theirs))
            p_value = ks_2samp(*samples).pvalue
            assert p_value > level, (name, moment, p_value)
    if policy == "latching" and not wandering:
        assert np.mean(ours[:, 1, MARKOV_NAMES.index("hg")] == 5.0) > 0.05


def test_plant_law_test_has_power():
    """The same test distinguishes setpoint 40 from 42."""
    column = MARKOV_NAMES.index("consumption")
    first, second = (our_states(setpoint, False, POLICIES["idle"])[:, 1, column] for setpoint in (40.0, 42.0))
    assert ks_2samp(first, second).pvalue < 1e-6
