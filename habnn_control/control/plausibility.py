"""Plausibility: whether a reading can be what the plant does, or is a fault of its sensor; one object per sensor.

A fault and a real change look alike in one reading. What tells the two apart:

- a change lasts, and its readings scatter: an output far from its prediction counts for little until others follow;
- a stuck or dead sensor repeats one value exactly, where its readings used to scatter;
- a known actuator moves as the action says, so a position that jumps or does not follow is doubted.

No doubt lasts for ever: what stays for long is believed. Exogenous entries are believed at once: they may do anything.
"""

from dataclasses import dataclass, field
from math import log

import numpy as np

FAR = 6.0  # predictive standard deviations from which one reading is implausible
_USUAL = 20  # recent errors, of which the standard deviation is the unit if it exceeds 1: the model may be too sure
_DEVIATION = 1.4826  # of normal errors, in medians of their magnitudes
_CONFIRMED = 3  # implausible readings in a row that are a change
_BY_CHANCE = 1e-6  # probability of equal readings in a row from which they are no chance
_AFTER_JUMP = 0.05  # the same after an implausible jump, which is half of the evidence
_CHANGES = 5  # recent changes that tell whether readings scatter
_SCATTER = 0.1  # of the predictive standard deviation: changes above it are scatter, not a plant that settles
_CONSTANT_FOR = 100  # steps after which a value that does not change is believed
_DOUBTED_FOR = 50  # steps after which a position is believed
_AGREES = 0.5  # of the largest move: a position as near to the commanded one is where it should be
_MOVES = 1e-3  # of the largest move: what counts as a move
_FOLLOWED = 2  # moves in a row that show that a position elsewhere is real


@dataclass
class OutputSensor:
    """The sensor of an entry that the model predicts; its fields are its state."""

    last: float | None = None
    run: int = 0  # how often the last value came again in a row
    jumped: bool = False  # whether the run began with an implausible reading
    n: int = 0  # readings so far, without those that are held to be constant
    repeats: int = 0  # readings among them that were equal to the one before
    surprises: int = 0  # implausible readings in a row
    changes: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)

    def begin(self) -> None:
        """Start an episode: what is usual for the sensor stays."""
        self.last, self.run, self.jumped, self.surprises = None, 0, False, 0

    def judge(self, reading: float, error: float, deviation: float, at_bound: bool) -> str:
        """Return what to make of the next reading: "plausible", "implausible" (so far), or "constant" (no measurement).

        Parameters
        ----------
        reading : float
        error : float
            Difference from the prediction in its standard deviations, on the scale of the model.
        deviation : float
            Predictive standard deviation of the reading.
        at_bound : bool
            Whether it lies at a bound of the observation space, where a plant may rest.
        """
        ready = len(self.errors) == _USUAL
        far = ready and abs(error) > FAR * max(1.0, _DEVIATION * float(np.median(self.errors)))
        change = None if self.last is None else abs(reading - self.last)
        self.last = reading
        if change == 0.0:
            self.run += 1
        else:
            self.run, self.jumped = 0, far
        if self.run and self._is_constant(deviation, at_bound):
            return "constant" if self.run <= _CONSTANT_FOR else "plausible"
        self.errors = [*self.errors, abs(error)][-_USUAL:]
        self.n, self.repeats = self.n + 1, self.repeats + (change == 0.0)
        if change:
            self.changes = [*self.changes, change][-_CHANGES:]
        self.surprises = self.surprises + 1 if far else 0
        if self.surprises < _CONFIRMED:
            return "implausible" if far else "plausible"
        self.jumped = False
        return "plausible"

    def _is_constant(self, deviation: float, at_bound: bool) -> bool:
        """Tell whether the present run of equal readings is neither chance nor a plant at rest."""
        chance = self.run * log((self.repeats + 1) / (self.n + 2))
        if self.jumped or at_bound:
            return self.jumped and chance < log(_AFTER_JUMP)
        scatters = len(self.changes) == _CHANGES and np.median(self.changes) > _SCATTER * deviation
        return bool(scatters) and chance < log(_BY_CHANCE)


@dataclass
class ActuatorSensor:
    """The sensor of a position that follows its action exactly; its fields are its state."""

    commanded: float | None = None  # where the position should be
    own: float | None = None  # the last reading
    doubts: int = 0  # doubted readings in a row
    follows: int = 0  # moves in a row that a doubted position made as commanded

    def judge(self, reading: float | None, move: float, largest: float, low: float, high: float) -> str:
        """Return "plausible", "jumped" or "stuck", and let `commanded` be the position to go on with.

        Parameters
        ----------
        reading : float, optional
            None if it is missing.
        move, largest : float
            Commanded change of the position, and the largest possible one.
        low, high : float
            Range of the position.
        """
        before, own = self.commanded, self.own
        self.own = reading
        if before is None:
            self.commanded = reading
            return "plausible"
        self.commanded = min(max(before + move, low), high)
        if reading is None:
            return "plausible"
        near = abs(reading - self.commanded) <= _AGREES * largest
        rests = reading == own and abs(self.commanded - before) > _MOVES * largest
        if near and not rests:
            self.commanded, self.doubts, self.follows = reading, 0, 0
            return "plausible"
        if near and self.doubts <= _DOUBTED_FOR:
            return "plausible"
        if own is not None:
            there = min(max(own + move, low), high)
            moved = abs(there - own) > _MOVES * largest and abs(reading - there) < 0.5 * abs(there - own)
            self.follows = self.follows + 1 if moved else 0
        self.doubts += 1
        if self.follows >= _FOLLOWED or self.doubts > _DOUBTED_FOR:
            self.commanded, self.follows = reading, 0
            return "plausible"
        return "stuck" if reading == own else "jumped"
