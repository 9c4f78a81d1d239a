"""All runs of the regression study: parallel, stored one file a run, resumed where they stopped.

A results folder holds config.json, runs/METHOD/DATASET-BLOCK/RUN.run, results.csv (one row for each run and test set,
the same bytes whatever the number of jobs), timings.csv and meta.json.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from habnn_control.experiments.engine import claim, write_csv
from habnn_control.experiments.parallel import Progress, execute
from habnn_control.regression import methods
from habnn_control.regression.protocol import BLOCKS, SCORES, TEST_SETS, Outcome, Task, play
from habnn_control.support.files import atomic_write, load_arrays, save_arrays

_KIND = "regression run"


@dataclass(frozen=True)
class RegressionStudy:
    """What is run: every method on every set in every block, `runs` times; run r has the split seed `seed + r`.

    `checksums` are those of the data files, so that a folder never mixes data; `max_rows` of 0 means all rows.
    """

    methods: tuple[str, ...]
    datasets: tuple[str, ...]
    checksums: tuple[str, ...]
    blocks: tuple[str, ...] = BLOCKS
    runs: int = 20
    seed: int = 0
    max_rows: int = 0

    def __post_init__(self) -> None:
        for name in ("methods", "datasets", "blocks"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise ValueError(f"uci: {name} must be distinct and at least one, got {values}; name each once.")
        for name, least in (("runs", 1), ("seed", 0), ("max_rows", 0)):
            if not getattr(self, name) >= least:
                raise ValueError(f"uci: {name} must be at least {least}, got {getattr(self, name)}; raise it.")
        for name in self.methods:
            methods.check(name)

    def tasks(self) -> list[Task]:
        """Return all tasks in canonical order."""
        return [
            Task(method, dataset, block, run, self.seed + run, self.max_rows)
            for method in self.methods
            for dataset in self.datasets
            for block in self.blocks
            for run in range(self.runs)
        ]


def read_study(folder: str | Path) -> RegressionStudy:
    """Return the study a results folder holds."""
    path = Path(folder) / "config.json"
    try:
        config = json.loads(path.read_text())
        lists = {name: tuple(value) for name, value in config.items() if isinstance(value, list)}
        return RegressionStudy(**config | lists)
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(
            f"uci: {folder} must be a results folder with a readable config.json, got {error}; "
            "pass a folder that scripts/uci.py wrote."
        ) from error


def run_study(study: RegressionStudy, files: dict[str, Path], folder: str | Path, jobs: int = 1) -> list[str]:
    """Run the tasks that `folder` does not hold yet, write its tables, and return a line for each task that failed."""
    folder = Path(folder)
    claim(folder, study, read_study)
    tasks = study.tasks()
    pending = [task for task in tasks if load(folder, task) is None]
    pending.sort(key=lambda task: task.run)  # all methods advance together: a stopped study is still a fair one
    failures = []
    with Progress([task.method for task in tasks], [task.method for task in pending]) as progress:
        for task, outcome in execute(partial(play, files=files), pending, jobs, None):
            if isinstance(outcome, str):
                failures.append(f"failed: {'/'.join(map(str, task))}: {outcome.strip().splitlines()[-1]}")
                progress.say(failures[-1])
                with atomic_write(run_path(folder, task).with_suffix(".error.txt")) as file:
                    file.write(outcome.encode())
            else:
                header = {"fit_seconds": outcome.fit_seconds, "n_train": outcome.n_train}
                save_arrays(run_path(folder, task), {"kind": _KIND, "task": list(task), **header}, _arrays(outcome))
                run_path(folder, task).with_suffix(".error.txt").unlink(missing_ok=True)
            progress.advance(task.method)
    write_results(folder, study)
    return sorted(failures)


def _arrays(outcome: Outcome) -> dict[str, Any]:
    return {"scores": outcome.scores}


def run_path(folder: str | Path, task: Task) -> Path:
    """Return where a task's outcome is stored."""
    method = task.method.replace(":", "@")  # a colon is no file name everywhere
    return Path(folder) / "runs" / method / f"{task.dataset}-{task.block}" / f"{task.run:04d}.run"


def load(folder: str | Path, task: Task) -> Outcome | None:
    """Return the stored outcome of a task, or None if it is missing, damaged or of another task."""
    try:
        header, arrays = load_arrays(run_path(folder, task), _KIND)
    except (OSError, ValueError):
        return None
    if header.get("task") != list(task) or arrays["scores"].shape != (len(TEST_SETS), len(SCORES)):
        return None
    return Outcome(arrays["scores"], header["fit_seconds"], header["n_train"])


def write_results(folder: str | Path, study: RegressionStudy) -> None:
    """Write results.csv and timings.csv from the stored outcomes, in canonical order."""
    folder = Path(folder)
    stored = [(task, outcome) for task in study.tasks() if (outcome := load(folder, task)) is not None]
    write_csv(_tidy(stored), folder / "results.csv")
    rows = [(*task[:5], outcome.n_train, outcome.fit_seconds) for task, outcome in stored]
    write_csv(pd.DataFrame(rows, columns=[*Task._fields[:5], "n_train", "fit_seconds"]), folder / "timings.csv")


def read_results(folder: str | Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return results.csv and timings.csv of a results folder."""
    results, timings = (pd.read_csv(Path(folder) / f"{name}.csv") for name in ("results", "timings"))
    if results.empty:
        raise ValueError(f"uci: {folder} must hold at least one finished run, got none; repeat the study.")
    return results, timings


def _tidy(stored: Sequence[tuple[Task, Outcome]]) -> pd.DataFrame:
    index = [(*task[:5], name) for task, _ in stored for name in TEST_SETS]
    scores = np.concatenate([outcome.scores for _, outcome in stored] or [np.empty((0, len(SCORES)))])
    table = pd.DataFrame(index, columns=[*Task._fields[:5], "test_set"])
    return table.assign(**{name: scores[:, k] for k, name in enumerate(SCORES)})
