"""The real scripts/plan_errors.py, and what agents believe of plans, against functions drawn from the posterior."""

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest

import agents
from agents.outlook import plan_losses
from habnn_control.support.threads import one_thread
from real_scripts import script

PLANS = 20


@pytest.fixture(scope="module")
def agent():
    env = gym.make("IndustrialBenchmark-v0", setpoint=100)
    env.reset(seed=3)
    # Certain hidden weights, as a forecast takes them to be, and functions that stay within the bounds.
    network = {"hidden": (20,), "scale": 1e-14, "output_scale": 0.003}
    model = {"target": "absolute", "past_outputs": 0, "network": network}
    made = agents.make("habnn", env, seed=3, model=model)
    return made.learn(60)


@pytest.fixture(scope="module")
def plans():
    return np.clip(np.random.default_rng(0).standard_normal((PLANS, 30, 3)), -1.0, 1.0)


def test_plan_losses_of_resting_are_beyond_resting_by_nothing(agent):
    found = plan_losses(agent, np.zeros((1, 30, 3)))
    assert found.above_rest[0] == pytest.approx(0.0, abs=1e-3)
    assert found.above_rest_deviation[0] == pytest.approx(0.0, abs=1e-3)
    assert found.deviation[0] > 0.0


def test_plan_losses_deviations_of_a_linear_target_vs_monte_carlo(agent, plans):
    found, n = plan_losses(agent, plans), 200
    both = np.concatenate([np.zeros((1, 30, 3)), plans])
    drawn = np.empty((n, len(both)))
    for k in range(n):
        with one_thread():
            function = agent.model.draw(np.random.default_rng(k))
        drawn[k] = agent.plant.cost(both, function.forecast(agent.model.memory, both).observations).mean(axis=1)
    for deviation, samples in (
        (found.deviation, drawn[:, 1:]),
        (found.above_rest_deviation, drawn[:, 1:] - drawn[:, :1]),
    ):
        ratio = samples.std(axis=0) / deviation
        assert np.median(ratio) == pytest.approx(1.0, abs=5 / np.sqrt(2 * n))


def test_plan_errors_true_losses_are_those_of_the_environment():
    """Two scenarios of the simulator on a mirror image against stepping copies of it, within Monte Carlo errors."""
    module = script("plan_errors")
    env = module["_Watched"](gym.make("IndustrialBenchmark-v0", setpoint=100, mirror=("gain", "shift")), 5)
    env.reset()
    for _ in range(3):
        env.step(np.full(3, 0.5))
    plan = np.clip(np.random.default_rng(1).standard_normal((1, 35, 3)), -1.0, 1.0)
    found = np.array([module["_true_losses"](env, plan, np.random.default_rng(k))[0] for k in range(20)])
    state, stepped = env.unwrapped.get_state(), []
    for seed in range(100):
        copy = gym.make("IndustrialBenchmark-v0", setpoint=100, mirror=("gain", "shift"))
        copy.reset(seed=seed)
        copy.unwrapped.set_state(state)
        copy.unwrapped._batch.reseed([np.random.default_rng(seed)])
        stepped.append(np.mean([copy.step(action)[4]["loss"] for action in plan[0]]))
    error = np.hypot(found.std() / np.sqrt(20), np.std(stepped) / np.sqrt(100))
    assert abs(found.mean() - np.mean(stepped)) < 5 * error


def test_plan_errors_writes_what_it_prints(tmp_path, capsys):
    flags = ["--agents", "habnn", "--runs", "2", "--at", "25", "40", "--plans", "10", "--out", str(tmp_path)]
    assert script("plan_errors")["main"](flags) == 0
    plans, table = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("plan-errors-plans", "plan-errors"))
    assert table["step"].tolist() == [25, 40]
    late = plans[(plans["step"] == 40) & (plans["plan"] >= 0)]
    assert len(late) == 20
    errors = [np.sqrt(np.mean(((run["mean"] - run["true"]) / run["deviation"]) ** 2)) for _, run in late.groupby("run")]
    assert table["error_of_total"].iloc[1] == pytest.approx(np.median(errors), rel=1e-4)
    assert "error_of_total" in capsys.readouterr().out
    assert (tmp_path / "plan-errors.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("flags", "message"),
    [(("--at", "40", "30"), "at rising"), (("--plans", "1"), "plans at least 2"), (("--agents", "noop"), "noop")],
)
def test_plan_errors_refuses(tmp_path, capsys, flags, message):
    assert script("plan_errors")["main"]([*flags, "--runs", "1", "--out", str(tmp_path / "new")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
