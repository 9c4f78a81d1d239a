"""Missing and impossible readings: the agent goes on, says so once, and learns from what was measured."""

import logging
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

import agents
import envs  # noqa: F401  # registers the environments
from habnn_control.control.plant import ChanceLimit

SMALL = {
    "model": {"target": "log", "network": {"hidden": (4,)}, "history": 3},
    "planner": {"n_candidates": 10, "n_iterations": 1},
    "exploration": {"excitation": {"length": 8}},
}


class Faulty(gym.Wrapper):
    """Replace entries of observations at some steps."""

    def __init__(self, env, faults):
        super().__init__(env)
        self.faults, self.n = faults, 0

    @property
    def plant(self):
        return self.env.unwrapped.plant

    def step(self, action):
        observation, *rest = self.env.step(action)
        self.n += 1
        observation = np.array(observation)
        for entry, value in self.faults.get(self.n, {}).items():
            observation[entry] = value
        return observation, *rest


def agent_with(faults):
    env = Faulty(gym.make("IndustrialBenchmark-v0", setpoint=70), faults)
    env.reset(seed=3)
    return agents.make("habnn", env, seed=0, **SMALL)


@pytest.mark.parametrize("entry", range(6))
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -1e6, 1e9])
def test_one_impossible_reading_stops_nothing(entry, value, caplog):
    """NaN in setpoint, velocity, gain or shift stopped the agent for good, and learn(resume=True) too."""
    agent = agent_with({12: {entry: value}, 14: {entry: value}})
    with caplog.at_level(logging.WARNING):
        agent.learn(13)
        agent.learn(12, resume=True)
    (record,) = caplog.records
    assert f"entry {entry} of the observation is" in record.message
    assert agent.model.network.n_samples == (25 if entry < 4 else 23)  # an output that is missing cannot be learned
    assert np.isfinite(agent.model.memory.observation).all()
    assert np.isfinite([agent._monitor.level, agent._monitor.surprise]).all()


def test_missing_setpoint_and_actuators_are_filled_with_their_true_values():
    """They are known: the setpoint stays, and actuators move as the action says."""
    clean, faulty = agent_with({}), agent_with({10: {0: np.nan, 1: np.nan, 2: 1e9, 3: np.inf}})
    clean.learn(20)
    faulty.learn(20)
    np.testing.assert_allclose(faulty.model.memory.observation, clean.model.memory.observation, atol=1e-9)
    np.testing.assert_allclose(faulty.model.network.weight_loc[-1], clean.model.network.weight_loc[-1], atol=1e-9)


def test_long_gap_of_all_sensors_goes_by():
    agent = agent_with({step: dict.fromkeys(range(6), np.nan) for step in range(10, 35)})
    agent.learn(50)
    assert agent.model.network.n_samples == 25
    assert agent.model.is_sound()


def test_agent_saved_after_a_missing_reading_goes_on(tmp_path):
    agent = agent_with({10: {1: np.nan}})
    agent.learn(10).save(tmp_path / "agent")
    again = agents.load(tmp_path / "agent", agent.env)
    again.learn(3, resume=True)
    assert again.model.network.n_samples == 13


def test_fallback_controller_never_sees_what_was_not_measured():
    """NaN reached the user's controller, whose NaN ended the run."""
    seen = []

    def controller(observation):
        seen.append(observation)
        return [0.1, 0.2, 0.3]

    env = Faulty(gym.make("IndustrialBenchmark-v0", setpoint=70), {step: {1: np.nan, 5: 1e9} for step in range(1, 30)})
    plant = replace(env.plant, fallback=controller, limits=[ChanceLimit(4, 0.01, high=1e-3)])
    env.reset(seed=3)
    agents.make("habnn", env, seed=0, plant=plant, **SMALL).learn(20)
    assert seen
    assert np.isfinite(seen).all()
    assert np.max(seen) <= 5289


def test_predict_goes_on_without_readings_that_are_missing():
    """A missing reading raised in `predict`, which is how a trained agent is used."""
    agent = agent_with({})
    agent.learn(20)
    env = agent.env
    observation, state = env.reset()[0], None
    gaps = {3: {5: np.nan}, 4: {0: np.inf, 2: -1e9}, 5: dict.fromkeys(range(6), np.nan)}
    for step in range(8):
        for entry, value in gaps.get(step, {}).items():
            observation[entry] = value
        action, state = agent.predict(observation, state)
        assert np.isfinite(action).all()
        memory = state.memory
        assert np.isfinite(memory.observation).all()
        observation = np.array(env.step(action)[0])
    with pytest.raises(ValueError, match="habnn: observation must have finite values"):
        agent.predict(np.full(6, np.nan))


def readings(entry, value, n, first=61):
    return {step: {entry: value} for step in range(first, first + n)}


def test_dead_position_sensor_is_replaced_by_dead_reckoning():
    clean, faulty = agent_with({}), agent_with(readings(2, 0.0, 25, first=30))
    for agent in (clean, faulty):
        agent.learn(29)
    agent = faulty
    steps = []
    agent.learn(26, resume=True, callback=steps.append)
    held = agent.model.memory.observation[2]
    assert held == steps[-1].next_observation[2]
    assert all(step.next_observation[2] == 0.0 for step in steps[:25])
    assert agent.model.network.n_samples == 29 + 1  # steps of doubted positions are not learned from


def test_agent_saved_while_a_sensor_is_dead_goes_on_the_same(tmp_path):
    agent = agent_with(readings(5, 0.0, 25))
    agent.learn(70).save(tmp_path / "agent")
    again = agents.load(tmp_path / "agent", agent.env)
    assert again._sensors.get_state() == agent._sensors.get_state()
    assert again._sensors.get_state()["5"]["run"] == 9


def test_agent_that_chooses_its_model_is_saved_while_a_reading_is_missing(tmp_path):
    """The loss of the step is unknown in the block that the forms are judged by."""
    env = Faulty(gym.make("IndustrialBenchmark-v0", setpoint=70), readings(5, np.nan, 3, first=20))
    env.reset(seed=3)
    agent = agents.make("habnn", env, seed=0, **{**SMALL, "model": {"network": {"hidden": (4,)}, "history": 3}})
    agent.learn(21).save(tmp_path / "agent")
    again = agents.load(tmp_path / "agent", env)
    assert again.model._measured.count(False) == 2
    again.learn(15, resume=True)
    assert again.model._n_blocks == agent.model._n_blocks + 1
