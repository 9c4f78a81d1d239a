"""The report of the regression study: tables as CSV and Markdown, and figures."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from habnn_control.experiments.engine import read_tables, write_csv
from habnn_control.experiments.plotting import save_figure
from habnn_control.regression import figures, tables
from habnn_control.regression.bars import RECOMMENDED, bars
from habnn_control.regression.html import write_page
from habnn_control.regression.methods import METHODS, split
from habnn_control.regression.paper import lookup
from habnn_control.support.files import atomic_write


def write_report(folder: str | Path) -> str:
    """Write the tables as CSV files and tables.md, the figures and report.html; return the Markdown."""
    folder = Path(folder)
    results, timings = read_tables(folder, "results", "timings")
    summary, relative, per_sample = tables.summarise(results), tables.relative_errors(results), tables.times(timings)
    write_csv(summary, folder / "summary.csv")
    write_csv(relative, folder / "relative.csv")
    write_csv(per_sample, folder / "times.csv")
    sections = _sections(summary, relative, per_sample)
    protocol = json.loads((folder / "config.json").read_text()).get("protocol", "one-pass")
    if RECOMMENDED in set(summary["method"]) and protocol == "one-pass":
        table = bars(summary, per_sample)
        write_csv(table, folder / "bars.csv")
        sections[f"Bars for {RECOMMENDED}"] = _bars_text(table)
    text = "\n\n".join(f"## {title}\n\n{body}" for title, body in sections.items()) + "\n"
    with atomic_write(folder / "tables.md") as file:
        file.write(text.encode())
    drawn = figures.all_figures(summary, per_sample, timings)
    for name, figure in drawn.items():
        for kind in ("png", "svg"):
            save_figure(figure, folder / f"{name}.{kind}")
    write_page(folder, protocol, summary, timings, drawn)
    return text


def _sections(summary: pd.DataFrame, relative: pd.DataFrame, per_sample: pd.DataFrame) -> dict[str, str]:
    sections = {"How to read": _legend(summary)}
    for block in summary["block"].unique():
        for test_set, title in (("in", "in distribution"), ("ood", "mean of the three shifts")):
            for score in ("rmse", "nll"):
                rows = summary[(summary["block"] == block) & (summary["test_set"] == test_set)]
                sections[f"{score.upper()}, {title}, {block} data"] = _wide(rows, score, f"paper_{score}")
        for score in ("rmse", "nll"):
            quantity = f"{score}_relative_percent"
            paper = lookup(quantity, "main text", block)
            rows = relative[relative["block"] == block].copy()
            rows["paper"] = [paper.get((row.dataset, row.method), np.nan) for row in rows.itertuples()]
            sections[f"Relative OOD error of {score.upper()} in %, {block} data"] = _wide(rows, quantity, "paper")
        inside = summary[(summary["block"] == block) & (summary["test_set"] == "in")].copy()
        inside["percent"] = 100 * inside["coverage_90"]
        sections[f"Coverage of the 90 % interval in %, {block} data"] = _wide(inside, "percent", None)
    sections["Training time of a sample in microseconds"] = _wide(per_sample, "microseconds", "paper_microseconds")
    return sections


def _legend(summary: pd.DataFrame) -> str:
    runs = summary.loc[summary["test_set"] == "in", "runs"]
    count = f"{runs.min()}" if runs.min() == runs.max() else f"{runs.min()} to {runs.max()}"
    names = list(dict.fromkeys(split(name)[0] for name in summary["method"]))
    noise = "\n".join(f"- {name}: {METHODS[name].noise}" for name in names)
    return (
        f"Medians over {count} runs; in brackets what the paper printed (> 1e6 as 1e+06). "
        f"NLL is of the predictive distribution with observation noise, which each method handles in its way:\n\n"
        + noise
    )


def _wide(rows: pd.DataFrame, value: str, paper: str | None) -> str:
    """Return a Markdown table with one row per method and one column per data set; printed values in brackets."""
    datasets = list(rows["dataset"].unique())
    lines = ["| method | " + " | ".join(datasets) + " |", "|---|" + "---:|" * len(datasets)]
    for method, group in rows.groupby("method", sort=False):
        by_set = group.set_index("dataset")
        cells = []
        for dataset in datasets:
            if dataset not in by_set.index:
                cells.append("")
                continue
            printed = tables.number(by_set, dataset, paper) if paper else np.nan
            cells.append(
                f"{tables.number(by_set, dataset, value):.3g}" + ("" if np.isnan(printed) else f" ({printed:.3g})")
            )
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _bars_text(table: pd.DataFrame) -> str:
    lines = ["| bar | met | sets that miss it (ours, limit) |", "|---|---:|---|"]
    for name, rows in table.dropna(subset=["limit"]).groupby("bar", sort=False):
        missed = [f"{row.dataset} ({row.ours:.3g}, {row.limit:.3g})" for row in rows[~rows["met"]].itertuples()]
        lines.append(f"| {name} | {rows['met'].sum()} of {len(rows)} | {', '.join(missed)} |")
    return "\n".join(lines)
