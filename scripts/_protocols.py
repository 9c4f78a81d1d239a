"""The files behind the page of the regression protocols, from results folders of `habnn uci`.

regression-runs.csv has one row per run and is the source of all others; regression-published.csv has figures of other
authors. From both come the medians of regression-protocols.csv, which the page shows, and the picture.
"""

from pathlib import Path

import pandas as pd
from _study import about, copy_table, write_csv, write_json  # type: ignore[import-not-found]

from habnn_control.experiments.plotting import save_figure
from habnn_control.regression.figures import cost_figure
from habnn_control.support.files import read_json

_KEYS = ["protocol", "method", "dataset"]
_SCORES = ["rmse", "nll", "coverage_50", "coverage_90"]
_CLEAN = {
    "habnn-joint": "one-pass",
    "habnn-recommended": "one-pass",
    "habnn-committee": "to-the-end",
    "habnn-committee-plain": "to-the-end",
    "habnn-committee-relevance": "relevance",
}
# First seeds of the runs with refits by relevance, of those with annealed networks, and of those with the later scaling
# of targets beside outliers.
_RELEVANCE, _FRESH, _SCALED = 7100, 7200, 7300
_CHAIN, _NOISY = "nuts-long", "habnn-committee:heteroscedastic=1"
_OWN = {
    "uci": ("summary", "relative", "times", "bars"),
    "paper-table": ("summary",),
}  # studies with tables of their own


def is_regression(folder: Path) -> bool:
    """Return whether a folder holds results of `habnn uci`."""
    return (folder / "results.csv").exists()


def store_regression(folder: Path, out: Path, name: str) -> list[Path]:
    """Store a results folder of `habnn uci` and return the paths that were written.

    Of the folders called uci and paper-table, studies of other pages, tables are copied. The runs of every other folder
    replace those of the same protocol, method, data set and seed in regression-runs.csv.

    Parameters
    ----------
    folder : Path
        Results folder of `habnn uci`.
    out : Path
        Folder to write into.
    name : str
        Name of the study.
    """
    if name in _OWN:
        write_json(out / f"{name}.json", about(folder, "results.csv"))
        copied = [copy_table(folder / f"{part}.csv", out / f"{name}-{part}.csv") for part in _OWN[name]]
        return [out / f"{name}.json", *copied]
    path = out / "regression-runs.csv"
    runs = runs_of(folder)
    if path.exists():
        runs = pd.concat([pd.read_csv(path), runs]).drop_duplicates([*_KEYS, "seed"], keep="last")
    write_csv(path, runs)
    _add_provenance(folder, out / "regression-protocols.json")
    return [path, out / "regression-protocols.json", *make_protocols(out)]


def _add_provenance(folder: Path, path: Path) -> None:
    """Add commit and command of a results folder to those of the page, with the date of the folder."""
    new = about(folder, "results.csv")
    old = read_json(path) if path.exists() else {"commits": [], "commands": []}
    for key in ("commits", "commands"):
        new[key] = list(dict.fromkeys([*old[key], *new[key]]))
    write_json(path, {**old, **new})


def runs_of(folder: Path) -> pd.DataFrame:
    """Return one row per run of a results folder: scores on the test set as it is, and processor time."""
    results, timings = (pd.read_csv(folder / f"{name}.csv") for name in ("results", "timings"))
    keys = ["method", "dataset", "block", "run", "seed"]
    runs = results[results["test_set"] == "in"].merge(timings, on=keys)
    if blocks := sorted(set(runs["block"]) - {"z-scored"}):
        raise ValueError(
            f"tables: block of {folder} must be z-scored, got {blocks[0]!r}; play it with --blocks z-scored."
        )
    runs.insert(0, "protocol", read_json(folder / "config.json")["protocol"])
    return runs[[*_KEYS, "run", "seed", *_SCORES, "n_train", "cpu_seconds"]]


def make_protocols(out: Path) -> list[Path]:
    """Write regression-protocols.csv and the picture regression-cost.png and return their paths."""
    runs = pd.read_csv(out / "regression-runs.csv")
    published = pd.read_csv(out / "regression-published.csv").drop(columns="source").assign(splits="-")
    again = published[published["protocol"] == "to-the-end"].assign(protocol="fresh")
    written = [out / "regression-protocols.csv", out / "regression-cost.png"]
    write_csv(written[0], pd.concat([summary_of(runs), published, again]))
    chosen = runs[runs["protocol"] == "to-the-end"]
    chosen = chosen[(chosen["seed"] >= min(_FRESH, chosen["seed"].max())) & (chosen["seed"] < _SCALED)]
    chosen = chosen[chosen["dataset"].isin(published["dataset"]) & (chosen["method"] != _NOISY)]
    chosen = chosen.assign(block="z-scored", test_set="in")
    chosen = chosen[~chosen.duplicated(["method", "dataset", "seed"])]
    medians = chosen.groupby(["method", "dataset", "block", "test_set"], sort=False)["nll"].median().reset_index()
    save_figure(cost_figure(medians, chosen), written[1])
    return written


def summary_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Return medians over splits, one row per protocol, method and data set.

    Runs from seed 7200 on have "-fresh" behind their protocol, and "fresh" alone for "to-the-end"; runs from seed 7300
    on have "-scaled" there; runs to the end from seed 7100 on are the protocol "relevance". The protocol "first-split"
    holds the first split of each set of "to-the-end", on which expensive methods were run; "noise" those splits on
    which input-dependent noise was played.
    `rank` is the place of a method by its median NLL on a data set. `clean_rmse` and `ratio` compare runs with outliers
    with runs of the same network on the same splits without outliers and without threshold. `nuts_rmse` and
    `nuts_seconds` are the RMSE relative to that of the long chain of NUTS, and how many times longer that took, on the
    splits to the end that the chain was played on.
    """
    end = runs[runs["protocol"] == "to-the-end"]
    first = end[end["seed"] == end.groupby("dataset")["seed"].transform("min")].assign(protocol="first-split")
    noisy = end.loc[end["method"] == _NOISY, ["dataset", "seed"]]
    parts = [runs.assign(protocol=_generations(runs)), first]
    runs = pd.concat([*parts, end.merge(noisy).assign(protocol="noise")], ignore_index=True)
    runs["coverage"] = 100 * runs["coverage_90"]
    groups = runs.groupby(_KEYS, sort=False)
    table = groups[["rmse", "nll", "coverage", "cpu_seconds"]].median().assign(splits=groups.size().astype(str))
    table["rank"] = table.groupby(["protocol", "dataset"])["nll"].rank(method="min").astype(int)
    table = table.reset_index()
    table["clean_rmse"] = [_clean_rmse(runs, *row) for row in table[_KEYS].itertuples(index=False)]
    table["ratio"] = table["rmse"] / table["clean_rmse"]
    beside = [_beside_nuts(runs, *row) for row in table[_KEYS].itertuples(index=False)]
    return table.assign(nuts_rmse=[pair[0] for pair in beside], nuts_seconds=[pair[1] for pair in beside])


def _generations(runs: pd.DataFrame) -> pd.Series:
    """Return the protocol of each run, with the generation of the committee that its seed tells."""
    end, seed = runs["protocol"] == "to-the-end", runs["seed"]
    named = runs["protocol"].mask(end & (seed >= _RELEVANCE), "relevance")
    named = named.mask(seed >= _FRESH, runs["protocol"] + "-fresh").mask(end & (seed >= _FRESH), "fresh")
    return named.mask(seed >= _SCALED, runs["protocol"] + "-scaled")


def _beside_nuts(runs: pd.DataFrame, protocol: str, method: str, dataset: str) -> tuple[float, float]:
    """Return RMSE over that of the long chain of NUTS, and its time over the own, medians over the same splits."""
    here = runs[(runs["protocol"] == protocol) & (runs["dataset"] == dataset)]
    chain = here[here["method"] == _CHAIN].set_index("seed")
    own = here[(here["method"] == method) & here["seed"].isin(chain.index)].set_index("seed")
    if protocol not in ("to-the-end", "relevance", "fresh") or len(own) < max(len(chain), 1):
        return float("nan"), float("nan")
    ratios = own["rmse"] / chain["rmse"], chain["cpu_seconds"] / own["cpu_seconds"]
    return float(ratios[0].median()), float(ratios[1].median())


def _clean_rmse(runs: pd.DataFrame, protocol: str, method: str, dataset: str) -> float:
    """Return the median RMSE of the same network on the same splits without outliers; NaN where it was not played."""
    name = method.partition(":")[0]
    if not protocol.startswith("outliers") or name not in _CLEAN:
        return float("nan")
    here = runs[runs["dataset"] == dataset]
    seeds = here.loc[(here["protocol"] == protocol) & (here["method"] == method), "seed"]
    protocols = [_CLEAN[name], "one-pass-fresh", "one-pass-scaled", "relevance", "fresh", "to-the-end-scaled"]
    clean = here[here["protocol"].isin(protocols) & (here["method"] == name) & here["seed"].isin(seeds)]
    return float(clean["rmse"].median())
