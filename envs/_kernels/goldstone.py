"""Mis-calibration: a rotating, linearly biased Goldstone potential over the effective shift.

The plant's direction moves in steps of 15 degrees between -90 and +90 degrees. For direction ``k`` the penalty is

    V(r) = (-2 r^2 + r^4 - 8 sqrt(2/27) sin(angle_k) r) / lambda,

with ``lambda`` chosen so that the global minimum, at +90 degrees, is -1. The effective shift is stretched so that the
minimum of V is at ``max(|sin(angle_k)|, sin 15 degrees)``. The terms that do not depend on the shift are tabulated.
"""

import math

import numpy as np
from numpy.typing import NDArray

from envs._kernels.elementary import exp, jit, log

STRONGEST = 6  # direction index of +90 degrees
MAX_STEP = math.sin(math.radians(15.0))  # largest change of the optimum from one direction to the next
SAFE_ZONE = MAX_STEP / 2.0  # largest |effective shift| at which the mis-calibration recovers
_BIAS = 8.0 * math.sqrt(2.0 / 27.0)


def _minimum_radius(bias: float) -> float:
    """Return the radius of the global minimum of -2 r^2 + r^4 - bias r for bias >= 0: the largest root of V'."""
    roots = np.roots([4.0, 0.0, -4.0, -bias])
    radius = float(roots[np.abs(roots.imag) < 1e-6].real.max())
    for _ in range(3):  # Newton steps to full precision
        radius -= (4.0 * radius**3 - 4.0 * radius - bias) / (12.0 * radius**2 - 4.0)
    return radius


def _penalty_table() -> NDArray[np.float64]:
    """Return one row per direction, shape (13, 7): optimum, inner slope, minimum, scaling, exponent, bias, 1/lambda."""
    deepest = _minimum_radius(_BIAS)
    depth = 2.0 * deepest**2 - deepest**4 + _BIAS * deepest
    table = np.empty((2 * STRONGEST + 1, 7))
    for row, index in zip(table, range(-STRONGEST, STRONGEST + 1), strict=True):
        sine = math.sin(index * math.pi / (2 * STRONGEST))
        optimum = max(abs(sine), MAX_STEP)
        minimum = _minimum_radius(_BIAS * abs(sine))
        exponent = (2.0 - optimum) / (2.0 - minimum)
        scaling = (2.0 - minimum) / (2.0 - optimum) ** exponent
        row[:] = optimum, minimum / optimum, minimum, scaling, exponent, _BIAS * sine, 1.0 / depth
    return table


_TABLE = _penalty_table()


@jit
def penalty(direction: float, position: float) -> float:
    """Return V for a direction index in -6..6 at an effective shift in [-1.5, 1.5]; the smallest value is -1."""
    row = int(direction) + STRONGEST
    beyond = abs(position) - _TABLE[row, 0]
    inside = beyond <= 0.0
    stretched = _TABLE[row, 3] * exp(_TABLE[row, 4] * log(1.0 if inside else beyond))
    radius = _TABLE[row, 1] * abs(position) if inside else _TABLE[row, 2] + stretched
    square = radius * radius
    value: float = _TABLE[row, 6] * (square * (square - 2.0) - _TABLE[row, 5] * (radius if position > 0.0 else -radius))
    return value


@jit
def turn(domain: float, response: float, direction: float, position: float) -> tuple[float, float, float]:
    """Return the next domain, response and direction of the mis-calibration.

    Outside the safe zone of the effective shift the direction rotates by one step; inside it returns to 0 step by step.
    """
    safe = abs(position) <= SAFE_ZONE
    side = 1.0 if position > 0.0 else -1.0
    response = response if safe | (side == domain) else 1.0
    domain = domain if safe else side
    sign = 1.0 if direction > 0.0 else -1.0
    recovery = 0.0 if direction == 0.0 else -sign
    drift = 0.0 if direction == -domain * STRONGEST else response * side
    direction += recovery if safe else drift
    response = -1.0 if abs(direction) >= STRONGEST else response
    # The potential is symmetric about 90 degrees.
    direction = direction - 2.0 * sign if abs(direction) > STRONGEST else direction
    calm = safe & (direction == 0.0)
    return 1.0 if calm else domain, 1.0 if calm else response, direction
