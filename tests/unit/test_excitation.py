"""Sweeps at the start and later, against schedules worked out by hand."""

from math import inf

import numpy as np
import pytest
from agents._excitation import Excitation

import agents
from agents.runner import Recorder, make_env
from habnn_control.control.exploration import Record

LOW, HIGH = np.full(3, -1.0), np.full(3, 1.0)
PLANNED = np.array([0.1, 0.2, 0.3])
TINY = {"history": 2, "horizon": 3, "hold": 1, "n_candidates": 10, "n_iterations": 1, "network": {"hidden": (4,)}}


def first_steps(n, **settings):
    seen = []
    agents.make("habnn", make_env(100.0), excitation=n, **TINY | settings).learn(n, callback=seen.append)
    return np.array([step.action for step in seen]), seen[-1].next_observation


def excitation(length=8, dither=0.0, again=3, widest=5, patience=0.2):
    quarters, settings = np.array([25, 2, 8]), {"dither": dither, "again": again, "widest": widest}
    return Excitation(LOW, HIGH, quarters, length, slowest=0, fastest=1, patience=patience, **settings)


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


def pushed(length=8, disturbed=0):
    sweeps = excitation(length=length, dither=0.5, again=0)
    sweeps.disturbed = disturbed
    return np.array([sweeps.later(n, regretting(0.0), PLANNED) for n in range(64)])


def test_excitation_later_pushes_the_slowest_actuator_to_and_fro_for_50_steps_after_a_disturbance():
    """A push of 0.5 on top of the 0.1 that is planned: eight steps up, eight down; the others as planned."""
    seen = pushed()
    np.testing.assert_allclose(seen[:50, 0], (([0.6] * 8 + [-0.4] * 8) * 4)[:50])
    np.testing.assert_array_equal(seen[50:, 0], 0.1)
    np.testing.assert_array_equal(seen[:, 1:], np.broadcast_to(PLANNED[1:], (64, 2)))


def test_excitation_later_pushes_within_the_bounds():
    sweeps = excitation(dither=1.0)
    sweeps.disturbed = 0
    np.testing.assert_array_equal(sweeps.later(1, regretting(0.0), PLANNED), [1.0, 0.2, 0.3])


@pytest.mark.parametrize("without", [{"length": 0}, {"disturbed": -50}])
def test_excitation_later_pushes_nothing_without_a_start_or_a_disturbance(without):
    np.testing.assert_array_equal(pushed(**without), np.broadcast_to(PLANNED, (64, 3)))


def velocities(wandering, dither):
    seen, env = [], Recorder(make_env(100.0, wandering=wandering), 3)
    agents.make("habnn", env, excitation=4, dither=dither, **TINY).learn(20, callback=seen.append)
    return np.array([step.next_observation[1] for step in seen])


def test_habnn_pushes_the_velocity_while_the_setpoint_moves():
    """A push at full speed: whatever is planned, velocity never falls in eight steps and never rises in the next."""
    moves = np.diff(velocities(True, 1.0))
    assert (moves[3:11] >= 0).all()
    assert (moves[11:19] <= 0).all()


@pytest.mark.parametrize(("wandering", "compared"), [(False, 36), (True, 1)])
def test_habnn_compares_losses_only_since_the_setpoint_has_moved(wandering, compared):
    agent = agents.make("habnn", Recorder(make_env(100.0, wandering=wandering), 3), excitation=4, **TINY).learn(40)
    assert len(agent._record.losses) == compared


def test_habnn_pushes_nothing_while_the_setpoint_rests():
    np.testing.assert_array_equal(velocities(False, 1.0), velocities(False, 0.0))


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan")])
def test_habnn_raises_on_a_dither_beyond_the_full_speed(bad):
    with pytest.raises(ValueError, match=r"habnn: dither must be a part of the full speed in \[0, 1\], got"):
        agents.make("habnn", make_env(100.0), dither=bad)


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
