"""Compilation with numba, with a cache on disk that notices changes in inlined modules."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit

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
            compile_with_flags = njit(cache=True, fastmath=set(fastmath), error_model="numpy", forceinline=inline)
            dispatcher: Any = compile_with_flags(function)
            dispatcher._cache._cache_file._source_stamp = stamp
            return cast(F, dispatcher)

        return compile_lazily

    return decorator


def source_stamp(folder: Path) -> str:
    """Return a SHA-256 digest of all source files in `folder`, as a hex string."""
    return sha256(b"".join(source.read_bytes() for source in sorted(folder.glob("*.py")))).hexdigest()
