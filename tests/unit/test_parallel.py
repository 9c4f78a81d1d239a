"""Workers that die, parents that are killed, clusters that vanish."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from habnn_control.experiments import cluster
from habnn_control.experiments.parallel import execute


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
from habnn_control.experiments.parallel import execute

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
