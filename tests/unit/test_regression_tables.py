"""Tables of the regression study: medians, the paper's relative error, printed values, bars."""

import numpy as np
import pandas as pd
import pytest

from habnn_control.regression import bars as bars_module
from habnn_control.regression import figures, sensitivity, tables
from habnn_control.regression.data import SOURCES
from habnn_control.regression.methods import METHODS, check
from habnn_control.regression.paper import lookup, printed
from habnn_control.regression.protocol import BLOCKS, TEST_SETS


def results(methods=("constant", "habnn", "habnn-recommended", "kbnn", "svi", "nuts"), datasets=("concrete", "mine")):
    """Return results with RMSE 10 (method's place + 1) (1, 2, 3, 4 by test set) + (0, 1, 2 by run), NLL half of it."""
    rows = [
        (method, dataset, block, run, run, name, 10 * (place + 1) * (k + 1) + run)
        for place, method in enumerate(methods)
        for dataset in datasets
        for block in BLOCKS
        for run in range(3)
        for k, name in enumerate(TEST_SETS)
    ]
    table = pd.DataFrame(rows, columns=["method", "dataset", "block", "run", "seed", "test_set", "rmse"])
    return table.assign(rmse=table["rmse"].astype(float), nll=table["rmse"] / 2, coverage_50=0.5, coverage_90=0.9)


def timings(microseconds):
    rows = [
        (m, "concrete", "raw", run, run, 927, 1e-6 * 927 * t * (1 + run))
        for m, t in microseconds.items()
        for run in (0, 1)
    ]
    return pd.DataFrame(rows, columns=["method", "dataset", "block", "run", "seed", "n_train", "fit_seconds"])


def cell(table, column, **where):
    for name, value in where.items():
        table = table[table[name] == value]
    assert len(table) == 1
    return table[column].item()


def test_summarise_takes_medians_and_averages_the_shifts():
    summary = tables.summarise(results())
    habnn = {"method": "habnn", "dataset": "concrete", "block": "raw"}
    assert cell(summary, "rmse", test_set="in", **habnn) == 21
    assert cell(summary, "rmse", test_set="ood", **habnn) == np.mean([41, 61, 81])
    assert cell(summary, "runs", test_set="in", **habnn) == 3
    assert cell(summary, "paper_nll", test_set="ood", **habnn) == pytest.approx((4.38 + 4.42 + 5.74) / 3)
    assert np.isnan(cell(summary, "paper_rmse", test_set="in", **{**habnn, "dataset": "mine"}))


def test_summarise_counts_a_diverged_run_as_infinite():
    table = results(("constant",))
    table.loc[(table["run"] > 0) & (table["test_set"] == "x2"), "nll"] = np.inf
    summary = tables.summarise(table)
    assert cell(summary, "nll", method="constant", dataset="mine", block="raw", test_set="x2") == np.inf
    assert cell(summary, "nll", method="constant", dataset="mine", block="raw", test_set="ood") == np.inf


def test_relative_errors_vs_the_papers_formula():
    relative = tables.relative_errors(results())
    values = [100 * np.mean([(10 * (k + 1) + run) / (10 + run) - 1 for k in (1, 2, 3)]) for run in range(3)]
    got = cell(relative, "nll_relative_percent", method="constant", dataset="mine", block="raw")
    assert got == pytest.approx(np.median(values))
    assert list(relative["dataset"].unique()) == ["concrete", "mine"]


def test_times_are_those_of_the_fastest_run_beside_the_papers():
    per_sample = tables.times(timings({"habnn": 2.0, "pbp": 900.0}))
    assert cell(per_sample, "microseconds", method="pbp") == pytest.approx(900)
    assert cell(per_sample, "paper_microseconds", method="habnn") == pytest.approx(1.36e6 / 927)


def test_bars_name_the_right_rivals():
    table = results(datasets=("concrete",))
    times = tables.times(timings({"habnn": 2.0, "habnn-recommended": 20.0, "kbnn": 1.5, "constant": 0.1}))
    bars = bars_module.bars(tables.summarise(table), times).set_index("bar")
    assert bars.at["raw NLL against constant", "limit"] == 11 / 2
    assert not bars.at["raw NLL against constant", "met"]
    assert bars.at["raw RMSE against the paper's HABNN", "limit"] == 16.82
    assert bars.at["raw NLL against the best non-sampling rival", "limit"] == 11 / 2  # constant; NUTS does not count
    assert bars.at["z-scored RMSE against 1.1 x best one-epoch rival", "limit"] == pytest.approx(1.1 * 11)
    assert bars.at["raw OOD NLL against the paper's HABNN", "limit"] == pytest.approx(4.8467, abs=1e-4)
    assert bars.at["microseconds per sample of habnn against the paper's HABNN / 100", "met"]
    assert not bars.at["microseconds per sample of habnn-recommended against the paper's HABNN / 100", "met"]
    assert bars.at["microseconds per sample of habnn against the fastest rival", "limit"] == pytest.approx(1.5)


def test_printed_values_are_complete_vs_the_papers_tables():
    table = printed()
    assert not table.duplicated(["block", "quantity", "test_set", "dataset", "method"]).any()
    assert set(table["dataset"]) == set(SOURCES)
    assert set(table["method"]) <= set(METHODS)
    sizes = table.groupby(["block", "quantity", "test_set"]).size()
    for test_set in TEST_SETS:
        assert sizes["raw", "nll", test_set] == 48  # eight methods
        assert sizes["z-scored", "rmse", test_set] == 42  # the paper has no HABNN on normalised data
    for name, values in sensitivity.GRID.items():
        assert all(sizes["raw", "rmse", f"{name}={value:g}"] == 6 for value in values)


def test_lookup_vs_values_read_from_the_paper_by_hand():
    assert lookup("rmse", "in")["concrete", "habnn"] == 16.82
    assert lookup("nll", "in")["naval", "laplace"] == -1.43
    assert lookup("nll", "in", text=True)["naval", "nuts"] == ">1e6"
    assert lookup("nll", "in")["naval", "nuts"] == 1e6
    assert lookup("nll", "+3sd")["yacht", "habnn"] == 7.99
    assert lookup("nll", "x2", "z-scored")["kin8nm", "laplace"] == 0.06
    assert lookup("rmse", "dof=50")["wine", "habnn"] == 1.16
    assert lookup("training_seconds", "in")["energy", "laplace"] == 184.92
    assert lookup("rmse_relative_percent", "main text")["wine", "laplace"] == 13


def test_sensitivity_variants_are_methods():
    for name in sensitivity.VARIANTS:
        check(name)


def test_figures_have_a_panel_a_set_and_a_dot_a_method():
    summary = tables.summarise(results())
    clock = results()[["method", "dataset", "block", "run"]].drop_duplicates().assign(cpu_seconds=0.25)
    made = figures.all_figures(summary, tables.times(timings({"habnn": 2.0, "kbnn": 9.0})), clock)
    dots = [line for line in made["cost"].axes[0].lines if line.get_xdata()[0] == 0.25]
    assert [axes.get_title() for axes in made["cost"].axes] == ["concrete", "mine"]
    assert len(dots) == summary["method"].nunique() - 1  # all but the constant
    assert set(made) == {
        "time",
        "cost",
        *(f"{kind}-{block}" for kind in ("accuracy", "ood", "coverage") for block in BLOCKS),
    }
    panels = made["accuracy-raw"].axes
    assert [axes.get_title() for axes in panels] == ["concrete", "mine"] * 2
    dots = [line for line in panels[0].lines if line.get_marker() in ("o", "s", ">")]
    assert len(dots) == 6
    assert {float(line.get_xdata()[0]) for line in dots} >= {1.0, 21 / 11}
