"""The MPC agent with tiny networks and budgets, on the Industrial Benchmark, a point mass and the pendulum."""

import logging
from dataclasses import replace
from math import inf

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents.mpc import MPCAgent
from agents.registry import merge
from habnn_control.control.monitor import LossMonitor
from habnn_control.control.planning import ICEM
from habnn_control.control.plant import Actuators, Plant
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
    agent = habnn(plant())
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


# ---------------------------------------------------------------------- errors


def test_mpc_raises_on_discrete_actions():
    with pytest.raises(TypeError, match=r"mpc: env must have Box spaces, got (.|\n)* Discrete\(27\); use continuous"):
        habnn(benchmark(action_type="discrete"))


def test_mpc_raises_on_spaces_that_are_not_flat():
    class Image(PointMass):
        observation_space = gym.spaces.Box(0.0, 1.0, (4, 4))

    with pytest.raises(ValueError, match="mpc: env must have flat spaces, got Box"):
        point_mass_agent(Image())


def test_mpc_raises_on_unbounded_actions():
    class Unbounded(PointMass):
        action_space = gym.spaces.Box(-inf, inf, (1,))

    with pytest.raises(ValueError, match="mpc: env must have bounded actions, got Box"):
        point_mass_agent(Unbounded())


def test_mpc_raises_on_a_missing_plant():
    with pytest.raises(ValueError, match=r"mpc: plant must be a Plant with the loss .*, got None; pass plant=Plant\("):
        habnn(PointMass())


def test_mpc_ignores_older_frames():
    """What a longer observation repeats is neither learned nor predicted: the same plant gives the same actions."""
    framed = plant(observation_type="include_past", n_past_timesteps=4)
    ours, theirs = steps_of(habnn(framed), 8), steps_of(habnn(plant()), 8)
    np.testing.assert_array_equal([step.action for step in ours], [step.action for step in theirs])


def test_mpc_raises_on_a_loss_of_the_wrong_shape():
    wrong = Plant(lambda _, observations: observations[:, 0])
    agent = point_mass_agent(PointMass(), plant=wrong, exploration={"excitation": {"length": 0}})
    with pytest.raises(ValueError, match=r"Plant: loss must return one value per step, shape \(\d+, 10\), got"):
        agent.learn(1)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"exploration": {"rsik": 1.0}}, r"exploration: setting must be one of .*, got 'rsik'; did you mean 'risk'\?"),
        ({"exploration": {"excitation": {"lenght": 1}}}, r"excitation: setting .*, got 'lenght'; .* 'length'\?"),
        ({"planner": {"kind": "icme"}}, r"planner: kind must be one of icem, .*, got 'icme'; did you mean 'icem'\?"),
        ({"planner": {"n_candidate": 9}}, r"icem: setting must be .*, got 'n_candidate'; .* 'n_candidates'\?"),
        ({"model": {"kind": "habn"}}, r"model: kind must be one of .*, got 'habn'; did you mean 'habnn'\?"),
        ({"model": {"histroy": 3}}, r"model habnn: setting must be .*, got 'histroy'; did you mean 'history'\?"),
        ({"model": {"target": "delt"}}, r"model: target must be one of .*, got 'delt'; did you mean 'delta'\?"),
        (
            {"network": {"dof": 20.0}},
            r"habnn: setting must be .*, got 'network'; it is a setting of model: pass model=",
        ),
        ({"horizn": 3}, r"habnn: setting must be one of .*, got 'horizn'; did you mean 'horizon'\?"),
    ],
)
def test_mpc_raises_on_unknown_names_with_the_nearest(setting, message):
    with pytest.raises(ValueError, match=message):
        habnn(plant(), **setting)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"horizon": 0}, "mpc: horizon must be at least 1"),
        ({"hold": -1}, "mpc: .*hold at least 0"),
        ({"tail": 0.0}, "mpc: .*tail positive"),
        (
            {"exploration": {"excitation": {"kind": "sweeps", "dither": 2.0}}},
            "excitation.dither must be in .0, 1. and resweep in",
        ),
        ({"exploration": {"risk": inf}}, "Schedule: start and floor must be finite"),
    ],
)
def test_mpc_raises_on_values_out_of_range(setting, message):
    with pytest.raises(ValueError, match=message):
        habnn(plant(), **setting)


# ---------------------------------------------------------------------- the user's own plant


class Valve(gym.Env):
    """A tank whose level follows a valve, which moves by 5 per unit of the action, against a demand that jumps."""

    observation_space = gym.spaces.Box(np.array([0.0, 0.0, 0.0]), np.array([1.0, 100.0, 50.0]), dtype=np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        super().reset(seed=seed)
        self.demand, self.valve, self.level, self.clock = 0.5, 50.0, 10.0, 0
        return self.observe(), {}

    def observe(self):
        return np.array([self.demand, self.valve, self.level])

    def step(self, action):
        self.clock += 1
        self.demand = 0.8 if self.clock >= 40 else 0.5
        self.valve = float(np.clip(self.valve + 5.0 * action[0], 0.0, 100.0))
        self.level = float(np.clip(0.8 * self.level + 0.1 * self.valve - 4.0 * self.demand, 0.0, 50.0))
        return self.observe(), -abs(self.level - 25.0), False, False, {}


VALVE = Plant(lambda _, observations: np.abs(observations[..., 2] - 25.0), Actuators([1], [5.0]), exogenous=[0])


def test_mpc_controls_a_users_own_plant_with_known_actuators():
    env = Valve()
    env.reset(seed=0)
    model = {"target": "delta", "past_outputs": 1, "network": {"hidden": (40,)}}
    once = {"length": 12, "budget": 0.0, "recovers": False}
    exploration = {"risk": 0.0, "excitation": once}
    agent = habnn(env, plant=VALVE, horizon=8, planner={"n_candidates": 40}, exploration=exploration, model=model)
    seen = steps_of(agent, 100)
    assert agent.prediction.indices.tolist() == [2]  # neither the valve nor the demand is predicted
    assert np.mean([-step.reward for step in seen[70:]]) < 3.0  # doing nothing: 16


def test_mpc_forecasts_known_actuators_and_holds_exogenous_entries():
    env = Valve()
    env.reset(seed=0)
    agent = habnn(env, plant=VALVE)
    agent.learn(6)
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (1, 30, 1))
    forecast = agent.model.forecast(agent.model.memory, actions).observations[0]
    reached = [env.step(action)[0] for action in actions[0]]
    np.testing.assert_allclose(forecast[:, 1], np.array(reached)[:, 1], rtol=1e-12)
    assert (forecast[:, 0] == 0.5).all()


def test_mpc_built_directly_saves_a_file_that_load_accepts(tmp_path):
    agent = MPCAgent(plant(), seed=2, **TINY)
    agent.learn(6)
    agent.save(tmp_path / "agent")
    loaded = agents.load(tmp_path / "agent", plant())
    observation = np.array([100.0, 50, 50, 50, 40, 150])
    assert (loaded.name, loaded.planner, loaded.exploration) == ("mpc", agent.planner, agent.exploration)
    assert loaded.model.network.settings == agent.model.network.settings
    np.testing.assert_array_equal(loaded.predict(observation)[0], agent.predict(observation)[0])


def test_preset_merges_nested_settings():
    agent = agents.make("habnn-paper", plant(), model={"network": {"dof": 20.0}})
    settings = agent.model.network.settings
    assert (settings.dof, settings.hidden, settings.covariance, settings.activation) == (
        20.0,
        (80,),
        "diagonal",
        "relu",
    )
    assert agent.model.encoder.history == 0


@pytest.mark.parametrize("excitation", [{"dither": 0.5}, {"resweep": 0.2}, {"surprise": 0.2}])
def test_mpc_refuses_an_excitation_that_needs_known_actuators(excitation):
    with pytest.raises(ValueError, match="excitation must be only a length where the actuators are not known, got"):
        point_mass_agent(PointMass(), exploration={"excitation": {"kind": "sweeps", **excitation}})
