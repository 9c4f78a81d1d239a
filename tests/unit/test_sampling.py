"""Active sampling: costs by hand, deviations against Monte Carlo."""

from math import sqrt

import numpy as np
import pytest

from habnn_control.dynamics import Forecast
from habnn_control.sampling import STRATEGIES, Schedule, Strategy, loss_deviation, strategy

N, HORIZON = 4, 3


def linear_loss(actions, observations):
    return observations @ np.array([0.0, 2.0, -3.0]) + 0.5 * actions[..., 0]


@pytest.fixture
def forecast():
    rng = np.random.default_rng(0)
    deviations = rng.uniform(0.1, 1.0, (N, HORIZON, 3))
    deviations[..., 0] = 0.0
    return Forecast(rng.normal(size=(N, HORIZON, 3)), deviations, rng.uniform(0, 1, (N, HORIZON)))


@pytest.fixture
def actions():
    return np.random.default_rng(1).uniform(-1, 1, (N, HORIZON, 1))


def test_loss_deviation_of_a_linear_loss_vs_monte_carlo(forecast, actions):
    values = linear_loss(actions, forecast.observations)
    n = 40_000
    normal = np.random.default_rng(2).standard_normal((n, N, HORIZON, 3))
    drawn = linear_loss(actions, forecast.observations + forecast.deviations * normal).std(axis=0)
    found = loss_deviation(forecast, actions, linear_loss, values)
    assert np.abs(found / drawn - 1).max() < 5 / sqrt(2 * n)


def test_loss_deviation_leaves_the_forecast_alone(forecast, actions):
    before = forecast.observations.copy()
    loss_deviation(forecast, actions, linear_loss, linear_loss(actions, forecast.observations))
    np.testing.assert_array_equal(forecast.observations, before)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("step", [0, 50, 10_000])
def test_strategy_costs_are_loss_plus_caution_minus_curiosity(name, step, forecast, actions):
    chosen, weights = strategy(name), np.array([1.0, 1.0, 5.0])
    expected = np.zeros(N)
    for n in range(N):
        for k in range(HORIZON):
            loss = 2 * forecast.observations[n, k, 1] - 3 * forecast.observations[n, k, 2] + 0.5 * actions[n, k, 0]
            deviation = sqrt((2 * forecast.deviations[n, k, 1]) ** 2 + (3 * forecast.deviations[n, k, 2]) ** 2)
            caution, curiosity = chosen.caution.value(step), chosen.curiosity.value(step)
            expected[n] += weights[k] * (loss + caution * deviation - curiosity * forecast.information[n, k])
    np.testing.assert_allclose(chosen.costs(forecast, actions, linear_loss, step, weights), expected, rtol=1e-12)


def test_strategies_are_what_their_names_say():
    signs = {name: (np.sign(s.caution.value(0)), np.sign(s.curiosity.value(0))) for name, s in STRATEGIES.items()}
    assert signs["greedy"] == signs["thompson"] == (0, 0)
    assert signs["optimistic"] == (-1, 0)
    assert signs["pessimistic"] == (1, 0)
    assert signs["information"] == (0, 1)
    assert [name for name, s in STRATEGIES.items() if s.thompson] == ["thompson"]


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


def test_strategy_can_be_made_by_hand(forecast, actions):
    mixed = Strategy(caution=Schedule(1.0, 1.0), curiosity=Schedule(5.0))
    weights = np.ones(HORIZON)
    greedy = Strategy().costs(forecast, actions, linear_loss, 0, weights)
    assert (mixed.costs(forecast, actions, linear_loss, 0, weights) != greedy).all()


def test_strategy_raises_on_unknown_name_with_the_nearest():
    with pytest.raises(ValueError, match=r"sampling: strategy must be one of .*, got 'tomson'; did you mean 'thompson"):
        strategy("tomson")
