"""What every registered agent must do, whatever it is; a new agent is tested as soon as it is registered."""

from functools import cache

import numpy as np
import pytest

import agents
from agents.constant import Constant
from agents.mpc import MPCAgent
from agents.oracle import Oracle
from agents.pi import PI
from agents.registry import agent_class, merge, preset
from tiny_agents import TINY, assert_same_steps, plant, steps_of

NAMES = agents.names()
# They draw every action, in `predict` too: the next draw of `learn` is then another one.
DRAWS = {"random", "wander"}
LOOP = {"measured": 5, "gain": 0.01, "integral": 0.001, "target": 100.0}
SMALL = {Constant: {"points": 2, "trial_steps": 3}, PI: {"loops": [LOOP, LOOP, LOOP]}}
SMALL_MODEL = {
    "habnn": {"network": {"hidden": (8,)}},
    "ensemble": {"hidden": (8,), "n_members": 2},
    "gp": {"capacity": 6, "recent": 2},
    "linear": {},
}


@cache
def small(name):
    """Return settings that make the agent quick."""
    kind = agent_class(name)
    if kind is Oracle:
        return {"horizon": 6, "n_scenarios": 1, "n_candidates": 10, "n_iterations": 1}
    if kind in SMALL:
        return SMALL[kind]
    if kind is not MPCAgent:
        return {}
    rest = {key: value for key, value in TINY.items() if key != "model"}
    model = SMALL_MODEL[preset(name).get("model", {}).get("kind", "habnn")]
    return merge(rest, {"model": model, "planner": {"n_iterations": 1}})


def make(name, env=None, seed=1):
    return agents.make(name, plant() if env is None else env, seed, **small(name))


def resumes(name):
    return {"resume": True} if agent_class(name).can_resume else {}


@pytest.mark.parametrize("name", NAMES)
def test_agent_plays_exactly_the_steps_within_the_bounds(name):
    agent = make(name)
    seen = steps_of(agent, 7)
    assert [step.timestep for step in seen] == list(range(1, 8))
    for step in seen:
        assert agent.env.action_space.contains(step.action)
        assert np.isfinite(step.info["loss"])


@pytest.mark.parametrize("name", NAMES)
def test_agent_plays_the_same_under_the_same_seed(name):
    assert_same_steps(steps_of(make(name), 7), steps_of(make(name), 7))


@pytest.mark.parametrize("name", NAMES)
def test_agent_plays_on_after_a_reset(name):
    agent = make(name)
    steps_of(agent, 4)
    again = steps_of(agent, 4)
    np.testing.assert_array_equal(again[0].observation[1:4], 50.0)  # where an episode starts
    assert all(agent.env.action_space.contains(step.action) for step in again)


@pytest.mark.parametrize("name", [name for name in NAMES if agent_class(name).can_evaluate and name not in DRAWS])
def test_agent_predict_changes_nothing(name):
    observation = np.array([80.0, 40.0, 60.0, 55.0, 30.0, 120.0])
    plain = make(name)
    expected = steps_of(plain, 6) + steps_of(plain, 6, **resumes(name))
    asked = make(name)
    seen = steps_of(asked, 6)
    action, state = asked.predict(observation)
    np.testing.assert_array_equal(asked.predict(observation)[0], action)
    asked.predict(observation + 1.0, state)
    assert_same_steps(seen + steps_of(asked, 6, **resumes(name)), expected)


@pytest.mark.parametrize("name", [name for name in NAMES if agent_class(name).can_resume])
def test_agent_continues_exactly_after_save_and_load(name, tmp_path):
    whole = make(name)
    expected = steps_of(whole, 14)
    agent = make(name)
    seen = steps_of(agent, 7)
    agent.save(tmp_path / "agent")
    env = plant()
    env.reset()
    env.unwrapped.set_state(agent.env.unwrapped.get_state())
    loaded = agents.load(tmp_path / "agent", env)
    assert (loaded.name, loaded.seed) == (name, 1)
    assert_same_steps(seen + steps_of(loaded, 7, resume=True), expected)


@pytest.mark.parametrize("name", [name for name in NAMES if agent_class(name).can_evaluate])
def test_agent_predicts_the_same_after_save_and_load(name, tmp_path):
    agent = make(name)
    agent.learn(7)
    agent.save(tmp_path / "agent")
    loaded = agents.load(tmp_path / "agent", plant())
    observation = np.array([80.0, 40.0, 60.0, 55.0, 30.0, 120.0])
    np.testing.assert_array_equal(loaded.predict(observation)[0], agent.predict(observation)[0])


@pytest.mark.parametrize("name", sorted({agent_class(name).default_name for name in NAMES}))
def test_agent_built_directly_can_be_loaded(name, tmp_path):
    agent = agent_class(name)(plant(), seed=1, **small(name))
    agent.learn(3)
    agent.save(tmp_path / "agent")
    assert type(agents.load(tmp_path / "agent", plant())) is type(agent)


@pytest.mark.parametrize("name", NAMES)
def test_agent_refuses_unknown_settings(name):
    with pytest.raises(ValueError, match=f"{name}: setting must be one of .*, got 'no_such_setting'; (did|none)"):
        agents.make(name, plant(), no_such_setting=1)


# ---------------------------------------------------------------------- registration


@pytest.fixture
def registered(monkeypatch):
    """Undo registrations after the test."""
    monkeypatch.setattr("agents.registry._ENTRIES", dict(agents.registry._ENTRIES))


@pytest.mark.usefixtures("registered")
def test_register_adds_an_agent_that_make_and_load_know(tmp_path):
    class Push(agents.Agent):
        def __init__(self, env, *, seed=0, size=0.5):
            super().__init__(env, seed=seed)
            self.size = size

        def _act(self, observation, *, deterministic):  # noqa: ARG002
            return np.full(3, self.size, dtype=np.float32)

    agents.register("push", Push, size=0.25)
    agent = agents.make("push", plant())
    assert steps_of(agent, 2)[0].action.tolist() == [0.25] * 3
    agents.make("push", plant(), size=0.75).save(tmp_path / "agent")
    assert agents.load(tmp_path / "agent", plant()).size == 0.75
    assert "push" in agents.names()


@pytest.mark.usefixtures("registered")
def test_register_raises_on_a_name_that_is_taken_and_on_no_agent():
    with pytest.raises(ValueError, match="register: name must be new, got 'noop'; choose another"):
        agents.register("noop", agent_class("noop"))
    with pytest.raises(TypeError, match="register: factory must be a subclass of Agent or 'module:class', got"):
        agents.register("number", int)
