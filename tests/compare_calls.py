"""The scripts compare.py and plot.py as tests call them."""

import runpy
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def shell(*arguments, **options):
    """Run the script in a process of its own."""
    command = [sys.executable, str(ROOT / "scripts/compare.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, **options)


def main(script, *arguments):
    """Run the script in this process, which has imported torch already, and return its exit code."""
    return runpy.run_path(str(ROOT / "scripts" / script))["main"]([str(argument) for argument in arguments])


def flags(out, agents, runs=2, steps=15, jobs=1, setpoint=40):
    numbers = ["--runs", runs, "--steps", steps, "--jobs", jobs, "--setpoints", setpoint]
    return ["--agents", *agents.split(), *numbers, "--out", out]
