"""The MPC agent with tiny networks and budgets, on the Industrial Benchmark, a point mass and the pendulum."""

import logging
from dataclasses import replace
from math import inf

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents.registry import merge
from habnn_control.control.monitor import LossMonitor
from habnn_control.control.planning import ICEM
from habnn_control.control.plant import Plant
from tiny_agents import (
    POINT_MASS,
    TINY,
    PointMass,
    assert_same_steps,
    benchmark,
    habnn,
    plant,
    point_mass_agent,
    steps_of,
)

# ---------------------------------------------------------------------- control


def test_mpc_brings_a_point_mass_to_rest_vs_random():
    losses = {}
    for name, settings in (("habnn", merge(POINT_MASS, {"planner": {"n_candidates": 40}})), ("random", {})):
        env = PointMass(limit=40)
        env.reset(seed=1)
        seen = steps_of(agents.make(name, env, **settings), 160)
        losses[name] = np.mean([-step.reward for step in seen if step.timestep % 40 > 20 or step.timestep % 40 == 0])
    assert losses["habnn"] < 0.5  # it starts at 2 to 3
    assert losses["habnn"] < losses["random"] / 4


def pendulum_loss(actions, observations):
    """Return the pendulum's own cost, of the angle and speed that its next observation shows."""
    angle = np.arctan2(observations[..., 1], observations[..., 0])
    return angle**2 + 0.1 * observations[..., 2] ** 2 + 0.001 * actions[..., 0] ** 2


PENDULUM = {
    "plant": Plant(pendulum_loss),
    "model": {"target": "delta", "history": 0, "past_outputs": 1},
    "exploration": {"risk": 0.0},
    "hold": 0,
    "tail": 1.0,
}


def test_mpc_plays_the_pendulum():
    env = gym.make("Pendulum-v1")
    seen = steps_of(agents.make("habnn", env, **merge(TINY, PENDULUM)), 12)
    assert all(env.action_space.contains(step.action) for step in seen)
    assert len({float(step.action[0]) for step in seen}) > 2


@pytest.mark.slow
def test_mpc_swings_the_pendulum_up():
    """Return of an episode of 200 steps: random actions get about -1200, a good controller -150."""
    env = gym.make("Pendulum-v1")
    env.reset(seed=0)
    agent = agents.make("habnn", env, **PENDULUM, horizon=20, planner={"n_candidates": 80})
    rewards = np.array([step.reward for step in steps_of(agent, 800)]).reshape(4, 200).sum(axis=1)
    assert rewards[2:].mean() > -400.0


EXPLORATIONS = {
    "risk-averse": {},
    "greedy": {"risk": 0.0},
    "optimistic": {"risk": -1.0},
    "information": {"risk": 0.0, "information": 0.067},
    "thompson": {"risk": 0.0, "thompson": True},
}


@pytest.mark.parametrize("exploration", EXPLORATIONS.values(), ids=EXPLORATIONS)
def test_mpc_plays_with_every_exploration(exploration):
    env = plant()
    for step in steps_of(habnn(env, exploration=exploration), 8):
        assert env.action_space.contains(step.action)
        assert np.isfinite(step.info["loss"])


@pytest.mark.parametrize(
    "settings", [{"actuators": "learned"}, {"model": {"target": "absolute"}}, {"model": {"history": 0}}]
)
@pytest.mark.parametrize("wandering", [False, True])
def test_mpc_plays_variants_of_the_plant(settings, wandering):
    agent = habnn(plant(wandering=wandering), **settings)
    assert np.isfinite([step.info["loss"] for step in steps_of(agent, 8)]).all()


def test_habnn_paper_plays_its_single_frame_network():
    agent = agents.make("habnn-paper", plant(), horizon=5, planner={"n_candidates": 12})
    seen = steps_of(agent, 8)
    assert agent.name == "habnn-paper"
    network = agent.model.network.settings
    assert (network.hidden, network.dof, network.scales, network.prior_stds) == ((80,), 12.0, [0.01] * 2, [1.0] * 2)
    assert (network.covariance, network.fan, network.noise_weight) == ("diagonal", "out", inf)
    assert network.n_inputs == 3 + 5 + 1  # actions, what is predicted, setpoint: one frame
    assert agent.model.network.n_samples == len(seen) == 8


def test_mpc_actions_are_in_a_lopsided_box():
    class Lopsided(PointMass):
        action_space = gym.spaces.Box(np.float32(0.1), np.float32(0.7), (1,))

    env = Lopsided()
    for step in steps_of(point_mass_agent(env), 15):
        assert env.action_space.contains(step.action)


def test_mpc_excites_unknown_actuators_too():
    """Gentle moves come first, 2 * (1 action + 3), then the wave of the burst."""
    agent = point_mass_agent(PointMass(), exploration={"excitation": {"length": 12}})
    actions = np.array([step.action[0] for step in steps_of(agent, 20)])
    np.testing.assert_allclose(np.abs(actions[:8]), 0.25)
    np.testing.assert_array_equal(actions[8:], np.repeat([1, -1, -1, 1], 3) * actions[8])
    assert abs(actions[8]) == 1


def test_mpc_prediction_is_of_the_step_that_follows():
    """The kinematics are known and exact, so the model must predict fatigue and consumption only."""
    agent, seen = habnn(plant()), []

    def keep(step):
        seen.append((agent.prediction, step.next_observation[agent.prediction.indices]))

    agent.learn(60, callback=keep)
    assert all(prediction.indices.tolist() == [4, 5] for prediction, _ in seen)
    inside = np.array([(p.low <= came) & (came <= p.high) for p, came in seen[20:]])
    assert inside.mean() > 0.7


def test_mpc_is_deterministic_under_its_seed():
    first, again, other = (np.array([step.action for step in steps_of(habnn(plant(), seed), 10)]) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_mpc_searches_afresh_in_every_step(monkeypatch):
    """No two decisions draw the same candidates: what one search missed the next may find."""
    plan, firsts = ICEM.plan, []

    def spy(self, objective, low, high, horizon, rng, previous):
        firsts.append(rng.bit_generator.state["state"]["state"])
        return plan(self, objective, low, high, horizon, rng, previous)

    monkeypatch.setattr(ICEM, "plan", spy)
    habnn(plant(), exploration={"excitation": {"length": 0}}).learn(6)
    assert len(set(firsts)) == 6


def test_progress_bar_shows_loss_and_uncertainty(capsys):
    habnn(plant()).learn(3, progress_bar=True)
    text = capsys.readouterr().err
    assert "loss=" in text
    assert "uncertainty=" in text


def test_progress_uncertainty_is_the_interval_of_a_linear_loss():
    agent = habnn(plant())
    (step,) = steps_of(agent, 1)
    _, _, low, high = agent.prediction
    half = (high - low) / 2
    expected = np.hypot(3.0 * half[0], half[1])
    assert float(agent._progress(step)["uncertainty"]) == pytest.approx(expected, abs=0.051)


# ---------------------------------------------------------------------- predict


def test_predict_plays_an_episode_and_leaves_learning_alone():
    """An evaluation between two halves of learning changes nothing in the second."""
    disturbed, plain = habnn(plant()), habnn(plant())
    for agent in (disturbed, plain):
        agent.learn(8)
    other, state = benchmark(50.0), None
    observation, _ = other.reset(seed=1)
    for _ in range(3):
        action, state = disturbed.predict(observation, state)
        observation = other.step(action)[0]
    assert_same_steps(steps_of(disturbed, 6, resume=True), steps_of(plain, 6, resume=True))


def test_predict_remembers_through_its_state():
    agent = habnn(plant(), exploration={"risk": 0.0})
    agent.learn(20)
    start, after = np.array([100.0, 50, 50, 50, 40, 150]), np.array([100.0, 51, 60, 55, 42, 170])
    _, state = agent.predict(start)
    assert (agent.predict(after, state)[0] != agent.predict(after)[0]).any()
    np.testing.assert_array_equal(agent.predict(after, state)[0], agent.predict(after, state)[0])
    np.testing.assert_array_equal(
        agent.predict(after, state, episode_start=np.array([True]))[0], agent.predict(after)[0]
    )


def test_predict_batch_has_a_state_per_row():
    agent = habnn(plant())
    agent.learn(10)
    rows = np.random.default_rng(0).uniform(30.0, 70.0, (2, 3, 6))
    actions, states = agent.predict(rows[0])
    actions, _ = agent.predict(rows[1], states, episode_start=np.array([False, True, False]))
    assert actions.shape == (3, 3)
    for k in range(3):
        _, state = agent.predict(rows[0, k])
        expected, _ = agent.predict(rows[1, k], None if k == 1 else state)
        np.testing.assert_array_equal(actions[k], expected)


def test_predict_deterministic_leaves_exploration_out():
    curious, greedy = (habnn(plant(), exploration=EXPLORATIONS[name]) for name in ("information", "greedy"))
    curious.learn(10)
    greedy.model.restore(curious.model.snapshot())
    greedy._n_steps, curious._monitor = curious._n_steps, LossMonitor(1e6)
    observation = np.array([100.0, 50, 50, 50, 40, 150])
    np.testing.assert_array_equal(curious.predict(observation)[0], greedy.predict(observation)[0])
    assert (curious.predict(observation, deterministic=False)[0] != greedy.predict(observation)[0]).any()


@pytest.mark.parametrize("bad", [np.zeros(5), np.full(6, np.nan)])
def test_predict_raises_on_bad_observations(bad):
    with pytest.raises(ValueError, match="habnn: observation must have"):
        habnn(plant()).predict(bad)


# ---------------------------------------------------------------------- recovery


def test_mpc_holds_when_no_candidate_is_finite(caplog):
    def broken(actions, observations):
        return np.full(observations.shape[:-1], np.nan)

    agent = habnn(plant(), plant=replace(benchmark().unwrapped.plant, loss=broken), exploration={"risk": 0.0})
    with caplog.at_level(logging.WARNING):
        seen = steps_of(agent, 7)
    assert not np.any([step.action for step in seen[4:]])  # after the excitation
    assert agent.model.network.n_samples == 7  # it goes on learning
    assert "no candidate has a finite cost at step 4; resting" in caplog.text
    agent.plant = habnn(plant()).plant
    assert np.any([step.action for step in steps_of(agent, 3, resume=True)])


@pytest.mark.parametrize("exploration", ["greedy", "thompson"])
@pytest.mark.parametrize("poison", [np.nan, np.inf, -1e200])
@pytest.mark.parametrize("part", ["weight_loc", "weight_scale_sq"])
def test_mpc_recovers_from_a_poisoned_network(part, poison, exploration, caplog):
    agent = habnn(plant(), exploration=EXPLORATIONS[exploration])
    agent.learn(30)
    getattr(agent.model.network, part)[-1][0] = poison
    with caplog.at_level(logging.WARNING):
        seen = steps_of(agent, 6, resume=True)
    assert "the model is not sound at step 30; back to its last snapshot" in caplog.text
    assert not seen[0].action.any()
    assert np.any([step.action for step in seen[1:]])
    assert agent.model.is_sound()
    assert agent.model.network.n_samples == 25 + 6


@pytest.mark.parametrize(
    ("glitch", "told"),
    [
        (np.nan, "entry 0 of the observation is missing"),
        (np.inf, "entry 0 of the observation is missing"),
        (1e200, "entry 0 of the observation is outside the observation space"),
    ],
)
def test_mpc_steps_over_an_observation_it_cannot_learn_from(glitch, told, caplog):
    class Glitch(PointMass):
        def step(self, action):
            observation, *rest = super().step(action)
            return (np.array([glitch, 0.0]) if self.clock == 6 else observation), *rest

    agent = point_mass_agent(Glitch(), model={"history": 2})
    with caplog.at_level(logging.WARNING):
        seen = steps_of(agent, 6)
        remembered = agent.model.memory.signals[:, 0] / 2.0  # actions scaled to [-2, 2]; the last led to the glitch
        np.testing.assert_allclose(remembered, [step.action[0] for step in seen[3:]])
        seen += steps_of(agent, 6, resume=True)
    assert np.isfinite([step.action for step in seen]).all()
    assert agent.model.network.n_samples == 11
    (record,) = caplog.records
    assert told in record.message


def test_mpc_raises_on_a_first_observation_that_is_not_finite():
    class Blind(PointMass):
        def reset(self, *, seed=None, options=None):  # noqa: ARG002
            super().reset(seed=seed)
            return np.array([np.nan, 0.0]), {}

    with pytest.raises(ValueError, match="habnn: observation must have finite values, got"):
        point_mass_agent(Blind()).learn(1)
