"""scripts/baselines.py and the benchmark section of its adapter, as a user calls them."""

import importlib
import json
from pathlib import Path

import pandas as pd
import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def scripts(monkeypatch):
    """Import modules beside the scripts, as the scripts do."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module


def test_baselines_smoke_writes_curves_figure_and_checkpoints(scripts, tmp_path, capsys):
    arguments = ["--agents", "ppo", "sac-past", "noop", "hold", "--smoke", "--jobs", "1", "--out", str(tmp_path)]
    assert scripts("baselines").main(arguments) == 0
    curves = pd.read_csv(tmp_path / "curves.csv")
    assert list(curves.columns) == ["agent", "run", "seed", "steps", "loss", "whole_loss"]
    assert curves.groupby("agent", sort=False)["steps"].max().to_dict() == {
        "ppo": 64,
        "sac-past": 12,
        "noop": 12,
        "hold": 12,
    }
    assert b"environment steps" in (tmp_path / "curves.svg").read_bytes()
    assert (tmp_path / "checkpoints/sac-past/0/policy-12").exists()
    output = capsys.readouterr().out
    assert "Median steps until the loss falls to a level" in output
    assert "221" in output
    before = (tmp_path / "curves.csv").read_bytes()
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.glob("checkpoints/*/*/*")}
    assert scripts("baselines").main(arguments) == 0  # nothing is left to do
    assert (tmp_path / "curves.csv").read_bytes() == before
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("checkpoints/*/*/*")} == stamps


def test_baselines_refuses_unknown_agents_and_setpoints(scripts, tmp_path, capsys):
    assert scripts("baselines").main(["--agents", "pppo", "--out", str(tmp_path / "a")]) == 2
    assert "did you mean 'ppo'" in capsys.readouterr().err
    assert scripts("baselines").main(["--setpoint", "120", "--out", str(tmp_path / "b")]) == 2
    assert "setpoint must be in 0..100, got 120" in capsys.readouterr().err


def test_benchmark_measures_the_adapter(scripts, tmp_path):
    path = tmp_path / "benchmark.json"
    assert scripts("benchmark").main(["--sections", "adapter", "--smoke", "--json", str(path)]) == 0
    dummy, adapter = json.loads(path.read_text())["results"]
    assert adapter["bar"] == 20.0
    assert adapter["ratio"] == pytest.approx(dummy["microseconds"] / adapter["microseconds"])
    assert adapter["ratio"] > 5.0  # the bar itself is for a quiet machine


def test_curves_figure_has_a_line_per_agent(scripts):
    curves = pd.DataFrame(
        {"agent": ["ppo"] * 3 + ["noop"], "run": 0, "steps": [0, 100, 1000, 12], "loss": [300.0, 250.0, 220.0, 304.0]}
    )
    (axes,) = scripts("_baselines_figure").curves_figure(curves, ["noop"]).axes
    lines = {line.get_label(): line for line in axes.lines}
    assert lines["ppo"].get_xdata().tolist() == [10.0, 100.0, 1000.0]
    assert list(lines["noop"].get_ydata()) == [304.0, 304.0]
    assert axes.get_xlim() == (10.0, 1e7)
    assert axes.get_xscale() == "log"
