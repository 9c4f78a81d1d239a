"""The command `habnn plot`."""

from agents.cli.settings import Plot as Config
from agents.monitor import has_monitors, import_monitors
from agents.reporting import write_report
from habnn_control.experiments.summary import headline
from habnn_control.support.command_line import fail


def main(config: Config) -> int:
    """Write the report and return the exit code."""
    try:
        if len(config.folders) > 1 and not config.out:
            raise ValueError("plot: out must be given for several folders, got none; pass --out FOLDER.")
        folders = config.folders
        if has_monitors(folders[0]):
            folders = (import_to(config),)
        summary, page = write_report(folders, config.out or None)
    except (ValueError, OSError) as error:
        return fail(error)
    print(headline(summary).to_string(index=False))
    print(f"\nreport: {page.resolve()}")
    return 0


def import_to(config: Config) -> str:
    """Write the tables of a folder of monitor files to the folder of the report, and return it."""
    if len(config.folders) > 1 or not config.out:
        raise ValueError(
            f"plot: monitor.csv files must be in one folder and have --out, got {' '.join(config.folders)} and out "
            f"{config.out!r}; put the agents into subfolders of one folder, and pass --out FOLDER."
        )
    import_monitors(config.folders[0], config.out)
    return config.out
