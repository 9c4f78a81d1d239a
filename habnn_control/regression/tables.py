"""Tables of the regression study: medians over runs, beside the values printed in the paper."""

from typing import Any

import numpy as np
import pandas as pd

from habnn_control.regression.data import SOURCES
from habnn_control.regression.paper import lookup
from habnn_control.regression.protocol import SCORES, TEST_SETS

KEYS = ["method", "dataset", "block"]
SHIFTS = TEST_SETS[1:]


def summarise(results: pd.DataFrame) -> pd.DataFrame:
    """Return one row per method, data set, block and test set: runs, median and quartiles of scores, paper's values.

    Test set "ood" is the mean of the three shifts' medians, as the paper's tables give it.
    """
    groups = results.groupby([*KEYS, "test_set"], sort=False)
    table = groups.size().rename("runs").reset_index()
    with np.errstate(invalid="ignore"):  # quartiles between two infinite scores
        for name in SCORES:
            for suffix, part in (("", 0.5), ("_low", 0.25), ("_high", 0.75)):
                table[name + suffix] = groups[name].quantile(part, interpolation="nearest").to_numpy()
    shifts = table[table["test_set"].isin(SHIFTS)].drop(columns="test_set")
    means = shifts.groupby(KEYS, sort=False).mean().reset_index().assign(test_set="ood")
    table = pd.concat([table, means.astype({"runs": int})], ignore_index=True)
    for name in ("rmse", "nll"):
        table[f"paper_{name}"] = [paper_score(name, *row) for row in table[[*KEYS, "test_set"]].itertuples(index=False)]
    return table


def relative_errors(results: pd.DataFrame) -> pd.DataFrame:
    """Return the paper's relative OOD error in percent, median over runs, of RMSE and NLL by method, set and block."""
    columns = {}
    for name in ("rmse", "nll"):
        wide = results.pivot(index=[*KEYS, "run"], columns="test_set", values=name)
        with np.errstate(invalid="ignore"):
            errors = 100 * wide[list(SHIFTS)].sub(wide["in"], axis=0).abs().div(wide["in"].abs(), axis=0).mean(axis=1)
        columns[f"{name}_relative_percent"] = errors.fillna(np.inf).groupby(level=KEYS, sort=False).median()
    order = results[KEYS].drop_duplicates()
    return order.merge(pd.DataFrame(columns).reset_index(), on=KEYS)


def times(timings: pd.DataFrame) -> pd.DataFrame:
    """Return the training time per sample in microseconds by method and data set, and that of the paper.

    The time is that of the fastest run, divided by the rows the method used: other processes of the machine slowed the
    other runs.
    """
    per_sample = 1e6 * timings["fit_seconds"] / timings["n_train"]
    groups = per_sample.groupby([timings["method"], timings["dataset"]], sort=False)
    table = groups.min().rename("microseconds").reset_index()
    pairs = table[["method", "dataset"]].itertuples(index=False)
    table["paper_microseconds"] = [paper_microseconds(str(method), str(dataset)) for method, dataset in pairs]
    return table


def paper_microseconds(method: str, dataset: str) -> float:
    """Return the paper's training time of a data set per sample, or NaN."""
    seconds = float(lookup("training_seconds", "in").get((dataset, method), np.nan))
    return 1e6 * seconds / (0.9 * SOURCES[dataset].rows) if dataset in SOURCES else np.nan


def number(table: pd.DataFrame, row: Any, column: str) -> float:
    """Return one cell as a number."""
    return float(np.asarray(table.at[row, column], dtype=np.float64))


def paper_score(score: str, method: str, dataset: str, block: str, test_set: str) -> float:
    """Return a printed value, or NaN; a variant such as habnn:dof=20 has its own table in the paper."""
    base, _, variant = method.partition(":")
    if variant:
        test_set = variant if test_set == "in" else ""
    if test_set == "ood":
        return float(np.mean([paper_score(score, method, dataset, block, shift) for shift in SHIFTS]))
    return float(lookup(score, test_set, block).get((dataset, base), np.nan))
