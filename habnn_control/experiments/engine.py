"""Studies: agents x setpoints x runs, played in parallel, stored run by run, resumed where they stopped.

A study knows nothing of environments or agents: it hands every `Task` to a `play` function and stores the `Run` that
comes back. A results folder holds

- config.json: the study; a folder that holds another one is refused;
- runs/AGENT/SETPOINT/RUN.run: one finished run a file, or RUN.error.txt if it failed;
- losses.csv and losses.parquet: one row a step, in canonical order, equal byte for byte whatever the number of jobs;
- timings.csv: wall and decision time of each run, which differ from machine to machine;
- meta.json: command, versions, commit, wall time.
"""

import hashlib
import json
import platform
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from habnn_control.experiments.parallel import Progress, execute
from habnn_control.support.files import atomic_write, load_arrays, save_arrays

COLUMNS = ("loss", "consumption", "fatigue", "velocity", "gain", "shift")
_PACKAGES = ("habnn-control", "numpy", "scipy", "numba", "pandas", "gymnasium", "stable-baselines3", "torch", "joblib")


class Task(NamedTuple):
    """One run to play: `seed` is the environment's, the same for all agents; `agent_seed` the agent's own."""

    agent: str
    setpoint: float
    run: int
    seed: int
    agent_seed: int
    steps: int
    pretrain_steps: int = 0
    wandering: bool = False


class Run(NamedTuple):
    """What came of a task: one array of length `steps` for each of COLUMNS, and what it cost.

    `decision_seconds` is the wall time of the measured episode without the time inside env.step.
    """

    columns: dict[str, NDArray[np.float64]]
    wall_seconds: float
    decision_seconds: float


class Failure(NamedTuple):
    """A task that raised or could not be stored, and why."""

    task: Task
    reason: str


@dataclass(frozen=True)
class Study:
    """What is played: every agent at every setpoint, `runs` times `steps` steps.

    Run r meets the environment seed `seed + r`, whatever the agent, so agents can be compared in pairs.
    """

    agents: tuple[str, ...]
    setpoints: tuple[float, ...]
    runs: int
    steps: int
    seed: int = 0
    pretrain_steps: int = 0
    wandering: bool = False

    def __post_init__(self) -> None:
        for name in ("agents", "setpoints"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise ValueError(f"Study: {name} must be distinct and at least one, got {values}; name each once.")
        for name, least in (("runs", 1), ("steps", 1), ("seed", 0), ("pretrain_steps", 0)):
            value = getattr(self, name)
            if not (isinstance(value, int) and value >= least):
                raise ValueError(f"Study: {name} must be an integer of at least {least}, got {value!r}; change it.")

    def tasks(self) -> list[Task]:
        """Return all tasks in canonical order: by agent, setpoint, run."""
        return [
            Task(
                agent,
                float(setpoint),
                run,
                self.seed + run,
                agent_seed(self.seed, run, agent),
                self.steps,
                self.pretrain_steps,
                self.wandering,
            )
            for agent in self.agents
            for setpoint in self.setpoints
            for run in range(self.runs)
        ]


def agent_seed(seed: int, run: int, agent: str) -> int:
    """Derive the agent's own 32-bit seed; another run or another agent gives an independent one."""
    digest = int.from_bytes(hashlib.sha256(agent.encode()).digest()[:8], "big")
    return int(np.random.SeedSequence((seed, run, digest)).generate_state(1)[0])


def run_study(
    study: Study,
    play: Callable[[Task], Run],
    folder: str | Path,
    jobs: int = 1,
    scheduler: str | None = None,
) -> list[Failure]:
    """Play the tasks that `folder` does not hold yet and write its tables.

    A run that raises is recorded and reported, the others go on; calling again plays what is missing.

    Parameters
    ----------
    study : Study
        What to play.
    play : callable
        Plays one task; must be picklable when `jobs` is above 1 or a scheduler is given.
    folder : str or Path
        Where results are; made if missing.
    jobs : int
        Number of worker processes; -1 means one a core.
    scheduler : str, optional
        Address of a dask.distributed scheduler that takes the runs instead of local processes.

    Returns
    -------
    list of Failure
        Empty when all went well.
    """
    folder = Path(folder)
    tasks = study.tasks()
    claim(folder, study)
    pending = [task for task in tasks if load_run(folder, task) is None]
    pending.sort(key=lambda task: task.run)  # all agents advance together: a stopped study is still a fair one
    failures = []
    with Progress([task.agent for task in tasks], [task.agent for task in pending]) as progress:
        for task, outcome in execute(play, pending, jobs, scheduler):
            if failure := _store(folder, task, outcome):
                failures.append(failure)
                progress.say(describe(failure))
            progress.advance(task.agent)
    write_tables(folder, study)
    return sorted(failures, key=lambda failure: tasks.index(failure.task))


def claim(folder: str | Path, study: Any, read: Callable[[str | Path], Any] | None = None) -> None:
    """Write config.json, or raise if the folder holds anything but this very study.

    `study` is a dataclass; `read` returns the one a folder holds (`read_study` if None).
    """
    folder = Path(folder)
    wanted = json.loads(json.dumps(asdict(study)))
    wish = f"study: out must be an empty folder or hold the same study, got {folder}"
    if (folder / "config.json").exists():
        found = json.loads(json.dumps(asdict((read or read_study)(folder))))
        changes = [f"{name} {found[name]} instead of {wanted[name]}" for name in wanted if found[name] != wanted[name]]
        if changes:
            remedy = "choose another folder, or repeat the command that made this one."
            raise ValueError(f"{wish} with {'; '.join(changes)}; {remedy}")
    elif folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ValueError(f"{wish} with something else in it; choose another folder.")
    else:
        with atomic_write(folder / "config.json") as file:
            file.write((json.dumps(wanted, indent=2) + "\n").encode())


def describe(failure: Failure) -> str:
    """Return one line: which run failed, its seed and the error."""
    task = failure.task
    error = failure.reason.strip().splitlines()[-1]
    return f"failed: agent {task.agent}, setpoint {task.setpoint:g}, run {task.run}, seed {task.seed}: {error}"


def run_path(folder: str | Path, task: Task) -> Path:
    """Return where a task's finished run is stored."""
    return Path(folder) / "runs" / task.agent / f"{task.setpoint:g}" / f"{task.run:04d}.run"


def load_run(folder: str | Path, task: Task) -> Run | None:
    """Return the stored run of a task, or None if it is missing, damaged or of another task."""
    try:
        header, columns = load_arrays(run_path(folder, task), "run")
    except (OSError, ValueError):
        return None
    complete = all(name in columns and columns[name].shape == (task.steps,) for name in COLUMNS)
    if not complete or header.get("task") != list(task):
        return None
    return Run(columns, header["wall_seconds"], header["decision_seconds"])


def read_study(folder: str | Path) -> Study:
    """Return the study a results folder holds."""
    wish = f"study: {folder} must be a results folder with the config.json of a comparison"
    remedy = "choose a folder that scripts/compare.py wrote, or for a new study an empty one."
    try:
        config = json.loads((Path(folder) / "config.json").read_text())
        if not isinstance(config, dict) or config.keys() != {item.name for item in fields(Study)}:
            raise ValueError(f"that of something else ({json.dumps(config):.60}...)")
        return Study(**config | {"agents": tuple(config["agents"]), "setpoints": tuple(config["setpoints"])})
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"{wish}, got {error}; {remedy}") from error


def write_tables(folder: str | Path, study: Study) -> None:
    """Write losses.csv, losses.parquet and timings.csv from the stored runs, in canonical order."""
    folder = Path(folder)
    stored = [(task, run) for task in study.tasks() if (run := load_run(folder, task)) is not None]
    losses = tidy_losses(stored)
    write_csv(losses, folder / "losses.csv")
    with atomic_write(folder / "losses.parquet") as file:
        losses.to_parquet(file, index=False)
    timings = _index_columns(stored, [1 for _ in stored])
    timings["steps"] = [task.steps for task, _ in stored]
    timings["wall_seconds"] = [run.wall_seconds for _, run in stored]
    timings["decision_seconds"] = [run.decision_seconds for _, run in stored]
    write_csv(pd.DataFrame(timings), folder / "timings.csv")


def read_tables(folder: str | Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return losses.csv and timings.csv of a results folder."""
    losses, timings = (pd.read_csv(Path(folder) / f"{name}.csv") for name in ("losses", "timings"))
    if losses.empty:
        raise ValueError(f"study: {folder} must hold at least one finished run, got none; repeat the comparison.")
    return losses, timings


def write_meta(folder: str | Path, command: str, wall_seconds: float, **settings: Any) -> None:
    """Write meta.json: how, with what and in how much time the results came about, over all calls that resumed it."""
    path = Path(folder) / "meta.json"
    before: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"wall_seconds": 0.0, "commits": []}
    meta = {
        "command": command,
        "settings": settings,
        "wall_seconds": round(before["wall_seconds"] + wall_seconds, 3),
        "commits": sorted({*before["commits"], _commit()}),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {name: _version(name) for name in _PACKAGES},
    }
    with atomic_write(path) as file:
        file.write((json.dumps(meta, indent=2) + "\n").encode())


def _commit() -> str:
    """Return the commit this package is checked out at, with + if files differ from it."""
    call = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def tidy_losses(stored: list[tuple[Task, Run]]) -> pd.DataFrame:
    """Return the rows of losses.csv, one a step, in the order given."""
    columns = _index_columns(stored, [task.steps for task, _ in stored])
    columns["timestep"] = np.concatenate([np.arange(1, task.steps + 1) for task, _ in stored] or [np.arange(0)])
    for name in COLUMNS:
        columns[name] = np.concatenate([run.columns[name] for _, run in stored] or [np.empty(0)])
    return pd.DataFrame(columns)


def write_csv(table: pd.DataFrame, path: str | Path) -> None:
    """Write a table as CSV, atomically, no digit lost and with the same bytes on every machine."""
    with atomic_write(path) as file:
        table.to_csv(file, index=False, lineterminator="\n")


def _index_columns(stored: list[tuple[Task, Run]], repeats: list[int]) -> dict[str, Any]:
    setpoints = np.array([task.setpoint for task, _ in stored], dtype=np.float64)
    whole = (setpoints % 1 == 0).all()  # "100" reads better than "100.0"
    columns: dict[str, Any] = {
        "agent": [task.agent for task, _ in stored],
        "setpoint": setpoints.astype(np.int64) if whole else setpoints,
        "run": np.array([task.run for task, _ in stored], dtype=np.int64),
        "seed": np.array([task.seed for task, _ in stored], dtype=np.int64),
    }
    return {name: np.repeat(values, repeats) for name, values in columns.items()}


def _store(folder: Path, task: Task, outcome: Run | str) -> Failure | None:
    """Store a run, or the reason why there is none."""
    path = run_path(folder, task)
    report = path.with_suffix(".error.txt")
    try:
        if isinstance(outcome, Run):
            times = {"wall_seconds": outcome.wall_seconds, "decision_seconds": outcome.decision_seconds}
            save_arrays(path, {"kind": "run", "task": list(task), **times}, outcome.columns)
            report.unlink(missing_ok=True)
            return None
        with atomic_write(report) as file:
            file.write(outcome.encode())
        return Failure(task, outcome)
    except OSError as error:  # a full disk must not lose the runs that are still to come
        return Failure(task, f"{outcome if isinstance(outcome, str) else ''}\nnot stored: {error}")
