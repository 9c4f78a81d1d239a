"""Limits with a probability: against Monte Carlo on a linear plant, in closed loop, and with a fallback."""

import logging
from math import inf

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents.linear import LinearModel
from habnn_control.control.limits import UNACCEPTABLE, ChanceLimit, Limit, LimitMonitor, fallback_action
from habnn_control.control.model import DenseCovariance, Forecast
from habnn_control.control.plant import Actuators, Bounds, Plant
from tiny_agents import Seeded, steps_of

NOISE = 1.0
BOUNDS = Bounds.of([0.0, -30.0, -30.0], [20.0, 50.0, 50.0], [-1.0], [1.0])


class Line(gym.Env):
    """A valve of 0 to 20 that moves by 2, and two outputs that follow it at once, with noise; the loss wants more."""

    observation_space = gym.spaces.Box(BOUNDS.low, BOUNDS.high, dtype=np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        super().reset(seed=seed)
        self.valve = 5.0
        return self._observation(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.valve = float(np.clip(self.valve + 2.0 * action[0], 0.0, 20.0))
        observation = self._observation()
        return observation, observation[1], False, False, {"loss": -observation[1]}

    def _observation(self):
        noise = NOISE * self.np_random.standard_normal(2)
        return np.clip([self.valve, self.valve + noise[0], 10.0 - self.valve + noise[1]], BOUNDS.low, BOUNDS.high)


def wants_more(actions, observations):
    return -observations[..., 1]


def described(limits=(), **more):
    return Plant(wants_more, Actuators([0], [2.0]), limits=limits, **more)


SETTINGS = {
    "model": {"kind": "linear", "history": 1, "past_outputs": 0, "target": "absolute"},
    "planner": {"n_candidates": 40, "n_iterations": 3},
    "exploration": {"risk": 0.0, "excitation": {"length": 20, "budget": 0.0, "recovers": False}},
    "horizon": 6,
    "hold": 1,
}


def played(n, seed=3, limits=(), **more):
    agent = agents.make("mpc", Seeded(Line(), seed), plant=described(limits, **more), **SETTINGS)
    return agent, np.array([step.next_observation for step in steps_of(agent, n)])


def taught(n=30):
    """Return a linear model that has seen n steps of the line."""
    model, env = LinearModel(described(), BOUNDS, history=1, past_outputs=0), Line()
    model.begin(env.reset(seed=0)[0])
    for action in np.random.default_rng(0).uniform(-1, 1, (n, 1)).astype(np.float32):
        model.observe(action, env.step(action)[0])
    return model


def weighted(observations):
    return 0.5 * observations[..., 1] - 2.0 * observations[..., 2] + 0.1 * observations[..., 0]


# ---------------------------------------------------------------------- the mathematics


@pytest.mark.parametrize("entry", [1, 2, weighted])
@pytest.mark.parametrize("beside", [(-inf, 1.0), (-1.5, inf), (-1.0, 2.0)])  # bounds beside the mean of the plans
def test_chance_limit_probabilities_vs_monte_carlo(entry, beside):
    """Models drawn from the posterior, and noise around what they predict: the frequency of being outside."""
    model = taught(12)  # few enough for the uncertainty of the model to count
    sequences = np.random.default_rng(1).uniform(-1, 1, (3, 4, 1))
    forecast = model.forecast(model.memory, sequences)
    expected = entry(forecast.observations) if callable(entry) else forecast.observations[..., entry]
    ends = expected.mean() + np.array(beside)
    found = ChanceLimit(entry, 0.05, *ends).probabilities(forecast)
    rng, hits, n = np.random.default_rng(2), np.zeros(found.shape), 600
    for _ in range(n):
        drawn = model.draw(rng).forecast(model.memory, sequences)
        observations = drawn.observations.copy()
        observations[..., drawn.entries] += drawn.noise * rng.standard_normal(drawn.noise.shape)
        value = entry(observations) if callable(entry) else observations[..., entry]
        hits += (value < ends[0]) | (value > ends[1])
    error = 5 * np.sqrt(np.maximum(found * (1 - found), 1e-3) / n)
    assert (np.abs(hits / n - found) < error).all()
    assert found.max() > 0.05


def test_chance_limit_counts_the_uncertainty_of_the_model():
    """With as much epistemic variance as noise, the same mean passes the bound more often than by noise alone."""
    observations = np.zeros((1, 1, 3))
    probabilities = []
    for variance in (0.0, 1.0):
        forecast = Forecast(
            observations,
            np.array([1, 2]),
            np.ones((1, 1, 2)),
            np.ones(2),
            DenseCovariance(np.full((1, 2, 1, 1), variance)),
        )
        probabilities.append(ChanceLimit(1, 0.05, high=2.0).probabilities(forecast)[0, 0])
    assert probabilities == pytest.approx([0.0227501, 0.0786496], abs=1e-6)  # 1 - Phi(2), 1 - Phi(sqrt 2)


def test_chance_limit_on_what_is_known_is_certain():
    forecast = taught().forecast(taught().memory, np.ones((1, 10, 1)))
    positions = forecast.observations[0, :, 0]
    found = ChanceLimit(0, 0.05, high=15.0).probabilities(forecast)[0]
    np.testing.assert_array_equal(found, positions > 15.0)
    assert 0 < found.sum() < 10


def test_soft_limit_takes_a_function():
    observations = np.array([[1.0, 2.0, 3.0], [0.0, 9.0, 1.0]])
    np.testing.assert_allclose(Limit(weighted, 10.0, low=0.0).cost(observations), [49.0, 0.0])


def test_monitor_orders_plans_by_excess_above_all_acceptable_ones():
    model = taught()
    monitor = LimitMonitor("x", [ChanceLimit(1, 0.05, high=12.0)])
    plans = np.stack([np.full((6, 1), action) for action in (-1.0, 0.6, 1.0)])
    forecast = model.forecast(model.memory, plans)
    costs = monitor.charged(np.array([1e6, -50.0, -100.0]), forecast)
    assert costs[0] == 1e6
    assert UNACCEPTABLE <= costs[1] < costs[2]
    worst = np.maximum(ChanceLimit(1, 0.05, high=12.0).probabilities(forecast) - 0.05, 0.0).sum(axis=1)
    np.testing.assert_allclose(costs[1:], UNACCEPTABLE * (1 + worst[1:]))
    assert np.isnan(monitor.charged(np.array([np.nan] * 3), forecast)).all()  # planners reject those by themselves


def test_monitor_corrects_its_level_by_what_happens():
    monitor = LimitMonitor("x", [ChanceLimit(0, 0.05, high=1.0)])
    monitor.observe([2.0])
    assert monitor.levels[0] == pytest.approx(0.05 - 0.02 * 0.95)
    for _ in range(50):
        monitor.observe([2.0])
    assert monitor.levels[0] == pytest.approx(0.001)  # never nothing: then no plan would be acceptable
    for _ in range(60):
        monitor.observe([0.0])
    assert monitor.levels[0] == pytest.approx(0.05)  # never more than stated


@pytest.mark.parametrize(
    "bad", [{"probability": 0.0}, {"probability": 1.0}, {"probability": 0.1, "low": 2.0, "high": 1.0}]
)
def test_chance_limit_raises_on_bad_settings(bad):
    with pytest.raises(ValueError, match=r"Plant: a chance limit must have a probability in \(0, 1\) and low < high"):
        ChanceLimit(0, **bad)


def test_limits_raise_on_entries_and_functions_that_do_not_fit():
    with pytest.raises(ValueError, match="Plant: entries must be below 3"):
        described([ChanceLimit(3, 0.1, high=1.0)]).check(BOUNDS)
    described([ChanceLimit(weighted, 0.1, high=1.0)]).check(BOUNDS)
    with pytest.raises(
        ValueError, match=r"Plant: a limited function must return one value per observation, shape \(4,\)"
    ):
        Limit(lambda o: o, 1.0, high=1.0).cost(np.zeros((4, 3)))
    with pytest.raises(TypeError, match="Plant: fallback must be a function, got 3"):
        described(fallback=3)


# ---------------------------------------------------------------------- closed loop


def rate(observations, bound):
    return float(np.mean(observations[100:, 1] > bound))


@pytest.mark.parametrize("probability", [0.05, 0.2])
def test_agent_keeps_the_stated_rate_and_uses_it(probability):
    """The valve goes as high as the noise allows: below the stated rate, but not far below where the bound would be."""
    _, observations = played(400, limits=[ChanceLimit(1, probability, high=12.0)])
    assert rate(observations, 12.0) <= probability
    margin = 12.0 - observations[100:, 0].mean()
    assert 0.5 * NOISE < margin < 4.0 * NOISE
    _, free = played(130)
    assert rate(free, 12.0) > 0.9


def test_agent_keeps_a_limit_on_a_function_of_observations():
    limit = ChanceLimit(lambda o: o[..., 1] - o[..., 2], 0.1, high=14.0)  # 2 valve - 10, noise of sqrt 2
    _, observations = played(300, limits=[limit])
    after = observations[100:]
    assert np.mean(after[:, 1] - after[:, 2] > 14.0) <= 0.1
    assert 9.0 < after[:, 0].mean() < 12.0


def test_agent_follows_the_least_violating_plan_and_says_so_once(caplog):
    """No valve keeps the first output below -10: the lowest one comes nearest."""
    with caplog.at_level(logging.WARNING):
        _, observations = played(60, limits=[ChanceLimit(1, 0.05, high=-10.0)])
    assert observations[-10:, 0].max() < 1.0
    assert [record.message for record in caplog.records] == [
        "mpc: no plan keeps the limits; the least violating plan is followed, here and in such steps to come."
    ]


def test_fallback_takes_over_where_no_plan_is_acceptable(caplog):
    seen = []

    def half(observation):
        seen.append(observation.copy())
        return [0.5]

    with caplog.at_level(logging.WARNING):
        _, observations = played(30, limits=[ChanceLimit(1, 0.05, high=-10.0)], fallback=half)
    assert len(seen) == 10  # after the excitation
    np.testing.assert_allclose(np.diff(observations[20:, 0]), 1.0)
    np.testing.assert_allclose(np.array(seen)[1:], observations[20:-1])
    assert ["the fallback takes over" in record.message for record in caplog.records] == [True]


def test_fallback_takes_over_where_the_model_is_not_sound():
    agent, _ = played(40, fallback=lambda _: [-5.0])
    agent.model.is_sound = lambda: False
    steps = steps_of(agent, 3, resume=True)
    assert [step.action.tolist() for step in steps] == [[-1.0]] * 3  # within the bounds


def test_fallback_is_not_asked_while_plans_are_acceptable():
    def never(_):
        raise AssertionError

    _, observations = played(150, limits=[ChanceLimit(1, 0.3, high=12.0)], fallback=never)
    assert rate(observations, 12.0) <= 0.3


def test_fallback_action_raises_on_what_is_no_action():
    one = np.ones(1)
    for bad in ([np.nan], [1.0, 2.0]):
        with pytest.raises(ValueError, match=r"Plant: fallback must return a finite action of shape \(1,\)"):
            fallback_action(lambda _, bad=bad: bad, np.zeros(3), 0 * one, -one, one)
    assert fallback_action(None, np.zeros(3), 0.3 * one, -one, one).tolist() == [0.3]


def test_probing_keeps_the_limits():
    """Bursts would send the valve far above; with the limit, they are left out where they would pass it."""
    probing = {"excitation": {"length": 20, "amplitudes": (0.5,), "budget": 100.0, "recovers": False}}
    heights = []
    for limits in ((), [ChanceLimit(0, 0.05, high=8.0)]):
        plant = Plant(lambda _, o: np.abs(o[..., 1] - 6.0), Actuators([0], [2.0]), limits=limits)
        settings = SETTINGS | {"exploration": {"risk": 0.0, **probing}}
        steps = steps_of(agents.make("mpc", Seeded(Line(), 0), plant=plant, **settings), 120)
        heights.append(max(step.next_observation[0] for step in steps[20:]))
    assert heights[0] > 12.0
    assert heights[1] <= 8.0


def test_agent_with_limits_continues_exactly_after_save_and_load(tmp_path):
    limits = [ChanceLimit(1, 0.05, high=8.0)]
    agent, _ = played(60, limits=limits)
    agent._limits.levels = np.array([0.031])
    agent.save(tmp_path / "agent")
    loaded = agents.load(tmp_path / "agent", Line(), plant=described(limits))
    assert loaded._limits.levels.tolist() == [0.031]
