"""Exploration: costs of plans by hand, deviations against Monte Carlo."""

from math import inf, sqrt

import numpy as np
import pytest

from agents.presets import ABLATIONS
from habnn_control.control.exploration import Excitation, Exploration, Probing, Schedule, loss_risk
from habnn_control.control.model import DenseCovariance, FactorCovariance, Forecast
from habnn_control.control.monitor import LossMonitor

N, HORIZON = 4, 3
WEIGHTS = np.array([1.0, 1.0, 5.0])
GREEDY = Exploration(risk=Schedule())
NAMES = ("greedy", "optimistic", "pessimistic", "curious", "information", "thompson")
EXPLORATIONS = {"default": Exploration()} | {n: Exploration.make(ABLATIONS[n]["exploration"]) for n in NAMES}


def linear_loss(actions, observations):
    return observations @ np.array([0.0, 2.0, -3.0]) + 0.5 * actions[..., 0]


@pytest.fixture
def forecast():
    rng = np.random.default_rng(0)
    root = rng.uniform(-1.0, 1.0, (N, 2, HORIZON, HORIZON))
    covariances = root @ root.transpose(0, 1, 3, 2)
    observations, slopes = rng.normal(size=(N, HORIZON, 3)), rng.uniform(0.5, 2.0, (N, HORIZON, 2))
    return Forecast(observations, np.array([1, 2]), slopes, np.array([0.1, 0.2]), DenseCovariance(covariances))


@pytest.fixture
def actions():
    return np.random.default_rng(1).uniform(-1, 1, (N, HORIZON, 1))


def test_forecast_deviations_are_roots_of_the_diagonal(forecast):
    assert forecast.deviations.shape == (N, HORIZON, 2)
    assert forecast.deviations[3, 1, 0] == sqrt(forecast.covariances[3, 0, 1, 1])


def test_loss_risk_of_a_linear_loss_vs_monte_carlo(forecast, actions):
    values = linear_loss(actions, forecast.observations)
    rng, n = np.random.default_rng(2), 40_000
    drawn = np.repeat(forecast.observations[None], n, axis=0)
    for candidate in range(N):
        for output, entry in enumerate(forecast.entries):
            covariance = forecast.covariances[candidate, output]
            drawn[:, candidate, :, entry] += rng.multivariate_normal(np.zeros(HORIZON), covariance, n)
    totals = linear_loss(actions, drawn) @ WEIGHTS
    found = loss_risk(forecast, actions, linear_loss, values, WEIGHTS)
    assert np.abs(found / totals.std(axis=0) - 1).max() < 5 / sqrt(2 * n)


def test_loss_risk_leaves_the_forecast_alone(forecast, actions):
    before = forecast.observations.copy()
    loss_risk(forecast, actions, linear_loss, linear_loss(actions, forecast.observations), WEIGHTS)
    np.testing.assert_array_equal(forecast.observations, before)


def test_loss_risk_is_less_where_errors_do_not_repeat(actions):
    """The same epistemic variance in every step: one error for all steps, or a new one in each."""
    observations = np.zeros((N, HORIZON, 3))
    totals = []
    for covariance in (np.ones((HORIZON, HORIZON)), np.eye(HORIZON)):
        epistemic = DenseCovariance(np.broadcast_to(covariance, (N, 1, 3, 3)))
        forecast = Forecast(observations, np.array([1]), np.ones((N, HORIZON, 1)), np.ones(1), epistemic)
        totals.append(loss_risk(forecast, actions, linear_loss, linear_loss(actions, observations), np.ones(3)))
    np.testing.assert_allclose(totals[0], 2 * 3)
    np.testing.assert_allclose(totals[1], 2 * sqrt(3))


def test_relative_risk_leaves_out_what_is_unknown_of_all_plans_alike(actions):
    """Two causes of error: one the same along all plans, the other one grows from plan to plan."""
    factors = np.zeros((N, 1, HORIZON, 2))
    factors[..., 0], factors[..., 1] = 10.0, np.arange(N)[:, None, None]
    observations = np.zeros((N, HORIZON, 3))
    forecast = Forecast(observations, np.array([1]), np.ones((N, HORIZON, 1)), np.ones(1), FactorCovariance(factors))
    costs = {
        relative: Exploration(Schedule(1.0, 1.0), relative).costs(
            forecast, 0 * actions, linear_loss, np.ones(3), 0, LossMonitor()
        )
        for relative in (0.0, 0.25, 1.0)
    }
    np.testing.assert_allclose(costs[1.0], 2 * 3 * np.arange(N))
    np.testing.assert_allclose(costs[0.0], 2 * 3 * np.hypot(10, np.arange(N)))
    np.testing.assert_allclose(costs[0.25], 0.75 * costs[0.0] + 0.25 * costs[1.0])


@pytest.mark.parametrize("name", EXPLORATIONS)
@pytest.mark.parametrize("step", [0, 50, 10_000])
def test_exploration_costs_are_loss_plus_risk_minus_information(name, step, forecast, actions):
    chosen = EXPLORATIONS[name]
    values = linear_loss(actions, forecast.observations)
    expected = (values * WEIGHTS).sum(axis=1)
    expected += chosen.risk.value(step) * loss_risk(forecast, actions, linear_loss, values, WEIGHTS, chosen.relative)
    expected -= chosen.information.value(step) * 6.0 * forecast.information  # the level of the losses is 6
    found = chosen.costs(forecast, actions, linear_loss, WEIGHTS, step, LossMonitor(6.0))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_presets_of_exploration_are_what_their_names_say():
    signs = {n: (np.sign(e.risk.value(0)), np.sign(e.information.value(0))) for n, e in EXPLORATIONS.items()}
    assert signs["greedy"] == signs["thompson"] == (0, 0)
    assert signs["optimistic"] == (-1, 0)
    assert signs["pessimistic"] == signs["default"] == (1, 0)
    assert signs["curious"] == (1, 1)
    assert signs["information"] == (0, 1)
    assert [name for name, exploration in EXPLORATIONS.items() if exploration.thompson] == ["thompson"]


def test_schedule_decays_to_its_floor():
    schedule = Schedule(3.0, 1.0, 0.99)
    values = [schedule.value(step) for step in range(2000)]
    assert values[0] == 3.0
    assert values[100] == pytest.approx(1.0 + 2.0 * 0.99**100)
    assert (np.diff(values) < 0).all()
    assert values[-1] == pytest.approx(1.0, abs=1e-8)
    assert Schedule(-2.0, -2.0).value(500) == -2.0
    assert Schedule().value(3) == 0.0


@pytest.mark.parametrize("bad", [{"start": float("nan")}, {"floor": float("inf")}, {"decay": 0.0}, {"decay": 1.5}])
def test_schedule_raises_on_bad_values(bad):
    with pytest.raises(ValueError, match="Schedule: start and floor must be finite and decay in"):
        Schedule(**bad)


def test_exploration_can_be_made_by_hand(forecast, actions):
    mixed = Exploration(risk=Schedule(1.0, 1.0), information=Schedule(5.0))
    greedy = GREEDY.costs(forecast, actions, linear_loss, WEIGHTS, 0, LossMonitor())
    assert (mixed.costs(forecast, actions, linear_loss, WEIGHTS, 0, LossMonitor()) != greedy).all()


def test_exploration_costs_raise_on_a_loss_of_another_shape(forecast, actions):
    def first_step_only(actions, observations):
        return observations[:, 0, 0]

    with pytest.raises(ValueError, match=r"Plant: loss must return one value per step, shape \(4, 3\), got \(4,\)"):
        GREEDY.costs(forecast, actions, first_step_only, WEIGHTS, 0, LossMonitor())


def test_exploration_make_reads_numbers_schedules_and_mappings():
    assert Exploration.make({}) == Exploration()
    made = Exploration.make({"risk": 2, "information": (1.0, 0.5, 0.9), "excitation": {"length": 7, "budget": 0.2}})
    assert made.risk == Schedule(2, 2)
    assert made.information == Schedule(1.0, 0.5, 0.9)
    assert made.excitation == Probing(7, budget=0.2)
    assert Exploration.make({"excitation": {"kind": "sweeps", "dither": 0.0}}).excitation == Excitation(dither=0.0)
    given = {"risk": Schedule(2.0, 1.0, 0.5), "excitation": Excitation(0), "thompson": True}
    assert Exploration.make(given) == Exploration(**given)


@pytest.mark.parametrize("name", EXPLORATIONS)
def test_exploiting_leaves_risk_aversion_and_nothing_that_is_done_to_learn(name):
    found, before = EXPLORATIONS[name].exploiting(), EXPLORATIONS[name]
    assert found.risk == (Schedule() if name == "optimistic" else before.risk)
    assert found.information == Schedule()
    assert not found.thompson
    assert found.excitation.length == 0


def test_exploration_raises_on_unknown_setting_with_the_nearest():
    with pytest.raises(
        ValueError, match=r"exploration: setting must be one of .*, got 'tomson'; did you mean 'thompso"
    ):
        Exploration.make({"tomson": True})
    with pytest.raises(
        ValueError, match=r"excitation: setting must be one of .*, got 'resweeps'; did you mean 'reswee"
    ):
        Exploration.make({"excitation": {"kind": "sweeps", "resweeps": 0.1}})


@pytest.mark.parametrize("bad", [0, 32, None, False])
def test_exploration_raises_on_an_excitation_that_is_no_mapping(bad):
    with pytest.raises(TypeError, match="exploration: excitation must be a mapping of its parameters, got"):
        Exploration.make({"excitation": bad})


@pytest.mark.parametrize("bad", [-1, 2.5, "8", None])
def test_excitation_raises_on_bad_length(bad):
    with pytest.raises(ValueError, match=r"exploration: excitation\.length must be a whole number of at least 0, got"):
        Excitation(bad)


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan")])
def test_excitation_raises_on_a_dither_beyond_the_full_action(bad):
    with pytest.raises(ValueError, match=r"exploration: excitation\.dither must be in \[0, 1\] and resweep .*, got"):
        Excitation(dither=bad)


@pytest.mark.parametrize("bad", [-0.1, 0.6, float("nan")])
def test_excitation_raises_on_a_resweep_beyond_half_of_the_range(bad):
    with pytest.raises(ValueError, match=r"exploration: excitation\..* resweep in \[0, 0\.5\], got"):
        Excitation(resweep=bad)


@pytest.mark.parametrize("bad", [0.0, -0.1, float("nan")])
def test_excitation_raises_on_a_surprise_that_is_not_positive(bad):
    with pytest.raises(ValueError, match=r"excitation\.surprise must be positive, got .*; inf switches it off"):
        Excitation(surprise=bad)
    assert Excitation(surprise=inf).surprise == inf
