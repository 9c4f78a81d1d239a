"""The recipes of CONTRIBUTING.md run as printed, and do what they say."""

import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import agents
from tiny_agents import plant, steps_of

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
RECIPES = dict(re.findall(r"^## (Add .*?)\n.*?^```python\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL))


@pytest.fixture(autouse=True)
def undone(monkeypatch):
    """Undo registrations after each recipe."""
    monkeypatch.setattr("agents.registry._ENTRIES", dict(agents.registry._ENTRIES))
    yield
    gym.registry.pop("Tank-v0", None)


def run(title):
    namespace = {"__name__": "recipe"}
    exec(compile(RECIPES[title], title, "exec"), namespace)
    return namespace


def test_contributing_has_four_recipes():
    assert list(RECIPES) == ["Add an agent", "Add a dynamics model", "Add a planner", "Add a plant"]


def test_recipe_of_an_agent():
    run("Add an agent")
    actions = [step.action[0] for step in steps_of(agents.make("bang", plant()), 12)]
    np.testing.assert_array_equal(actions, [1.0] * 5 + [-1.0] * 5 + [1.0] * 2)


def test_recipe_of_a_dynamics_model_learns():
    agent = run("Add a dynamics model")["agent"]
    model = agent.model
    assert type(model).__name__ == "RidgeModel"
    errors = []
    agent.learn(20, resume=True, callback=lambda step: errors.append(agent.prediction.mean - step.next_observation[4:]))
    assert np.abs(errors).mean() < 40.0  # fatigue and consumption move by hundreds


def test_recipe_of_a_planner():
    agent = run("Add a planner")["agent"]
    assert type(agent.planner).__name__ == "LocalSearch"
    plan = agent.planner.plan(
        lambda sequences: (sequences**2).sum(axis=(1, 2)), [-1.0], [1.0], 4, np.random.default_rng(0)
    )
    assert plan.cost < 0.1


def test_recipe_of_a_plant():
    found = run("Add a plant")
    assert found["agent"].prediction.indices.tolist() == [2]
    assert found["env"].spec.id == "Tank-v0"
