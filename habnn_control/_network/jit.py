"""The four decorators that compile the kernels of this folder."""

from pathlib import Path
from typing import Any

from habnn_control.support.jit import compiler

Floats = Any  # an array in the signature of a kernel; numba infers its type from the arguments

_compiled = compiler(Path(__file__).parent)
# LLVM may reorder sums to vectorise them; NaN and infinity keep their IEEE meaning.
_REORDERED = ("reassoc", "contract", "nsz")
kernel = _compiled(*_REORDERED)
# Every operation in the written order, for code that relies on its rounding.
exact_kernel = _compiled()
# Inlined into the callers: a function call inside a loop prevents its vectorisation. The exact variant may fuse a
# product and a sum into one instruction, which rounds once instead of twice.
inlined_kernel = _compiled(*_REORDERED, inline=True)
inlined_exact_kernel = _compiled("contract", inline=True)
