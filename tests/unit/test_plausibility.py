"""What one sensor's readings tell: faults are told from changes, and no doubt lasts for ever."""

import numpy as np
import pytest

from habnn_control.control.plausibility import ActuatorSensor, OutputSensor


def output(n=100, noise=1.0):
    """Return the sensor of an output around 50 that has been right for n readings."""
    sensor = OutputSensor()
    for error in noise * np.random.default_rng(1).standard_normal(n):
        assert sensor.judge(50.0 + error, error / noise, noise, at_bound=False) == "plausible"
    return sensor


def judged(sensor, readings, mean=50.0, deviation=1.0, at_bound=False):
    return [sensor.judge(float(r), (r - mean) / deviation, deviation, at_bound) for r in readings]


@pytest.mark.parametrize("size", [7.0, -7.0, 50.0, 1e9, -1e99])
def test_output_counts_little_once(size):
    assert judged(output(), [50 + size, 50.3, 49.8]) == ["implausible", "plausible", "plausible"]


def test_output_is_believed_when_a_change_lasts():
    assert judged(output(), [20.1, 19.4, 20.3, 18.9]) == ["implausible", "implausible", "plausible", "plausible"]


def test_output_that_is_dead_measures_nothing_until_it_lives_again():
    assert judged(output(), [0.0] * 25 + [50.2]) == ["implausible", *["constant"] * 24, "plausible"]


def test_output_at_a_bound_is_dead_if_it_jumped_there_and_at_rest_if_it_did_not():
    assert judged(output(), [0.0] * 10, at_bound=True)[1:] == ["constant"] * 9
    assert judged(output(), [50.0] * 10, at_bound=True) == ["plausible"] * 10


def test_output_that_is_stuck_is_found_within_five_readings():
    found = judged(output(), [50.4] * 25 + [50.5])
    assert found[-1] == "plausible"
    assert found[5:25] == ["constant"] * 20


def test_output_that_is_rounded_may_repeat():
    """Half of the readings equal the one before: five more say nothing."""
    sensor, rng = OutputSensor(), np.random.default_rng(2)
    readings = np.rint(50 + 0.6 * rng.standard_normal(200))
    assert set(judged(sensor, readings)) == {"plausible"}


def test_output_of_a_plant_that_settles_may_repeat():
    """Without noise the changes have become small before they are zero."""
    readings = np.float32(50 + 10 * 0.8 ** np.arange(200)).astype(float)
    sensor = OutputSensor()
    assert {sensor.judge(reading, 0.01, 0.5, False) for reading in readings} == {"plausible"}


def test_output_that_does_not_change_is_believed_in_the_end():
    found = judged(output(), [0.0] * 130)
    assert found[99] == "constant"
    assert found[-20:] == ["plausible"] * 20


def test_output_of_a_model_that_is_too_sure_is_not_doubted():
    """Its usual errors are the unit."""
    sensor, rng = OutputSensor(), np.random.default_rng(3)
    errors = 6 * rng.standard_normal(300)
    found = [sensor.judge(50 + error, error, 1.0, False) for error in errors]
    assert found.count("plausible") == 300


def test_output_is_not_judged_before_its_errors_are_known():
    assert judged(OutputSensor(), [1e6, 50.0, -1e6]) == ["plausible"] * 3


def position(at=50.0):
    return ActuatorSensor(commanded=at, own=at)


def moved(sensor, readings, moves, largest=10.0):
    found = []
    for reading, move in zip(readings, moves, strict=True):
        kind = sensor.judge(reading, move, largest, 0.0, 100.0)
        found.append((kind, sensor.commanded))
    return found


def test_position_that_follows_is_read():
    assert moved(position(), [55.0, 53.0, 53.0], [5.0, -2.0, 0.0]) == [
        ("plausible", 55.0),
        ("plausible", 53.0),
        ("plausible", 53.0),
    ]


def test_position_that_is_missing_moves_as_commanded():
    assert moved(position(), [None, None, 60.0], [5.0, 8.0, -3.0]) == [
        ("plausible", 55.0),
        ("plausible", 63.0),
        ("plausible", 60.0),
    ]


def test_position_of_a_dead_sensor_is_where_the_actions_lead():
    found = moved(position(), [0.0] * 25 + [50.0], [5.0, -5.0] * 13)
    assert [value for _, value in found] == [55.0, 50.0] * 13
    assert [kind for kind, _ in found[:3]] == ["jumped", "stuck", "stuck"]
    assert found[-1][0] == "plausible"


def test_position_that_does_not_follow_is_doubted_and_then_believed():
    """An actuator that stopped, or a stuck sensor: 50 steps at most are spent on the commanded position."""
    found = moved(position(), [50.0] * 60, [8.0, 8.0, *[0.1] * 58])
    assert found[1] == ("stuck", 66.0)
    assert found[40][1] > 66
    assert found[55] == ("plausible", 50.0)


def test_position_elsewhere_that_follows_is_believed():
    """Somebody moved the actuator by hand."""
    found = moved(position(), [10.0, 14.0, 18.0, 15.0], [4.0, 4.0, 4.0, -3.0])
    assert found == [("jumped", 54.0), ("jumped", 58.0), ("plausible", 18.0), ("plausible", 15.0)]


def test_position_with_a_little_noise_is_read():
    rng, sensor, at = np.random.default_rng(4), position(), 50.0
    for move in rng.uniform(-10, 10, 300):
        at = float(np.clip(at + move, 0, 100))
        reading = float(np.clip(at + 0.5 * rng.standard_normal(), 0, 100))
        assert sensor.judge(reading, float(move), 10.0, 0.0, 100.0) == "plausible"


def test_output_that_fails_again_at_once_is_found_again():
    """Readings of a dead sensor say nothing about the errors of the model."""
    found = judged(output(), [0.0] * 30 + [50.2, 49.1, 0.0, 0.0, 50.3])
    assert found[30:] == ["plausible", "plausible", "implausible", "constant", "plausible"]


def test_output_is_judged_from_the_first_step_of_a_later_episode():
    sensor = output()
    sensor.begin()
    assert judged(sensor, [80.0, 50.0]) == ["implausible", "plausible"]
