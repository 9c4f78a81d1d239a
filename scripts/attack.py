"""Attack the network, files, the plant and studies, and say what came of it.

Each line of the table is one kind of attack, with the number of cases and the outcome. The exit code is 1 if an outcome
is not what we promise. docs/reliability.md explains the attacks and holds the table of a full run.
"""

import sys
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

import pandas as pd

from habnn_control.experiments.provenance import write_meta
from habnn_control.support.command_line import command, fail, flag, parse
from habnn_control.support.files import atomic_write
from habnn_control.support.names import check_choice

# Each section is a module beside this one with a function attack(effort) -> list of Outcome; add yours here.
SECTIONS = {
    "network": "_attack_network",
    "files": "_attack_files",
    "plant": "_attack_plant",
    "studies": "_attack_studies",
}


@dataclass(frozen=True)
class Config:
    """Settings of the attacks."""

    sections: tuple[str, ...] = flag(tuple(SECTIONS), f"what to attack, any of {', '.join(SECTIONS)}")
    out: str = flag("results/attack", "folder for attack.csv")
    smoke: bool = flag(False, "a hundredth of the cases, to see that everything works")


def main(arguments: list[str] | None = None) -> int:
    """Attack, print and write the table, and return the exit code."""
    config = parse(Config, __doc__, arguments)
    try:
        for section in config.sections:
            check_choice("attack", "sections", section, SECTIONS)
    except ValueError as error:
        return fail(error)
    outcomes: list[Any] = []
    began = perf_counter()
    for section in config.sections:
        start = perf_counter()
        outcomes += import_module(SECTIONS[section]).attack(0.01 if config.smoke else 1.0)
        print(f"{section}: {perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    found = table(outcomes)
    print(found.to_csv(index=False), end="")
    with atomic_write(Path(config.out) / "attack.csv") as file:
        file.write(found.to_csv(index=False).encode())
    write_meta(config.out, command(), perf_counter() - began, **asdict(config))
    return 0 if all(outcome.passed for outcome in outcomes) else 1


def table(outcomes: list[Any]) -> pd.DataFrame:
    """Return the outcomes as a table."""
    rows = [(o.attack, o.cases, o.outcome, "yes" if o.passed else "NO") for o in outcomes]
    return pd.DataFrame(rows, columns=["attack", "cases", "outcome", "promised"])


if __name__ == "__main__":
    sys.exit(main())
