"""The two tanks: their law against an independent integrator, the checkers, the description, and the state."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium
from scipy.integrate import solve_ivp
from stable_baselines3.common.env_checker import check_env as check_stable_baselines

import agents
import envs
from envs.two_tanks import DEMAND, FIRST, PUMP, SECOND, TwoTanksEnv, flow_through
from tiny_agents import Seeded, steps_of


def started(seed=0, **arguments):
    env = gym.make("TwoTanks-v0", max_episode_steps=-1, **arguments)
    env.reset(seed=seed)
    return env


@pytest.mark.parametrize("known", [True, False])
def test_checkers_accept_two_tanks(known):
    env = gym.make("TwoTanks-v0", known_pump=known).unwrapped
    check_gymnasium(env, skip_render_check=True)
    check_stable_baselines(env, warn=True)
    assert type(env) is envs.TwoTanksEnv


def test_flow_through_vs_an_adaptive_integrator():
    """Five Euler steps follow the differential equation to a millimetre per step."""
    rng = np.random.default_rng(0)
    for levels in rng.uniform(15, 45, (20, 2)):
        pump, demand = rng.uniform(30, 60), rng.uniform(0.6, 1.4)

        def law(_, h, pump=pump, demand=demand):
            between = 0.55 * np.sqrt(h[0])
            return [0.065 * pump - between, between - 0.55 * demand * np.sqrt(h[1])]

        exact = solve_ivp(law, (0.0, 1.0), levels, rtol=1e-9).y[:, -1]
        np.testing.assert_allclose(flow_through(levels, pump, demand), exact, atol=0.1)


def test_flow_through_rests_where_the_flows_balance():
    pump = 0.55 * np.sqrt(30.0) / 0.065  # what leaves a level of 30 at demand 1
    np.testing.assert_allclose(flow_through(np.array([30.0, 30.0]), pump, 1.0), [30.0, 30.0], atol=1e-12)


def test_pump_follows_its_description_and_reaches_the_tank_after_four_steps():
    env, still = started(), started()
    plant, bounds = env.unwrapped.plant, env.observation_space
    actions = np.random.default_rng(1).uniform(-1, 1, (40, 1)).astype(np.float32)
    entries = list(plant.actuated)
    expected = plant.actuators.positions(np.array([45.0]), actions[None], bounds.low[entries], bounds.high[entries])
    reached, levels = [], []
    for action in actions:
        observation, _, _, _, info = env.step(action)
        quiet = still.step(np.zeros(1, np.float32))[4]
        reached.append(observation[PUMP])
        levels.append(info["levels"][0] - quiet["levels"][0])
    np.testing.assert_allclose(reached, expected[0, :, 0], atol=1e-5)
    assert not any(levels[:4])
    assert all(levels[4:])


def test_demand_is_exogenous_jumps_every_60_steps_and_stays_within_bounds():
    env, other = started(3), started(3)
    rows = np.array([env.step(np.ones(1, np.float32))[0] for _ in range(2000)])
    same = np.array([other.step(-np.ones(1, np.float32))[0] for _ in range(2000)])
    np.testing.assert_array_equal(rows[:, DEMAND], same[:, DEMAND])
    assert env.unwrapped.plant.exogenous == (DEMAND,)
    change = np.abs(np.diff(rows[:, DEMAND]))
    assert (change[58::60] > 0.2).all()  # clock 60, 120, ...
    assert (np.delete(change, np.arange(58, len(change), 60)) < 0.06).all()
    assert rows[:, DEMAND].min() >= 0.5
    assert rows[:, DEMAND].max() <= 1.5


def test_loss_of_the_plant_is_that_of_the_environment():
    env = started(target=25.0)
    for action in np.random.default_rng(0).uniform(-1, 1, (30, 1)).astype(np.float32):
        observation, reward, _, _, info = env.step(action)
        assert env.unwrapped.plant.loss(action, observation) == info["loss"] == -reward
        assert info["loss"] == pytest.approx(abs(observation[SECOND] - 25.0))
        assert abs(observation[FIRST] - info["levels"][0]) < 5 * 0.3


def test_simulate_is_the_environment_without_noise(monkeypatch):
    """With the demand held, as `simulate` holds it, the true levels are the simulated ones."""
    env = started().unwrapped
    monkeypatch.setattr(env, "_next_demand", lambda: env._demand)
    actions = np.random.default_rng(0).uniform(-1, 1, (5, 30, 1))
    before = env.get_state()
    losses = env.simulate(actions, np.random.default_rng(0))
    for sequence, expected in zip(actions, losses, strict=True):
        env.set_state(before)
        true = [abs(env.step(action)[4]["levels"][1] - 30.0) for action in sequence]
        np.testing.assert_allclose(true, expected, atol=1e-9)


def test_state_continues_bit_for_bit():
    env, other = started(1), started(2)
    actions = np.random.default_rng(0).uniform(-1, 1, (100, 1)).astype(np.float32)
    for action in actions[:50]:
        env.step(action)
    other.unwrapped.set_state(env.unwrapped.get_state())
    for action in actions[50:]:
        np.testing.assert_array_equal(env.step(action)[0], other.step(action)[0])


@pytest.mark.parametrize("known", [True, False])
def test_known_pump_is_what_the_plant_tells(known):
    actuators = TwoTanksEnv(known_pump=known).plant.actuators
    assert (actuators is not None) == known


def test_two_tanks_raises_on_bad_input():
    with pytest.raises(ValueError, match="TwoTanks: target must be between 0 and 60, got 70"):
        TwoTanksEnv(target=70)
    with pytest.raises(TypeError, match="TwoTanks: known_pump must be True or False, got 1"):
        TwoTanksEnv(known_pump=1)
    with pytest.raises(gym.error.ResetNeeded, match="TwoTanks: step must follow a reset"):
        TwoTanksEnv().step(np.zeros(1))
    env = TwoTanksEnv()
    with pytest.raises(ValueError, match="TwoTanks: options must be empty"):
        env.reset(options={"level": 3})
    env.reset(seed=0)
    for bad in (np.array([np.nan]), np.array([1.5]), np.zeros(2)):
        with pytest.raises(ValueError, match=r"TwoTanks: action must be one number in \[-1, 1\]"):
            env.step(bad)
    with pytest.raises(ValueError, match="TwoTanks: state must have levels, clock, generator, got none"):
        env.set_state({"demand": 1.0, "pump": np.zeros(5)})


def losses(name, seed=11, n=300, **settings):
    env = Seeded(gym.make("TwoTanks-v0", max_episode_steps=-1), seed)
    agent = agents.make(name, env, **settings)
    return np.mean([step.info["loss"] for step in steps_of(agent, n)])


def test_pi_is_far_better_than_doing_nothing_and_the_oracle_better_still():
    noop, pi = losses("noop"), losses("pi")
    oracle = losses("oracle", horizon=20, n_candidates=60, n_iterations=3)
    assert pi < 0.6 * noop
    assert oracle < pi


def test_constant_finds_a_pump_no_worse_than_any_on_its_grid():
    """On the trial seed itself: the best of five, each played here by another agent of the same class."""
    found = losses("constant", seed=0, n=100, points=5, trial_steps=100)
    others = [losses("constant", seed=0, n=100, position=(pump,)) for pump in (0.0, 25.0, 50.0, 75.0, 100.0)]
    assert found == min(others)
    assert max(others) > 2 * min(others)
