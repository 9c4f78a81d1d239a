"""The command `habnn uci`."""

import sys
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter

from agents.cli.settings import Regression as Config
from habnn_control.experiments.engine import claim, describe
from habnn_control.experiments.provenance import write_meta
from habnn_control.regression import sensitivity
from habnn_control.regression import study as studies
from habnn_control.regression.data import SOURCES, check_dataset, locate, read, sha256
from habnn_control.regression.protocol import BLOCKS, DEFAULT_METHODS
from habnn_control.regression.report import write_report
from habnn_control.support.command_line import command, fail
from habnn_control.support.command_line import describe as describe_error


def main(config: Config) -> int:
    """Run the study and return the exit code: 0 only if every run succeeded."""
    try:
        study, files = resolve(config)
        claim(config.out, study)
    except (ValueError, OSError) as error:
        return fail(error)
    kept = f"finished runs are in {config.out}, and the same command goes on from there."
    try:
        return run(config, study, files)
    except KeyboardInterrupt:
        print(f"\nStopped; {kept}", file=sys.stderr)
        return 130
    except OSError as error:  # a full disk
        return fail(f"{describe_error(error).rstrip('.')}; {kept}")


def run(config: Config, study: studies.RegressionStudy, files: dict[str, Path]) -> int:
    """Run what is missing and report; return the exit code."""
    start = perf_counter()
    try:
        failures = studies.run(study, files, config.out, config.jobs)
    finally:
        write_meta(config.out, command(), perf_counter() - start, **asdict(config))
    for failure in failures:
        print(describe(study, failure), file=sys.stderr)
    if len(failures) < len(study.tasks()):
        print(write_report(config.out))
    return 1 if failures else 0


def resolve(config: Config) -> tuple[studies.RegressionStudy, dict[str, Path]]:
    """Check the settings; return the study they describe and the file of each set.

    Names are checked before anything is downloaded.
    """
    runs, rows = config.runs, config.max_rows
    names = config.methods or DEFAULT_METHODS.get(config.protocol, ())
    blocks = config.blocks or (BLOCKS if config.protocol == "one-pass" else ("z-scored",))
    if config.sensitivity:
        names, blocks = sensitivity.VARIANTS, ("raw",)
    if config.smoke:
        names, runs, rows = ("constant", "habnn", "habnn-recommended"), min(runs, 2), 100
    for block in blocks:
        if block not in BLOCKS:
            raise ValueError(f"uci: blocks must be of {', '.join(BLOCKS)}, got {block!r}; choose these.")
    sets = config.datasets or (() if config.dataset_file else tuple(SOURCES))
    known = (*sets, *(Path(path).stem for path in config.dataset_file))
    for name in sets:
        check_dataset(name, config.data_dir or None)
    study = studies.RegressionStudy(names, known, (), blocks, runs, config.seed, rows, config.protocol)
    files = {name: locate(name, config.data_dir or None) for name in sets}
    files |= {Path(path).stem: Path(path) for path in config.dataset_file}
    for path in files.values():
        read(path)
    checksums = tuple(sha256(path) for path in files.values())
    return replace(study, datasets=tuple(files), checksums=checksums), files
