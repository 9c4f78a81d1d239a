"""The command `habnn plot`."""

from agents.cli.settings import Plot as Config
from agents.reporting import write_report
from habnn_control.experiments.summary import headline
from habnn_control.support.command_line import fail


def main(config: Config) -> int:
    """Write the report and return the exit code."""
    try:
        if len(config.folders) > 1 and not config.out:
            raise ValueError("plot: out must be given for several folders, got none; pass --out FOLDER.")
        summary, page = write_report(config.folders, config.out or None)
    except (ValueError, OSError) as error:
        return fail(error)
    print(headline(summary).to_string(index=False))
    print(f"\nreport: {page.resolve()}")
    return 0
