"""Actuators found from steps: entries that follow the actions, exactly those, and none where none does."""

import numpy as np
import pytest

import agents
from habnn_control.control.actuator_search import find_actuators
from habnn_control.control.model import Transitions
from habnn_control.control.plant import Bounds, Plant
from tiny_agents import assert_same_steps, benchmark, habnn, plant, steps_of

STEPS = np.array([2.0, -7.0])
BOUNDS = Bounds.of(np.zeros(4), [100.0, 100.0, 100.0, np.inf], -np.ones(2), np.ones(2))
PLANT = Plant(lambda _, observations: observations[..., 2])


def log(n, noise=0.0, seed=0):
    """Return steps of a plant whose entries 1 and 0 follow actions 0 and 1; entry 2 follows nothing."""
    rng = np.random.default_rng(seed)
    actions = rng.uniform(-1, 1, (n, 2))
    states = [np.array([50.0, 50.0, 50.0, 0.0])]
    for action in actions:
        after = states[-1].copy()
        after[[1, 0]] += STEPS * action + noise * rng.standard_normal(2)
        after[2] = rng.uniform(0, 100)
        states.append(np.clip(after, BOUNDS.low, BOUNDS.high))
    return np.array(states[:-1]), actions, np.array(states[1:])


def test_actuators_are_found_with_their_steps():
    found = find_actuators(PLANT, BOUNDS, *log(8))
    assert found.entries == (1, 0)
    np.testing.assert_allclose(found.steps, STEPS)


def test_positions_at_their_ends_do_not_hide_the_motion():
    before, actions, after = log(200, seed=3)  # wanders into the bounds
    assert np.any(after[:, 0] == 0) or np.any(after[:, 0] == 100)
    np.testing.assert_allclose(find_actuators(PLANT, BOUNDS, before, actions, after).steps, STEPS)


def test_nothing_is_found_in_too_few_steps():
    assert find_actuators(PLANT, BOUNDS, *log(4)) is None


def test_entries_that_follow_only_roughly_are_left_to_the_model():
    assert find_actuators(PLANT, BOUNDS, *log(60, noise=2.0)) is None


def test_what_leaks_is_no_actuator_in_gentle_moves():
    """A leaky integrator hardly leaks while it is near its start."""
    rng = np.random.default_rng(0)
    actions = rng.choice([-0.25, 0.25], (8, 2))
    states = [np.array([50.0, 50.0, 50.0, 0.0])]
    for action in actions:
        after = states[-1].copy()
        after[[1, 0]] += STEPS * action - 0.01 * (after[[1, 0]] - 50.0)
        states.append(after)
    steps = np.array(states[:-1]), actions, np.array(states[1:])
    assert find_actuators(PLANT, BOUNDS, *steps) is not None
    assert find_actuators(PLANT, BOUNDS, *steps, gentle=True) is None


def test_exact_actuators_are_found_in_gentle_moves():
    np.testing.assert_allclose(find_actuators(PLANT, BOUNDS, *log(8), gentle=True).steps, STEPS)


def test_actions_that_move_together_are_not_told_apart():
    before, actions, after = log(40)
    actions = actions[:, :1].repeat(2, axis=1)
    assert find_actuators(PLANT, BOUNDS, before, actions, after) is None


def test_exogenous_entries_are_no_actuators():
    exogenous = Plant(PLANT.loss, exogenous=[0])
    assert find_actuators(exogenous, BOUNDS, *log(8)) is None


@pytest.mark.parametrize("mirror", [(), ("velocity", "shift")])
def test_agent_finds_the_actuators_of_the_benchmark_within_tens_of_steps(mirror):
    env = benchmark(mirror=mirror)
    described = env.unwrapped.plant.actuators
    agent = habnn(env, actuators="found")
    assert agent.plant.actuators is None
    agent.learn(40)
    assert agent.plant.actuators.entries == described.entries
    np.testing.assert_allclose(agent.plant.actuators.steps, described.steps, rtol=1e-6)


def test_agent_that_found_actuators_goes_on_from_its_file(tmp_path):
    """Saved while it searches and after it has found: the same steps as without the file."""
    for n in (3, 30):
        whole = steps_of(habnn(plant(), actuators="found"), 45)
        env = plant()
        agent = habnn(env, actuators="found")
        first = steps_of(agent, n)
        agent.save(tmp_path / f"agent-{n}")
        loaded = agents.load(tmp_path / f"agent-{n}", env)
        assert_same_steps(first + steps_of(loaded, 45 - n, resume=True), whole)


def logged(n):
    """Return a log of random actions on the benchmark."""
    env, rows = plant(), []
    env.action_space.seed(0)
    before, _ = env.reset()
    for k in range(n):
        action = env.action_space.sample()
        after = env.step(action)[0]
        rows.append((before, action, after, k == 0))
        before = after
    return Transitions(*zip(*rows, strict=True))


def test_agent_finds_actuators_in_a_log():
    agent = habnn(plant(), actuators="found")
    agent.pretrain(logged(30))
    assert agent.plant.actuators.entries == (1, 2, 3)
    assert agent.model.network.n_samples == 30
    agent.learn(5)
