"""Acceptance limits ("bars") of the recommended HABNN, and whether it meets them."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from habnn_control.regression.methods import METHODS
from habnn_control.regression.tables import KEYS, number, paper_microseconds, paper_score

RECOMMENDED = "habnn-recommended"
_Bar = tuple[str, str, float, float]  # quantity, data set, our value, upper limit


def bars(summary: pd.DataFrame, per_sample: pd.DataFrame) -> pd.DataFrame:
    """Return one row per bar and data set: our value, the limit, and whether it is met.

    Parameters
    ----------
    summary, per_sample : DataFrame
        From `tables.summarise` and `tables.times`.
    """
    rows = [*_accuracy_bars(summary), *_time_bars(per_sample)]
    table = pd.DataFrame(rows, columns=["bar", "dataset", "ours", "limit"])
    return table.assign(met=table["ours"] <= table["limit"])


def _accuracy_bars(summary: pd.DataFrame) -> Iterator[_Bar]:
    cells = summary.set_index([*KEYS, "test_set"])

    def median(score: str, method: str, block: str, test_set: str) -> float:
        key = (method, dataset, block, test_set)
        return number(cells, key, score) if key in cells.index else np.nan

    known = [name for name in summary["method"].unique() if name in METHODS]
    rivals = [name for name in known if name != RECOMMENDED and not METHODS[name].sampling]
    one_epoch = [name for name in rivals if name != "svi"]
    for dataset in summary["dataset"].unique():
        nll = median("nll", RECOMMENDED, "raw", "in")
        yield "raw NLL against constant", dataset, nll, median("nll", "constant", "raw", "in")
        for score in ("rmse", "nll"):
            ours, paper = median(score, RECOMMENDED, "raw", "in"), paper_score(score, "habnn", dataset, "raw", "in")
            yield f"raw {score.upper()} against the paper's HABNN", dataset, ours, paper
        best = min((median("nll", name, "raw", "in") for name in rivals), default=np.nan)
        yield "raw NLL against the best non-sampling rival", dataset, nll, best
        ours, paper = median("nll", RECOMMENDED, "raw", "ood"), paper_score("nll", "habnn", dataset, "raw", "ood")
        yield "raw OOD NLL against the paper's HABNN", dataset, ours, paper
        best = min((median("rmse", name, "z-scored", "in") for name in one_epoch), default=np.nan)
        ours = median("rmse", RECOMMENDED, "z-scored", "in")
        yield "z-scored RMSE against 1.1 x best one-epoch rival", dataset, ours, 1.1 * best


def _time_bars(per_sample: pd.DataFrame) -> Iterator[_Bar]:
    times = per_sample.pivot(index="dataset", columns="method", values="microseconds")
    others = times[[name for name in times if not str(name).startswith("habnn") and name != "constant"]].min(axis=1)
    for name in ("habnn", RECOMMENDED):
        if name not in times:
            continue
        for dataset in map(str, per_sample["dataset"].unique()):
            ours, limit = number(times, dataset, name), paper_microseconds("habnn", dataset) / 100
            yield f"microseconds per sample of {name} against the paper's HABNN / 100", dataset, ours, limit
            yield f"microseconds per sample of {name} against the fastest rival", dataset, ours, float(others[dataset])
