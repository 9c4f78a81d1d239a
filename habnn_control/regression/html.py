"""report.html of the regression study: what was compared, figures, and one table per score."""

from collections.abc import Mapping
from html import escape
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from habnn_control.experiments import page
from habnn_control.experiments.plotting import figure_bytes

_INTRODUCTIONS = {
    "one-pass": "The HABNN paper's study: each training sample is seen once (SVI 250 epochs, NUTS 100 draws).",
    "to-the-end": "Every method gets the epochs that its authors use.",
    "outliers": "A tenth of the training targets is replaced by uniform draws within 50 standard deviations.",
    "gap": "The test set is the middle third of one input, another one in each run.",
    "tail": "The test set is the outer sixths of one input, another one in each run.",
}
_CAPTIONS = {
    "cost": "NLL against processor seconds of tuning and training, median over runs, one panel per set.",
    "accuracy": "RMSE and NLL against a constant predictor; dots are medians, lines reach to the quartiles.",
    "coverage": "Coverage of the 50 % and the 90 % interval.",
    "ood": "As the accuracy figure, with the three shifts of the test inputs.",
    "time": "Training time per sample.",
}


def write_page(
    folder: Path, protocol: str, summary: pd.DataFrame, timings: pd.DataFrame, figures: Mapping[str, Figure]
) -> None:
    """Write report.html to a results folder."""
    blocks = [str(block) for block in summary["block"].unique()]
    shown = blocks[-1]  # the z-scored block if it was run: the scaling that the authors of the rivals use
    inside = summary[summary["test_set"] == "in"]
    scaling = {"raw": "raw units", "z-scored": "inputs and targets z-scored for every method"}.get(shown, shown)
    intro = (
        f"{_INTRODUCTIONS[protocol]} The first tables show the {shown} block ({scaling}); medians over "
        f"{_range(inside['runs'])} runs, quartiles in brackets. NLL includes the observation noise."
    )
    tables = [
        page.table(_wide(inside[inside["block"] == block], score), f"{label}, {block} data")
        for block in [shown, *(other for other in blocks if other != shown)]
        for score, label in (("rmse", "RMSE"), ("nll", "NLL"), ("coverage_90", "Coverage of the 90 % interval"))
    ]
    seconds = timings.groupby(["method", "dataset"], sort=False)["cpu_seconds"].median().unstack(sort=False)
    tables.append(page.table(seconds.map("{:.3g}".format).reset_index(), "Processor seconds of tuning and training"))
    pictures = [_picture(name, figure) for name, figure in sorted(figures.items(), key=lambda item: item[0] != "cost")]
    body = f"<p>{escape(intro)}</p>{''.join(tables)}<h2>Figures</h2>{''.join(pictures)}<h2>Settings</h2>"
    (folder / "report.html").write_text(page.shell(f"Regression, {protocol}", body + page.settings(folder)))


def _range(counts: pd.Series) -> str:
    low, high = int(counts.min()), int(counts.max())
    return f"{low}" if low == high else f"{low} to {high}"


def _wide(rows: pd.DataFrame, score: str) -> pd.DataFrame:
    """Return a table with one row per method and one column per data set; quartiles in brackets."""
    texts = [
        f"{middle:.3g} [{low:.3g}, {high:.3g}]"
        for middle, low, high in rows[[score, f"{score}_low", f"{score}_high"]].itertuples(index=False)
    ]
    wide = rows.assign(text=texts).pivot(index="method", columns="dataset", values="text")
    return wide.loc[rows["method"].unique(), rows["dataset"].unique()].fillna("").reset_index()


def _picture(name: str, figure: Figure) -> str:
    kind, _, block = name.partition("-")
    caption = _CAPTIONS[kind] + (f" {block} data." if block else "")
    svg = figure_bytes(figure, "svg")
    return page.figure(svg, caption)
