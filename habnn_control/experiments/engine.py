"""The experiment engine: run the tasks of a study in parallel, store every run, resume a study that was stopped.

The engine knows tasks, seeds, files and progress. A client tells the rest: a subclass of `Study` lists the tasks and
turns stored outcomes into tables, and a function runs one task. A results folder holds

- config.json: the fields of the study; a folder that holds another study is refused, unless this one contains it;
- runs/LEVEL/.../RUN.run: one file per finished run, one folder level per factor; RUN.error.txt for a run that failed;
- the tables of the study as CSV, in canonical order, byte-identical whatever the number of jobs;
- meta.json: command, versions, commits, wall time (`habnn_control.experiments.provenance`).
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeVar
from urllib.parse import quote

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from habnn_control.experiments.parallel import Progress, execute
from habnn_control.support.files import (
    atomic_write,
    is_leftover,
    load_arrays,
    read_json,
    remove_leftovers,
    save_arrays,
)

_FORMULA = frozenset("=+-@\t\r")  # first characters of a cell that spreadsheets execute
_KIND = "run"  # of the file of a finished run


@dataclass(frozen=True)
class Task:
    """One run of a study.

    Attributes
    ----------
    factors : mapping of str to JSON value
        What distinguishes the task from the other tasks of the study, apart from `run`: one level per factor, in the
        order of the folders in the path of the run and of the columns of its tables.
    run : int
        Number of the repetition, from 0.
    seed : int
        Seed of the conditions of the run: the same for all levels of all factors, so that runs can be paired.
    settings : mapping of str to JSON value
        Further input of the function that runs the task.
    """

    factors: Mapping[str, Any]
    run: int
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        """Return the level of a factor, or a setting."""
        return self.factors[name] if name in self.factors else self.settings[name]


class Outcome(NamedTuple):
    """What running a task returned: named arrays, and named numbers such as times."""

    arrays: dict[str, NDArray[Any]]
    numbers: dict[str, float]


class Failure(NamedTuple):
    """A task that raised or could not be stored, and the reason: a traceback or an error message."""

    task: Task
    reason: str


Stored = Sequence[tuple[Task, Outcome]]


@dataclass(frozen=True)
class Study(ABC):
    """A set of tasks, with all knowledge about the tasks that the engine does not have.

    A subclass is a frozen dataclass. Its fields are values that JSON can hold; they are the content of config.json.
    """

    name: ClassVar[str]  # of the kind of study, for messages
    script: ClassVar[str]  # that makes results folders of this kind, for messages
    group: ClassVar[str]  # the factor with one line of progress per level
    parquet: ClassVar[tuple[str, ...]] = ()  # tables that are written as Parquet too

    @abstractmethod
    def tasks(self) -> list[Task]:
        """Return all tasks in canonical order; see `grid`."""

    @abstractmethod
    def tables(self, stored: Stored) -> dict[str, pd.DataFrame]:
        """Return the tables of stored outcomes, which come in canonical order, by file name without suffix."""

    def fits(self, task: Task, outcome: Outcome) -> bool:  # noqa: ARG002  # a hook
        """Return whether a stored outcome is complete."""
        return True

    def contains(self, earlier: Self) -> bool:
        """Return whether every task of an earlier study is a task of this one, which has then only grown."""
        ours, theirs = ({json.dumps(asdict(task)) for task in one.tasks()} for one in (self, earlier))
        return theirs <= ours

    def label(self, task: Task) -> str:
        """Return how messages about a task name it."""
        levels = [f"{name} {level_text(level)}" for name, level in task.factors.items()]
        return ", ".join([*levels, f"run {task.run}", f"seed {task.seed}"])

    def check_distinct(self, **values: Sequence[Any]) -> None:
        """Raise unless each sequence holds at least one value, and no value twice."""
        for name, items in values.items():
            if not items or any(item in items[:place] for place, item in enumerate(items)):
                raise ValueError(
                    f"{type(self).__name__}: {name} must be distinct and at least one, got {tuple(items)}; name "
                    "each once."
                )

    def check_counts(self, **least: int) -> None:
        """Raise unless each named field is an integer of at least the value given."""
        for name, lowest in least.items():
            value = getattr(self, name)
            if not (isinstance(value, int) and value >= lowest):
                raise ValueError(
                    f"{type(self).__name__}: {name} must be an integer of at least {lowest}, got {value!r}; change it."
                )


S = TypeVar("S", bound=Study)


def grid(
    factors: Mapping[str, Sequence[Any]], runs: int, seed: int, settings: Callable[[Mapping[str, Any], int], Any]
) -> list[Task]:
    """Return one task per combination of levels and run, the last factor and the run varying fastest.

    Parameters
    ----------
    factors : mapping of str to sequence
        The levels of each factor.
    runs : int
        Repetitions of each combination; run r has the seed `seed + r`.
    seed : int
    settings : callable
        Returns the settings of the task with the given levels and run.
    """
    return [
        Task(levels, run, seed + run, settings(levels, run))
        for combination in product(*factors.values())
        for levels in [dict(zip(factors, combination, strict=True))]
        for run in range(runs)
    ]


def derive_seed(seed: int, run: int, name: str) -> int:
    """Return a 32-bit seed for one participant of a run; other runs and other names have independent seeds."""
    digest = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    return int(np.random.SeedSequence((seed, run, digest)).generate_state(1)[0])


def run_study(
    study: Study,
    play: Callable[[Task], Outcome],
    folder: str | Path,
    jobs: int = 1,
    scheduler: str | None = None,
) -> list[Failure]:
    """Run the tasks whose outcomes `folder` does not hold yet and write the tables of the study.

    A task that raises is recorded and reported while the others go on. Calling again runs what is missing.

    Parameters
    ----------
    study : Study
    play : callable
        Runs one task; must be picklable if `jobs` is not 1 or a scheduler is given.
    folder : str or Path
        Results folder; made if missing.
    jobs : int
        Number of worker processes; -1 means one per core.
    scheduler : str, optional
        Address of a dask.distributed scheduler whose workers run the tasks instead of local processes.

    Returns
    -------
    list of Failure
        In canonical order; empty if every task succeeded.
    """
    folder = Path(folder)
    tasks = study.tasks()
    claim(folder, study)
    remove_leftovers(folder)
    pending = [task for task in tasks if load_outcome(folder, study, task) is None]
    pending.sort(key=lambda task: task.run)  # all levels advance together: a stopped study can be compared too
    failures = []
    groups, left = ([str(task.factors[study.group]) for task in some] for some in (tasks, pending))
    with Progress(groups, left) as progress:
        for task, outcome in execute(play, pending, jobs, scheduler):
            if failure := _store(folder, task, outcome):
                failures.append(failure)
                progress.say(describe(study, failure))
            progress.advance(str(task.factors[study.group]))
    write_tables(folder, study)
    return sorted(failures, key=lambda failure: tasks.index(failure.task))


def claim(folder: str | Path, study: Study) -> None:
    """Write config.json, or raise if the folder holds anything but this study or a part of it."""
    folder = Path(folder)
    wanted = _configuration(study)
    wish = f"study: out must be an empty folder or hold the same study, got {folder}"
    if (folder / "config.json").exists():
        earlier = read_study(folder, type(study))
        found = _configuration(earlier)
        changes = [f"{name} {found[name]} instead of {wanted[name]}" for name in wanted if found[name] != wanted[name]]
        if not changes:
            return
        if not study.contains(earlier):
            remedy = "choose another folder, or repeat the command that made this one; a study can only grow."
            raise ValueError(f"{wish} with {'; '.join(changes)}; {remedy}")
    elif folder.exists() and not (folder.is_dir() and all(map(is_leftover, folder.iterdir()))):
        raise ValueError(f"{wish} with something else in it; choose another folder.")
    with atomic_write(folder / "config.json") as file:
        file.write((json.dumps(wanted, indent=2) + "\n").encode())


def read_study(folder: str | Path, kind: type[S]) -> S:
    """Return the study of class `kind` that a results folder holds."""
    wish = f"study: {folder} must be a results folder with the config.json of a {kind.name}"
    remedy = f"choose a folder that {kind.script} wrote, or for a new study an empty one."
    try:
        config = read_json(Path(folder) / "config.json")
        if not isinstance(config, dict) or config.keys() != {item.name for item in fields(kind)}:
            raise ValueError(f"that of something else ({json.dumps(config):.60}...)")
        return kind(**config)
    except (OSError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise ValueError(f"{wish}, got {error.__cause__ or error}; {remedy}") from error


def describe(study: Study, failure: Failure) -> str:
    """Return one line: the task that failed, and the last line of the reason."""
    return f"failed: {study.label(failure.task)}: {failure.reason.strip().splitlines()[-1]}"


def level_text(level: Any) -> str:
    """Return the level of a factor as text that no other level has: 100 for 100.0, all digits where they matter."""
    if isinstance(level, float) and (float(f"{level:g}") == level or level != level):  # NaN is not equal to itself
        return f"{level:g}"
    if isinstance(level, str) and not _is_json(level):
        return level
    return json.dumps(level)


def run_path(folder: str | Path, task: Task) -> Path:
    """Return the file of a finished run."""
    levels = [_file_name(level_text(level)) for level in task.factors.values()]
    return Path(folder, "runs", *levels, f"{task.run:04d}.run")


def load_outcome(folder: str | Path, study: Study, task: Task) -> Outcome | None:
    """Return the stored outcome of a task, or None if the file is missing, damaged or that of another task."""
    try:
        header, arrays = load_arrays(run_path(folder, task), _KIND)
    except (OSError, ValueError):
        return None
    if header.get("task") != json.loads(json.dumps(asdict(task))):
        return None
    numbers = header.get("numbers")
    if not (isinstance(numbers, dict) and all(isinstance(value, int | float) for value in numbers.values())):
        return None
    outcome = Outcome(arrays, numbers)
    return outcome if study.fits(task, outcome) else None


def write_tables(folder: str | Path, study: Study) -> None:
    """Write the tables of a study from its stored outcomes, in canonical order."""
    folder = Path(folder)
    outcomes = [(task, load_outcome(folder, study, task)) for task in study.tasks()]
    tables = study.tables([(task, outcome) for task, outcome in outcomes if outcome is not None])
    for name, table in tables.items():
        write_csv(table, folder / f"{name}.csv")
        if name in study.parquet:
            with atomic_write(folder / f"{name}.parquet") as file:
                table.to_parquet(file, index=False)


def read_tables(folder: str | Path, *names: str) -> tuple[pd.DataFrame, ...]:
    """Return tables of a results folder, the first of which must not be empty."""
    tables = tuple(read_csv(Path(folder) / f"{name}.csv") for name in names)
    if tables[0].empty:
        raise ValueError(f"study: {folder} must hold at least one finished run, got none; repeat the command.")
    return tables


def write_csv(table: pd.DataFrame, path: str | Path) -> None:
    """Write a table as CSV, atomically, no digit lost and with the same bytes on every machine.

    A text that a spreadsheet would take for a formula gets an apostrophe in front, which `read_csv` takes off again.
    """
    with atomic_write(path) as file:
        _map_texts(table, lambda text: f"'{text}" if text.lstrip("'")[:1] in _FORMULA else text).to_csv(
            file, index=False, lineterminator="\n"
        )


def read_csv(path: str | Path) -> pd.DataFrame:
    """Return a table that `write_csv` wrote."""
    return _map_texts(
        pd.read_csv(path), lambda text: text[1:] if text[:1] == "'" and text.lstrip("'")[:1] in _FORMULA else text
    )


def _map_texts(table: pd.DataFrame, change: Callable[[str], str]) -> pd.DataFrame:
    """Return the table with every text changed; columns of numbers stay as they are."""
    changed: dict[str, Any] = {
        str(name): column.map(lambda cell: change(cell) if isinstance(cell, str) and cell else cell)
        for name, column in table.items()
        if not pd.api.types.is_numeric_dtype(column)
    }
    return table.assign(**changed) if changed else table


def index_columns(stored: Stored, factors: Sequence[str], repeats: Sequence[int]) -> dict[str, NDArray[Any]]:
    """Return one column per factor, then run and seed, with as many rows per task as `repeats` says."""
    columns: dict[str, Any] = {name: _level_column([task.factors[name] for task, _ in stored]) for name in factors}
    columns["run"] = np.array([task.run for task, _ in stored], dtype=np.int64)
    columns["seed"] = np.array([task.seed for task, _ in stored], dtype=np.int64)
    return {name: np.repeat(values, repeats) for name, values in columns.items()}


def _level_column(levels: list[Any]) -> NDArray[Any]:
    """Return numbers as numbers (whole ones without a point) and other levels as text."""
    if not all(isinstance(level, int | float) and not isinstance(level, bool) for level in levels):
        return np.array([level_text(level) for level in levels], dtype=object)
    numbers = np.array(levels, dtype=np.float64)
    return numbers.astype(np.int64) if (numbers % 1 == 0).all() else numbers


def _configuration(study: Study) -> dict[str, Any]:
    configuration: dict[str, Any] = json.loads(json.dumps(asdict(study)))
    return configuration


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _file_name(text: str) -> str:
    """Return a file name for a text, another one for every text and valid on every file system."""
    name = quote(text, safe="@=,+ ")
    return name if name.strip(".") else name.replace(".", "%2E") or "%"


def _store(folder: Path, task: Task, outcome: Outcome | str) -> Failure | None:
    """Store the outcome of a task, or the reason why there is none."""
    path = run_path(folder, task)
    report = path.with_suffix(".error.txt")
    try:
        if isinstance(outcome, Outcome):
            save_arrays(path, {"kind": _KIND, "task": asdict(task), "numbers": outcome.numbers}, outcome.arrays)
            report.unlink(missing_ok=True)
            return None
        with atomic_write(report) as file:
            file.write(outcome.encode())
        return Failure(task, outcome)
    except OSError as error:  # a full disk must not lose the runs that are still to come
        return Failure(task, f"{outcome if isinstance(outcome, str) else ''}\nnot stored: {error}")
