"""Suggestions for misspelt names."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return the last part of an error message about an unknown name: a suggestion of the most similar valid name."""
    by_lower_case = {item.lower(): item for item in valid}
    match = get_close_matches(str(name).lower(), list(by_lower_case), n=1, cutoff=0.0)
    return f"did you mean {by_lower_case[match[0]]!r}?" if match else "none is valid here."


def check_choice(owner: str, name: str, value: object, valid: Iterable[str]) -> None:
    """Raise unless the value of a parameter is one of the valid names; the error names the nearest one."""
    valid = list(valid)
    if value not in valid:
        hint = nearest(str(value), valid)
        raise ValueError(f"{owner}: {name} must be one of {', '.join(valid)}, got {value!r}; {hint}")
