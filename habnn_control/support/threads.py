"""One thread for linear algebra."""

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]


def one_thread(brief: bool = False) -> AbstractContextManager[Any]:
    """Return a block in which BLAS and OpenMP work on one thread.

    The matrices of an agent are small: on a busy machine more threads take several times as long, waiting for each
    other. They also add up in another order, which changes results in the last digits.

    Parameters
    ----------
    brief : bool
        Look for the libraries once per process only: it takes some milliseconds.
    """
    block: AbstractContextManager[Any] = (_found() if brief else ThreadpoolController()).limit(limits=1)
    return block


@cache
def _found() -> ThreadpoolController:
    return ThreadpoolController()
