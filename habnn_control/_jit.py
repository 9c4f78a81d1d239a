"""How the kernels are compiled and kept on disk."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., object])
Floats = Any  # an array in a kernel's signature; numba reads the types from the calls


def _stamp() -> str:
    """Hash the sources of all kernels and of the constants compiled into them."""
    sources = sorted(Path(__file__).parent.glob("_*.py"))
    return sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


_STAMP = _stamp()


def _compiler(*fastmath: str, inline: bool = False) -> Callable[[F], F]:
    def compile_lazily(function: F) -> F:
        decorate = njit(cache=True, fastmath=set(fastmath), error_model="numpy", forceinline=inline)
        dispatcher: Any = decorate(function)
        # Numba looks at a kernel's own file only: without this, an upgrade that changes a kernel in another file would
        # go on running the old machine code.
        dispatcher._cache._cache_file._source_stamp = _STAMP
        return cast(F, dispatcher)

    return compile_lazily


# Sums may be reordered into vector lanes; NaN and infinity keep their meaning.
_REORDERED = ("reassoc", "contract", "nsz")
kernel = _compiler(*_REORDERED)
# Every operation as written, for code that relies on how it rounds.
exact_kernel = _compiler()
# Copied into their callers: a call would keep the loop around it out of the vector lanes. The exact one may fuse a
# product with a sum, which rounds once instead of twice.
inlined_kernel = _compiler(*_REORDERED, inline=True)
inlined_exact_kernel = _compiler("contract", inline=True)
