"""Make summary, figures and report again from results folders; several folders are overlaid."""

import sys
from dataclasses import dataclass

from agents.reporting import write_report
from habnn_control.experiments.summary import headline
from habnn_control.support.command_line import fail, flag, parse, positional


@dataclass(frozen=True)
class Config:
    """Settings of a report."""

    folders: tuple[str, ...] = positional("results folders written by scripts/compare.py")
    out: str = flag("", "folder for tables, figures and report; the results folder itself if there is only one")


def main(arguments: list[str] | None = None) -> int:
    """Write the report and return the exit code."""
    config = parse(Config, __doc__, arguments)
    try:
        if len(config.folders) > 1 and not config.out:
            raise ValueError("plot: out must be given for several folders, got none; pass --out FOLDER.")
        summary, page = write_report(config.folders, config.out or None)
    except (ValueError, OSError) as error:
        return fail(error)
    print(headline(summary).to_string(index=False))
    print(f"\nreport: {page.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
