"""PI, constant and extremum seeking on plants whose answer is known."""

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents.motion import Motion
from habnn_control.control.plant import Actuators, Plant
from tiny_agents import PointMass, Seeded, benchmark, steps_of


class Bowl(gym.Env):
    """A static loss with its minimum at (70, 30), one step after the move; positions are observed."""

    observation_space = gym.spaces.Box(np.zeros(3), np.array([100.0, 100.0, 1e4]), dtype=np.float64)
    action_space = gym.spaces.Box(-5.0, 5.0, (2,))

    def __init__(self, known=True):
        actuators = Actuators([0, 1], [1.0, -1.0]) if known else None  # the second one moves against its action
        self.plant = Plant(lambda _, observations: observations[..., 2], actuators)

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        super().reset(seed=seed)
        self.positions = np.array([50.0, 50.0])
        return self._observation(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.positions = np.clip(self.positions + np.array([1.0, -1.0]) * action, 0.0, 100.0)
        observation = self._observation()
        return observation, -observation[2], False, False, {"loss": observation[2]}

    def _observation(self):
        distance = np.sum((self.positions - [70.0, 30.0]) ** 2)
        return np.array([*self.positions, distance + self.np_random.standard_normal() ** 2])


def test_extremum_seeking_finds_the_minimum_of_a_bowl():
    """In the median over three plants: with noise it keeps wandering, and leaves the minimum now and then."""
    steps = [
        step
        for seed in range(3)
        for step in steps_of(agents.make("extremum-seeking", Seeded(Bowl(), seed), delay=0.0, rate=0.02), 1500)[-500:]
    ]
    np.testing.assert_allclose(np.median([step.next_observation[:2] for step in steps], axis=0), [70.0, 30.0], atol=6.0)
    assert np.median([step.info["loss"] for step in steps]) < 0.2 * 800.0  # the loss where it starts


def test_extremum_seeking_without_a_rate_only_dithers():
    steps = steps_of(agents.make("extremum-seeking", Bowl(), rate=0.0, amplitude=0.04), 400)
    positions = np.array([step.next_observation[:2] for step in steps])
    np.testing.assert_allclose(positions.mean(axis=0), 50.0, atol=0.5)
    np.testing.assert_allclose(np.abs(positions - 50.0).max(axis=0), 4.0, atol=0.2)
    assert abs(np.corrcoef(positions.T)[0, 1]) < 0.2  # the dithers do not look like each other


def test_extremum_seeking_predicts_its_centre_without_dither():
    agent = agents.make("extremum-seeking", Bowl(), rate=0.0)
    agent.learn(10)
    np.testing.assert_array_equal(agent.predict(np.array([50.0, 50.0, 1.0]))[0], 0.0)
    np.testing.assert_allclose(agent.predict(np.array([48.0, 48.0, 1.0]))[0], [2.0, -2.0])


@pytest.mark.parametrize("bad", [{"amplitude": 0.7}, {"period": 1.0}, {"rate": np.nan}, {"delay": 30.0}])
def test_extremum_seeking_raises_on_bad_settings(bad):
    with pytest.raises(ValueError, match=r"extremum-seeking: amplitude must be in \(0, 0.5\], period above 2"):
        agents.make("extremum-seeking", Bowl(), **bad)


def test_pi_brings_positions_to_their_targets():
    """The positions are measured themselves: an integral of one reaches the target as fast as the actuator can."""
    loops = [{"measured": k, "gain": 0.0, "integral": 1.0, "target": 20.0 + 40.0 * k} for k in range(2)]
    steps = steps_of(agents.make("pi", Bowl(), loops=loops), 12)
    np.testing.assert_allclose(steps[0].next_observation[:2], [45.0, 55.0])  # five per step
    np.testing.assert_allclose(steps[-1].next_observation[:2], [20.0, 60.0])


def test_pi_moves_by_the_velocity_form():
    """Without known actuators the action is the position: gain * change of the error + integral * error, summed."""
    loop = {"measured": 0, "gain": 0.5, "integral": 0.1, "target": 1.0, "target_entry": 1}
    agent = agents.make("pi", PointMass(), loops=[loop])
    rows, state, position, before = [[0.5, 0.0], [0.7, 0.0], [0.9, 0.3]], None, 0.0, None
    for row in rows:
        error = 1.0 + row[1] - row[0]
        position += 0.5 * (error - (error if before is None else before)) + 0.1 * error
        before = error
        action, state = agent.predict(np.array(row, np.float32), state)
        np.testing.assert_allclose(action, [position], rtol=1e-5)


def test_pi_raises_on_loops_that_do_not_fit():
    with pytest.raises(ValueError, match="pi: loops must be given for an environment other than TwoTanks-v0"):
        agents.make("pi", benchmark())
    loop = {"measured": 0, "gain": 1.0, "integral": 0.1}
    with pytest.raises(ValueError, match="pi: loops must be one per action, 2, with entries below 3"):
        agents.make("pi", Bowl(), loops=[loop])
    with pytest.raises(ValueError, match="pi: loops must be one per action, 2, with entries below 3"):
        agents.make("pi", Bowl(), loops=[loop, {**loop, "measured": 3}])
    with pytest.raises(ValueError, match=r"pi: loop must be one of .* got 'gian'; did you mean 'gain'"):
        agents.make("pi", Bowl(), loops=[loop, {**loop, "gian": 3}])
    with pytest.raises(ValueError, match="pi: loops must have finite gains"):
        agents.make("pi", Bowl(), loops=[loop, {**loop, "gain": np.nan}])


def test_constant_drives_to_its_position_and_stays():
    steps = steps_of(agents.make("constant", Bowl(), position=(62.0, 41.0)), 5)
    np.testing.assert_allclose(steps[-1].next_observation[:2], [62.0, 41.0], atol=1e-5)
    np.testing.assert_array_equal(steps[-1].action, 0.0)


def test_constant_raises_on_what_it_cannot_search_or_hold():
    with pytest.raises(ValueError, match="constant: env must be registered to be copied for the search"):
        agents.make("constant", Bowl()).learn(1)
    with pytest.raises(ValueError, match=r"constant: position must be between .* got \(120.0, 0.0\)"):
        agents.make("constant", Bowl(), position=(120.0, 0.0))
    with pytest.raises(ValueError, match="constant: points must be a whole number of at least 1, got 0"):
        agents.make("constant", Bowl(), points=0)


def test_motion_raises_on_discrete_actions():
    with pytest.raises(ValueError, match="someone: env must have a flat, bounded Box of actions"):
        Motion("someone", gym.make("CartPole-v1"))
