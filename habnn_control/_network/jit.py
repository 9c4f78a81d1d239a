"""The four ways in which the kernels of this folder are compiled."""

from pathlib import Path
from typing import Any

from habnn_control.support.jit import compiler

Floats = Any  # an array in a kernel's signature; numba reads the types from the calls

_compiled = compiler(Path(__file__).parent)
# Sums may be reordered into vector lanes; NaN and infinity keep their meaning.
_REORDERED = ("reassoc", "contract", "nsz")
kernel = _compiled(*_REORDERED)
# Every operation as written, for code that relies on how it rounds.
exact_kernel = _compiled()
# Copied into their callers: a call would keep the loop around it out of the vector lanes. The exact one may fuse a
# product with a sum, which rounds once instead of twice.
inlined_kernel = _compiled(*_REORDERED, inline=True)
inlined_exact_kernel = _compiled("contract", inline=True)
