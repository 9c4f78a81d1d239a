"""Measure speed, as ratios within one run, and compare with the bars we hold ourselves to.

What a section compares is timed in turns, and the best of several rounds counts (of decisions, the median), for the
machine may be busy. A bar that is missed is printed, not punished: the exit code tells only whether the measurement
itself worked.
"""

import json
import os
import platform
import sys
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from habnn_control.support.command_line import command, fail, flag, parse
from habnn_control.support.files import atomic_write
from habnn_control.support.names import nearest

# Each section is a module beside this one with a function measure(repeats) -> list of Result; add yours here.
SECTIONS = {
    "env": "_benchmark_env",
    "adapter": "_benchmark_adapter",
    "habnn": "_benchmark_habnn",
    "decision": "_benchmark_decision",
}


@dataclass(frozen=True)
class Config:
    """Settings of a measurement."""

    sections: tuple[str, ...] = flag(tuple(SECTIONS), f"what to measure, any of {', '.join(SECTIONS)}")
    repeats: int = flag(30, "rounds, of which the best counts (decision: their median)")
    json: str = flag("", "file for the results")
    smoke: bool = flag(False, "two rounds, to see that everything works")


def main(arguments: list[str] | None = None) -> int:
    """Measure, print a table and return the exit code."""
    config = parse(Config, __doc__, arguments)
    try:
        check(config)
    except ValueError as error:
        return fail(error)
    repeats = 2 if config.smoke else config.repeats
    rows = [
        {"section": section, **asdict(result), "passed": result.passed}
        for section in config.sections
        for result in import_module(SECTIONS[section]).measure(repeats)
    ]
    print(table(rows))
    missed = [row["name"] for row in rows if row["passed"] is False]
    print(f"\nBARS MISSED: {', '.join(missed)}" if missed else "\nAll bars reached.")
    if config.json:
        write(Path(config.json), rows)
    return 0


def check(config: Config) -> None:
    """Raise where a setting makes no sense."""
    for section in config.sections:
        if section not in SECTIONS:
            raise ValueError(
                f"benchmark: sections must be any of {', '.join(SECTIONS)}, got {section!r}; "
                f"{nearest(section, SECTIONS)}"
            )
    if config.repeats < 1:
        raise ValueError(f"benchmark: repeats must be at least 1, got {config.repeats}; the default is 30.")


def table(rows: list[dict[str, Any]]) -> str:
    """Return the results as aligned text."""
    lines = [("section", "what", "time [us]", "ratio", "bar", "reached")]
    for row in rows:
        ratio, bar = (f"{row[key]:.1f}" if row[key] is not None else "-" for key in ("ratio", "bar"))
        reached = {True: "yes", False: "NO", None: "-"}[row["passed"]]
        lines.append((row["section"], row["name"], f"{row['microseconds']:.3f}", ratio, bar, reached))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    layout = "  ".join(f"{{:{'<' if i < 2 else '>'}{width}}}" for i, width in enumerate(widths))
    return "\n".join(layout.format(*line) for line in lines)


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write the results with what they were measured on."""
    content = {
        "command": command(),
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {
            name: metadata.version(name) for name in ("habnn-control", "numpy", "numba", "torch", "gymnasium")
        },
        "results": rows,
    }
    with atomic_write(path) as file:
        file.write((json.dumps(content, indent=2) + "\n").encode())


if __name__ == "__main__":
    sys.exit(main())
