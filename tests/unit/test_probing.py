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


def bursts(described=KNOWN, seed=0, **settings):
    return Bursts(Probing(**settings), described, BOUNDS, seed)


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


def regretting(regret=1e6):
    return LossMonitor(10.0, 0.0, regret)


def moves_of(motion, monitor, n_steps):
    return np.array([motion.later(n, monitor, PLANNED) for n in n_steps])


def test_unknown_actuators_do_not_recover():
    np.testing.assert_array_equal(moves_of(bursts(UNKNOWN), regretting(), range(100)), np.tile(PLANNED, (100, 1)))


def test_recovery_can_be_switched_off():
    np.testing.assert_array_equal(
        moves_of(bursts(recovers=False), regretting(), range(100)), np.tile(PLANNED, (100, 1))
    )


def test_recovery_reaches_both_ends():
    for start in (15.0, 50.0, 85.0):
        for seed in range(4):
            gains = start + np.zeros(1)
            motion, seen = bursts(seed=seed), []
            for move in moves_of(motion, regretting(), range(50, 70)):
                gains = np.clip(gains + 10 * move[1], 0, 100)
                seen.append(gains[0])
            assert min(seen) == 0
            assert max(seen) == 100


def test_recovery_begins_when_the_regret_exceeds_what_it_costs():
    """Twenty steps, taken to cost 0.3 of the level each: 20 * 0.3 * 10."""
    for regret, begins in ((59.0, False), (61.0, True)):
        motion = bursts()
        motion.later(100, regretting(regret), PLANNED)
        assert (motion.ended == 120) == begins


def judged(toll, regret=300.0):
    """Return the motion and monitor after a recovery in steps 100 to 119, judged at 140 by a toll of 10 before it."""
    motion, monitor = bursts(), LossMonitor(10.0, 0.0, 100.0, True, 10.0)
    moves_of(motion, monitor, range(100, 120))
    monitor.regret = regret  # it has cost 200, 10 per step
    moves_of(motion, monitor, range(120, 140))
    assert (motion.price, motion.n_recoveries, monitor.regret) == (10.0, 1, regret)
    monitor.toll = toll
    motion.later(140, monitor, PLANNED)
    return motion, monitor


def test_recovery_that_helped_ends_the_change():
    motion, monitor = judged(4.9)
    assert (motion.failures, monitor.regret, monitor.changed) == (0, 0.0, False)


def test_recovery_that_did_not_help_doubles_the_wait():
    motion, monitor = judged(5.1)
    assert (motion.failures, monitor.regret, monitor.changed) == (1, 0.0, True)
    monitor.regret = 399.0  # 20 steps of 10, twice
    np.testing.assert_array_equal(motion.later(141, monitor, PLANNED), PLANNED)
    monitor.regret = 401.0
    assert np.abs(motion.later(142, monitor, PLANNED)).min() == 1.0


def test_no_recovery_begins_before_the_last_one_is_judged():
    _, monitor = judged(4.9)
    motion = bursts()
    moves_of(motion, monitor, range(100))
    monitor.regret = 1e6
    moves_of(motion, monitor, range(100, 139))
    assert (motion.began, motion.ended, motion.n_recoveries) == (120, 120, 1)


def test_price_of_a_change_is_what_is_spent_before_and_during_a_recovery():
    assert bursts().price_of_change(regretting()) == pytest.approx(2 * 20 * 0.3 * 10)


def test_losses_of_the_first_planned_steps_are_no_regret():
    """A model must have learned before its errors mean anything: 50 steps after the burst of 4."""
    agent = habnn(plant())
    regrets = []
    agent.learn(53, callback=lambda _: regrets.append(agent._monitor.regret))
    assert regrets == [0.0] * 53


def test_plant_after_a_recovery_that_did_not_help_is_not_what_it_was(monkeypatch):
    """The regret begins anew, but against the plant as it was before the change: or the next recovery never begins."""
    agent = habnn(plant())
    agent.learn(60)
    marks = []
    monkeypatch.setattr(agent.model, "mark", lambda: marks.append(agent._monitor.changed))
    for changed in (True, False):
        agent._monitor.regret, agent._monitor.changed = 0.0, changed
        agent._act(np.asarray(agent.model.memory.observation), deterministic=False)
    assert marks == [False]


def test_recovery_prefers_no_direction():
    signs = np.array([moves_of(bursts(seed=seed), regretting(), [100])[0] for seed in range(400)])
    assert np.abs(signs.mean(axis=0)).max() < 5 / np.sqrt(400)
    assert np.abs(np.corrcoef(signs.T) - np.eye(3)).max() < 5 / np.sqrt(400)


def test_bursts_continue_from_their_state():
    whole, halves = bursts(), bursts()
    for n in range(50, 60):
        whole.later(n, regretting(), PLANNED)
        halves.later(n, regretting(), PLANNED)
    copy = bursts()
    copy.set_state(halves.get_state())
    for n in range(60, 150):
        np.testing.assert_array_equal(copy.later(n, regretting(), PLANNED), whole.later(n, regretting(), PLANNED))


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
        ({"amplitude": 0.0}, r"excitation.amplitude and amplitudes must be parts of the range in \(0, 0.5\], got 0.0"),
        ({"amplitudes": (0.1, 0.6)}, r"excitation.amplitude and amplitudes must be parts of the range"),
        ({"amplitudes": ()}, r"excitation.amplitude and amplitudes must be parts of the range"),
        ({"budget": -1.0}, "excitation.budget must be finite and not negative"),
        ({"budget": inf}, "excitation.budget must be finite and not negative"),
        ({"surprise": float("nan")}, "surprise positive, got"),
    ],
)
def test_probing_raises_on_values_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        Probing(**settings)


def test_exploration_raises_on_an_unknown_kind_of_excitation():
    with pytest.raises(ValueError, match=r"excitation: kind must be one of probing, sweeps, got 'prob'; did you mean"):
        Exploration.make({"excitation": {"kind": "prob"}})
