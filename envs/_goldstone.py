"""Mis-calibration: a rotating, linearly biased Goldstone potential over the effective shift.

The plant's direction moves in steps of 15 degrees between -90 and +90 degrees. For direction ``k`` the penalty is

    V(r) = (-2 r^2 + r^4 - 8 sqrt(2/27) sin(angle_k) r) / lambda,

with ``lambda`` chosen so that the deepest value, at +90 degrees, is -1. The effective shift is stretched so that the
minimum of V lies at ``max(|sin(angle_k)|, sin 15 degrees)``; all that does not depend on the shift is tabulated once.
"""

import math

import numpy as np
from numpy.typing import NDArray

from envs._jit import jit

STRONGEST = 6  # direction index of +90 degrees
MAX_STEP = math.sin(math.radians(15.0))  # largest change of the optimum from one direction to the next
SAFE_ZONE = MAX_STEP / 2.0  # the plant recovers while the effective shift stays within
_BIAS = 8.0 * math.sqrt(2.0 / 27.0)


def _minimum_radius(bias: float) -> float:
    """Return the radius of the deepest minimum of -2 r^2 + r^4 - bias r, for bias >= 0: the largest root of V'."""
    roots = np.roots([4.0, 0.0, -4.0, -bias])
    radius = float(roots[np.abs(roots.imag) < 1e-6].real.max())
    for _ in range(3):  # Newton, to the last digit
        radius -= (4.0 * radius**3 - 4.0 * radius - bias) / (12.0 * radius**2 - 4.0)
    return radius


def _penalty_table() -> NDArray[np.float64]:
    """Return (optimum, slope inside, minimum, scaling, exponent, bias, 1 / lambda) for each of the 13 directions."""
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
def penalty(direction: int, position: float) -> float:
    """Return V for a direction index in -6..6 at an effective shift in [-1.5, 1.5]; -1 is the best."""
    optimum, slope, minimum, scaling, exponent, bias, norm = _TABLE[direction + STRONGEST]
    distance = abs(position)
    radius = slope * distance if distance <= optimum else minimum + scaling * (distance - optimum) ** exponent
    square = radius * radius
    value: float = norm * (square * (square - 2.0) - bias * math.copysign(radius, position))
    return value


@jit
def turn(domain: int, response: int, direction: int, position: float) -> tuple[int, int, int]:
    """Return the next (domain, response, direction): outside the safe zone the direction turns, inside it recovers."""
    if abs(position) <= SAFE_ZONE:
        if direction > 0:
            direction -= 1
        elif direction < 0:
            direction += 1
    else:
        side = 1 if position > 0.0 else -1
        if side != domain:
            response = 1
        domain = side
        if direction != -domain * STRONGEST:
            direction += response * side
    if abs(direction) >= STRONGEST:
        response = -1
        if abs(direction) > STRONGEST:  # the potential is symmetric about +-90 degrees
            direction += -2 if direction > 0 else 2
    if direction == 0 and abs(position) <= SAFE_ZONE:
        domain, response = 1, 1
    return domain, response, direction
