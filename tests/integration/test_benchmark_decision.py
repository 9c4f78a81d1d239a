"""The `decision` section of scripts/benchmark.py: HABNN-MPC beside ensembles in the same loop."""

import json

import gymnasium as gym
import pytest

import agents
from agents.benchmarks import decision as section
from agents.cli.main import main


def test_benchmark_measures_the_decision_section(tmp_path, monkeypatch, capsys):
    """Small ensembles and a short start: the figures do not count here, what is said about them does."""
    import torch

    threads = torch.get_num_threads()
    small = {name: settings | {"hidden": (30, 30)} for name, settings in section.ENSEMBLES.items()}
    for name, value in {"N_LEARNED": 15, "N_TURNS": 3, "ENSEMBLES": small}.items():
        monkeypatch.setattr(section, name, value)
    path = tmp_path / "benchmark.json"
    assert main(["benchmark", "--sections", "decision", "--smoke", "--json", str(path)]) == 0
    content = json.loads(path.read_text())
    turn, pets, over_pets, lean, over_lean = content["results"]
    assert content["versions"]["torch"].startswith(torch.__version__.partition("+")[0])
    assert turn["ratio"] == pytest.approx(50e3 / turn["microseconds"])
    assert [row["bar"] for row in content["results"]] == [1.0, None, 10.0, None, None]
    for reference, over in ((pets, over_pets), (lean, over_lean)):
        assert reference["microseconds"] > 0
        assert reference["ratio"] == 1.0
        assert over["microseconds"] == turn["microseconds"]
        assert over["ratio"] == pytest.approx(reference["microseconds"] / turn["microseconds"])
    for reference, over, name in zip((pets, lean), (over_pets, over_lean), small, strict=True):
        assert reference["name"] == f"{name}, one turn"
        assert over["name"].endswith(f"over {name}")
    output = capsys.readouterr().out
    assert all(row["name"] in output for row in content["results"])
    assert torch.get_num_threads() == threads


def test_benchmark_ensembles_are_of_the_sizes_in_their_names():
    """PETS's four layers of 200, and two layers as wide as the network of the default agent."""
    large, lean = section.ENSEMBLES.items()
    default = agents.make("habnn", gym.make("IndustrialBenchmark-v0")).model
    ((width,),) = {model.network.settings.hidden for model in default.models}
    for (name, settings), n_layers, units in ((large, 4, 200), (lean, 2, width)):
        assert settings["hidden"] == (units,) * n_layers
        assert name.endswith(f"{n_layers} layers of {units}")


def test_benchmark_ensembles_do_not_train_while_the_clock_runs():
    for settings in section.ENSEMBLES.values():
        agent = section._agent("pets", model=settings | {"hidden": (8,)}, planner={"n_candidates": 10})
        before = agent.model.networks.get_state()
        assert len(section._turns(agent, 11)) == 11
        for name, value in agent.model.networks.get_state().items():
            assert (value == before[name]).all()


def test_benchmark_agents_search_with_the_same_planner():
    """The ensembles differ from the default agent in the model alone."""
    ours, theirs = section._agent("habnn"), section._agent("pets", model={"hidden": (8,)})
    assert ours.planner == theirs.planner
    assert (ours._horizon, ours._hold) == (theirs._horizon, theirs._hold)
