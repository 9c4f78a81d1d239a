"""The command `habnn benchmark`."""

import json
import os
import platform
from dataclasses import asdict
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from agents.cli.settings import SECTIONS
from agents.cli.settings import Benchmark as Config
from habnn_control.experiments.provenance import commit
from habnn_control.support.command_line import command, fail
from habnn_control.support.files import atomic_write, check_writable
from habnn_control.support.names import nearest


def main(config: Config) -> int:
    """Measure, print a table and return the exit code."""
    try:
        check(config)
    except (ValueError, OSError) as error:
        return fail(error)
    repeats = 2 if config.smoke else config.repeats
    rows = [
        {"section": section, **asdict(result), "passed": result.passed}
        for section in config.sections
        for result in import_module(f"agents.benchmarks.{section}").measure(repeats)
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
    if config.json:
        check_writable(config.json)


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
        "commit": commit(),
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
