"""The regression study as a client of the experiment engine: its grid of tasks and its two tables.

results.csv has one row per run and test set, timings.csv one row per run.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd

from habnn_control.experiments.engine import (
    Failure,
    Outcome,
    Stored,
    Study,
    Task,
    grid,
    index_columns,
    run_study,
)
from habnn_control.regression import methods
from habnn_control.regression.protocol import BLOCKS, PROTOCOLS, SCORES, TEST_SETS, play
from habnn_control.support.names import nearest

_FACTORS = ("method", "dataset", "block")


@dataclass(frozen=True)
class RegressionStudy(Study):
    """Every method on every data set in every block, `runs` times; run r has the split seed `seed + r`.

    `checksums` are those of the data files, so that a folder never mixes data. `max_rows` of 0 means all rows.
    """

    name = "regression study"
    script = "habnn uci"
    group = "method"

    methods: tuple[str, ...]
    datasets: tuple[str, ...]
    checksums: tuple[str, ...]
    blocks: tuple[str, ...] = BLOCKS
    runs: int = 20
    seed: int = 0
    max_rows: int = 0
    protocol: str = "one-pass"

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise ValueError(
                f"uci: protocol must be one of {', '.join(PROTOCOLS)}, got {self.protocol!r}; "
                f"{nearest(self.protocol, PROTOCOLS)}"
            )
        for name in ("methods", "datasets", "checksums", "blocks"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        self.check_distinct(methods=self.methods, datasets=self.datasets, blocks=self.blocks)
        self.check_counts(runs=1, seed=0, max_rows=0)
        for name in self.methods:
            methods.check(name)

    def tasks(self) -> list[Task]:
        """Return all tasks in canonical order: by method, data set, block and run."""
        factors = dict(zip(_FACTORS, (self.methods, self.datasets, self.blocks), strict=True))
        return grid(factors, self.runs, self.seed, lambda *_: {"max_rows": self.max_rows, "protocol": self.protocol})

    def contains(self, earlier: Self) -> bool:
        """Return whether every task of an earlier study is a task of this one, on the same data."""
        ours, theirs = (dict(zip(one.datasets, one.checksums, strict=True)) for one in (self, earlier))
        return theirs.items() <= ours.items() and super().contains(earlier)

    def fits(self, task: Task, outcome: Outcome) -> bool:  # noqa: ARG002
        """Return whether an outcome has all scores of all test sets."""
        return "scores" in outcome.arrays and outcome.arrays["scores"].shape == (len(TEST_SETS), len(SCORES))

    def tables(self, stored: Stored) -> dict[str, pd.DataFrame]:
        """Return results (one row per run and test set) and timings (one row per run)."""
        results = pd.DataFrame(index_columns(stored, _FACTORS, [len(TEST_SETS)] * len(stored)))
        results["test_set"] = list(TEST_SETS) * len(stored)
        scores = np.concatenate([outcome.arrays["scores"] for _, outcome in stored] or [np.empty((0, len(SCORES)))])
        timings = pd.DataFrame(index_columns(stored, _FACTORS, [1] * len(stored)))
        timings["n_train"] = [outcome.numbers["n_train"] for _, outcome in stored]
        for name in ("fit_seconds", "cpu_seconds"):
            timings[name] = [outcome.numbers[name] for _, outcome in stored]
        return {
            "results": results.assign(**{name: scores[:, k] for k, name in enumerate(SCORES)}),
            "timings": timings,
        }


def run(study: RegressionStudy, files: dict[str, Path], folder: str | Path, jobs: int = 1) -> list[Failure]:
    """Run the tasks that `folder` does not hold yet on the data of `files`, and write its tables."""
    return run_study(study, partial(play, files=files), folder, jobs)
