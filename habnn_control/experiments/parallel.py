"""Run tasks in parallel processes or on a cluster; a task that fails never ends the others."""

import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from typing import Any, Self, TypeVar

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky import ProcessPoolExecutor  # type: ignore[import-untyped]
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from tqdm import tqdm

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
    finished = set()
    try:
        for index, result in _parallel(function, tasks, jobs, scheduler):
            finished.add(index)
            yield tasks[index], result
    except BrokenProcessPool:
        # A worker died without a Python error (a segmentation fault, the out-of-memory killer) and took the pool
        # with it. Nobody knows whose fault it was, so the remaining tasks run in one process each.
        for index, task in enumerate(tasks):
            if index not in finished:
                yield task, _isolated(function, task)


def _parallel(
    function: Callable[[T], R], tasks: Sequence[T], jobs: int, scheduler: str | None
) -> Iterator[tuple[int, R | str]]:
    with ExitStack() as stack:
        if scheduler is not None:
            stack.enter_context(_client(scheduler))
            stack.enter_context(parallel_config("dask", n_jobs=-1))
        else:
            # Loky replaces workers whose memory grows, and warns: there is nothing a user can do about it.
            warnings.filterwarnings("ignore", message="A worker stopped")
            # The timeout ends the workers of a killed study: no other process is left to do it.
            options: dict[str, Any] = {"inner_max_num_threads": 1, "idle_worker_timeout": 30}
            stack.enter_context(parallel_config("loky", n_jobs=jobs, **options))
        parallel = Parallel(batch_size=1, return_as="generator_unordered")
        yield from parallel(delayed(_guarded)(function, index, task) for index, task in enumerate(tasks))


def _client(scheduler: str) -> Any:
    from distributed import Client

    try:
        return Client(scheduler)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"study: scheduler must be the address of a running dask scheduler, got {scheduler!r} ({error}); start one"
        ) from error


def _guarded(function: Callable[[T], R], index: int, task: T) -> tuple[int, R | str]:
    try:
        with threadpool_limits(1):  # the same sums in the same order whatever the number of jobs
            return index, function(task)
    except Exception:
        return index, traceback.format_exc()


def _isolated(function: Callable[[T], R], task: T) -> R | str:
    with ProcessPoolExecutor(max_workers=1) as pool:
        try:
            result: R | str = pool.submit(_guarded, function, 0, task).result()[1]
            return result
        except BrokenProcessPool as error:
            return f"the process died: {' '.join(str(error).split())}"


class Progress:
    """Progress with one bar per group of tasks, or plain lines if stderr is not a terminal.

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
        width = max(map(len, self._total))
        self._bars: dict[str, tqdm[Any]] = {
            group: tqdm(
                total=total, initial=self._done[group], desc=group.ljust(width), unit="run", disable=not self._watched
            )
            for group, total in self._total.items()
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for bar in self._bars.values():
            bar.close()

    def advance(self, group: str) -> None:
        """Count one finished task."""
        self._done[group] += 1
        self._bars[group].update()
        done, total = self._done[group], self._total[group]
        if not self._watched and (done == total or done * 10 // total > (done - 1) * 10 // total):
            print(f"{group}: {done}/{total} runs", file=sys.stderr, flush=True)

    def say(self, message: str) -> None:
        """Print a message above the progress bars."""
        tqdm.write(message, file=sys.stderr)
