"""LossMonitor: standard normal for a model that is right, large for a plant that is worse than predicted."""

import numpy as np
import pytest

from habnn_control.control.model import StepPrediction
from habnn_control.control.monitor import LossMonitor, predicted_loss
from habnn_control.control.plant import Plant


def test_monitor_before_the_first_loss():
    assert (LossMonitor().level, LossMonitor().surprise) == (1.0, 0.0)


def test_monitor_surprise_is_standard_normal_for_a_model_that_is_right_vs_monte_carlo():
    rng, seen = np.random.default_rng(0), []
    for _ in range(400):
        monitor = LossMonitor()
        for error in rng.standard_normal(150):
            monitor.append(10.0 + 2.0 * error, 10.0, 2.0, 10.0)
        seen.append(monitor.surprise)
    assert abs(np.mean(seen)) < 5 / np.sqrt(400)
    assert abs(np.std(seen) - 1) < 5 / np.sqrt(2 * 400)


def test_monitor_notices_losses_two_deviations_too_high_within_twenty_steps():
    monitor = LossMonitor()
    for _ in range(20):
        monitor.append(14.0, 10.0, 2.0, 10.0)
    assert monitor.surprise > 4.5


@pytest.mark.parametrize("loss", [1e4, 1e100, float("inf"), float("nan")])
def test_monitor_is_not_alarmed_by_a_single_bad_reading(loss):
    monitor = LossMonitor(10.0)
    monitor.append(loss, 10.0, 2.0, 10.0)
    assert monitor.surprise < 1.5
    for _ in range(50):
        monitor.append(10.0, 10.0, 2.0, 10.0)
    assert abs(monitor.surprise) < 0.2


def test_monitor_surprise_does_not_depend_on_unit_and_origin_of_the_loss():
    plain, other = LossMonitor(), LossMonitor()
    for loss in np.random.default_rng(1).normal(10.0, 3.0, 60):
        plain.append(loss, 8.0, 3.0, 8.0)
        other.append(100 * loss - 5000, 100 * 8.0 - 5000, 100 * 3.0, 100 * 8.0 - 5000)
    assert other.surprise == pytest.approx(plain.surprise)


def test_monitor_level_follows_the_magnitude_of_the_losses():
    monitor = LossMonitor()
    for _ in range(200):
        monitor.append(-6.0, -6.0, 1.0, -6.0)
    assert monitor.level == pytest.approx(6.0)


def test_monitor_forgets_and_continues_from_its_state():
    monitor = LossMonitor()
    for _ in range(5):
        monitor.append(12.0, 10.0, 2.0, 10.0)
    copy = LossMonitor(**monitor.get_state())
    assert (copy.level, copy.surprise, copy.regret) == (monitor.level, monitor.surprise, monitor.regret)
    assert copy.regret > 0
    copy.forget()
    assert copy.surprise == 0.0


def test_monitor_regret_adds_up_what_a_change_of_the_plant_costs():
    """Predictions follow the change at once, the plant as it was does not: 6 more per step, half a deviation free."""
    monitor = LossMonitor()
    for _ in range(30):
        monitor.append(16.0, 16.0, 2.0, 10.0)
    assert monitor.regret == pytest.approx(30 * (6.0 - 0.5 * 2.0))
    assert monitor.surprise == 0.0


def test_monitor_regret_stays_small_for_a_plant_that_is_as_it_was_vs_monte_carlo():
    """Reflected random walk with drift -1/2 and unit steps: its stationary mean is about 1 (1 / (2 * drift))."""
    rng, monitor, seen = np.random.default_rng(2), LossMonitor(), []
    for error in rng.standard_normal(20000):
        monitor.append(10.0 + 2.0 * error, 10.0, 2.0, 10.0)
        seen.append(monitor.regret / 2.0)
    assert 0.4 < np.mean(seen) < 1.0  # below the mean of the continuous walk, 1 / (2 * 0.5)


def test_monitor_regret_is_lived_down():
    monitor = LossMonitor(10.0, 0.0, 5.0)
    for _ in range(5):
        monitor.append(10.0, 10.0, 2.0, 10.0)
    assert monitor.regret == 0.0


def test_predicted_loss_of_a_linear_loss_vs_its_formula():
    plant = Plant(lambda _, observations: observations[..., 1] + 3.0 * observations[..., 2])
    centre, half = np.array([10.0, 20.0]), np.array([1.645, 3.29])  # standard deviations of 1 and 2
    prediction = StepPrediction(np.array([1, 2]), centre, centre - half, centre + half)
    mean, deviation = predicted_loss(plant, prediction, np.zeros(1), np.array([5.0, 0.0, 0.0]))
    assert mean == pytest.approx(70.0)
    assert deviation == pytest.approx(np.hypot(1.0, 3.0 * 2.0))


def test_monitor_regrets_a_change_until_it_is_made_up_for_or_ends():
    monitor = LossMonitor()
    for _ in range(40):  # losses as predicted, though above those of some plant of before: no change, no regret
        monitor.append(10.0, 10.0, 2.0, 5.0)
        assert not monitor.notices_change(4.5)
        assert monitor.regret == 0.0
    found = 0
    for _ in range(40):
        monitor.append(20.0, 10.0, 2.0, 10.0)
        found += monitor.notices_change(4.5)
    assert found
    assert monitor.changed
    assert monitor.regret > 100.0
    for _ in range(40):  # the model has learned the change for the worse, which goes on
        monitor.append(20.0, 20.0, 2.0, 10.0)
        monitor.notices_change(4.5)
    assert monitor.regret > 400.0
    found = [monitor.append(10.0, 20.0, 2.0, 10.0) or monitor.notices_change(4.5) for _ in range(20)]
    assert any(found)
    assert (monitor.changed, monitor.regret) == (False, 0.0)


def test_monitor_change_ends_when_the_losses_are_made_up_for():
    monitor = LossMonitor(regret=1.0, changed=True)
    monitor.append(10.0, 10.0, 2.0, 15.0)
    monitor.notices_change(4.5)
    assert (monitor.changed, monitor.regret) == (False, 0.0)


def test_monitor_toll_is_the_recent_loss_beyond_the_plant_as_it_was():
    monitor = LossMonitor()
    for _ in range(100):
        monitor.append(16.0, 16.0, 2.0, 10.0)
    assert monitor.toll == pytest.approx(6.0, rel=1e-3)


def test_monitor_settles():
    monitor = LossMonitor(10.0, 3.0, 100.0, True, 5.0)
    monitor.settle()
    assert (monitor.regret, monitor.changed, monitor.surprise, monitor.level) == (0.0, False, 0.0, 10.0)
