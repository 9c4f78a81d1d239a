"""What scripts/compare.py does with bad input, full disks, lost schedulers and signals."""

import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pandas as pd
import pytest

from compare_calls import ROOT, flags, main


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--agents", "sacc"], "got 'sacc'; did you mean 'sac'?"),
        (["--setpoints", "101"], "setpoint must be in 0..100, got 101; the nearest is 100"),
        (["--setpoints", "nan"], "setpoint must be in 0..100, got nan"),
        (["--setpoints", "1", "--env-arg", "setpoint=2"], "argument must be given once, got 'setpoint' twice"),
        (["--env-arg", "wandring=True"], "env-arg must be arguments that the environment accepts"),
        (["--env", "Pendulun-v1"], "got 'Pendulun-v1'; did you mean 'Pendulum-v1'?"),
        (["--agent-settings", "{"], "JSON must be an object of objects, got '{'"),
        (["--agent-settings", '{"nop": {}}'], "agent_settings must be of noop, got 'nop'; did you mean 'noop'?"),
        (["--plugin", "no_such_module"], "module must be one that Python can import, got 'no_such_module'"),
        (["--runs", "0"], "runs must be an integer of at least 1, got 0"),
        (["--jobs", "0"], "jobs must be a number of processes or -1, got 0"),
        (["--backend", "dask"], "pass --backend dask --scheduler ADDRESS"),
        (["--out", "/dev/null"], "out must be an empty folder"),
    ],
)
def test_compare_refuses_bad_input_in_one_line(tmp_path, wrong, message, capsys):
    assert main("compare.py", "--agents", "noop", "--out", tmp_path / "x", *wrong) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not (tmp_path / "x").exists()


def test_compare_reports_a_run_that_cannot_be_stored_and_exits_with_an_error(tmp_path, capsys):
    main("compare.py", *flags(tmp_path / "x", "noop", runs=3))
    victim = tmp_path / "x/runs/noop/40/0001.run"
    victim.unlink()
    victim.mkdir()  # a name that no file can take
    assert main("compare.py", *flags(tmp_path / "x", "noop", runs=3)) == 1
    seen = capsys.readouterr()
    assert "failed: agent noop, setpoint 40, run 1, seed 1: not stored" in seen.err
    assert "report:" in seen.out
    assert len(pd.read_csv(tmp_path / "x/losses.csv")) == 30


@contextmanager
def files_of_at_most(n_bytes):
    """Refuse longer files, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_compare_on_a_full_disk_keeps_the_runs_and_goes_on_later(tmp_path, capsys):
    study = flags(tmp_path / "x", "noop", runs=6)
    assert main("compare.py", *flags(tmp_path / "whole", "noop", runs=6)) == 0
    capsys.readouterr()
    with files_of_at_most(4096):  # room for a run, not for the table of all
        assert main("compare.py", *study) == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert "File too large" in line
    assert "losses.csv" in line
    assert "the same command goes on from there" in line
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "x").rglob("*.run")}
    assert len(kept) == 6
    assert main("compare.py", *study) == 0
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert (tmp_path / "x/losses.csv").read_bytes() == (tmp_path / "whole/losses.csv").read_bytes()


def test_compare_into_a_path_that_cannot_be_written_says_so_in_one_sentence(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main("compare.py", *flags(tmp_path / "file" / "x", "noop")) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: files: ")
    assert line.endswith("must be in folders, not in a file, got 'Not a directory'; choose another path.")


def test_plot_of_a_missing_folder_says_so_in_one_sentence(tmp_path, capsys):
    assert main("plot.py", tmp_path / "nothing") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "nothing/losses.csv must be an existing path" in line


def test_compare_without_a_dask_scheduler_says_so_in_one_line(tmp_path, capsys):
    where = ["--backend", "dask", "--scheduler", "nowhere"]
    assert main("compare.py", *flags(tmp_path / "x", "noop"), *where) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "scheduler must be the address of a running dask scheduler, got 'nowhere'" in line


STOPPED = {"agents": "noop random", "runs": 20, "steps": 2000, "jobs": 2}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "study"
    assert main("compare.py", *flags(out, **STOPPED)) == 0
    return (out / "losses.csv").read_bytes()


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_compare_stopped_half_way_resumes_to_the_same_bytes(whole, tmp_path, sign):
    out = tmp_path / "study"
    command = [sys.executable, str(ROOT / "scripts/compare.py"), *map(str, flags(out, **STOPPED))]
    with (tmp_path / "errors").open("w") as errors:
        process = subprocess.Popen(
            command,
            stdout=errors,
            stderr=errors,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
        )
        deadline = time.monotonic() + 120
        while len(list(out.rglob("*.run"))) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        os.killpg(process.pid, sign)  # the whole group, as Ctrl-C in a terminal does
        code = process.wait(timeout=60)
    kept = {path: path.stat().st_mtime_ns for path in out.rglob("*.run")}
    assert 3 <= len(kept) < 40
    assert not (out / "losses.csv").exists()
    if sign == signal.SIGINT:
        text = (tmp_path / "errors").read_text()
        assert code == 130
        assert "the same command goes on from there" in text
        assert "Stopped" in text
        assert "Traceback" not in text
    assert main("compare.py", *flags(out, **STOPPED)) == 0
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert (out / "losses.csv").read_bytes() == whole
