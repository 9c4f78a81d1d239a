"""Active sampling: costs by hand, deviations against Monte Carlo."""

from math import sqrt

import numpy as np
import pytest

from habnn_control.control.exploration import STRATEGIES, Record, Schedule, Strategy, loss_deviation, strategy
from habnn_control.control.rollout import PathDoubt
from habnn_control.control.transition_model import Forecast

N, HORIZON = 4, 3
WEIGHTS = np.array([1.0, 1.0, 5.0])


def linear_loss(actions, observations):
    return observations @ np.array([0.0, 2.0, -3.0]) + 0.5 * actions[..., 0]


@pytest.fixture
def forecast():
    rng = np.random.default_rng(0)
    root = rng.uniform(-1.0, 1.0, (N, 2, HORIZON, HORIZON))
    covariances = root @ root.transpose(0, 1, 3, 2)
    observations, slopes = rng.normal(size=(N, HORIZON, 3)), rng.uniform(0.5, 2.0, (N, HORIZON, 2))
    return Forecast(observations, np.array([1, 2]), slopes, np.array([0.1, 0.2]), PathDoubt(covariances))


@pytest.fixture
def actions():
    return np.random.default_rng(1).uniform(-1, 1, (N, HORIZON, 1))


def test_forecast_deviations_are_roots_of_the_diagonal(forecast):
    assert forecast.deviations.shape == (N, HORIZON, 2)
    assert forecast.deviations[3, 1, 0] == sqrt(forecast.covariances[3, 0, 1, 1])


def test_loss_deviation_of_a_linear_loss_vs_monte_carlo(forecast, actions):
    values = linear_loss(actions, forecast.observations)
    rng, n = np.random.default_rng(2), 40_000
    drawn = np.repeat(forecast.observations[None], n, axis=0)
    for candidate in range(N):
        for output, entry in enumerate(forecast.entries):
            covariance = forecast.covariances[candidate, output]
            drawn[:, candidate, :, entry] += rng.multivariate_normal(np.zeros(HORIZON), covariance, n)
    totals = linear_loss(actions, drawn) @ WEIGHTS
    found = loss_deviation(forecast, actions, linear_loss, values, WEIGHTS)
    assert np.abs(found / totals.std(axis=0) - 1).max() < 5 / sqrt(2 * n)


def test_loss_deviation_leaves_the_forecast_alone(forecast, actions):
    before = forecast.observations.copy()
    loss_deviation(forecast, actions, linear_loss, linear_loss(actions, forecast.observations), WEIGHTS)
    np.testing.assert_array_equal(forecast.observations, before)


def test_loss_deviation_is_less_where_errors_do_not_repeat(actions):
    """The same doubt in every step: one error for all of them, or a new one each time."""
    observations = np.zeros((N, HORIZON, 3))
    totals = []
    for covariance in (np.ones((HORIZON, HORIZON)), np.eye(HORIZON)):
        doubt = PathDoubt(np.broadcast_to(covariance, (N, 1, 3, 3)))
        forecast = Forecast(observations, np.array([1]), np.ones((N, HORIZON, 1)), np.ones(1), doubt)
        totals.append(loss_deviation(forecast, actions, linear_loss, linear_loss(actions, observations), np.ones(3)))
    np.testing.assert_allclose(totals[0], 2 * 3)
    np.testing.assert_allclose(totals[1], 2 * sqrt(3))


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("step", [0, 50, 10_000])
def test_strategy_costs_are_loss_plus_caution_minus_curiosity(name, step, forecast, actions):
    chosen, record = strategy(name), Record([5.0, 7.0])
    values = linear_loss(actions, forecast.observations)
    expected = (values * WEIGHTS).sum(axis=1)
    expected += chosen.caution.value(step) * loss_deviation(forecast, actions, linear_loss, values, WEIGHTS)
    expected -= chosen.curiosity.value(step) * 6.0 * forecast.information  # the level of the losses is 6
    found = chosen.costs(forecast, actions, linear_loss, WEIGHTS, step, record)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_record_level_and_regret_by_hand():
    record = Record()
    assert (record.level, record.regret) == (1.0, 0.0)
    for loss in [1.0] * 25 + [4.0] * 50 + [8.0] * 25:  # the first 25 settle
        record.append(loss)
    assert record.level == pytest.approx((25 * 4 + 25 * 8) / 50)
    assert record.best == 4.0
    assert record.regret == pytest.approx((6 - 4) / record.level)
    record.append(float("nan"))
    assert record.level == pytest.approx(6.0)


def test_record_knows_no_regret_before_it_has_settled():
    record = Record(best=1.0)
    for _ in range(74):
        record.append(2.0)
    assert record.regret == 0.0
    record.append(2.0)
    assert record.regret == pytest.approx(0.5)


def test_record_concedes_half_of_its_regret_until_it_does_better():
    record = Record(np.full(75, 8.0), best=4.0)
    record.concede()
    assert (record.best, record.regret) == (6.0, 0.25)
    for _ in range(50):
        record.append(5.0)
    assert record.best == 5.0


def test_record_concedes_nothing_before_it_has_settled():
    record = Record(np.full(30, 8.0))
    record.concede()
    assert record.best == float("inf")


def test_record_goes_on_from_what_it_held():
    losses = np.random.default_rng(3).uniform(1, 2, 200)
    whole, first = Record(), Record()
    for loss in losses:
        whole.append(loss)
    for loss in losses[:90]:
        first.append(loss)
    second = Record(first.losses, first.best)
    for loss in losses[90:]:
        second.append(loss)
    assert (second.level, second.regret, second.best) == (whole.level, whole.regret, whole.best)


def test_strategies_are_what_their_names_say():
    signs = {name: (np.sign(s.caution.value(0)), np.sign(s.curiosity.value(0))) for name, s in STRATEGIES.items()}
    assert signs["greedy"] == signs["thompson"] == (0, 0)
    assert signs["optimistic"] == (-1, 0)
    assert signs["pessimistic"] == signs["default"] == (1, 0)
    assert signs["curious"] == (1, 1)
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
    greedy = Strategy().costs(forecast, actions, linear_loss, WEIGHTS, 0, Record())
    assert (mixed.costs(forecast, actions, linear_loss, WEIGHTS, 0, Record()) != greedy).all()


def test_strategy_raises_on_unknown_name_with_the_nearest():
    with pytest.raises(ValueError, match=r"sampling: strategy must be one of .*, got 'tomson'; did you mean 'thompson"):
        strategy("tomson")
