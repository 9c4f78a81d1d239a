"""Suggestions for misspelt names."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return the last part of an error message about an unknown name: a suggestion of the most similar valid name."""
    by_lower_case = {item.lower(): item for item in valid}
    match = get_close_matches(str(name).lower(), list(by_lower_case), n=1, cutoff=0.0)
    return f"did you mean {by_lower_case[match[0]]!r}?" if match else "none is valid here."
