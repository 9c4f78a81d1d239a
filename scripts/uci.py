"""Regression studies on six UCI sets: the HABNN paper's (the default), to the end, with outliers, gaps and tails.

In the paper's study every method learns from 90 % of a set in one epoch (SVI 250, NUTS 100 draws) and predicts the
rest: as it is, and with its inputs times 0.1, times 2 and plus three standard deviations. Run r of all methods has the
same split. Finished runs are kept: after an interruption, the same command goes on where it stopped.
"""

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

from habnn_control.experiments.engine import claim, describe
from habnn_control.experiments.provenance import write_meta
from habnn_control.regression import sensitivity
from habnn_control.regression import study as studies
from habnn_control.regression.data import BUILT_IN, SOURCES, locate, read, sha256
from habnn_control.regression.methods import METHODS
from habnn_control.regression.protocol import BLOCKS, DEFAULT_METHODS, PROTOCOLS
from habnn_control.regression.report import write_report
from habnn_control.support.command_line import command, fail, flag, parse


@dataclass(frozen=True)
class Config:
    """Settings of a regression study."""

    protocol: str = flag("one-pass", f"one of {', '.join(PROTOCOLS)}; see habnn_control/regression/protocol.py")
    methods: tuple[str, ...] = flag(
        (),
        f"any of {', '.join(METHODS)}, some with other settings, as in habnn:scale=0.1,layers=2 or pbp:epochs=40; "
        "without it, those of the protocol",
    )
    datasets: tuple[str, ...] = flag(tuple(SOURCES), f"names of data sets; of scikit-learn also {', '.join(BUILT_IN)}")
    dataset_file: tuple[str, ...] = flag((), "CSV files of your own, target last; alone unless --datasets is given")
    data_dir: str = flag("", "folder with DATASET.csv; without it, sets are downloaded once from OpenML")
    blocks: tuple[str, ...] = flag(
        (), "raw (nothing normalised, as in the paper) and z-scored; without it both, in new protocols z-scored only"
    )
    runs: int = flag(20, "splits of each set")
    seed: int = flag(0, "run r has the split seed SEED + r")
    max_rows: int = flag(0, "rows used of each set; 0 means all")
    sensitivity: bool = flag(False, "the paper's tables over scale, dof and number of layers instead of the methods")
    jobs: int = flag(1, "processes; -1 means one per core; training times are only comparable with 1")
    out: str = flag("results/uci", "folder for the results")
    smoke: bool = flag(False, "two runs of three quick methods on 100 rows, to see that everything works")


def main(arguments: list[str] | None = None) -> int:
    """Run the study and return the exit code: 0 only if every run succeeded."""
    config = parse(Config, __doc__, arguments)
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
        return fail(f"{error}; {kept}")


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
    """Check the settings; return the study they describe and the file of each set."""
    files = {} if config.dataset_file and config.datasets == tuple(SOURCES) else _located(config)
    files |= {Path(path).stem: Path(path) for path in config.dataset_file}
    for path in files.values():
        read(path)
    checksums = tuple(sha256(path) for path in files.values())
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
    return studies.RegressionStudy(
        names, tuple(files), checksums, blocks, runs, config.seed, rows, config.protocol
    ), files


def _located(config: Config) -> dict[str, Path]:
    return {name: locate(name, config.data_dir or None) for name in config.datasets}


if __name__ == "__main__":
    sys.exit(main())
