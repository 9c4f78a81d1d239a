"""Probes: the most information per expected loss, within a budget; no actuator and no direction preferred by hand."""

import numpy as np
import pytest

from habnn_control.control.exploration import Probing
from habnn_control.control.model import DenseCovariance, Forecast
from habnn_control.control.plant import Actuators, Bounds, Plant
from habnn_control.control.probes import Probe, Probes

BOUNDS = Bounds.of(np.zeros(3), np.full(3, 100.0), -np.ones(2), np.ones(2))
PLANT = Plant(lambda _, observations: observations[..., 2], Actuators([0, 1], [10.0, 10.0]))
PLAN = np.zeros((25, 2))


class Teacher:
    """A model whose epistemic variance and expected loss grow with the motion of chosen actuators."""

    memory = None

    def __init__(self, teaches=(1.0, 1.0), costs=(0.0, 0.0)):
        self.teaches, self.costs = np.array(teaches), np.array(costs)

    def forecast(self, memory, sequences):  # noqa: ARG002
        moved = np.abs(sequences)
        n, horizon, _ = sequences.shape
        observations = np.zeros((n, horizon, 3))
        observations[..., 2] = moved @ self.costs
        variances = np.einsum("nk,kl->nkl", moved @ self.teaches, np.eye(horizon))[:, None]
        return Forecast(observations, np.array([2]), np.ones((n, horizon, 1)), np.ones(1), DenseCovariance(variances))


def chosen(teacher, n_planned=100, plan=PLAN, **settings):
    probes = Probes(Probing(**settings), PLANT, BOUNDS)
    probes.choose(teacher, plan, n_planned, 10.0)
    return probes


def test_probe_is_that_of_the_actuator_the_model_learns_from():
    for actuator in (0, 1):
        assert chosen(Teacher(np.eye(2)[actuator])).probe.actuator == actuator


def test_probe_is_that_of_the_cheaper_actuator_if_both_teach_alike():
    for actuator in (0, 1):
        assert chosen(Teacher(costs=1.0 - np.eye(2)[actuator])).probe.actuator == actuator


def test_probe_is_put_off_until_the_budget_allows_for_it():
    """The cheapest wave takes four steps and costs 3 per step: 4 * (3 + 0.02 * 10) = 12.8 <= 0.2 * 10 * sqrt(41)."""
    dear = Teacher(costs=(3.0, 3.0))
    assert chosen(dear, n_planned=40, budget=0.2, amplitudes=(0.1,)).probe is None
    assert chosen(dear, n_planned=41, budget=0.2, amplitudes=(0.1,)).probe is not None


def test_probes_spend_no_more_than_the_budget():
    probes, teacher, n_planned = Probes(Probing(budget=0.5), PLANT, BOUNDS), Teacher(costs=(1.0, 2.0)), 0
    for n_planned in range(1000):
        if probes.is_due(n_planned):
            probes.choose(teacher, PLAN, n_planned, 10.0)
        probes.action(np.zeros(2), n_planned)
        assert probes.spent <= 0.5 * 10.0 * np.sqrt(max(n_planned, 1))
    assert probes.spent > 0.4 * 10.0 * np.sqrt(n_planned)  # and use it


def test_probe_is_a_wave_of_one_actuator_and_leaves_the_other_to_the_planner():
    probes = chosen(Teacher(teaches=(0.0, 1.0)))
    planned = np.array([0.3, 0.2])
    moves = np.array([probes.action(planned, 100 + k) for k in range(4 * probes.probe.quarter)])
    np.testing.assert_array_equal(moves[:, 0], 0.3)
    path = np.cumsum(moves[:, 1])
    assert path.max() == -path.min() == moves[:, 1].size / 4
    assert path[-1] == 0
    np.testing.assert_array_equal(probes.action(planned, 100 + len(moves)), planned)  # the wave is over


def test_probe_of_a_mirrored_actuator_is_the_mirrored_probe():
    """Reversing an actuator reverses which side is dear; the chosen first side is reversed with it."""

    class OneSided(Teacher):
        def forecast(self, memory, sequences):
            found = super().forecast(memory, sequences)
            found.observations[..., 2] += np.maximum(self.sign * np.cumsum(sequences, axis=1), 0.0).sum(axis=2)
            found.observations[..., 2] += 0.1 * np.maximum(self.sign * sequences[:, :1], 0.0).sum(axis=2)
            return found

    signs = []
    for sign in (-1.0, 1.0):
        teacher = OneSided()
        teacher.sign = sign
        signs.append(chosen(teacher).probe.sign)
    assert signs == [1, -1]


@pytest.mark.parametrize("n_planned", [0, 8])
def test_probes_are_not_looked_for_at_the_very_start(n_planned):
    assert not Probes(Probing(), PLANT, BOUNDS).is_due(n_planned)


def test_probes_are_never_due_without_a_budget():
    probes = Probes(Probing(budget=0.0), PLANT, BOUNDS)
    assert not any(probes.is_due(n) for n in range(200))


def test_probes_continue_from_their_state():
    probes = chosen(Teacher())
    copy = Probes(Probing(), PLANT, BOUNDS)
    copy.set_state(probes.get_state())
    assert isinstance(copy.probe, Probe)
    assert copy.get_state() == probes.get_state()
    for n in range(100, 130):
        np.testing.assert_array_equal(copy.action(np.zeros(2), n), probes.action(np.zeros(2), n))


def test_probe_that_teaches_nothing_is_not_played():
    assert chosen(Teacher(teaches=(0.0, 0.0))).probe is None


def test_probe_is_found_where_losses_are_zero():
    probes = Probes(Probing(), PLANT, BOUNDS)
    probes.choose(Teacher(), PLAN, 100, 0.0)
    assert probes.probe is not None  # it costs nothing
