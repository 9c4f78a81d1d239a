"""Compilation with numba, and its cache on disk."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., object])


def compiler(folder: Path) -> Callable[..., Callable[[F], F]]:
    """Return a function that makes numba decorators for the kernels in `folder`.

    Numba's cache looks at a kernel's own file only. The stamp used here covers every source file of the folder, so
    that a change in one file recompiles the kernels of the others that inline it.

    Parameters
    ----------
    folder : Path
        Where the kernels are, with all functions and constants that are compiled into them.

    Returns
    -------
    callable
        decorator(*fastmath, inline=False): compile on the first call and keep the machine code on disk. `fastmath`
        names the LLVM flags to allow; `inline` copies the function into its callers.
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
    """Return a digest of all source files in `folder`."""
    return sha256(b"".join(source.read_bytes() for source in sorted(folder.glob("*.py")))).hexdigest()
