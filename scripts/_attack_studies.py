"""Attack a study: kill it again and again, damage its files, and compare the results with those of a quiet one."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from _attack import Outcome  # type: ignore[import-not-found]

_COMPARE = Path(__file__).with_name("compare.py")
_FLAGS = ("--agents", "noop", "random", "wander", "--runs", "12", "--steps", "6000", "--jobs", "1")


def attack(effort: float) -> list[Outcome]:
    """Return the outcomes of kills and of damaged run files."""
    n = max(int(6 * effort), 2)
    with tempfile.TemporaryDirectory() as folder:
        quiet, killed = Path(folder, "quiet"), Path(folder, "killed")
        _finish(quiet)
        wanted = (quiet / "losses.csv").read_bytes()
        rng = np.random.default_rng(0)
        died = sum(_kill(killed, float(rng.uniform(0, 0.1))) for _ in range(n))
        _finish(killed)
        equal = (killed / "losses.csv").read_bytes() == wanted
        outcomes = [
            Outcome("studies: killed (SIGKILL) while it runs, and resumed", died, _told(equal), equal and died == n)
        ]
        for number, run in enumerate(sorted(killed.rglob("*.run"))):
            content = run.read_bytes()
            run.write_bytes(content[: len(content) // 2] if number % 2 else content[:-1] + b"?")
        (killed / "meta.json").write_text("{")
        _finish(killed)
        equal = (killed / "losses.csv").read_bytes() == wanted
    return [
        *outcomes,
        Outcome("studies: all run files and meta.json damaged, resumed", 3 * 12 + 1, _told(equal), equal),
    ]


def _told(equal: bool) -> str:
    return f"losses.csv is {'byte for byte' if equal else 'NOT'} that of an undisturbed study"


def _start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(_COMPARE), *_FLAGS, "--out", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def _kill(folder: Path, seconds: float) -> bool:
    """Start the study, kill it some seconds after it has stored two runs, and return whether it was still running."""
    before, process = len(list(folder.rglob("*.run"))), _start(folder)
    while process.poll() is None and len(list(folder.rglob("*.run"))) < before + 2:
        time.sleep(0.02)
    time.sleep(seconds)
    running = process.poll() is None
    if running:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return running


def _finish(folder: Path) -> None:
    if code := _start(folder).wait():
        raise RuntimeError(f"attack: the study in {folder} must end well, got exit code {code}.")
