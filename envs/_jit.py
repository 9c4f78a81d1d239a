"""A typed name for numba's compiler, which has no type stubs."""

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., object])


def jit(function: F) -> F:
    """Compile a function on its first call and keep the machine code on disk for the next process."""
    return cast(F, njit(cache=True, error_model="numpy")(function))
