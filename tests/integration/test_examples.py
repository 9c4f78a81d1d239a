"""Every example runs, from another folder, within a minute of processor time, and prints what it promises."""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
QUICK = {  # flags of a quick form, and what the output must match
    "quickstart": (["--steps", "40"], r"habnn +mean loss over the last 40 steps: \d+\.\d\nnoop .*\ninside .* \d+ %"),
    "own_plant": (["--steps", "40"], r"habnn\S* +mean distance from 50 degrees .*: \d+\.\d+\nnoop "),
    "log_to_control": (["--log-steps", "60", "--steps", "30"], r"cold start: .* \d+\.\d\nwarm start: .* \d+\.\d"),
    "regression": (["--samples", "120", "--passes", "5"], r"stream.*RMSE \d\.\d+.*\nestimator.*RMSE \d\.\d+"),
    "compare_agents": (["--runs", "2", "--steps", "20"], r"habnn minus noop: -?\d+\.\d \[-?\d+\.\d, -?\d+\.\d\]"),
}


def test_every_example_is_tested():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(QUICK)


@pytest.mark.parametrize("name", QUICK)
def test_example_runs_in_another_folder(name, tmp_path):
    flags, expected = QUICK[name]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / f"{name}.py", *flags],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=600,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert re.search(expected, done.stdout), done.stdout
    assert after.ru_utime - before.ru_utime < 60


@pytest.mark.parametrize("name", QUICK)
def test_example_names_no_path_outside_of_the_repository(name):
    text = (EXAMPLES / f"{name}.py").read_text()
    assert "../" not in text
    assert "/work" not in text
