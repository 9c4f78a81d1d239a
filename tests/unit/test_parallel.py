"""Workers that die, parents that are killed, clusters that vanish."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from habnn_control.experiments import cluster
from habnn_control.experiments.parallel import Progress, duration, execute


def named(task):
    """Die at task 1 without a Python error; else return the process and when the task began and ended."""
    if task == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    time.sleep(0.5)
    return os.getpid(), start, time.monotonic()


def test_dead_worker_does_not_make_the_rest_serial():
    results = dict(execute(named, range(12), 2, None))
    assert "the process died" in results[1]
    late = [results[task] for task in range(6, 12)]  # after the tasks that were in flight
    overlapping = [a for a in late for b in late if a is not b and a[1] < b[2] and b[1] < a[2]]
    assert overlapping
    assert len({pid for pid, _, _ in late}) == 2


PROGRAM = """
import os, sys, time
from pathlib import Path
from habnn_control.experiments.parallel import Progress, duration, execute

def work(task):
    Path(sys.argv[1], str(os.getpid())).touch()
    time.sleep(300)

if __name__ == "__main__":
    list(execute(work, range(4), 2, None))
"""


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_killed_parent_leaves_no_workers_behind(tmp_path, sign):
    (tmp_path / "program.py").write_text(PROGRAM.replace("sys.argv[1]", repr(str(tmp_path / "pids"))))
    (tmp_path / "pids").mkdir()
    process = subprocess.Popen([sys.executable, str(tmp_path / "program.py")], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 100
    while len(list((tmp_path / "pids").iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    workers = [int(path.name) for path in (tmp_path / "pids").iterdir()]
    process.send_signal(sign)
    process.wait(timeout=60)
    assert len(workers) == 2
    deadline = time.monotonic() + 30
    while any(map(is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not any(map(is_running, workers))


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0 s"), (89.0, "89 s"), (90.0, "1.5 min"), (1800.0, "30 min"), (7200.0, "2.0 h")]
)
def test_duration_is_in_the_unit_that_suits_it(seconds, text):
    assert duration(seconds) == text


def test_progress_tells_the_time_left_of_all_runs(capsys, monkeypatch):
    clock = iter([100.0, 110.0, 120.0, 130.0])
    monkeypatch.setattr("habnn_control.experiments.parallel.time.monotonic", lambda: next(clock))
    with Progress(["a", "a", "b", "b"], ["a", "b", "b"]) as progress:  # one run is done already
        for group in ("a", "b", "b"):
            progress.advance(group)
    assert capsys.readouterr().err.splitlines() == [
        "a: 2/2 runs; all: 2/4, about 20 s left",
        "b: 1/2 runs; all: 3/4, about 10 s left",
        "b: 2/2 runs; all: 4/4",
    ]


def test_progress_in_a_terminal_has_one_overall_bar(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Progress(["a", "bb"], ["a", "bb"]) as progress:
        progress.advance("a")
    text = capsys.readouterr().err
    assert re.search(r"all: +50%.*1/2 runs \[00:00, about 00:00 left\]", text)
    assert re.search(r"a {2}: 100%.*1/1 runs", text)
    assert re.search(r"bb : {3}0%.*0/1 runs", text)


def sleep(seconds):
    time.sleep(seconds)
    return seconds


def test_cluster_without_workers_is_given_up(monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "PATIENCE", 3.0)
    with distributed.LocalCluster(n_workers=0, dashboard_address=None) as local:
        start = time.monotonic()
        with pytest.raises(ConnectionError, match="scheduler must have workers, got none"):
            list(execute(sleep, [0.0], 1, local.scheduler_address))
        assert time.monotonic() - start < 30


def test_lost_scheduler_is_reported():
    distributed = pytest.importorskip("distributed")
    local = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None)
    timer = threading.Timer(4.0, local.close, kwargs={"timeout": 5})
    timer.start()
    start = time.monotonic()
    results = []
    with pytest.raises(ConnectionError, match="scheduler must"):
        results.extend(execute(sleep, [0.1, 50.0], 1, local.scheduler_address))
    assert time.monotonic() - start < 60
    timer.join()
