"""The decorator that compiles the kernels of this folder, and elementary functions that vectorise.

log, exp and sin of the C library are function calls, which prevent vectorisation over plants. The functions here have
neither calls nor branches. Their error is a few units in the last place on the ranges of the benchmark, and a plant
gets the same bits alone and in a batch.
"""

import math
from pathlib import Path
from typing import Any

from numba import types
from numba.extending import intrinsic

from habnn_control.support.jit import compiler

# Not shared with habnn_control/_network/rectifier.py: the functions there serve other ranges (log1p near 0, an exp that
# saturates) and may fuse operations. Here no operation is fused, so that trajectories are reproducible bit by bit. One
# implementation for both would change result bits of one, and a module outside this folder escapes its compile stamp.
_LN2_HIGH, _LN2_LOW = 0.69314718036912381649, 1.90821492927058770002e-10  # their sum is ln 2 to 107 bits
_MANTISSA, _ONE = 0x000FFFFFFFFFFFFF, 0x3FF0000000000000

jit = compiler(Path(__file__).parent)(inline=True)


def _reinterpret(source: Any, target: Any) -> Any:
    """Return a compiled function that reinterprets the bits of a `source` number as a `target` number."""

    def rule(_typing: Any, _number: Any) -> Any:
        def emit(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], context.get_value_type(target))

        return target(source), emit

    return intrinsic(rule)


_bits_of = _reinterpret(types.float64, types.int64)
_float_of = _reinterpret(types.int64, types.float64)


@jit
def clip(value: float, low: float, high: float) -> float:
    """Return the value clipped to [low, high]."""
    value = low if value < low else value
    return high if value > high else value


@jit
def log(x: float) -> float:
    """Return the natural logarithm of a positive, normal number."""
    bits = _bits_of(x)
    exponent: float = float((bits >> 52) - 1023)
    fraction: float = _float_of((bits & _MANTISSA) | _ONE)  # in [1, 2)
    upper = fraction > math.sqrt(2.0)
    fraction = 0.5 * fraction if upper else fraction
    exponent = exponent + 1.0 if upper else exponent
    s = (fraction - 1.0) / (fraction + 1.0)  # log(fraction) = 2 artanh(s), |s| < 0.172
    z = s * s
    p = 1.0 / 21.0
    p = p * z + 1.0 / 19.0
    p = p * z + 1.0 / 17.0
    p = p * z + 1.0 / 15.0
    p = p * z + 1.0 / 13.0
    p = p * z + 1.0 / 11.0
    p = p * z + 1.0 / 9.0
    p = p * z + 1.0 / 7.0
    p = p * z + 1.0 / 5.0
    p = p * z + 1.0 / 3.0
    return 2.0 * s + (2.0 * s * z * p + exponent * _LN2_LOW) + exponent * _LN2_HIGH


@jit
def exp(x: float) -> float:
    """Return exp(x) for |x| < 700."""
    twos = math.floor(x / math.log(2.0) + 0.5)
    r = (x - twos * _LN2_HIGH) - twos * _LN2_LOW  # |r| < 0.347
    p = 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 1.0 / 2.0
    power: float = _float_of((int(twos) + 1023) << 52)  # 2 to the power of twos
    return (1.0 + (r + r * r * p)) * power


@jit
def sine(turns: float) -> float:
    """Return sin(2 pi turns)."""
    halves = math.floor(2.0 * turns + 0.5)
    x = 2.0 * math.pi * (turns - 0.5 * halves)  # |x| <= pi / 2
    odd = halves - 2.0 * math.floor(0.5 * halves)
    z = x * x
    p = -1.0 / 121645100408832000.0
    p = p * z + 1.0 / 355687428096000.0
    p = p * z - 1.0 / 1307674368000.0
    p = p * z + 1.0 / 6227020800.0
    p = p * z - 1.0 / 39916800.0
    p = p * z + 1.0 / 362880.0
    p = p * z - 1.0 / 5040.0
    p = p * z + 1.0 / 120.0
    p = p * z - 1.0 / 6.0
    return (1.0 - 2.0 * odd) * (x + x * z * p)
