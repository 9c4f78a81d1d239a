"""The `habnn` section of scripts/benchmark.py, and the plain networks it compares with."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from agents.benchmarks import habnn as section
from agents.benchmarks import plain_network
from habnn_control import HABNN

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.mark.parametrize("hidden", [(50,), (12, 9)])
@pytest.mark.parametrize(("covariance", "kind"), [("diagonal", "PlainNetwork"), ("full", "PlainFullNetwork")])
def test_plain_network_learns_as_habnn(covariance, kind, hidden):
    """Scales are wide here: the printed rectifier cancels where a location is many scales below zero."""
    network = HABNN(8, 2, hidden, scale=0.5, covariance=covariance, noise_variance=[0.5, 0.2], seed=3)
    plain = getattr(plain_network, kind)(network)
    rng = np.random.default_rng(1)
    for _ in range(3):
        x, y = rng.normal(size=8), rng.normal(size=2)
        network.update(x, y)
        plain.update(x, y)
    for ours, theirs in zip(network.weight_loc + network.weight_scale_sq, plain.loc + plain.scale, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)
    assert network.dof == plain.nu


def test_benchmark_measures_the_habnn_section(tmp_path):
    path = tmp_path / "benchmark.json"
    command = [sys.executable, "-W", "error", str(SCRIPTS / "benchmark.py"), "--sections", "habnn", "--smoke"]
    done = subprocess.run([*command, "--json", str(path)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(path.read_text())["results"]}
    plain, fit = rows["8-50-1: the paper's equations in NumPy"], rows["8-50-1: fit, a sample, over NumPy"]
    assert fit["ratio"] == pytest.approx(plain["microseconds"] / fit["microseconds"])
    assert (fit["bar"], rows["36-80-2 full: fit, a sample, over einsum"]["bar"]) == (100.0, 5.0)
    # Far below the bars: a busy machine may miss those, but not this.
    assert fit["ratio"] > 20.0
    assert rows["36-80-2 full: fit, a sample, over einsum"]["ratio"] > 1.0
    growth = rows["8-1600-1: fit, a sample; 1.1 / exponent of cost over weights"]
    assert 1.1 / growth["ratio"] < 1.5
    assert all(name in done.stdout for name in rows)
    assert ("8-50-1: fit, a sample, over pytagi" in rows) != ("pytagi is not installed" in done.stdout)


def test_benchmark_leaves_pytagi_out_where_it_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(section, "find_spec", lambda _: None)
    names = [result.name for result in section.measure(repeats=1)]
    assert not any("pytagi" in name for name in names)
    assert "pytagi is not installed (extra `regression`)" in capsys.readouterr().out
