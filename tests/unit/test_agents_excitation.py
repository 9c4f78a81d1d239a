"""Sweeps at the start and later, against schedules worked out by hand."""

from math import inf

import numpy as np
import pytest

import agents
from agents._excitation import Excitation
from agents.runner import Recorder, make_env
from habnn_control.sampling import Record

LOW, HIGH = np.full(3, -1.0), np.full(3, 1.0)
PLANNED = np.array([0.1, 0.2, 0.3])
TINY = {"history": 2, "horizon": 3, "hold": 1, "n_candidates": 10, "n_iterations": 1, "network": {"hidden": (4,)}}


def first_steps(n, **settings):
    seen = []
    agents.make("habnn", make_env(100.0), excitation=n, **TINY | settings).learn(n, callback=seen.append)
    return np.array([step.action for step in seen]), seen[-1].next_observation


def excitation(length=8, again=3, widest=5, patience=0.2):
    quarters = np.array([25, 2, 8])
    return Excitation(LOW, HIGH, quarters, length, fastest=1, again=again, widest=widest, patience=patience)


def regretting(regret):
    return Record(np.ones(75), best=1.0 - regret)


def gains(sweeps, steps, regret=0.0):
    record = regretting(regret)
    return np.array([sweeps.later(n, record, PLANNED)[1] for n in steps])


def test_habnn_starts_with_a_symmetric_excitation():
    """A quarter of the range to either side: 25 steps of velocity, 2.5 of gain (2 of full speed), 4 of shift."""
    actions, reached = first_steps(16, sweep=0.25)
    np.testing.assert_array_equal(actions[:, 0], [-1] * 16)
    np.testing.assert_array_equal(actions[:, 1], [-1, -1, 1, 1, 1, 1, -1, -1] * 2)
    np.testing.assert_array_equal(actions[:, 2], [-1] * 4 + [1] * 8 + [-1] * 4)
    np.testing.assert_allclose(reached[2:4], 50.0, atol=1e-4)


def test_habnn_sweeps_each_actuator_as_far_as_asked():
    """Parts of the range at full speed: 5 steps of velocity, 1 of gain, 8 of shift."""
    actions, _ = first_steps(9, sweep=(0.05, 0.1, 0.45))
    np.testing.assert_array_equal(actions[:, 0], [-1] * 5 + [1] * 4)
    np.testing.assert_array_equal(actions[:, 1], [-1, 1, 1, -1, -1, 1, 1, -1, -1])
    np.testing.assert_array_equal(actions[:, 2], [-1] * 8 + [1])


@pytest.mark.parametrize("bad", [0.0, -0.1, 0.6, float("nan"), (0.2, 0.2), (0.2, 0.2, 0.6)])
def test_habnn_raises_on_a_sweep_beyond_the_range(bad):
    with pytest.raises(ValueError, match=r"habnn: sweep must be one part of the range in \(0, 0\.5\], or one for each"):
        agents.make("habnn", make_env(100.0), sweep=bad)


def test_excitation_later_sweeps_down_and_up_rests_and_leaves_the_way_back_to_the_planner():
    swept = gains(excitation(), range(62, 83))
    np.testing.assert_array_equal(swept, [0.2] * 2 + [-1] * 3 + [1] * 6 + [0] * 8 + [0.2] * 2)


def test_excitation_later_leaves_the_other_actuators_to_the_planner():
    np.testing.assert_array_equal(excitation().later(64, regretting(0.0), PLANNED), [0.1, -1.0, 0.3])
    np.testing.assert_array_equal(PLANNED, [0.1, 0.2, 0.3])


def test_excitation_later_comes_at_doubling_intervals():
    swept = gains(excitation(again=1), range(600)) == -1
    np.testing.assert_array_equal(np.flatnonzero(swept), [64, 128, 256, 512])


@pytest.mark.parametrize("without", [{"again": 0}, {"length": 0}])
def test_excitation_later_can_be_switched_off(without):
    np.testing.assert_array_equal(gains(excitation(**without), range(400)), 0.2)


def test_excitation_regret_brings_wide_sweeps_with_pauses_until_it_is_conceded():
    """A regret of 0.5 is 0.25 after one sweep and 0.125, below the patience of 0.2, after the second."""
    seen = gains(excitation(again=0, widest=5), range(10, 300), regret=0.5)
    np.testing.assert_array_equal(seen[:15], [-1] * 5 + [1] * 10)
    np.testing.assert_array_equal(seen[15:76], 0.2)
    np.testing.assert_array_equal(seen[76:91], [-1] * 5 + [1] * 10)
    np.testing.assert_array_equal(seen[91:], 0.2)


def test_excitation_small_regret_changes_nothing():
    np.testing.assert_array_equal(gains(excitation(again=0), range(200), regret=0.2), 0.2)
    np.testing.assert_array_equal(gains(excitation(again=0, patience=inf), range(200), regret=9.0), 0.2)


def test_habnn_load_resumes_in_the_middle_of_a_sweep(tmp_path):
    """The sweep that begins after 4 + 64 steps is left in its rest, and gone on with."""
    whole, first = [], []
    agents.make("habnn", Recorder(make_env(100.0), 3), excitation=4, **TINY).learn(90, callback=whole.append)
    env = Recorder(make_env(100.0), 3)
    half = agents.make("habnn", env, excitation=4, **TINY)
    half.learn(80, callback=first.append)
    half.save(tmp_path / "agent")
    agents.load(tmp_path / "agent", env).learn(10, callback=first.append, resume=True)
    np.testing.assert_array_equal([step.action for step in first], [step.action for step in whole])
    np.testing.assert_array_equal([step.action[1] for step in whole[68:85]], [-1] * 3 + [1] * 6 + [0] * 8)


@pytest.mark.parametrize("bad", [{"resweep": -0.1}, {"resweep": 0.6}, {"recovery": 0.0}, {"recovery": float("nan")}])
def test_habnn_raises_on_a_bad_resweep_or_recovery(bad):
    with pytest.raises(ValueError, match=r"habnn: resweep must be a part of the range in \[0, 0\.5\] and recovery pos"):
        agents.make("habnn", make_env(100.0), **bad)
