"""HABNN-MPC with tiny networks and budgets, on the Industrial Benchmark, a point mass and the pendulum."""

import logging
from math import inf

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents.runner import make_env
from habnn_control.control.exploration import STRATEGIES, Record
from habnn_control.control.planning import ICEM
from tiny_agents import POINT_MASS, TINY, PointMass, assert_same_steps, habnn, plant, point_mass_agent, steps_of

# ---------------------------------------------------------------------- control


def test_habnn_brings_a_point_mass_to_rest_vs_random():
    losses = {}
    for name, settings in (("habnn", POINT_MASS | {"n_candidates": 40}), ("random", {})):
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
    "loss": pendulum_loss,
    "target": "delta",
    "history": 0,
    "memory": 1,
    "averages": (),
    "hold": 0,
    "tail": 1.0,
    "sampling": "greedy",
}


def test_habnn_plays_the_pendulum():
    env = gym.make("Pendulum-v1")
    seen = steps_of(agents.make("habnn", env, **TINY | PENDULUM), 12)
    assert all(env.action_space.contains(step.action) for step in seen)
    assert len({float(step.action[0]) for step in seen}) > 2


@pytest.mark.slow
def test_habnn_swings_the_pendulum_up():
    """Return of an episode of 200 steps: random actions get about -1200, a good controller -150."""
    env = gym.make("Pendulum-v1")
    env.reset(seed=0)
    agent = agents.make("habnn", env, **PENDULUM, horizon=20, n_candidates=80)
    rewards = np.array([step.reward for step in steps_of(agent, 800)]).reshape(4, 200).sum(axis=1)
    assert rewards[2:].mean() > -400.0


@pytest.mark.parametrize("sampling", STRATEGIES)
def test_habnn_plays_with_every_strategy(sampling):
    env = plant()
    for step in steps_of(habnn(env, sampling=sampling), 8):
        assert env.action_space.contains(step.action)
        assert np.isfinite(step.info["loss"])


@pytest.mark.parametrize("propagation", ["mean", "moments", "samples"])
def test_habnn_plays_with_every_propagation(propagation):
    env = plant()
    seen = steps_of(habnn(env, propagation=propagation), 8)
    assert all(env.action_space.contains(step.action) for step in seen)


def test_propagations_decide_differently():
    plays = [
        np.array([step.action for step in steps_of(habnn(plant(), propagation=name), 12)])
        for name in ("mean", "moments", "samples")
    ]
    assert (plays[0] != plays[1]).any()
    assert (plays[0] != plays[2]).any()


@pytest.mark.parametrize("settings", [{"kinematics": False}, {"target": "absolute"}, {"history": 0, "averages": ()}])
@pytest.mark.parametrize("wandering", [False, True])
def test_habnn_plays_variants_of_the_plant(settings, wandering):
    agent = habnn(plant(wandering=wandering), **settings)
    assert np.isfinite([step.info["loss"] for step in steps_of(agent, 8)]).all()


def test_habnn_paper_plays_its_single_frame_network():
    agent = agents.make("habnn-paper", plant(), horizon=5, n_candidates=12)
    seen = steps_of(agent, 8)
    assert agent.name == "habnn-paper"
    network = agent.model.network.settings
    assert (network.hidden, network.dof, network.scales, network.prior_stds) == ((80,), 12.0, [0.01] * 2, [1.0] * 2)
    assert (network.covariance, network.fan, network.noise_weight) == ("diagonal", "out", inf)
    assert network.n_inputs == 3 + 5 + 1  # actions, what is predicted, setpoint: one frame
    assert agent.model.network.n_samples == len(seen) == 8


def test_habnn_actions_are_in_a_lopsided_box():
    class Lopsided(PointMass):
        action_space = gym.spaces.Box(np.float32(0.1), np.float32(0.7), (1,))

    env = Lopsided()
    for step in steps_of(point_mass_agent(env), 15):
        assert env.action_space.contains(step.action)


def test_habnn_excites_unknown_actuators_too():
    actions = np.array([step.action[0] for step in steps_of(point_mass_agent(PointMass(), excitation=12), 12)])
    np.testing.assert_array_equal(actions, np.repeat([-1, 1, 1, -1], 3) * actions.max())


def test_habnn_prediction_is_of_the_step_that_follows():
    """The kinematics are known and exact, so the model must predict fatigue and consumption only."""
    agent, seen = habnn(plant()), []

    def keep(step):
        seen.append((agent.prediction, step.next_observation[agent.prediction.indices]))

    agent.learn(60, callback=keep)
    assert all(prediction.indices.tolist() == [4, 5] for prediction, _ in seen)
    inside = np.array([(p.low <= came) & (came <= p.high) for p, came in seen[20:]])
    assert inside.mean() > 0.7


def test_habnn_is_deterministic_under_its_seed():
    first, again, other = (np.array([step.action for step in steps_of(habnn(plant(), seed), 10)]) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_habnn_searches_afresh_in_every_step(monkeypatch):
    """No two decisions draw the same candidates: what one search missed the next may find."""
    plan, firsts = ICEM.plan, []

    def spy(self, objective, low, high, horizon, rng, previous):
        firsts.append(rng.bit_generator.state["state"]["state"])
        return plan(self, objective, low, high, horizon, rng, previous)

    monkeypatch.setattr(ICEM, "plan", spy)
    habnn(plant(), excitation=0).learn(6)
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
    other, state = make_env(50.0), None
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


def test_predict_batch_has_a_state_a_row():
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
    curious, greedy = (habnn(plant(), sampling=name) for name in ("information", "greedy"))
    curious.learn(10)
    greedy.model.set_state(curious.model.get_state())
    greedy._n_steps, curious._record = curious._n_steps, Record([1e6] * 50)
    observation = np.array([100.0, 50, 50, 50, 40, 150])
    np.testing.assert_array_equal(curious.predict(observation)[0], greedy.predict(observation)[0])
    assert (curious.predict(observation, deterministic=False)[0] != greedy.predict(observation)[0]).any()


@pytest.mark.parametrize("bad", [np.zeros(5), np.full(6, np.nan)])
def test_predict_raises_on_bad_observations(bad):
    with pytest.raises(ValueError, match="habnn: observation must have"):
        habnn(plant()).predict(bad)


# ---------------------------------------------------------------------- recovery


def test_habnn_holds_when_no_candidate_is_finite(caplog):
    def broken(actions, observations):
        return np.full(observations.shape[:-1], np.nan)

    agent = habnn(plant(), loss=broken, sampling="greedy")
    with caplog.at_level(logging.WARNING):
        seen = steps_of(agent, 7)
    assert not np.any([step.action for step in seen[4:]])  # after the excitation
    assert agent.model.network.n_samples == 7  # it goes on learning
    assert "no candidate has a finite cost at step 4; holding still" in caplog.text
    agent._loss = habnn(plant())._loss
    assert np.any([step.action for step in steps_of(agent, 3, resume=True)])


@pytest.mark.parametrize("sampling", ["greedy", "thompson"])
@pytest.mark.parametrize("poison", [np.nan, np.inf, -1e200])
@pytest.mark.parametrize("part", ["weight_loc", "weight_scale_sq"])
def test_habnn_recovers_from_a_poisoned_network(part, poison, sampling, caplog):
    agent = habnn(plant(), sampling=sampling)
    agent.learn(30)
    getattr(agent.model.network, part)[-1][0] = poison
    with caplog.at_level(logging.WARNING):
        seen = steps_of(agent, 6, resume=True)
    assert "the model is broken at step 30; back to that of 25 samples" in caplog.text
    assert not seen[0].action.any()
    assert np.any([step.action for step in seen[1:]])
    assert agent.model.is_sound()
    assert agent.model.network.n_samples == 25 + 6


@pytest.mark.parametrize("glitch", [np.nan, np.inf, 1e200])
def test_habnn_steps_over_an_observation_it_cannot_learn_from(glitch, caplog):
    class Glitch(PointMass):
        def step(self, action):
            observation, *rest = super().step(action)
            return (np.array([glitch, 0.0]) if self.clock == 6 else observation), *rest

    agent = point_mass_agent(Glitch(), history=2)
    with caplog.at_level(logging.WARNING):
        seen = steps_of(agent, 6)
        remembered = agent.model.memory.settings[:, 0] / 2.0  # actions scaled to [-2, 2]; the last led to the glitch
        np.testing.assert_allclose(remembered, [step.action[0] for step in seen[3:]])
        seen += steps_of(agent, 6, resume=True)
    assert np.isfinite([step.action for step in seen]).all()
    assert agent.model.network.n_samples == 11
    (record,) = caplog.records
    assert "step 6 is not learned from: HABNN:" in record.message


def test_habnn_raises_on_a_first_observation_that_is_not_finite():
    class Blind(PointMass):
        def reset(self, *, seed=None, options=None):  # noqa: ARG002
            super().reset(seed=seed)
            return np.array([np.nan, 0.0]), {}

    with pytest.raises(ValueError, match="habnn: observation must have finite values, got"):
        point_mass_agent(Blind()).learn(1)


# ---------------------------------------------------------------------- errors


def test_habnn_raises_on_discrete_actions():
    with pytest.raises(TypeError, match=r"habnn: env must have Box spaces, got (.|\n)* Discrete\(27\); use continuous"):
        habnn(make_env(100.0, action_type="discrete"))


def test_habnn_raises_on_spaces_that_are_not_flat():
    class Image(PointMass):
        observation_space = gym.spaces.Box(0.0, 1.0, (4, 4))

    with pytest.raises(ValueError, match="habnn: env must have flat spaces, got Box"):
        point_mass_agent(Image())


def test_habnn_raises_on_unbounded_actions():
    class Unbounded(PointMass):
        action_space = gym.spaces.Box(-inf, inf, (1,))

    with pytest.raises(ValueError, match="habnn: env must have bounded actions, got Box"):
        point_mass_agent(Unbounded())


@pytest.mark.parametrize("env", [PointMass(), make_env(100.0, observation_type="include_past")])
def test_habnn_raises_on_missing_loss(env):
    with pytest.raises(ValueError, match="habnn: loss must be given for this environment, got None; pass loss="):
        habnn(env)


def test_habnn_raises_on_a_loss_of_the_wrong_shape():
    agent = point_mass_agent(PointMass(), loss=lambda _, observations: observations[:, 0], excitation=0)
    with pytest.raises(ValueError, match=r"sampling: loss must return one value a step, shape \(\d+, 10\), got"):
        agent.learn(1)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"sampling": "gready"}, r"sampling: strategy must be one of .*, got 'gready'; did you mean 'greedy'\?"),
        ({"sampling": {"cuation": (1.0,)}}, r"described by .*, got 'cuation'; did you mean 'caution'\?"),
        ({"propagation": "sample"}, r"habnn: propagation must be one of .*, got 'sample'; did you mean 'samples'\?"),
        ({"target": "delt"}, r"TransitionModel: target must be one of .*, got 'delt'; did you mean 'delta'\?"),
        ({"horizn": 3}, r"habnn: setting must be one of .*, got 'horizn'; did you mean 'horizon'\?"),
    ],
)
def test_habnn_raises_on_unknown_names_with_the_nearest(setting, message):
    with pytest.raises(ValueError, match=message):
        habnn(plant(), **setting)
