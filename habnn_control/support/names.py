"""Help with names that are almost right."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return the hint that ends an error about an unknown name: the valid name most like it."""
    by_lower_case = {item.lower(): item for item in valid}
    match = get_close_matches(str(name).lower(), list(by_lower_case), n=1, cutoff=0.0)
    return f"did you mean {by_lower_case[match[0]]!r}?" if match else "none is valid here."
