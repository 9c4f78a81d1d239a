"""Studies: canonical order, storage, resuming, failures."""

import json
import os
import signal
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from cloudpickle import register_pickle_by_value

from habnn_control.experiments.engine import (
    COLUMNS,
    Run,
    Study,
    agent_seed,
    describe,
    load_run,
    read_study,
    run_path,
    run_study,
    write_meta,
)

register_pickle_by_value(sys.modules[__name__])  # worker processes cannot import a test module
STUDY = Study(agents=("b", "a"), setpoints=(100.0, 20.0), runs=3, steps=4, seed=7)


def play(task):
    rng = np.random.default_rng((task.agent_seed, task.seed, int(task.setpoint)))
    return Run({name: rng.normal(size=task.steps) for name in COLUMNS}, 0.5, 0.25)


def play_with_one_error(task):
    if task.agent == "a" and task.setpoint == 20.0 and task.run == 1:
        raise ArithmeticError("the plant exploded")
    return play(task)


def play_with_one_sudden_death(task):
    if task.agent == "a" and task.setpoint == 20.0 and task.run == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return play(task)


def test_study_pairs_agents_on_the_same_environment_seeds():
    tasks = STUDY.tasks()
    by_agent = {agent: [(t.setpoint, t.run, t.seed) for t in tasks if t.agent == agent] for agent in STUDY.agents}
    assert by_agent["a"] == by_agent["b"]
    assert all(task.seed == 7 + task.run for task in tasks)


def test_agent_seed_differs_between_runs_and_agents_and_never_changes():
    seeds = {agent_seed(0, run, agent) for run in range(100) for agent in ("habnn", "sac", "td3")}
    assert len(seeds) == 300
    assert agent_seed(0, 0, "habnn") == 3469724387  # written down: stored studies must stay repeatable


def test_run_study_losses_csv_has_the_contract_columns_in_canonical_order(tmp_path):
    assert run_study(STUDY, play, tmp_path) == []
    losses = pd.read_csv(tmp_path / "losses.csv")
    header = "agent,setpoint,run,seed,timestep,loss,consumption,fatigue,velocity,gain,shift"
    assert (tmp_path / "losses.csv").read_text().splitlines()[0] == header
    assert losses.agent.tolist() == ["b"] * 24 + ["a"] * 24
    assert losses.setpoint.tolist() == ([100] * 12 + [20] * 12) * 2
    assert losses.run.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + losses.run.tolist()[12:]
    assert losses.timestep.tolist() == [1, 2, 3, 4] * 12
    task = STUDY.tasks()[-1]
    np.testing.assert_array_equal(losses.fatigue.to_numpy()[-4:], play(task).columns["fatigue"])  # no digit lost
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "losses.parquet"), losses)


def test_run_study_is_byte_identical_whatever_the_jobs(tmp_path):
    for jobs in (1, 2):
        assert run_study(STUDY, play, tmp_path / str(jobs), jobs=jobs) == []
    assert (tmp_path / "1/losses.csv").read_bytes() == (tmp_path / "2/losses.csv").read_bytes()


def test_run_study_resumes_with_only_the_missing_and_damaged_runs(tmp_path):
    run_study(STUDY, play, tmp_path)
    whole = (tmp_path / "losses.csv").read_bytes()
    missing, damaged = STUDY.tasks()[3], STUDY.tasks()[7]
    run_path(tmp_path, missing).unlink()
    run_path(tmp_path, damaged).write_bytes(b"half a fi")
    played = []
    run_study(STUDY, lambda task: played.append(task) or play(task), tmp_path)
    assert sorted(played) == sorted([missing, damaged])
    assert (tmp_path / "losses.csv").read_bytes() == whole


def test_run_study_stopped_by_ctrl_c_keeps_finished_runs(tmp_path):
    def interrupted(task):
        if task.run == 1:
            raise KeyboardInterrupt
        return play(task)

    with pytest.raises(KeyboardInterrupt):
        run_study(STUDY, interrupted, tmp_path)
    assert sum(load_run(tmp_path, task) is not None for task in STUDY.tasks()) == 4  # run 0 of every agent and setpoint
    run_study(STUDY, play, tmp_path)
    run_study(STUDY, play, tmp_path / "whole")
    assert (tmp_path / "losses.csv").read_bytes() == (tmp_path / "whole" / "losses.csv").read_bytes()


@pytest.mark.parametrize("jobs", [1, 2])
def test_run_study_error_in_one_run_is_reported_with_its_seed_and_spares_the_others(tmp_path, jobs, capsys):
    (failure,) = run_study(STUDY, play_with_one_error, tmp_path, jobs=jobs)
    line = "failed: agent a, setpoint 20, run 1, seed 8: ArithmeticError: the plant exploded"
    assert describe(failure) == line
    assert line in capsys.readouterr().err
    assert "Traceback" in run_path(tmp_path, failure.task).with_suffix(".error.txt").read_text()
    assert len(pd.read_csv(tmp_path / "losses.csv")) == 44
    assert run_study(STUDY, play, tmp_path, jobs=jobs) == []
    assert not list(tmp_path.rglob("*.error.txt"))
    assert len(pd.read_csv(tmp_path / "losses.csv")) == 48


def test_run_study_killed_worker_is_reported_and_spares_the_others(tmp_path):
    (failure,) = run_study(STUDY, play_with_one_sudden_death, tmp_path, jobs=2)
    assert describe(failure).startswith("failed: agent a, setpoint 20, run 1, seed 8: the process died")
    assert len(pd.read_csv(tmp_path / "losses.csv")) == 44


def test_run_study_full_disk_in_one_run_spares_the_others(tmp_path):
    victim = STUDY.tasks()[5]
    run_path(tmp_path, victim).with_suffix(".run").parent.mkdir(parents=True)
    write_config_like_a_stopped_study(tmp_path)
    run_path(tmp_path, victim).mkdir()  # a name that cannot be replaced by a file
    (failure,) = run_study(STUDY, play, tmp_path)
    assert failure.task == victim
    assert "not stored: [Errno" in describe(failure)
    assert len(pd.read_csv(tmp_path / "losses.csv")) == 44


def write_config_like_a_stopped_study(folder):
    run_study(replace(STUDY), play, folder / "other")
    (folder / "other" / "config.json").rename(folder / "config.json")


def test_run_study_raises_on_folder_of_another_study(tmp_path):
    run_study(STUDY, play, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(
        ValueError, match=r"out must be an empty folder or hold the same study.*steps 4 instead of 5; seed 7 ins"
    ):
        run_study(replace(STUDY, steps=5, seed=1), play, tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_run_study_raises_on_folder_with_foreign_files(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ValueError, match="with something else in it; choose another folder"):
        run_study(STUDY, play, tmp_path)
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
    with pytest.raises(ValueError, match=rf"with the config\.json of a comparison, {found}.*choose a folder"):
        run_study(STUDY, play, tmp_path)


def test_read_study_round_trip(tmp_path):
    run_study(STUDY, play, tmp_path)
    assert read_study(tmp_path) == STUDY


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"agents": ()}, "agents must be distinct and at least one"),
        ({"agents": ("a", "a")}, "agents must be distinct"),
        ({"setpoints": (1.0, 1.0)}, "setpoints must be distinct"),
        ({"runs": 0}, "runs must be an integer of at least 1, got 0"),
        ({"steps": 1.5}, "steps must be an integer of at least 1, got 1.5"),
        ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
        ({"pretrain_steps": -1}, "pretrain_steps must be an integer of at least 0, got -1"),
    ],
)
def test_study_raises_on_bad_values(change, message):
    with pytest.raises(ValueError, match=f"Study: {message}"):
        replace(STUDY, **change)


def test_write_meta_adds_up_wall_time_over_resumed_calls(tmp_path):
    write_meta(tmp_path, "compare --runs 3", 1.25, jobs=2)
    write_meta(tmp_path, "compare --runs 3", 2.5, jobs=1)
    meta = json.loads((tmp_path / "meta.json").read_text())
    assert meta["command"] == "compare --runs 3"
    assert meta["wall_seconds"] == 3.75
    assert meta["settings"] == {"jobs": 1}
    assert meta["versions"]["numpy"] == np.__version__
    assert len(meta["commits"]) == 1
