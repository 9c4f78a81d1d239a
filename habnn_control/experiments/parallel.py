"""Run tasks in parallel processes or on a cluster; a task that fails never ends the others."""

import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache, partial
from multiprocessing.pool import ThreadPool
from typing import Any, Self, TypeVar

from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from joblib.externals.loky import ProcessPoolExecutor  # type: ignore[import-untyped]
from tqdm import tqdm

from habnn_control.experiments.cluster import run_on_cluster
from habnn_control.support.threads import one_thread

_ALL = "all"  # label of the overall progress
_IN_FLIGHT = 2  # tasks per process that a pool knows of at a time

# Bars of one process need no lock between processes: an ended worker would leave its semaphore behind, and a warning.
tqdm.set_lock(threading.RLock())

T = TypeVar("T")
R = TypeVar("R")


def execute(
    function: Callable[[T], R], tasks: Sequence[T], jobs: int, scheduler: str | None
) -> Iterator[tuple[T, R | str]]:
    """Yield each task with its result, or with a traceback as text, in the order of completion.

    Parameters
    ----------
    function : callable
        Called with one task, on one thread.
    tasks : sequence
        Arguments of `function`.
    jobs : int
        Number of local processes; 1 means this one.
    scheduler : str, optional
        Address of a dask.distributed scheduler to use instead.
    """
    if scheduler is not None:
        for index, result in run_on_cluster(partial(_guarded, function), tasks, scheduler):
            yield tasks[index], result
        return
    unfinished = dict(enumerate(tasks))
    while unfinished:
        try:
            for index, result in _parallel(function, unfinished, jobs):
                yield unfinished.pop(index), result
        except BrokenProcessPool:
            # A worker died without a Python error (a segmentation fault, the out-of-memory killer) and took the pool
            # with it. It ran one of the tasks in flight, which are the first ones: each of these gets a process of its
            # own. The others go on in a new pool.
            n_processes = effective_n_jobs(jobs)
            suspects = list(unfinished)[: _IN_FLIGHT * n_processes]
            with ThreadPool(n_processes) as threads:
                apart = partial(_isolated, function, unfinished)
                for index, result in threads.imap_unordered(apart, suspects):
                    yield unfinished.pop(index), result


def _parallel(function: Callable[[T], R], tasks: Mapping[int, T], jobs: int) -> Iterator[tuple[int, R | str]]:
    # Loky replaces workers whose memory grows, and warns: there is nothing a user can do about it.
    warnings.filterwarnings("ignore", message="A worker stopped")
    options: dict[str, Any] = {"inner_max_num_threads": 1, "idle_worker_timeout": 30}
    with parallel_config("loky", n_jobs=jobs, **options):
        parallel = Parallel(batch_size=1, return_as="generator_unordered", pre_dispatch=f"{_IN_FLIGHT} * n_jobs")
        with _ignoring_interrupts():  # as the workers, which start here, do from then on: Ctrl-C is for this process
            results = parallel(
                delayed(_guarded)(function, index, task, parent=os.getpid()) for index, task in list(tasks.items())
            )
        yield from results


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C for a moment, where this thread may say so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _guarded(function: Callable[[T], R], index: int, task: T, parent: int = 0) -> tuple[int, R | str]:
    """Return the index and the result of a task, or its traceback as text.

    A process that is a child of the process `parent` ends with it.
    """
    if os.getppid() == parent:
        _end_with(parent)
    try:
        with one_thread():  # the same sums in the same order whatever the number of jobs
            return index, function(task)
    except Exception:
        return index, traceback.format_exc()


@cache  # one thread per process
def _end_with(parent: int) -> None:
    """End this process within seconds after its parent: nobody is left to take its results."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _isolated(function: Callable[[T], R], tasks: Mapping[int, T], index: int) -> tuple[int, R | str]:
    """Run one task in a process of its own."""
    with ProcessPoolExecutor(max_workers=1) as pool:
        try:
            result: tuple[int, R | str] = pool.submit(_guarded, function, index, tasks[index], os.getpid()).result()
            return result
        except BrokenProcessPool as error:
            return index, f"the process died: {' '.join(str(error).split())}"


class Progress:
    """Progress with one bar per group of tasks and one for all, or plain lines if stderr is not a terminal.

    The overall line tells how long the rest will take at the pace so far.

    Parameters
    ----------
    groups : sequence of str
        The group of every task.
    pending : sequence of str
        The group of every task that has not run yet.
    """

    def __init__(self, groups: Sequence[str], pending: Sequence[str]) -> None:
        self._total, left = Counter(groups), Counter(pending)
        self._done = {group: self._total[group] - left[group] for group in self._total}
        self._watched = sys.stderr.isatty()
        self._start, self._before = time.monotonic(), len(groups) - len(pending)
        width = max(map(len, [*self._total, _ALL]))
        self._bars: dict[str, tqdm[Any]] = {
            group: self._bar(group.ljust(width), total, self._done[group], "{n_fmt}/{total_fmt} runs")
            for group, total in self._total.items()
        }
        times = "{n_fmt}/{total_fmt} runs [{elapsed}, about {remaining} left]"
        self._all = self._bar(_ALL.ljust(width), len(groups), self._before, times)

    def _bar(self, label: str, total: int, done: int, figures: str) -> "tqdm[Any]":
        layout = f"{{desc}}: {{percentage:3.0f}}%|{{bar}}| {figures}"
        return tqdm(total=total, initial=done, desc=label, bar_format=layout, smoothing=0.0, disable=not self._watched)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for bar in (*self._bars.values(), self._all):
            bar.close()

    def advance(self, group: str) -> None:
        """Count one finished task."""
        self._done[group] += 1
        self._bars[group].update()
        self._all.update()
        done, total = self._done[group], self._total[group]
        if not self._watched and (done == total or done * 10 // total > (done - 1) * 10 // total):
            print(f"{group}: {done}/{total} runs; {self.overall()}", file=sys.stderr, flush=True)

    def overall(self) -> str:
        """Return how many of all tasks are done, and how long the others will take at the pace so far."""
        done, total = sum(self._done.values()), sum(self._total.values())
        seconds = (time.monotonic() - self._start) / max(done - self._before, 1) * (total - done)
        left = f", about {duration(seconds)} left" if done < total else ""
        return f"{_ALL}: {done}/{total}{left}"

    def say(self, message: str) -> None:
        """Print a message above the progress bars."""
        tqdm.write(message, file=sys.stderr)


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.{1 if seconds < 10 * length else 0}f} {unit}"
    return f"{seconds:.0f} s"
