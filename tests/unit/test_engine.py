"""The experiment engine with a client that knows nothing of control: order, storage, resuming, failures."""

import os
import signal
import sys
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from cloudpickle import register_pickle_by_value

from habnn_control.experiments.engine import (
    Outcome,
    Study,
    Task,
    claim,
    derive_seed,
    describe,
    grid,
    index_columns,
    level_text,
    load_outcome,
    read_study,
    read_tables,
    run_path,
    run_study,
)

register_pickle_by_value(sys.modules[__name__])  # worker processes cannot import a test module


@dataclass(frozen=True)
class Bakery(Study):
    """Loaves of every flour at every temperature."""

    name = "baking"
    script = "scripts/bake.py"
    group = "flour"
    parquet = ("loaves",)

    flours: tuple[str, ...]
    temperatures: tuple[float, ...]
    runs: int
    minutes: int = 4
    seed: int = 7

    def __post_init__(self):
        for name in ("flours", "temperatures"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        self.check_distinct(flours=self.flours, temperatures=self.temperatures)
        self.check_counts(runs=1, seed=0)

    def tasks(self):
        factors = {"flour": self.flours, "temperature": self.temperatures}
        return grid(factors, self.runs, self.seed, lambda *_: {"minutes": self.minutes})

    def fits(self, task, outcome):
        return outcome.arrays["height"].shape == (task["minutes"],)

    def tables(self, stored):
        factors = ["flour", "temperature"]
        rows = index_columns(stored, factors, [task["minutes"] for task, _ in stored])
        rows["height"] = np.concatenate([outcome.arrays["height"] for _, outcome in stored] or [np.empty(0)])
        oven = index_columns(stored, factors, [1] * len(stored))
        oven["gas"] = [outcome.numbers["gas"] for _, outcome in stored]
        return {"loaves": pd.DataFrame(rows), "ovens": pd.DataFrame(oven)}


STUDY = Bakery(("rye", "emmer"), (220.0, 180.0), runs=3)


def bake(task):
    rng = np.random.default_rng((task.seed, int(task["temperature"]), len(task["flour"])))
    return Outcome({"height": rng.normal(size=task["minutes"])}, {"gas": 0.25})


def is_victim(task):
    return (task["flour"], task["temperature"], task.run) == ("emmer", 180.0, 1)


def bake_with_one_error(task):
    if is_victim(task):
        raise ArithmeticError("the dough exploded")
    return bake(task)


def bake_with_one_sudden_death(task):
    if is_victim(task):
        os.kill(os.getpid(), signal.SIGKILL)
    return bake(task)


def test_grid_pairs_levels_on_the_same_seeds():
    tasks = STUDY.tasks()
    seeds = {flour: [(t["temperature"], t.run, t.seed) for t in tasks if t["flour"] == flour] for flour in STUDY.flours}
    assert seeds["rye"] == seeds["emmer"]
    assert all(task.seed == 7 + task.run for task in tasks)


def test_derive_seed_differs_between_runs_and_names_and_never_changes():
    seeds = {derive_seed(0, run, name) for run in range(100) for name in ("habnn", "sac", "td3")}
    assert len(seeds) == 300
    assert derive_seed(0, 0, "habnn") == 3469724387  # written down: stored studies must stay repeatable


def test_run_study_tables_are_in_canonical_order(tmp_path):
    assert run_study(STUDY, bake, tmp_path) == []
    loaves = pd.read_csv(tmp_path / "loaves.csv")
    assert list(loaves.columns) == ["flour", "temperature", "run", "seed", "height"]
    assert loaves["flour"].tolist() == ["rye"] * 24 + ["emmer"] * 24
    assert loaves["temperature"].tolist() == ([220] * 12 + [180] * 12) * 2
    assert loaves["run"].tolist() == ([0] * 4 + [1] * 4 + [2] * 4) * 4
    last = bake(STUDY.tasks()[-1]).arrays["height"]
    np.testing.assert_array_equal(loaves["height"].to_numpy()[-4:], last)  # no digit lost
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "loaves.parquet"), loaves)
    assert (tmp_path / "ovens.csv").read_text().splitlines()[1] == "rye,220,0,7,0.25"
    assert not (tmp_path / "ovens.parquet").exists()


def test_run_study_is_byte_identical_whatever_the_jobs(tmp_path):
    for jobs in (1, 2):
        assert run_study(STUDY, bake, tmp_path / str(jobs), jobs=jobs) == []
    assert (tmp_path / "1/loaves.csv").read_bytes() == (tmp_path / "2/loaves.csv").read_bytes()


def test_run_study_resumes_with_only_the_missing_and_damaged_runs(tmp_path):
    run_study(STUDY, bake, tmp_path)
    whole = (tmp_path / "loaves.csv").read_bytes()
    missing, damaged = STUDY.tasks()[3], STUDY.tasks()[7]
    run_path(tmp_path, missing).unlink()
    run_path(tmp_path, damaged).write_bytes(b"half a fi")
    played = []
    run_study(STUDY, lambda task: played.append(task) or bake(task), tmp_path)
    assert sorted(played, key=STUDY.tasks().index) == [missing, damaged]
    assert (tmp_path / "loaves.csv").read_bytes() == whole


def test_run_study_repeats_a_run_that_is_incomplete_or_of_another_task(tmp_path):
    run_study(STUDY, bake, tmp_path)
    short, foreign, other = STUDY.tasks()[:3]
    run_path(tmp_path, foreign).write_bytes(run_path(tmp_path, other).read_bytes())
    run_study(Bakery(("rye",), (220.0,), 1, minutes=3), bake, tmp_path / "short")
    run_path(tmp_path, short).write_bytes(run_path(tmp_path / "short", short).read_bytes())
    assert [load_outcome(tmp_path, STUDY, task) is None for task in STUDY.tasks()[:3]] == [True, True, False]


def test_run_study_stopped_by_ctrl_c_keeps_finished_runs(tmp_path):
    def interrupted(task):
        if task.run == 1:
            raise KeyboardInterrupt
        return bake(task)

    with pytest.raises(KeyboardInterrupt):
        run_study(STUDY, interrupted, tmp_path)
    assert sum(load_outcome(tmp_path, STUDY, task) is not None for task in STUDY.tasks()) == 4  # run 0 of all levels
    run_study(STUDY, bake, tmp_path)
    run_study(STUDY, bake, tmp_path / "whole")
    assert (tmp_path / "loaves.csv").read_bytes() == (tmp_path / "whole" / "loaves.csv").read_bytes()


@pytest.mark.parametrize("jobs", [1, 2])
def test_run_study_error_in_one_run_is_reported_with_its_seed_and_spares_the_others(tmp_path, jobs, capsys):
    (failure,) = run_study(STUDY, bake_with_one_error, tmp_path, jobs=jobs)
    line = "failed: flour emmer, temperature 180, run 1, seed 8: ArithmeticError: the dough exploded"
    assert describe(STUDY, failure) == line
    assert line in capsys.readouterr().err
    assert "Traceback" in run_path(tmp_path, failure.task).with_suffix(".error.txt").read_text()
    assert len(pd.read_csv(tmp_path / "loaves.csv")) == 44
    assert run_study(STUDY, bake, tmp_path, jobs=jobs) == []
    assert not list(tmp_path.rglob("*.error.txt"))
    assert len(pd.read_csv(tmp_path / "loaves.csv")) == 48


def test_run_study_killed_worker_is_reported_and_spares_the_others(tmp_path):
    (failure,) = run_study(STUDY, bake_with_one_sudden_death, tmp_path, jobs=2)
    assert describe(STUDY, failure).startswith("failed: flour emmer, temperature 180, run 1, seed 8: the process died")
    assert len(pd.read_csv(tmp_path / "loaves.csv")) == 44


def test_run_study_full_disk_in_one_run_spares_the_others(tmp_path):
    victim = STUDY.tasks()[5]
    claim(tmp_path, STUDY)
    run_path(tmp_path, victim).mkdir(parents=True)  # a name that no file can take
    (failure,) = run_study(STUDY, bake, tmp_path)
    assert failure.task == victim
    assert "not stored: [Errno" in describe(STUDY, failure)
    assert len(pd.read_csv(tmp_path / "loaves.csv")) == 44


def test_run_study_raises_on_folder_of_another_study(tmp_path):
    run_study(STUDY, bake, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(
        ValueError, match=r"out must be an empty folder or hold the same study.*minutes 4 instead of 5; seed 7 ins"
    ):
        run_study(replace(STUDY, minutes=5, seed=1), bake, tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_run_study_plays_only_what_a_grown_study_adds(tmp_path):
    played = []

    def count(task):
        played.append(task)
        return bake(task)

    small = replace(STUDY, runs=1, flours=STUDY.flours[:1])
    run_study(small, count, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.run")}
    played.clear()
    run_study(STUDY, count, tmp_path)
    assert len(played) == len(STUDY.tasks()) - len(small.tasks())
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert read_study(tmp_path, Bakery) == STUDY
    run_study(STUDY, bake, tmp_path / "new")
    assert (tmp_path / "loaves.csv").read_bytes() == (tmp_path / "new/loaves.csv").read_bytes()
    with pytest.raises(ValueError, match="a study can only grow"):
        run_study(small, bake, tmp_path)


def test_run_study_raises_on_folder_with_foreign_files(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ValueError, match="with something else in it; choose another folder"):
        run_study(STUDY, bake, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{", "got Expecting property name"),
        ('{"episode": {}}', r'got that of something else \(\{"episode": \{\}\}'),
        ("3", r"got that of something else \(3"),
    ],
)
def test_run_study_raises_on_config_of_something_else(tmp_path, text, found):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=rf"with the config\.json of a baking, {found}.*that scripts/bake\.py wrote"):
        run_study(STUDY, bake, tmp_path)


def test_read_study_round_trip(tmp_path):
    claim(tmp_path, STUDY)
    assert read_study(tmp_path, Bakery) == STUDY


def test_read_tables_raises_on_study_without_a_finished_run(tmp_path):
    def fail(task):
        raise RuntimeError("no luck")

    run_study(STUDY, fail, tmp_path)
    with pytest.raises(ValueError, match="must hold at least one finished run, got none"):
        read_tables(tmp_path, "loaves")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"flours": ()}, "flours must be distinct and at least one"),
        ({"flours": ("a", "a")}, "flours must be distinct"),
        ({"temperatures": (1, 1.0)}, "temperatures must be distinct"),
        ({"runs": 0}, "runs must be an integer of at least 1, got 0"),
        ({"runs": 1.5}, "runs must be an integer of at least 1, got 1.5"),
        ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
    ],
)
def test_study_checks_raise_on_bad_values(change, message):
    with pytest.raises(ValueError, match=f"Bakery: {message}"):
        replace(STUDY, **change)


def test_level_text_reads_well():
    assert [level_text(level) for level in (100.0, 100, 0.1, "rye", True, ["a", 1])] == [
        "100", "100", "0.1", "rye", "true", '["a", 1]',
    ]  # fmt: skip


def test_run_path_differs_for_every_level(tmp_path):
    levels = [
        33.33333, 33.333331, 1e-300, 5e-301, 100, "100.0", "100", "a/b", "a%2Fb", "a:b", "..", ".", "", "%", "true",
        True, None, [1], "[1]", {"a": 1},
    ]  # fmt: skip
    paths = [run_path(tmp_path, Task({"level": level}, 0, 0)) for level in levels]
    assert len(set(paths)) == len(levels)
    assert {path.parent.parent for path in paths} == {tmp_path / "runs"}
    for path in paths:
        path.parent.mkdir(parents=True)
    assert run_path(tmp_path, Task({"level": 100.0}, 0, 0)) == tmp_path / "runs/100/0000.run"


def test_run_study_stores_levels_that_differ_in_a_late_digit_apart(tmp_path):
    study = Bakery(("rye",), (33.33333, 33.333331), runs=1)
    assert run_study(study, bake, tmp_path) == []
    assert len(list(tmp_path.rglob("*.run"))) == 2
    assert pd.read_csv(tmp_path / "ovens.csv")["temperature"].tolist() == [33.33333, 33.333331]
