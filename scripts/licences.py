"""List the installed distributions that the project needs, with version and licence."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import Requirement

from habnn_control.support.command_line import flag, parse

_PROJECT = "habnn-control"


@dataclass(frozen=True)
class Config:
    """Settings of the list."""

    extras: tuple[str, ...] = flag(("dev", "regression"), "extras of the project whose requirements are listed too")


def main(arguments: list[str] | None = None) -> int:
    """Print one line per distribution and return the exit code."""
    config = parse(Config, __doc__, arguments)
    for name in sorted(required(_PROJECT, config.extras)):
        print(f"{name:28} {metadata.version(name):20} {licence(name)}")
    return 0


def required(project: str, extras: tuple[str, ...]) -> set[str]:
    """Return the installed distributions that a project needs, itself left out, by their normalised names."""
    found: set[str] = set()
    todo = [(project, extras)]
    seen = set(todo)
    while todo:
        for one in _requirements(*todo.pop()):
            found.add(one[0])
            if one not in seen:
                seen.add(one)
                todo.append(one)
    return found - {project}


def _requirements(name: str, extras: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield name and extras of each installed direct requirement of a distribution."""
    for text in metadata.requires(name) or []:
        requirement = Requirement(text)
        applies = [requirement.marker is None or requirement.marker.evaluate({"extra": e}) for e in ("", *extras)]
        needed = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if any(applies) and _is_installed(needed):
            yield needed, tuple(sorted(requirement.extras))


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def licence(name: str) -> str:
    """Return the licence of a distribution: its expression, its classifiers, or the first line of its text."""
    about = metadata.metadata(name)
    classifiers = [text.rsplit(" :: ", 1)[-1] for text in about.get_all("Classifier", []) if text.startswith("License")]
    texts = [text.strip().split("\n")[0] for text in about.get_all("License", [])]
    return ", ".join(about.get_all("License-Expression", []) or classifiers or texts) or "unknown"


if __name__ == "__main__":
    sys.exit(main())
