"""Install a wheel into an empty environment of every Python found that may run it, and call `habnn` there."""

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from habnn_control.support.command_line import fail, flag, parse, positional

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
OLDEST = 11  # of Python 3, as pyproject.toml admits


@dataclass(frozen=True)
class Config:
    """Settings of the trial."""

    wheels: tuple[str, ...] = positional("wheels to try")
    pythons: tuple[str, ...] = flag((), "interpreters; without it, the oldest and the newest Python from 3.11 on here")


def main(arguments: list[str] | None = None) -> int:
    """Try the wheels and return the exit code."""
    config = parse(Config, __doc__, arguments)
    for python in config.pythons or oldest_and_newest():
        for wheel in config.wheels:
            try:
                print(f"{python}: {try_wheel(python, Path(wheel).resolve())}")
            except subprocess.CalledProcessError as error:
                return fail(f"try_wheel: {wheel} must work with {python}, got {error.stderr[-2000:]!r}; mend it.")
    return 0


def oldest_and_newest() -> tuple[str, ...]:
    """Return the oldest and the newest interpreter here that pyproject.toml admits; at least this one."""
    on_path = [shutil.which(f"python3.{minor}") for minor in range(OLDEST, 30)]
    of_pyenv = [str(path) for path in Path.home().glob(".pyenv/versions/3.*/bin/python3")]
    by_version = {version: path for path in (*of_pyenv, *on_path) if path and (version := _minor(path)) >= OLDEST}
    found = [by_version[version] for version in sorted(by_version)] or [sys.executable]
    return tuple(dict.fromkeys((found[0], found[-1])))


def _minor(python: str) -> int:
    """Return the minor version of a Python 3; 0 if it does not start, as a shim without a version behind it."""
    done = subprocess.run([python, "-c", "import sys; print(sys.version_info[1])"], capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 else 0


def try_wheel(python: str, wheel: Path) -> str:
    """Play a short study in an empty environment with the wheel; return its version and the size of the report."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        _call([python, "-m", "venv", "venv"], here)
        _call(["venv/bin/python", "-m", "pip", "install", "-q", "-c", str(CONSTRAINTS), str(wheel)], here)
        version = _call(["venv/bin/habnn", "--version"], here).strip()
        study = ["compare", "--agents", "habnn", "noop", "--runs", "2", "--steps", "20", "--jobs", "1", "--out", "out"]
        _call(["venv/bin/habnn", *study], here)
        size = (here / "out/report.html").stat().st_size
    return f"{version}, a report of {size / 1e6:.1f} MB"


def _call(command: list[str], folder: Path) -> str:
    """Run a command in a folder and return its output."""
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
