"""PC-Gym's processes: against an adaptive integrator, PC-Gym's own environments, and their description."""

import importlib.util
import sys
from subprocess import run

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium
from scipy.integrate import solve_ivp
from stable_baselines3.common.env_checker import check_env as check_stable_baselines

import agents
import envs
from envs.pcgym import ProcessEnv
from envs.processes import PROCESSES, Quantity, dynamics_of
from habnn_control.support import extras
from tiny_agents import TINY, Seeded, steps_of

installed = pytest.mark.skipif(importlib.util.find_spec("pcgym") is None, reason="needs the extra plants")


def started(process, seed=0, **arguments):
    env = gym.make(f"PCGym/{process}-v0", max_episode_steps=-1, **arguments)
    env.reset(seed=seed)
    return env


@installed
@pytest.mark.parametrize("process", PROCESSES)
def test_checkers_accept_process(process):
    env = gym.make(f"PCGym/{process}-v0").unwrapped
    check_gymnasium(env, skip_render_check=True)
    check_stable_baselines(env, warn=True)


@installed
@pytest.mark.parametrize("process", PROCESSES)
def test_process_vs_an_adaptive_integrator(process):
    """Steps to the ends of the inputs, from the start: our Runge-Kutta steps and LSODA agree to 1e-3 of the range."""
    dynamics = dynamics_of(process)
    details, rng = dynamics.process, np.random.default_rng(0)
    state = dynamics.steady_state(details.operating_points[0])
    names = [one.name for one in details.measured]
    for _ in range(5):
        position = rng.choice([-1.0, 1.0], (len(details.inputs), 1))
        inputs = dynamics._inputs(position)
        exact = solve_ivp(
            lambda _, x, u=inputs: dynamics._slope(x[:, None], u)[:, 0],
            (0.0, details.time_step),
            state,
            method="LSODA",
            rtol=1e-9,
            atol=1e-12,
        ).y[:, -1]
        ours = dynamics.advanced(state[:, None], position)
        np.testing.assert_allclose(
            dynamics.scaled(ours, names)[:, 0], dynamics.scaled(exact[:, None], names)[:, 0], atol=2e-3
        )
        state = ours[:, 0]


PEER = """
import warnings
warnings.simplefilter("ignore")
import sys, json
import numpy as np
from pcgym import make_env
from envs.processes import PROCESSES, dynamics_of
result = {}
for name in ("CSTR", "FourTank"):
    dynamics = dynamics_of(name)
    process = dynamics.process
    start = dynamics.steady_state(process.operating_points[0])
    low, high = (np.array([getattr(one, end) for one in process.inputs]) for end in ("low", "high"))
    wide = {"low": np.zeros(len(start)), "high": np.full(len(start), 1e4)}
    theirs = make_env({
        "N": 10, "tsim": 10 * process.time_step, "SP": {}, "o_space": wide, "a_space": {"low": low, "high": high},
        "x0": start, "model": process.model, "normalise_a": False, "normalise_o": False,
        "custom_reward": lambda *_: 0.0,
    })
    theirs.reset()
    ours, worst = start[:, None], 0.0
    for position in np.random.default_rng(0).uniform(-1, 1, (5, len(low))):
        state = theirs.step(low + (position + 1) / 2 * (high - low))[0]
        ours = dynamics.advanced(ours, position[:, None])
        worst = max(worst, float(np.abs(np.asarray(state).ravel() / ours[:, 0] - 1).max()))
    result[name] = worst
print(json.dumps(result))
"""


@installed
def test_process_vs_pcgym():
    """PC-Gym's own environments, integrated by CVODES, reach the same states; in a process of its own, for it warns."""
    import json

    done = run([sys.executable, "-c", PEER], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    worst = json.loads(done.stdout.strip().splitlines()[-1])
    assert set(worst) == {"CSTR", "FourTank"}
    assert max(worst.values()) < 1e-3


@installed
@pytest.mark.parametrize("process", PROCESSES)
def test_setpoints_are_steady_states_within_the_spaces(process):
    """Under the inputs of an operating point the process stays there, and holding them costs nothing but noise."""
    dynamics = dynamics_of(process)
    for point in dynamics.process.operating_points:
        state, position = dynamics.steady_state(point)[:, None], np.array(point)[:, None]
        after = state
        for _ in range(20):
            after = dynamics.advanced(after, position)
        names = [one.name for one in dynamics.process.measured]
        np.testing.assert_allclose(dynamics.scaled(after, names), dynamics.scaled(state, names), atol=1e-6)
        assert np.abs(dynamics.scaled(state, names)).max() < 1.0
        assert np.abs(position).max() < 1.0


@installed
@pytest.mark.parametrize("process", PROCESSES)
def test_process_is_as_described(process):
    """Setpoints change every `hold` steps in a cycle and by no action; inputs follow the actions; losses agree."""
    env = started(process, hold=5)
    plant, n = env.unwrapped.plant, len(PROCESSES[process].operating_points)
    rows, positions = [], []
    start = env.unwrapped._positions[:, 0].copy()
    actions = np.random.default_rng(1).uniform(-1, 1, (10 * n + 5, *env.action_space.shape)).astype(np.float32)
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(action)
        assert info["loss"] == -reward == pytest.approx(float(plant.loss(action, observation)))
        assert not terminated
        assert not truncated
        assert env.observation_space.contains(observation)
        rows.append(observation[list(plant.exogenous)])
        positions.append(observation[list(plant.actuated)])
    reached = plant.actuators.positions(
        start, actions[None].astype(float), np.full(len(start), -1.0), np.ones(len(start))
    )
    np.testing.assert_allclose(positions, reached[0], atol=1e-9)
    rows = np.array(rows)
    np.testing.assert_array_equal(rows[: 5 * n], rows[5 * n : 10 * n])
    changes = np.flatnonzero(np.abs(np.diff(rows, axis=0)).max(axis=1)) + 2  # steps at which a new setpoint shows
    assert changes.tolist() == list(range(5, len(rows) + 1, 5))


@installed
def test_simulate_is_the_environment_without_noise():
    env = started("FourTank", noise=0.0).unwrapped
    actions = np.random.default_rng(0).uniform(-1, 1, (4, 20, 2))
    before = env.get_state()
    losses = env.simulate(actions, np.random.default_rng(0))
    for sequence, expected in zip(actions, losses, strict=True):
        env.set_state(before)
        np.testing.assert_allclose([env.step(action)[4]["loss"] for action in sequence], expected, atol=1e-9)


@installed
def test_process_state_continues_bit_for_bit():
    env, other = started("CSTR", 1), started("CSTR", 2)
    for _ in range(5):
        env.step(np.ones(1, np.float32))
    other.unwrapped.set_state(env.unwrapped.get_state())
    for _ in range(5):
        np.testing.assert_array_equal(*(one.step(-np.ones(1, np.float32))[0] for one in (env, other)))


@installed
def test_process_raises_on_bad_input():
    with pytest.raises(ValueError, match=r"PCGym: process must be one of .* got 'CTSR'; did you mean 'CSTR'"):
        ProcessEnv("CTSR")
    with pytest.raises(ValueError, match="PCGym: hold must be a positive integer and noise in"):
        ProcessEnv("CSTR", hold=0)
    env = ProcessEnv("CSTR", known_inputs=False)
    assert env.plant.actuators is None
    with pytest.raises(gym.error.ResetNeeded, match="PCGym: step must follow a reset"):
        env.step(np.zeros(1))
    with pytest.raises(ValueError, match="PCGym: options must be empty"):
        env.reset(options={"x": 1})
    env.reset(seed=0)
    for bad in (np.zeros(2), np.array([np.nan]), np.array([1.5])):
        with pytest.raises(ValueError, match=r"PCGym: action must be 1 numbers in \[-1, 1\]"):
            env.step(bad)
    with pytest.raises(ValueError, match="PCGym: state must have positions, clock, generator, got none"):
        env.set_state({"states": 0})


def test_missing_extra_names_itself(monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    envs.processes._model_classes.cache_clear()
    dynamics_of.cache_clear()
    with pytest.raises(
        ValueError, match=r"PCGym: the environment must have the package pcgym, got none; .*\.\[plants\]"
    ):
        gym.make("PCGym/CSTR-v0")


def test_quantities_have_a_range():
    quantities = [one for process in PROCESSES.values() for one in (*process.inputs, *process.measured)]
    assert all(isinstance(one, Quantity) and one.low < one.high for one in quantities)
    assert len(PROCESSES) >= 6


@installed
def test_import_of_a_process_is_quick_and_silent():
    """PC-Gym's package would bring casadi and do-mpc, ten seconds and a warning; only its equations are loaded."""
    code = "import envs, gymnasium, sys; gymnasium.make('PCGym/CSTR-v0')\n"
    code += "print('casadi' in sys.modules, 'do_mpc' in sys.modules)"
    done = run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("False False", "")


@installed
@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("agent", ["habnn", "linear-mpc", "gp-mpc", "sac", "extremum-seeking", "oracle"])
def test_agents_play_the_process(process, agent):
    settings = {
        "habnn": TINY,
        "oracle": {"horizon": 3, "n_candidates": 12, "n_iterations": 1},
        "linear-mpc": {key: value for key, value in TINY.items() if key != "model"},
        "gp-mpc": {key: value for key, value in TINY.items() if key != "model"},
    }
    env = Seeded(gym.make(f"PCGym/{process}-v0", max_episode_steps=-1), 0)
    steps = steps_of(agents.make(agent, env, **settings.get(agent, {})), 8)
    assert len(steps) == 8
    assert all(np.isfinite(step.info["loss"]) for step in steps)


@installed
@pytest.mark.parametrize("process", ["CSTR", "FourTank"])
def test_pi_is_better_than_doing_nothing_and_the_oracle_better_still(process):
    """Over one cycle of the setpoints."""
    settings = {"oracle": {"horizon": 8, "n_candidates": 40, "n_iterations": 2}}
    loss = {}
    for name in ("noop", "pi", "oracle"):
        env = Seeded(gym.make(f"PCGym/{process}-v0", max_episode_steps=-1, hold=40), 60)
        loss[name] = np.mean([s.info["loss"] for s in steps_of(agents.make(name, env, **settings.get(name, {})), 160)])
    assert loss["oracle"] < loss["pi"] < 0.6 * loss["noop"]
