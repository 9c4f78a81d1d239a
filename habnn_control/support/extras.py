"""Packages that only some people need."""

from importlib.util import find_spec


def check_extra(what: str, package: str, extra: str) -> None:
    """Raise unless a package of an optional extra is installed, before it is imported half-way through some work."""
    if find_spec(package) is None:
        raise ValueError(
            f"{what} must have the package {package}, got none; install the {extra} extra: "
            f'pip install -c constraints.txt -e ".[{extra}]".'
        )
