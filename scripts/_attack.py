"""What the sections of scripts/attack.py share."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """One kind of attack: how many cases, what came of them in words, and whether that is what we promise."""

    attack: str
    cases: int
    outcome: str
    passed: bool
