"""Sweeps at the start and later, against schedules worked out by hand."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

import agents
from agents.runner import Recorder, make_env
from habnn_control.control.excitation import Sweeps
from habnn_control.control.exploration import Excitation
from habnn_control.control.monitor import LossMonitor
from habnn_control.control.plant import Actuators, Bounds, Plant

BOUNDS = Bounds.of(np.zeros(4), np.full(4, 100.0), np.full(3, -1.0), np.full(3, 1.0))
ACTUATORS = Actuators((0, 1, 2), (1.0, 10.0, 5.75), (0.25, 0.25, 0.45))  # slowest first, then the fastest
PLANNED = np.array([0.1, 0.2, 0.3])
TINY = {
    "model": {"history": 2, "network": {"hidden": (4,)}},
    "planner": {"n_candidates": 10, "n_iterations": 1},
    "horizon": 3,
    "hold": 1,
}


def tiny(env, length=4, plant=None, **excitation):
    return agents.make(
        "habnn",
        env,
        plant=plant,
        exploration={"excitation": {"kind": "sweeps", "length": length, **excitation}},
        **TINY,
    )


def first_steps(n, sweep):
    seen, env = [], make_env(100.0)
    plant = env.unwrapped.plant
    tiny(env, n, replace(plant, actuators=replace(plant.actuators, sweep=sweep))).learn(n, callback=seen.append)
    return np.array([step.action for step in seen]), seen[-1].next_observation


def last_entry(actions, observations):
    return observations[..., 3]


def sweeps_of(length=8, dither=0.0, resweep=0.3, surprise=0.2, actuators=ACTUATORS):
    plant = Plant(last_entry, actuators=actuators)
    return Sweeps(Excitation(length, dither, resweep, surprise), plant, BOUNDS)


def surprised(surprise):
    return LossMonitor(1.0, surprise / LossMonitor(1.0, 1.0).surprise)


def gains(sweeps, steps, surprise=0.0):
    return np.array([sweeps.later(n, surprised(surprise), PLANNED)[1] for n in steps])


def test_habnn_starts_with_a_symmetric_excitation():
    """A quarter of the range to either side: 25 steps of velocity, 2.5 of gain (2 of full speed), 4 of shift."""
    actions, reached = first_steps(16, (0.25, 0.25, 0.25))
    np.testing.assert_array_equal(actions[:, 0], [-1] * 16)
    np.testing.assert_array_equal(actions[:, 1], [-1, -1, 1, 1, 1, 1, -1, -1] * 2)
    np.testing.assert_array_equal(actions[:, 2], [-1] * 4 + [1] * 8 + [-1] * 4)
    np.testing.assert_allclose(reached[2:4], 50.0, atol=1e-4)


def test_habnn_sweeps_each_actuator_as_far_as_asked():
    """Parts of the range at full speed: 5 steps of velocity, 1 of gain, 8 of shift."""
    actions, _ = first_steps(9, (0.05, 0.1, 0.45))
    np.testing.assert_array_equal(actions[:, 0], [-1] * 5 + [1] * 4)
    np.testing.assert_array_equal(actions[:, 1], [-1, 1, 1, -1, -1, 1, 1, -1, -1])
    np.testing.assert_array_equal(actions[:, 2], [-1] * 8 + [1])


def test_sweeps_first_has_quarters_of_each_actuators_own_length_by_hand():
    """Parts of the range over its part per step: 25 steps, 2.5 rounded to 2, and 7.8 rounded to 8."""
    moves = np.array([sweeps_of().first(step) for step in range(100)])
    for actuator, quarter in enumerate((25, 2, 8)):
        wave = [-1.0] * quarter + [1.0] * 2 * quarter + [-1.0] * quarter
        np.testing.assert_array_equal(moves[:, actuator], np.resize(wave, 100))


def test_sweeps_first_of_reversed_actuators_is_as_long():
    """A negative step is as fast as a positive one."""
    reversed_ones = replace(ACTUATORS, steps=(-1.0, -10.0, -5.75))
    for step in range(40):
        np.testing.assert_array_equal(sweeps_of(actuators=reversed_ones).first(step), sweeps_of().first(step))


def test_sweeps_without_known_actuators_are_three_steps_to_each_side_and_only_at_the_start():
    sweeps = sweeps_of(dither=None, resweep=None, surprise=None, actuators=None)
    sweeps.disturbed = 0
    moves = np.array([sweeps.first(step) for step in range(12)])
    np.testing.assert_array_equal(moves, np.tile([[-1.0]] * 3 + [[1.0]] * 6 + [[-1.0]] * 3, 3))
    np.testing.assert_array_equal(gains(sweeps, range(400), surprise=9.0), 0.2)
    np.testing.assert_array_equal(sweeps.later(1, surprised(0.0), PLANNED), PLANNED)


def test_sweeps_later_sweeps_down_and_up_rests_and_leaves_the_way_back_to_the_planner():
    swept = gains(sweeps_of(), range(62, 83))
    np.testing.assert_array_equal(swept, [0.2] * 2 + [-1] * 3 + [1] * 6 + [0] * 8 + [0.2] * 2)


def test_sweeps_later_leaves_the_other_actuators_to_the_planner():
    np.testing.assert_array_equal(sweeps_of().later(64, surprised(0.0), PLANNED), [0.1, -1.0, 0.3])
    np.testing.assert_array_equal(PLANNED, [0.1, 0.2, 0.3])


def test_sweeps_later_comes_at_doubling_intervals():
    swept = gains(sweeps_of(resweep=0.1), range(600)) == -1
    np.testing.assert_array_equal(np.flatnonzero(swept), [64, 128, 256, 512])


def dithered(length=8, disturbed=0):
    sweeps = sweeps_of(length, dither=0.5, resweep=0.0)
    sweeps.disturbed = disturbed
    return np.array([sweeps.later(n, surprised(0.0), PLANNED) for n in range(64)])


def test_sweeps_later_adds_dither_to_the_slowest_actuator_for_50_steps_after_a_disturbance():
    """0.5 is added to the 0.1 that is planned: eight steps up, eight down; the others as planned."""
    seen = dithered()
    np.testing.assert_allclose(seen[:50, 0], (([0.6] * 8 + [-0.4] * 8) * 4)[:50])
    np.testing.assert_array_equal(seen[50:, 0], 0.1)
    np.testing.assert_array_equal(seen[:, 1:], np.broadcast_to(PLANNED[1:], (64, 2)))


def test_sweeps_later_dithers_within_the_bounds():
    sweeps = sweeps_of(dither=1.0)
    sweeps.disturbed = 0
    np.testing.assert_array_equal(sweeps.later(1, surprised(0.0), PLANNED), [1.0, 0.2, 0.3])


@pytest.mark.parametrize("without", [{"length": 0}, {"disturbed": -50}])
def test_sweeps_later_dithers_nothing_without_a_start_or_a_disturbance(without):
    np.testing.assert_array_equal(dithered(**without), np.broadcast_to(PLANNED, (64, 3)))


def velocities(wandering, dither):
    seen, env = [], Recorder(make_env(100.0, wandering=wandering), 3)
    tiny(env, dither=dither).learn(20, callback=seen.append)
    return np.array([step.next_observation[1] for step in seen])


def test_habnn_dithers_the_velocity_while_the_setpoint_moves():
    """Dither of the full action: whatever is planned, velocity does not fall for eight steps, nor rise for the next."""
    moves = np.diff(velocities(True, 1.0))
    assert (moves[3:11] >= 0).all()
    assert (moves[11:19] <= 0).all()


def test_habnn_dithers_nothing_while_the_setpoint_rests():
    np.testing.assert_array_equal(velocities(False, 1.0), velocities(False, 0.0))


@pytest.mark.parametrize("without", [{"resweep": 0.0}, {"length": 0}])
def test_sweeps_later_can_be_switched_off(without):
    np.testing.assert_array_equal(gains(sweeps_of(**without), range(400)), 0.2)


def test_sweeps_later_are_wide_and_with_pauses_while_losses_surprise():
    seen = gains(sweeps_of(resweep=0.0), range(10, 160), surprise=0.5)
    np.testing.assert_array_equal(seen[:15], [-1] * 5 + [1] * 10)
    np.testing.assert_array_equal(seen[15:76], 0.2)
    np.testing.assert_array_equal(seen[76:91], [-1] * 5 + [1] * 10)


def test_sweeps_later_forget_the_surprise_that_they_answer():
    monitor = surprised(0.5)
    sweeps_of(resweep=0.0).later(10, monitor, PLANNED)
    assert monitor.surprise == 0.0


def test_sweeps_later_ignore_a_small_surprise():
    np.testing.assert_array_equal(gains(sweeps_of(resweep=0.0), range(200), surprise=0.1), 0.2)
    np.testing.assert_array_equal(gains(sweeps_of(resweep=0.0, surprise=inf), range(200), surprise=9.0), 0.2)


def test_habnn_load_resumes_in_the_middle_of_a_sweep(tmp_path):
    """The sweep that begins after 4 + 64 steps is left in its rest, and gone on with."""
    whole, first = [], []
    tiny(Recorder(make_env(100.0), 3)).learn(90, callback=whole.append)
    env = Recorder(make_env(100.0), 3)
    half = tiny(env)
    half.learn(80, callback=first.append)
    half.save(tmp_path / "agent")
    agents.load(tmp_path / "agent", env).learn(10, callback=first.append, resume=True)
    np.testing.assert_array_equal([step.action for step in first], [step.action for step in whole])
    np.testing.assert_array_equal([step.action[1] for step in whole[68:85]], [-1] * 3 + [1] * 6 + [0] * 8)


def test_sweeps_state_continues_exactly():
    """In the middle of a sweep that surprise asked for, and of the dither."""
    sweeps, other = (sweeps_of(dither=0.5) for _ in range(2))
    sweeps.disturbed = 40
    for n in range(70):
        sweeps.later(n, surprised(0.5), PLANNED)
    other.set_state(sweeps.get_state())
    for n in range(70, 200):
        ours, theirs = (each.later(n, surprised(0.5), PLANNED) for each in (sweeps, other))
        np.testing.assert_array_equal(ours, theirs)
