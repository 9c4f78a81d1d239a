"""Run tasks on a dask cluster; a cluster that is lost ends the study with one error instead of silence."""

import logging
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE = 30.0  # seconds without any worker after which a cluster is given up
_POLL = 2.0  # seconds between two looks at the cluster
_IN_FLIGHT = 1000  # tasks that the scheduler knows of at a time


def run_on_cluster(function: Callable[[int, T], Any], tasks: Sequence[T], scheduler: str) -> Iterator[Any]:
    """Yield function(index, task) of each task, or (index, text) if its worker died, in the order of completion.

    Parameters
    ----------
    function : callable
        Must be picklable and must not raise.
    tasks : sequence
    scheduler : str
        Address of a dask.distributed scheduler.

    Raises
    ------
    ConnectionError
        If there is no scheduler at the address, or it is lost, or has no workers for 30 seconds.
    """
    with _client(scheduler) as client:
        waiting = list(enumerate(tasks))[::-1]
        pending: dict[Any, int] = {}
        seen_alive = monotonic()
        while waiting or pending:
            while waiting and len(pending) < _IN_FLIGHT:
                index, task = waiting.pop()
                pending[client.submit(function, index, task, pure=False)] = index
            done = _completed(client, list(pending), scheduler)
            for future in done:
                yield _result(future, pending.pop(future), scheduler)
            if done or _has_workers(client, scheduler):
                seen_alive = monotonic()
            elif monotonic() - seen_alive > PATIENCE:
                raise ConnectionError(
                    f"study: scheduler must have workers, got none at {scheduler!r} for {PATIENCE:g} s; start some"
                )


@contextmanager
def _client(scheduler: str) -> Iterator[Any]:
    from distributed import Client

    for name in logging.root.manager.loggerDict:
        if name.partition(".")[0] == "distributed":  # it reports on several pages what we say in one line
            logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client = Client(scheduler, timeout=10)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"study: scheduler must be the address of a running dask scheduler, got {scheduler!r} ({error}); start one"
        ) from error
    try:
        yield client
    finally:
        with suppress(Exception):  # of a scheduler that is gone
            client.close(timeout=2)  # type: ignore[no-untyped-call]


def _lost(scheduler: str) -> ConnectionError:
    return ConnectionError(f"study: scheduler must stay in reach, got no answer from {scheduler!r}; start it again")


def _completed(client: Any, futures: list[Any], scheduler: str) -> list[Any]:
    """Wait a moment and return the futures that are done, perhaps none."""
    from distributed import wait

    try:
        wait(futures, timeout=_POLL, return_when="FIRST_COMPLETED")  # type: ignore[no-untyped-call]
    except TimeoutError:
        pass
    except (Exception, CancelledError) as error:  # whatever a connection that breaks raises
        raise _lost(scheduler) from error
    if client.status != "running":
        raise _lost(scheduler)
    return [future for future in futures if future.done()]


def _result(future: Any, index: int, scheduler: str) -> Any:
    if future.status in ("cancelled", "lost"):
        raise _lost(scheduler)
    if future.status == "error":  # the workers died under the task, or could not read it
        return index, f"the worker failed: {' '.join(str(future.exception()).split())}"
    return future.result()


def _has_workers(client: Any, scheduler: str) -> bool:
    try:
        return bool(client.scheduler_info(n_workers=1)["workers"])
    except (Exception, CancelledError) as error:  # as above
        raise _lost(scheduler) from error
