"""The description of a process: positions, costs and roles by hand, and what limits do to the plans of an agent."""

from math import inf, nan

import gymnasium as gym
import numpy as np
import pytest

from agents.mpc import MPCAgent
from habnn_control.control.plant import Actuators, Bounds, Limit, Plant

BOUNDS = Bounds.of([0.0, -5.0, -inf, 0.0], [10.0, 5.0, inf, 1.0], [-1.0, -1.0], [1.0, 1.0])


def last_entry(actions, observations):
    return observations[..., -1]


# ---------------------------------------------------------------------- bounds and actuators


def test_bounds_are_vectors_of_float64_with_the_lengths_of_the_spaces():
    bounds = Bounds.of([0, 1, 2], np.ones(3, dtype=np.float32), (-1, -1), [1, 1])
    assert (bounds.n_observed, bounds.n_actions) == (3, 2)
    assert all(isinstance(part, np.ndarray) and part.dtype == np.float64 for part in bounds)
    np.testing.assert_array_equal(bounds.low, [0.0, 1.0, 2.0])


def test_positions_vs_a_loop():
    """Step by step in plain Python, one actuator reversed; long enough to meet both ends of each range."""
    actuators = Actuators((2, 0, 1), (3.0, -0.7, 0.01))
    rng = np.random.default_rng(0)
    start, low, high = np.array([1.0, 0.5, 0.0]), np.array([-4.0, 0.0, -0.02]), np.array([4.0, 1.0, 0.02])
    actions = np.clip(rng.uniform(-1, 1, (20, 1, 3)) + rng.uniform(-1, 1, (20, 30, 3)), -1, 1)
    given = start.copy()
    found = actuators.positions(start, actions, low, high)
    for n in range(20):
        for j, step in enumerate((3.0, -0.7, 0.01)):
            here = float(start[j])
            for k in range(30):
                here = min(max(here + step * float(actions[n, k, j]), float(low[j])), float(high[j]))
                assert found[n, k, j] == here
    for end in (low, high):
        assert (found == end).any(axis=(0, 1)).all()
    np.testing.assert_array_equal(start, given)


def test_positions_of_a_reversed_actuator_mirror_those_of_a_plain_one():
    actions = np.random.default_rng(1).uniform(-1, 1, (5, 8, 1))
    plain, against = (
        Actuators((0,), (step,)).positions(np.zeros(1), actions, -np.ones(1), np.ones(1)) for step in (0.4, -0.4)
    )
    np.testing.assert_array_equal(against, -plain)


def test_actuators_sweep_a_quarter_of_their_range_unless_told():
    assert Actuators([0, 2], [1, -2]) == Actuators((0, 2), (1.0, -2.0), (0.25, 0.25))
    assert Actuators((0, 2), (1.0, -2.0), [0.1, 0.5]).sweep == (0.1, 0.5)


@pytest.mark.parametrize("bad", [(1.0,), (1.0, 2.0, 3.0), (1.0, 0.0), (1.0, nan), (1.0, inf)])
def test_actuators_raise_on_bad_steps(bad):
    with pytest.raises(
        ValueError, match=r"Plant: actuators\.steps must be finite, not zero and one per entry of \(0, 2\)"
    ):
        Actuators((0, 2), bad)


@pytest.mark.parametrize("bad", [(0.2, 0.2), (0.2, 0.2, 0.6), (0.0,) * 3, (-0.1,) * 3, (0.6,) * 3, (nan,) * 3])
def test_actuators_raise_on_a_sweep_beyond_the_range(bad):
    with pytest.raises(
        ValueError, match=r"Plant: actuators\.sweep must be in \(0, 0\.5\] and one per entry of \(0, 1, 2"
    ):
        Actuators((0, 1, 2), (1.0, 1.0, 1.0), bad)


@pytest.mark.parametrize("bad", [(0.0, 1.0), ("a", "b"), None, (None, 1)])
def test_actuators_raise_on_entries_that_are_no_whole_numbers(bad):
    with pytest.raises(TypeError, match=r"Plant: actuators\.entries must be whole numbers, got"):
        Actuators(bad, (1.0, 1.0))


@pytest.mark.parametrize("bad", [(1, 1), (-1, 0)])
def test_actuators_raise_on_entries_that_repeat_or_are_negative(bad):
    with pytest.raises(ValueError, match=r"Plant: actuators\.entries must be distinct and not negative, got"):
        Actuators(bad, (1.0, 1.0))


# ---------------------------------------------------------------------- limits and costs


def test_limit_cost_by_hand():
    observations = np.array([[-3.0, 9.0], [-1.0, 9.0], [0.5, 9.0], [2.0, 9.0], [2.5, 9.0]])
    np.testing.assert_array_equal(Limit(0, 10.0, -1.0, 2.0).cost(observations), [20.0, 0.0, 0.0, 0.0, 5.0])
    np.testing.assert_array_equal(Limit(0, 10.0, high=0.0).cost(observations), [0.0, 0.0, 5.0, 20.0, 25.0])
    np.testing.assert_array_equal(Limit(0, 10.0, low=0.0).cost(observations), [30.0, 10.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("price", [0.0, -1.0, inf, nan])
def test_limit_raises_on_a_price_that_is_not_positive_and_finite(price):
    with pytest.raises(ValueError, match="Plant: a limit must have a positive, finite price and low < high, got Limit"):
        Limit(0, price, high=1.0)


@pytest.mark.parametrize("ends", [(1.0, 1.0), (2.0, 1.0), (nan, 1.0), (0.0, nan)])
def test_limit_raises_unless_low_is_below_high(ends):
    with pytest.raises(ValueError, match="Plant: a limit must have a positive, finite price and low < high, got Limit"):
        Limit(0, 1.0, *ends)


def test_limit_raises_on_a_bad_entry():
    with pytest.raises(ValueError, match=r"Plant: limits\.entry must be distinct and not negative, got \(-1,\)"):
        Limit(-1, 1.0)
    with pytest.raises(TypeError, match=r"Plant: limits\.entry must be whole numbers, got \[0\.5\]"):
        Limit(0.5, 1.0)


def test_plant_cost_is_the_loss_plus_the_price_of_limits_by_hand():
    """One plan of two steps; entry 0 may reach 3 for 10 per unit, entry 1 must not fall below 0 for 2 per unit."""
    plant = Plant(lambda a, o: o[..., 0] + a[..., 0] ** 2, limits=[Limit(0, 10.0, high=3.0), Limit(1, 2.0, low=0.0)])
    actions = np.array([[[2.0], [1.0]]])
    observations = np.array([[[3.5, 1.0], [1.0, -4.0]]])
    np.testing.assert_array_equal(plant.cost(actions, observations), [[3.5 + 4.0 + 5.0, 1.0 + 1.0 + 8.0]])
    np.testing.assert_array_equal(plant.loss(actions, observations), [[7.5, 2.0]])  # the loss itself knows no limits


def test_plant_cost_without_limits_is_the_loss():
    observations = np.random.default_rng(0).normal(size=(3, 4, 2))
    np.testing.assert_array_equal(Plant(last_entry).cost(np.zeros((3, 4, 1)), observations), observations[..., -1])


# ---------------------------------------------------------------------- roles


def test_plant_outputs_are_the_entries_without_another_role():
    plant = Plant(last_entry, actuators=Actuators((4, 1), (1.0, 1.0)), exogenous=[3, 0], ignored=range(6, 8))
    assert plant.actuated == (4, 1)  # in the order of the actions
    assert plant.exogenous == (0, 3)
    assert plant.outputs(8) == (2, 5)
    assert Plant(last_entry).outputs(3) == (0, 1, 2)


def test_plant_labels_are_the_columns_or_all_entries():
    assert Plant(last_entry).labels(3) == {"entry_0": 0, "entry_1": 1, "entry_2": 2}
    labels = Plant(last_entry, columns={"speed": 2, "load": 0}).labels(3)
    assert list(labels.items()) == [("speed", 2), ("load", 0)]


def test_plant_keeps_copies_of_what_it_is_given():
    exogenous, columns = [1], {"speed": 0}
    plant = Plant(last_entry, exogenous=exogenous, columns=columns)
    exogenous.append(2)
    columns["load"] = 1
    assert (plant.exogenous, plant.columns) == ((1,), {"speed": 0})


@pytest.mark.parametrize("bad", [None, 3.0])
def test_plant_raises_on_a_loss_that_is_no_function(bad):
    with pytest.raises(TypeError, match=r"Plant: loss must be a function, got .*; pass loss\(actions, observations\)"):
        Plant(bad)


@pytest.mark.parametrize("name", ["exogenous", "ignored"])
def test_plant_raises_on_bad_entries(name):
    with pytest.raises(TypeError, match=f"Plant: {name} must be whole numbers, got"):
        Plant(last_entry, **{name: (0.5,)})
    with pytest.raises(TypeError, match=f"Plant: {name} must be whole numbers, got 1"):
        Plant(last_entry, **{name: 1})
    for bad in ((-1,), (2, 2)):
        with pytest.raises(ValueError, match=f"Plant: {name} must be distinct and not negative, got"):
            Plant(last_entry, **{name: bad})


def test_plant_raises_on_bad_columns():
    with pytest.raises(TypeError, match="Plant: columns must be whole numbers, got"):
        Plant(last_entry, columns={"speed": "0"})
    with pytest.raises(ValueError, match="Plant: columns must be distinct and not negative, got"):
        Plant(last_entry, columns={"speed": 0, "load": 0})


@pytest.mark.parametrize("bad", [[(0, 1.0)], [None], Limit(0, 1.0, high=1.0)])
def test_plant_raises_on_limits_that_are_no_limits(bad):
    with pytest.raises(TypeError, match=r"Plant: limits must be a sequence of Limit, got .*; pass \[Limit\("):
        Plant(last_entry, limits=bad)


@pytest.mark.parametrize("bad", [((0,), (1.0,)), 1, Actuators])
def test_plant_raises_on_actuators_that_are_no_actuators(bad):
    with pytest.raises(TypeError, match=r"Plant: actuators must be an Actuators or None, got .*; pass Actuators\("):
        Plant(last_entry, actuators=bad)


@pytest.mark.parametrize(
    "roles",
    [
        {"actuators": Actuators((0,), (1.0,)), "exogenous": (0,)},
        {"actuators": Actuators((0,), (1.0,)), "ignored": (0,)},
        {"exogenous": (1, 2), "ignored": (2, 3)},
    ],
)
def test_plant_raises_on_entries_with_two_roles(roles):
    with pytest.raises(ValueError, match="Plant: actuators, exogenous and ignored must not share entries, got"):
        Plant(last_entry, **roles)


@pytest.mark.parametrize(
    "beyond",
    [
        {"actuators": Actuators((0, 4), (1.0, 1.0))},
        {"exogenous": (4,)},
        {"ignored": (4,)},
        {"limits": (Limit(4, 1.0, high=1.0),)},
        {"columns": {"speed": 4}},
    ],
)
def test_check_raises_on_entries_beyond_the_observation(beyond):
    with pytest.raises(ValueError, match="Plant: entries must be below 4, the length of an observation, got 4"):
        Plant(last_entry, **beyond).check(BOUNDS)


def test_check_raises_if_nothing_is_left_to_predict():
    with pytest.raises(ValueError, match="Plant: at least one entry must be left to predict, got roles for all"):
        Plant(last_entry, exogenous=(0, 1), ignored=(2, 3)).check(BOUNDS)


def test_check_raises_unless_there_is_one_actuator_per_action():
    with pytest.raises(ValueError, match="Plant: actuators must be one per action, 2, got 1; give all of them"):
        Plant(last_entry, actuators=Actuators((0,), (1.0,))).check(BOUNDS)


def test_check_raises_on_actuators_without_bounds():
    with pytest.raises(ValueError, match="Plant: actuators must have finite bounds in the observation space, got"):
        Plant(last_entry, actuators=Actuators((0, 2), (1.0, 1.0))).check(BOUNDS)


def test_check_accepts_what_fits():
    Plant(last_entry).check(BOUNDS)
    actuators = Actuators((3, 0), (0.1, -1.0))
    Plant(last_entry, actuators=actuators, exogenous=(1,), limits=[Limit(2, 1.0, high=3.0)]).check(BOUNDS)


# ---------------------------------------------------------------------- what follows a plan

SEQUENCES = np.array([[[0.2], [0.6]], [[0.9], [0.4]]])


@pytest.mark.parametrize(
    ("low", "actuators", "rest", "expected"),
    [
        (-1.0, None, None, [0.0, 0.0]),  # the action may be a move or a force
        (0.0, None, None, [0.6, 0.4]),  # a valve: 0 would shut it
        (0.0, Actuators((0,), (1.0,)), None, [0.0, 0.0]),  # a known actuator stays where it is
        (0.0, None, [0.5], [0.5, 0.5]),
    ],
)
def test_plans_go_on_with_the_action_that_keeps_a_plant_as_it_is(low, actuators, rest, expected):
    bounds = Bounds.of([0.0, 0.0], [1.0, 1.0], [low], [1.0])
    plant = Plant(last_entry, actuators=actuators, rest=rest)
    plant.check(bounds)
    whole = plant.continued(SEQUENCES, 3, bounds)
    np.testing.assert_array_equal(whole[:, :2], SEQUENCES)
    np.testing.assert_array_equal(whole[:, 2:, 0], np.repeat(np.array(expected)[:, None], 3, axis=1))


@pytest.mark.parametrize("rest", [[2.0], [0.1, 0.1], [float("nan")]])
def test_check_raises_on_a_rest_that_is_no_action(rest):
    bounds = Bounds.of([0.0, 0.0], [1.0, 1.0], [0.0], [1.0])
    with pytest.raises(ValueError, match="Plant: rest must be an action between"):
        Plant(last_entry, rest=rest).check(bounds)


# ---------------------------------------------------------------------- limits in plans


class Tank(gym.Env):
    """A valve and a level that follows it slowly: level' = 0.7 level + 0.3 valve."""

    observation_space = gym.spaces.Box(-5.0, 5.0, (2,))
    action_space = gym.spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        super().reset(seed=seed)
        self.state = np.zeros(2)
        return self.state.astype(np.float32), {}

    def step(self, action):
        valve = np.clip(self.state[0] + 0.5 * action[0], -5.0, 5.0)
        self.state = np.array([valve, 0.7 * self.state[1] + 0.3 * valve])
        return self.state.astype(np.float32), -abs(self.state[1] - 3.0), False, False, {}


def distance_to_three(actions, observations):
    return np.abs(observations[..., 1] - 3.0)


def levels(limits):
    """Return the levels that a plan from the start expects after learning, and the levels on the way there."""
    plant = Plant(distance_to_three, actuators=Actuators((0,), (0.5,)), limits=limits)
    settings = {
        "model": {"history": 6, "target": "absolute", "network": {"hidden": ()}},
        "planner": {"n_candidates": 60, "n_iterations": 3},
        "exploration": {"risk": 0.0, "excitation": {"length": 24, "budget": 0.0, "recovers": False}},
    }
    agent, seen = MPCAgent(Tank(), plant=plant, horizon=12, hold=4, **settings), []
    agent.learn(60, callback=lambda step: seen.append(step.next_observation[1]))
    _, state = agent.predict(np.zeros(2, dtype=np.float32))
    forecast = agent.model.forecast(state.memory, state.plan.actions[None])
    return forecast.observations[0, :, 1], np.array(seen[24:])


def test_limits_keep_plans_and_plant_below_them():
    """The loss draws the level to 3; with an upper limit of 1 it goes as far as that, and no farther."""
    planned, reached = levels(())
    assert planned[-1] > 2.5
    assert reached[-10:].min() > 2.5
    planned, reached = levels([Limit(1, 50.0, high=1.0)])
    assert planned[-1] > 0.7
    assert planned.max() < 1.05
    assert reached[-10:].min() > 0.7
    assert reached[12:].max() < 1.1
