"""The `decision` section of scripts/benchmark.py, and the PETS-style planner it compares with."""

import importlib
import json
import math
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from agents.habnn import plant_loss

import agents
import envs

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def scripts(monkeypatch):
    """Import modules beside the scripts, as the scripts do."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module


@pytest.fixture
def agent():
    """Return a small agent that has made three steps, which its model remembers."""
    env = gym.make("IndustrialBenchmark-v0", setpoint=70)
    env.reset(seed=0)
    return agents.make("habnn", env, horizon=4, hold=2, tail=3.0, n_candidates=10, n_iterations=2).learn(3)


def modules(ensemble, member):
    """Build one member of an ensemble from torch's own layers."""
    import torch

    layers = []
    for weight, bias in zip(ensemble.weights, ensemble.biases, strict=True):
        linear = torch.nn.Linear(*weight.shape[1:])
        linear.weight.data, linear.bias.data = weight[member].T.clone(), bias[member, 0].clone()
        layers += [linear, torch.nn.SiLU()]
    return torch.nn.Sequential(*layers[:-1]).requires_grad_(False)


def test_ensemble_draws_vs_torch_modules(scripts):
    """Means and deviations of many draws at one input, each within 5 standard errors of what a member says."""
    import torch

    n = 4000
    ensemble = scripts("_pets").Ensemble(6, (16, 16), 2, seed=1)
    for bias in ensemble.biases:
        bias.normal_(generator=torch.Generator().manual_seed(2))
    ensemble.biases[-1][..., 2:] = torch.tensor([-15.0, 5.0])  # log-variances beyond either bound
    inputs = torch.randn((5, 1, 6), generator=torch.Generator().manual_seed(3))
    draws = ensemble.sample(inputs.expand(5, n, 6))
    for member in range(5):
        mean, raw = modules(ensemble, member)(inputs[member, 0]).chunk(2)
        below_most = 0.5 - torch.log1p(torch.exp(0.5 - raw))
        deviation = torch.exp(0.5 * (-10 + torch.log1p(torch.exp(below_most + 10))))
        assert ((draws[member].mean(0) - mean).abs() < 5 * deviation / math.sqrt(n)).all()
        assert ((draws[member].std(0) - deviation).abs() < 5 * deviation / math.sqrt(2 * n)).all()


def test_trajectory_sampler_costs_vs_single_steps(scripts, agent, monkeypatch):
    """Without noise, costs are those of following each member one step at a time, as the agent follows the plant."""
    import torch

    sampler = scripts("_pets").TrajectorySampler(agent, (12, 12), 10)
    for weight in sampler.ensemble.weights:
        weight *= 4  # lively enough for what is fed back to matter, and for bounds to be reached
    monkeypatch.setattr(sampler.ensemble, "sample", lambda inputs: sampler.ensemble.distribution(inputs)[0])
    sequences = np.random.default_rng(4).uniform(-1, 1, (3, 4, 3))
    model, here = agent.model, agent.model.memory
    expected = np.zeros(3)
    for candidate, sequence in enumerate(sequences):
        for member in range(5):
            network = modules(sampler.ensemble, member)
            model.memory = here
            for action, weight in zip([*sequence, *np.zeros((2, 3))], [1, 1, 1, 1, 1, 3], strict=True):
                observation = model.memory.observation.copy()
                observation[1:4] = np.clip(observation[1:4] + np.array(envs.ACTUATOR_STEPS) * action, 0, 100)
                output = network(torch.from_numpy(model._next_inputs(action)).float())[0, :2].double().numpy()
                values = model._transform.inverse(output + here.origin)
                observation[4:] = np.clip(values, model.low[4:], model.high[4:])
                expected[candidate] += weight * plant_loss(action, observation) / 5
                model.follow(action, observation)
    model.memory = here
    np.testing.assert_allclose(sampler.costs(sequences), expected, rtol=1e-4)  # float32, fed back


def test_trajectory_sampler_plans_with_the_budget_of_the_agent(scripts, agent, monkeypatch):
    sampler = scripts("_pets").TrajectorySampler(agent, (12,), 15)
    asked, sample = [], sampler.ensemble.sample
    monkeypatch.setattr(sampler.ensemble, "sample", lambda inputs: asked.append(inputs.shape) or sample(inputs))
    plan = sampler.plan(np.random.default_rng(0))
    n_inputs, n_steps = agent.model.network.settings.n_inputs, 6
    assert asked == 2 * n_steps * [(5, 3 * 10, n_inputs)] + n_steps * [(5, 3 * 1, n_inputs)]  # at last, the mean
    assert plan.rejected == 0
    assert math.isfinite(plan.cost)


def test_benchmark_measures_the_decision_section(scripts, tmp_path, monkeypatch, capsys):
    """A small ensemble and a short start: the figures do not count here, what is said about them does."""
    import torch

    section, threads = scripts("_benchmark_decision"), torch.get_num_threads()
    for name, value in {"N_LEARNED": 15, "N_TURNS": 3, "HIDDEN": (30, 30), "N_PARTICLES": 10}.items():
        monkeypatch.setattr(section, name, value)
    path = tmp_path / "benchmark.json"
    assert scripts("benchmark").main(["--sections", "decision", "--smoke", "--json", str(path)]) == 0
    content = json.loads(path.read_text())
    turn, pets, over_pets, lean, over_lean = content["results"]
    assert content["versions"]["torch"].startswith(torch.__version__.partition("+")[0])
    assert turn["ratio"] == pytest.approx(50e3 / turn["microseconds"])
    assert [row["bar"] for row in content["results"]] == [1.0, None, 10.0, None, None]
    for reference, over in ((pets, over_pets), (lean, over_lean)):
        assert reference["ratio"] == 1.0
        assert over["microseconds"] == turn["microseconds"]
        assert over["ratio"] == pytest.approx(reference["microseconds"] / turn["microseconds"])
    network = agents.make("habnn", gym.make("IndustrialBenchmark-v0")).model.network.settings
    assert f"5 MLPs {network.n_inputs}-30-30-4, 10 particles" in pets["name"]
    assert f"5 MLPs {network.n_inputs}-{network.hidden[0]}-{network.hidden[0]}-4, 5 particles" in lean["name"]
    output = capsys.readouterr().out
    assert all(row["name"] in output for row in content["results"])
    assert torch.get_num_threads() == threads
