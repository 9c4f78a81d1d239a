"""Between the stream of a plant and the numbers that a regressor sees: history, scaling and targets by hand."""

from math import inf

import numpy as np
import pytest

from habnn_control.control.encoder import TARGETS, Encoder, window_ages, windows
from habnn_control.control.plant import Actuators, Bounds, Plant
from habnn_control.control.transform import Transform, scaling
from linear_plant import BOUNDS, CERTAIN, PLANT, UNKNOWN, black_box, output_loss

POSITIONS, OUTPUTS, LOAD = [5.0, 7.0, 9.0, 10.0, 8.0], [1.0, 4.0, -2.0, 6.0, 3.0], 80.0
ACTIONS = [1.0, 1.0, 1.0, -1.0]
STREAM = [np.array([LOAD, p, v]) for p, v in zip(POSITIONS, OUTPUTS, strict=True)]


def along_the_stream(encoder):
    """Return inputs, targets and the memory before each step."""
    memory, rows = encoder.first_memory(STREAM[0], encoder.empty_memory()), []
    for action, observation in zip(ACTIONS, STREAM[1:], strict=True):
        rows.append((encoder.next_inputs(memory, [action])[0], encoder.target(memory, observation), memory))
        memory = encoder.next_memory(memory, [action], observation)
    return rows


def test_encoder_inputs_and_targets_by_hand():
    """Positions and loads, oldest first with the next position last, in [-2, 2]; past outputs relative to the first."""
    targets = (np.array(OUTPUTS) - OUTPUTS[0]) / 20.0
    positions = 2.0 * (np.array([5.0, 5.0, *POSITIONS]) - 5.0) / 5.0
    past = [0.0, *targets]
    rows = along_the_stream(Encoder(PLANT, BOUNDS, 2, 2, "absolute"))
    for k, (x, y, _) in enumerate(rows):
        expected = [*positions[k + 1 : k + 4], *[2.0 * (LOAD - 50.0) / 50.0] * 3, past[k], past[k + 1]]
        np.testing.assert_allclose(x, expected, atol=1e-14)
        np.testing.assert_allclose(y, targets[k + 1], atol=1e-14)
    assert len(rows) == 4


def test_encoder_inputs_are_the_actions_where_positions_are_not_known_by_hand():
    """Two outputs now; actions before the first count as none."""
    outputs = np.array([[position / 5.0, value / 20.0] for position, value in zip(POSITIONS, OUTPUTS, strict=True)])
    targets, actions = outputs - outputs[0], [0.0, 0.0, *(2.0 * np.array(ACTIONS))]
    for k, (x, y, _) in enumerate(along_the_stream(Encoder(UNKNOWN, BOUNDS, 2, None, "absolute"))):
        before = targets[max(k - 1, 0)]
        expected = [*actions[k : k + 3], *[2.0 * (LOAD - 50.0) / 50.0] * 3, *before, *targets[k]]
        np.testing.assert_allclose(x, expected, atol=1e-14)
        np.testing.assert_allclose(y, targets[k + 1], atol=1e-14)


def test_encoder_target_delta_is_the_change():
    encoder = Encoder(PLANT, BOUNDS, 3, 1, "delta")
    memory, seen = encoder.first_memory([50.0, 5.0, 1.0], encoder.empty_memory()), []
    for value in (4.0, 2.0, 2.0):
        after = [50.0, 5.0, value]
        seen.append(encoder.target(memory, after)[0])
        memory = encoder.next_memory(memory, [0.0], after)
    np.testing.assert_allclose(seen, [3.0 / 20.0, -2.0 / 20.0, 0.0], atol=1e-15)


def test_encoder_target_log_is_the_logarithm_of_the_distance_from_the_lower_bound():
    """The distance from -20, with a tenth of that of the first observation added, relative to the same of the first."""
    for k, (_, y, _) in enumerate(along_the_stream(Encoder(PLANT, BOUNDS, 2, 2, "log"))):
        first = OUTPUTS[0] + 20.0
        np.testing.assert_allclose(y, np.log((OUTPUTS[k + 1] + 20.0 + 0.1 * first) / (1.1 * first)), atol=1e-14)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("plant", [PLANT, UNKNOWN], ids=["known", "unknown"])
def test_encoder_next_values_are_the_inverse_of_target(target, plant):
    encoder = Encoder(plant, BOUNDS, 2, 2, target)
    for k, (_, y, memory) in enumerate(along_the_stream(encoder)):
        np.testing.assert_allclose(encoder.next_values(memory, y), STREAM[k + 1][encoder.outputs], rtol=1e-12)


@pytest.mark.parametrize("target", TARGETS)
def test_encoder_values_and_slopes_vs_differences(target):
    """Scaled outputs come from the targets, accumulated; slopes are central differences of the values."""
    encoder = Encoder(PLANT, BOUNDS, 2, 2, target)
    for k, (_, y, memory) in enumerate(along_the_stream(encoder)):
        outputs = encoder.accumulated(y[None], memory.past[None])
        np.testing.assert_allclose(encoder.values(memory, outputs), OUTPUTS[k + 1], rtol=1e-12)
        ends = [encoder.values(memory, outputs + shift) for shift in (1e-6, -1e-6)]
        np.testing.assert_allclose(encoder.slopes(memory, outputs), (ends[0] - ends[1]) / 2e-6, rtol=1e-8)


def test_encoder_memory_keeps_its_origin_over_episodes():
    encoder = Encoder(PLANT, BOUNDS, 2, 2, "absolute")
    first = encoder.first_memory([80.0, 5.0, 4.0], encoder.empty_memory())
    second = encoder.first_memory([60.0, 7.0, 6.0], first)
    np.testing.assert_array_equal(second.origin, first.origin)
    np.testing.assert_allclose(second.past, np.full((2, 1), 2.0 / 20.0))
    np.testing.assert_allclose(second.signals, np.tile([0.8, 0.4], (3, 1)))
    np.testing.assert_array_equal(second.observation, [60.0, 7.0, 6.0])


def test_encoder_never_changes_a_memory_in_place():
    encoder, observation = Encoder(PLANT, BOUNDS, 2, 2), STREAM[0].copy()
    memory = encoder.first_memory(observation, encoder.empty_memory())
    copies = [np.array(part) for part in memory]
    after = encoder.next_memory(memory, [1.0], observation)
    observation[:] = 9.0  # belongs to the caller
    for part, copy in zip(memory, copies, strict=True):
        np.testing.assert_array_equal(part, copy)
    np.testing.assert_array_equal(after.observation, STREAM[0])


def test_encoder_observations_are_whole_by_hand():
    """Exogenous and ignored entries are held, positions follow the actions, outputs are as predicted."""
    plant = Plant(output_loss, actuators=Actuators((2,), (-2.0,)), exogenous=(0,), ignored=(3,))
    bounds = Bounds.of(np.zeros(4), np.full(4, 10.0), [-1.0], [1.0])
    encoder = Encoder(plant, bounds, 1, 0, "absolute")
    memory = encoder.first_memory([4.0, 5.0, 3.0, 7.0], encoder.empty_memory())
    actuation = encoder.actuation(memory, np.array([[[1.0], [1.0], [-0.5]]]))
    whole = encoder.observations(memory, actuation, np.array([[[1.5], [2.5], [3.5]]]))
    np.testing.assert_array_equal(whole, [[[4.0, 1.5, 1.0, 7.0], [4.0, 2.5, 0.0, 7.0], [4.0, 3.5, 1.0, 7.0]]])


def test_encoder_histories_are_one_per_actuator_and_output():
    encoder = Encoder(UNKNOWN, BOUNDS, 2, 2, "absolute")
    signals, exogenous = encoder.histories()
    np.testing.assert_array_equal(signals[0], [0, 1, 2])  # the actions
    np.testing.assert_array_equal(signals[1:], [[6, 8], [7, 9]])  # past positions, past outputs
    np.testing.assert_array_equal(exogenous, [[3, 4, 5]])
    assert encoder.n_inputs == 10


def test_encoder_remembers_the_exogenous_entries_before_each_step():
    encoder = Encoder(PLANT, BOUNDS, 2, 0, "absolute")
    memory = encoder.first_memory([50.0, 5.0, 1.0], encoder.empty_memory())
    for load in (60.0, 70.0, 80.0):
        memory = encoder.next_memory(memory, [0.0], [load, 5.0, 1.0])
    np.testing.assert_allclose(memory.signals[:, 1], [0.0, 0.4, 0.8])  # 50, 60 and 70: known before the step
    np.testing.assert_allclose(encoder.next_inputs(memory, [0.0])[0, 3:], [0.4, 0.8, 1.2])


def test_window_ages_are_single_steps_at_first_and_reach_back_to_the_end():
    for history in (0, 1, 2, 3, 10, 16, 100):
        ages = window_ages(history)
        assert (ages[0], ages[-1]) == (history, 0)
        assert (np.diff(ages) < 0).all()
        assert (np.diff(ages[:0:-1]) >= 1).all()
    np.testing.assert_array_equal(window_ages(3), [3, 2, 1, 0])
    assert len(window_ages(100)) < 16


@pytest.mark.parametrize("history", [0, 3, 16])
def test_windows_average_what_lies_between_the_neighbouring_ages(history):
    ages = window_ages(history)
    found = windows(ages)
    np.testing.assert_allclose(found.sum(axis=0), 1.0)  # averages: a constant signal keeps its value
    age_of_row = np.arange(history + 1)[::-1]
    reached = found.T @ age_of_row  # the average age of a window
    np.testing.assert_allclose(reached[-4:], ages[-4:], atol=0.5)
    for column, (older, newer) in zip(found.T[1:-1], zip(ages[:-2], ages[2:], strict=True), strict=True):
        inside = (age_of_row < older) & (age_of_row > newer)
        np.testing.assert_array_equal(column > 0, inside)


def test_averages_along_plans_are_those_of_each_step_by_hand():
    """Averages of whole plans at once against the inputs of one step after the other."""
    encoder = Encoder(PLANT, BOUNDS, 16, 0, "absolute")
    rng = np.random.default_rng(0)
    memory = encoder.first_memory([50.0, 5.0, 1.0], encoder.empty_memory())
    for action in rng.uniform(-1, 1, 20):
        memory = encoder.next_memory(memory, [action], [rng.uniform(0, 100), rng.uniform(0, 10), 1.0])
    plans = rng.uniform(-1, 1, (3, 7, 1))
    found = encoder.averages(memory, encoder.actuation(memory, plans))
    for plan, averages in zip(plans, found, strict=True):
        here = memory
        for action, average in zip(plan, averages, strict=True):
            np.testing.assert_allclose(encoder.next_inputs(here, action)[0], average, atol=1e-12)
            reached = encoder.actuation(here, action[None, None])[0, 0, 0]
            here = encoder.next_memory(here, action, [here.observation[0], reached, 1.0])


@pytest.mark.parametrize(
    ("target", "past_outputs", "feeds_back"), [("absolute", 0, False), ("delta", 0, True), ("log", 1, True)]
)
def test_encoder_feeds_back_past_outputs_and_changes(target, past_outputs, feeds_back):
    assert Encoder(PLANT, BOUNDS, 2, past_outputs, target).feeds_back is feeds_back


def test_scaling_of_unbounded_entries_is_one():
    centre, half_range = scaling(np.array([-inf, 0.0, -inf]), np.array([inf, inf, 3.0]))
    np.testing.assert_array_equal(centre, np.zeros(3))
    np.testing.assert_array_equal(half_range, np.ones(3))


def test_unbounded_entries_are_predicted_without_scaling():
    """The same network: its step counts five times as much where the half range is 5."""
    steps = []
    for bound in (inf, 5.0):
        model = black_box(-bound, bound, network={**CERTAIN, "hidden": ()})
        model.begin([3.0])
        steps.append(model.predict([0.5]).mean - 3.0)
    np.testing.assert_allclose(steps[1], 5.0 * steps[0], rtol=1e-9)


def test_transform_log_mean_vs_lognormal_quadrature():
    """The expected value under Gaussian noise, by Gauss-Hermite quadrature of the exponential."""
    transform = Transform("log", np.array([-20.0]), np.array([20.0]))
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    origin = np.array([5.0])
    values = transform.inverse(2.5 + np.sqrt(0.3) * nodes[:, None], origin)[:, 0]
    expected = values @ weights / weights.sum()
    np.testing.assert_allclose(transform.inverse(np.array([2.5]), origin, 0.3), expected, rtol=1e-12)


def test_transform_softplus_mean_vs_quadrature():
    """The expected value under little Gaussian noise, by Gauss-Hermite quadrature; the curvature corrects it."""
    transform, origin = Transform("softplus", np.array([-20.0]), np.array([20.0])), np.array([5.0])
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    for output in (-2.0, 0.0, 1.5):
        values = transform.inverse(output + np.sqrt(0.02) * nodes[:, None], origin)[:, 0]
        expected, plain = values @ weights / weights.sum(), transform.inverse(np.array([output]), origin)[0]
        corrected = transform.inverse(np.array([output]), origin, 0.02)[0]
        assert abs(corrected - expected) < 0.02 * abs(plain - expected)


def test_transform_softplus_is_a_logarithm_below_and_linear_above():
    """Limit cases: near the bound equal steps multiply the distance, far above they add to it."""
    transform, origin = Transform("softplus", np.array([0.0]), np.array([1e6])), np.array([1.0])
    below = transform.inverse(np.array([-5.0, -6.0, -7.0])[:, None], origin)[:, 0] + 0.1  # the offset of all distances
    np.testing.assert_allclose(below[1] / below[0], below[2] / below[1], rtol=1e-2)
    above = transform.inverse(np.array([10.0, 20.0, 30.0])[:, None], origin)[:, 0]
    np.testing.assert_allclose(above[2] - above[1], above[1] - above[0], rtol=1e-5)


@pytest.mark.parametrize("kind", ["log", "softplus", "absolute"])
def test_transform_inverse_undoes_forward_and_slope_is_its_derivative(kind):
    transform, origin = Transform(kind, np.array([-3.0]), np.array([50.0])), np.array([4.0])
    values = np.linspace(-3.0, 50.0, 9)[:, None]
    outputs = transform.forward(values, origin)
    np.testing.assert_allclose(transform.inverse(outputs, origin), values, atol=1e-12)
    np.testing.assert_allclose(transform.forward(origin, origin), 0.0, atol=1e-15)
    ahead, behind = (transform.inverse(outputs + step, origin) for step in (1e-6, -1e-6))
    np.testing.assert_allclose(transform.slope(outputs, origin), (ahead - behind) / 2e-6, rtol=1e-6)


@pytest.mark.parametrize("kind", ["log", "softplus"])
def test_transform_does_not_depend_on_the_upper_bound_and_the_unit(kind):
    values, origin = np.array([7.0]), np.array([2.0])
    narrow = Transform(kind, np.array([0.0]), np.array([10.0])).forward(values, origin)
    wide = Transform(kind, np.array([0.0]), np.array([1000.0])).forward(values, origin)
    other = Transform(kind, np.array([0.0]), np.array([1000.0])).forward(60 * values, 60 * origin)
    np.testing.assert_allclose(wide, narrow, rtol=1e-12)
    np.testing.assert_allclose(other, narrow, rtol=1e-12)


def test_encoder_raises_on_unknown_target_with_the_nearest():
    with pytest.raises(ValueError, match=r"model: target must be one of .*, got 'lgo'; did you mean 'log'\?"):
        Encoder(PLANT, BOUNDS, target="lgo")


@pytest.mark.parametrize("bad", [{"history": -1}, {"past_outputs": -1}])
def test_encoder_raises_on_negative_history_or_past_outputs(bad):
    with pytest.raises(ValueError, match="model: history and past_outputs must not be negative, got"):
        Encoder(PLANT, BOUNDS, **bad)


def test_encoder_raises_on_log_without_a_lower_bound():
    with pytest.raises(ValueError, match="model: target 'log' must have a lower bound, got low ="):
        black_box(-inf, inf, target="log")


def test_encoder_raises_on_a_plant_that_does_not_fit_the_bounds():
    with pytest.raises(ValueError, match="Plant: entries must be below 3, the length of an observation, got 3"):
        Encoder(Plant(output_loss, exogenous=(3,)), BOUNDS)
