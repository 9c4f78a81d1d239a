"""Compilation with numba, with a cache on disk that notices changes in inlined modules."""

import logging
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit

logger = logging.getLogger(__name__)
F = TypeVar("F", bound=Callable[..., object])


def compiler(folder: Path) -> Callable[..., Callable[[F], F]]:
    """Return a factory of numba decorators for the kernels in `folder`.

    The cache of numba compares only the file of the kernel itself. The stamp used here is a digest of every source file
    in the folder, so that a change in one file also recompiles the kernels of other files that inline it.

    Parameters
    ----------
    folder : Path
        Folder of the kernels and of all functions and constants that are compiled into them.

    Returns
    -------
    callable
        decorator(*fastmath, inline=False), which compiles a function at its first call and caches the machine code on
        disk. `fastmath` are the LLVM fast-math flags to allow; `inline` inlines the function into its callers.
    """
    stamp = source_stamp(folder)

    def decorator(*fastmath: str, inline: bool = False) -> Callable[[F], F]:
        def compile_lazily(function: F) -> F:
            options: dict[str, Any] = {"fastmath": set(fastmath), "error_model": "numpy", "forceinline": inline}
            try:
                dispatcher: Any = njit(cache=True, **options)(function)
            except RuntimeError:  # neither this folder nor the user's cache folder can be written to
                _warn_without_cache()
                return cast(F, njit(**options)(function))
            dispatcher._cache._cache_file._source_stamp = stamp
            return cast(F, dispatcher)

        return compile_lazily

    return decorator


@cache  # once per process
def _warn_without_cache() -> None:
    """Log that compiled kernels cannot be stored."""
    logger.warning(
        "jit: neither the installation nor the user's cache folder can be written to; every process compiles the "
        "kernels anew, which takes up to half a minute. NUMBA_CACHE_DIR names another folder."
    )


def source_stamp(folder: Path) -> str:
    """Return a SHA-256 digest of all source files in `folder`, as a hex string."""
    return sha256(b"".join(source.read_bytes() for source in sorted(folder.glob("*.py")))).hexdigest()
