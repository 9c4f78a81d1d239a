"""Bursts of probing: the same for all actuators, no direction preferred, wide where losses exceed their predictions."""

from math import inf

import numpy as np
import pytest

from habnn_control.control.exploration import Exploration, Probing
from habnn_control.control.monitor import LossMonitor
from habnn_control.control.plant import Actuators, Bounds, Plant
from habnn_control.control.probing import Bursts
from tiny_agents import habnn, plant, steps_of

SPEEDS = np.array([1.0, 10.0, 5.0])  # percent of the range per step
BOUNDS = Bounds.of(np.zeros(4), np.full(4, 100.0), -np.ones(3), np.ones(3))
KNOWN = Plant(lambda _, observations: observations[..., 3], Actuators([0, 1, 2], SPEEDS))
UNKNOWN = Plant(lambda _, observations: observations[..., 3])
PLANNED = np.array([0.1, 0.2, 0.3])
CALM = LossMonitor()


def bursts(described=KNOWN, seed=0, **settings):
    return Bursts(Probing(**settings), described, BOUNDS, seed)


def surprised():
    return LossMonitor(1.0, 4.0)  # every error four standard deviations


def wave(motion, n):
    return np.array([motion.first(step) for step in range(n)])


def test_first_burst_moves_every_actuator_by_the_same_part_of_its_range():
    positions = np.cumsum(SPEEDS * wave(bursts(), 40), axis=0)
    np.testing.assert_allclose(np.abs(positions).max(axis=0), 10.0)
    np.testing.assert_allclose(positions[-1], 0.0)  # whole waves end where they began
    np.testing.assert_allclose(positions.max(axis=0), -positions.min(axis=0))  # as far to either side


def test_first_burst_prefers_no_direction():
    """Over seeds each actuator begins to either side equally often, independently of the others."""
    signs = np.array([bursts(seed=seed).first(0) for seed in range(400)])
    assert np.abs(signs.mean(axis=0)).max() < 5 / np.sqrt(400)
    assert np.abs(np.corrcoef(signs.T) - np.eye(3)).max() < 5 / np.sqrt(400)


def test_burst_does_not_wait_for_a_slow_actuator():
    moves = wave(bursts(amplitude=0.5), 60)
    assert np.diff(np.flatnonzero(np.diff(moves[:, 0]))).max() == 20  # ten steps to either side of the start


def test_unknown_actuators_are_probed_alike():
    moves = wave(bursts(UNKNOWN), 12)
    for column in moves.T:
        np.testing.assert_array_equal(np.abs(np.cumsum(column)).max(), 3)


def test_unknown_actuators_are_probed_only_at_the_start():
    assert begins_of(bursts(UNKNOWN), surprised) == []


def begins_of(motion, history, n=400):
    begins = []
    for k in range(n):
        before = motion.n_bursts
        motion.later(k, history(), PLANNED)
        if motion.n_bursts > before:
            begins.append(k)
    return begins


def test_later_bursts_come_at_growing_intervals():
    motion = bursts(interval=40, growth=2.0, later=0.05, surprise=inf)
    assert begins_of(motion, lambda: CALM) == [40, 80, 160, 320]


def test_later_burst_moves_one_actuator_to_either_side_and_leaves_the_others_to_the_planner():
    motion, turns = bursts(interval=10, growth=1.5, surprise=inf), []
    for n in range(300):
        action = motion.later(n, CALM, PLANNED)
        changed = np.flatnonzero(action != PLANNED)
        assert len(changed) <= 1
        if len(changed) and n == motion.began:
            turns.append(int(changed[0]))
    assert sorted(turns[:3]) == sorted(turns[3:6]) == [0, 1, 2]  # each one once before any comes again
    alone = bursts(interval=10, growth=100.0, surprise=inf)
    path = np.array([alone.later(n, CALM, np.zeros(3)) for n in range(60)]).sum(axis=1).cumsum()
    assert path.max() == -path.min() > 0  # as far to either side
    assert path[-1] == 0


def test_order_of_later_bursts_prefers_no_actuator():
    firsts = [bursts(seed=seed)._next_actuator() for seed in range(600)]
    share = np.bincount(firsts, minlength=3) / 600
    assert np.abs(share - 1 / 3).max() < 5 * np.sqrt(2 / 9 / 600)


def test_later_leaves_the_plan_alone_between_bursts():
    motion = bursts(interval=inf, surprise=inf)
    for n in range(200):
        np.testing.assert_array_equal(motion.later(n, surprised(), PLANNED), PLANNED)


def test_recovery_reaches_both_ends():
    for start in (15.0, 50.0, 85.0):
        for seed in range(4):
            motion, position, seen = bursts(interval=inf, seed=seed), start, []
            for n in range(50, 70):
                position = np.clip(position + 10 * motion.later(n, surprised(), PLANNED)[1], 0, 100)
                seen.append(position)
            assert min(seen) == 0
            assert max(seen) == 100


def test_recoveries_wait_for_a_model_that_has_learned_and_twice_as_long_after_each_that_did_not_help():
    """20 steps of recovery, then pauses of 25, 50, 100, ... steps."""
    begins = begins_of(bursts(interval=inf), surprised, 300)
    assert begins == [50, 50 + 20 + 25, 95 + 20 + 50, 165 + 20 + 100]


def test_recovery_that_did_not_help_is_turned_round_and_one_that_helped_is_kept():
    failed = bursts(interval=inf)
    moves = [failed.later(n, surprised(), PLANNED) for n in range(100)]
    np.testing.assert_array_equal(moves[95], -moves[50])
    helped = bursts(interval=inf)
    first = [helped.later(n, surprised() if n < 70 else CALM, PLANNED) for n in range(200)]
    np.testing.assert_array_equal(helped.later(200, surprised(), PLANNED), first[50])


def test_recovery_forgets_the_surprise_of_its_own_moves():
    motion, monitor = bursts(interval=inf), surprised()
    motion.later(50, monitor, PLANNED)
    assert monitor.surprise == 0.0


def test_probe_does_not_delay_a_recovery():
    begins = begins_of(bursts(interval=60, growth=1.1), surprised, 120)
    assert begins[0] == 50


def test_bursts_continue_from_their_state():
    whole, halves = bursts(interval=30), bursts(interval=30)
    for n in range(50):
        whole.later(n, CALM, PLANNED)
        halves.later(n, CALM, PLANNED)
    copy = bursts(interval=30)
    copy.set_state(halves.get_state())
    for n in range(50, 150):
        np.testing.assert_array_equal(copy.later(n, CALM, PLANNED), whole.later(n, CALM, PLANNED))


def test_probing_agent_treats_mirror_images_alike_at_the_start():
    """The first burst is the same motion in every image: nothing in it knows which end of an actuator is which."""
    settings = {"exploration": {"excitation": {"kind": "probing", "length": 8}}}
    plays = [
        [step.action for step in steps_of(habnn(plant(mirror=mirror), **settings), 8)]
        for mirror in ((), ("velocity", "gain"), ("shift",))
    ]
    np.testing.assert_array_equal(plays[0], plays[1])
    np.testing.assert_array_equal(plays[0], plays[2])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"length": -1}, "excitation.length must be a whole number"),
        ({"amplitude": 0.0}, r"excitation.amplitude must be a part of the range in \(0, 0.5\], got 0.0"),
        ({"later": 0.6}, r"excitation.later must be a part of the range"),
        ({"later": float("nan")}, r"excitation.later must be a part of the range"),
        ({"growth": 1.0}, "growth above 1"),
        ({"interval": 0}, "excitation.interval and surprise must be positive"),
        ({"surprise": float("nan")}, "excitation.interval and surprise must be positive"),
    ],
)
def test_probing_raises_on_values_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        Probing(**settings)


def test_exploration_raises_on_an_unknown_kind_of_excitation():
    with pytest.raises(ValueError, match=r"excitation: kind must be one of probing, sweeps, got 'prob'; did you mean"):
        Exploration.make({"excitation": {"kind": "prob"}})
