"""Optional packages."""

from importlib.util import find_spec


def check_extra(what: str, package: str, extra: str) -> None:
    """Raise unless a package of an optional extra is installed.

    Called before a long computation, it prevents an ImportError in the middle of it.

    Parameters
    ----------
    what : str
        Owner of the error message, such as the name of an agent or a flag.
    package : str
        Name of the importable package.
    extra : str
        Name of the extra of this project that installs it.
    """
    if find_spec(package) is None:
        raise ValueError(
            f"{what} must have the package {package}, got none; install the {extra} extra: "
            f'pip install -c constraints.txt -e ".[{extra}]".'
        )
