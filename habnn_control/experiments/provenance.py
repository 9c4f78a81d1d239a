"""Provenance of results: the command, the code, the packages and the time behind a results folder."""

import json
import math
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from habnn_control.support.files import atomic_write, read_json

_PACKAGES = ("habnn-control", "numpy", "scipy", "numba", "pandas", "gymnasium", "stable-baselines3", "torch", "joblib")


def write_meta(folder: str | Path, command: str, wall_seconds: float, **settings: Any) -> None:
    """Write meta.json; wall time and commits accumulate over the calls that resumed a study.

    Parameters
    ----------
    folder : str or Path
        Results folder.
    command : str
        The command line.
    wall_seconds : float
        Wall time of this call.
    **settings
        All flags of the command, those left out included.
    """
    path = Path(folder) / "meta.json"
    before_seconds, before_commits = _earlier(path)
    meta = {
        "command": command,
        "settings": settings,
        "wall_seconds": round(before_seconds + wall_seconds, 3),
        "commits": sorted({*before_commits, commit()}),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {name: _version(name) for name in _PACKAGES},
    }
    with atomic_write(path) as file:
        file.write((json.dumps(meta, indent=2) + "\n").encode())


def _earlier(path: Path) -> tuple[float, list[str]]:
    """Return wall time and commits in an earlier meta.json; results must not depend on one that is damaged."""
    try:
        meta = read_json(path)
        seconds, commits = float(meta["wall_seconds"]), [str(one) for one in meta["commits"]]
    except (OSError, ValueError, TypeError, LookupError):
        return 0.0, []
    return (seconds, commits) if math.isfinite(seconds) else (0.0, commits)


def commit() -> str:
    """Return the commit this package is checked out at, with + if files differ from it; "unknown" without git."""
    call = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"]
    try:
        done = subprocess.run(call, capture_output=True, text=True, check=False)
    except OSError:  # no git on the PATH: results must not depend on it
        return "unknown"
    return done.stdout.strip() or "unknown"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
