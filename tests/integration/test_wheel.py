"""The built wheel in an environment of its own, far from the checkout."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]


def call(*command, cwd):
    """Run a command without the paths of this environment and of the checkout."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=cwd, env=env, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_wheel_gives_the_command_habnn_elsewhere(tmp_path):
    """The dependencies come from this environment by a .pth file; code and data files come from the wheel alone."""
    call(sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "-w", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("habnn_control-*.whl")
    call(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    python, habnn = tmp_path / "venv/bin/python", tmp_path / "venv/bin/habnn"
    call(python, "-m", "pip", "install", "--no-deps", "--quiet", wheel, cwd=tmp_path)
    site = Path(call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip())
    theirs = call(sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip()
    (site / "dependencies.pth").write_text(f"{theirs}\n")  # .pth files inside it, such as ours, are not followed
    for package in ("agents", "envs", "habnn_control"):
        place = call(python, "-c", f"import {package}; print({package}.__file__)", cwd=tmp_path)
        assert Path(place.strip()).is_relative_to(site)
    assert call(habnn, "--version", cwd=tmp_path).startswith("habnn ")
    flags = ["--agents", "habnn", "noop", "--runs", 2, "--steps", 12, "--jobs", 1, "--out", "results"]
    assert "report:" in call(habnn, "compare", *flags, cwd=tmp_path)
    losses = pd.read_csv(tmp_path / "results/losses.csv")
    assert losses.groupby("agent")["run"].nunique().to_dict() == {"habnn": 2, "noop": 2}
    assert (tmp_path / "results/report.html").stat().st_size > 10_000
