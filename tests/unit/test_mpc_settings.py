"""What the MPC agent refuses, how its settings merge, and a plant that a user describes."""

from math import inf

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents.mpc import MPCAgent
from habnn_control.control.plant import Actuators, Plant
from tiny_agents import TINY, PointMass, benchmark, habnn, plant, point_mass_agent, steps_of

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
