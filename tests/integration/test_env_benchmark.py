"""The real scripts/benchmark.py, as a user calls it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "benchmark.py"


def call(*arguments):
    command = [sys.executable, "-W", "error", str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_benchmark_measures_the_env_section(tmp_path):
    path = tmp_path / "results" / "benchmark.json"
    done = call("--sections", "env", "--smoke", "--json", path)
    assert done.returncode == 0, done.stderr
    results = json.loads(path.read_text())["results"]
    siemens, single, vector = results
    assert {row["section"] for row in results} == {"env"}
    assert siemens["ratio"] == 1.0
    assert siemens["passed"] is None
    assert (single["bar"], vector["bar"]) == (5.0, 300.0)
    for row in (single, vector):
        assert row["ratio"] == pytest.approx(siemens["microseconds"] / row["microseconds"])
        assert row["passed"] == (row["ratio"] >= row["bar"])
        assert row["name"] in done.stdout
    # Far below the bars: a busy machine may miss those, but not this.
    assert vector["ratio"] > 10.0 * single["ratio"] > 10.0
    assert ("BARS MISSED" in done.stdout) == (not (single["passed"] and vector["passed"]))


def test_benchmark_raises_on_unknown_section():
    done = call("--sections", "envs")
    assert done.returncode == 2
    assert "sections must be any of env" in done.stderr
    assert "did you mean 'env'?" in done.stderr
