"""What every planner must do; a new planner is tested as soon as PLANNERS names it."""

import numpy as np
import pytest

from habnn_control.control.planning import PLANNERS, make_planner

LOW, HIGH, HORIZON = np.array([-1.0, 0.0]), np.array([1.0, 3.0]), 6
TARGET = np.array([0.3, 2.0])


def quadratic(sequences):
    return ((sequences - TARGET) ** 2).sum(axis=(1, 2))


def plan_with(kind, objective, seed=0, previous=None):
    return make_planner({"kind": kind}).plan(objective, LOW, HIGH, HORIZON, np.random.default_rng(seed), previous)


@pytest.mark.parametrize("kind", PLANNERS)
def test_planner_stays_within_the_bounds(kind):
    def edge(sequences):
        assert (sequences >= LOW).all()
        assert (sequences <= HIGH).all()
        return -sequences.sum(axis=(1, 2))

    plan = plan_with(kind, edge)
    for actions in (plan.actions, plan.mean, *plan.elites):
        assert (actions >= LOW).all()
        assert (actions <= HIGH).all()


@pytest.mark.parametrize("kind", PLANNERS)
def test_planner_improves_over_random_on_a_quadratic(kind):
    """A plan costs less than nine of ten uniform sequences would, in every one of ten searches."""
    uniform = np.random.default_rng(1).uniform(LOW, HIGH, (2000, HORIZON, 2))
    assert all(plan_with(kind, quadratic, seed).cost < np.quantile(quadratic(uniform), 0.1) for seed in range(10))


@pytest.mark.parametrize("kind", PLANNERS)
@pytest.mark.parametrize("bad", [np.nan, -np.inf, np.inf])
def test_planner_never_chooses_a_cost_that_is_not_finite(kind, bad):
    def half_broken(sequences):
        return np.where(sequences[:, 0, 0] > 0.0, bad, quadratic(sequences))

    plan = plan_with(kind, half_broken)
    assert np.isfinite(plan.cost)
    assert plan.actions[0, 0] <= 0.0
    assert plan.rejected > 0


@pytest.mark.parametrize("kind", PLANNERS)
def test_planner_cost_is_that_of_its_actions(kind):
    plan = plan_with(kind, quadratic)
    assert plan.cost == pytest.approx(quadratic(plan.actions[None])[0])


@pytest.mark.parametrize("kind", PLANNERS)
def test_planner_gives_the_same_plan_for_the_same_generator(kind):
    first, again, other = (plan_with(kind, quadratic, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.actions, again.actions)
    assert (first.actions != other.actions).any()


@pytest.mark.parametrize("kind", PLANNERS)
def test_planner_continues_from_its_previous_plan(kind):
    """With the previous plan at hand, the cost is no worse than that plan's, shifted by one step."""
    previous = plan_with(kind, quadratic)
    shifted = np.concatenate([previous.actions[1:], [(LOW + HIGH) / 2]])
    assert plan_with(kind, quadratic, seed=1, previous=previous).cost <= quadratic(shifted[None])[0]
