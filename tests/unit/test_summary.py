"""The tables of a study against sums done by hand."""

import numpy as np
import pandas as pd
import pytest

from control_studies import COLUMNS, outcome_of, study_of
from habnn_control.experiments.engine import read_tables, run_study
from habnn_control.experiments.summary import curves_of, headline, summarise, value_text, windows_within

STUDY = study_of(("noop", "sac", "oracle"), (100.0, 20.0), runs=5, steps=100, seed=0)
SETPOINTS = (100.0, 20.0)
LEVEL = {"noop": 300.0, "sac": 280.0, "oracle": 200.0}


def play(task):
    """Return a known loss: the agent's level + 10 x run + setpoint / 5, and 7 less after step 60."""
    loss = np.full(task["steps"], LEVEL[task["agent"]] + 10.0 * task.run + task["setpoint"] / 5)
    loss[60:] -= 7.0
    columns = dict.fromkeys(COLUMNS, loss) | {"fatigue": loss / 10}
    return outcome_of(columns, 2.0 + task.run, 0.2)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    run_study(STUDY, play, folder)
    return read_tables(folder, "losses", "timings")


@pytest.fixture(scope="module")
def summary(tables):
    return summarise(*tables)[0].set_index(["agent", "setpoint", "window"])


@pytest.mark.parametrize(
    ("steps", "windows"),
    [
        (30, [(1, 30)]),
        (60, [(1, 60)]),
        (100, [(1, 60), (61, 100), (1, 100)]),
        (300, [(1, 60), (61, 100), (101, 200), (201, 300), (1, 300)]),
        (1000, [(1, 60), (61, 100), (101, 200), (201, 300), (901, 1000), (1, 1000)]),
        (3000, [(1, 60), (61, 100), (101, 200), (201, 300), (901, 1000), (2701, 3000), (1, 3000)]),
    ],
)
def test_windows_within_fill_the_run(steps, windows):
    assert windows_within(steps) == windows


def test_curves_of_keeps_order_and_values(tables):
    curves = curves_of(tables[0])
    assert list(curves) == [(agent, (setpoint,)) for agent in STUDY.agents for setpoint in SETPOINTS]
    assert curves["sac", (20.0,)].values.shape == (5, 100)
    np.testing.assert_array_equal(curves["sac", (20.0,)].values[3, [59, 60]], [280 + 30 + 4, 280 + 30 + 4 - 7])


def test_summarise_means_of_windows_and_setpoints(summary):
    assert summary.loc[("sac", "100", "1-60"), "mean"] == pytest.approx(280 + 20 + 20)
    assert summary.loc[("sac", "20", "61-100"), "mean"] == pytest.approx(280 + 20 + 4 - 7)
    assert summary.loc[("sac", "all", "1-60"), "mean"] == pytest.approx(280 + 20 + 12)
    assert summary.loc[("sac", "all", "1-100"), "mean"] == pytest.approx(280 + 20 + 12 - 7 * 0.4)
    assert summary.loc[("sac", "all", "1-60"), "runs"] == 10
    assert summary.loc[("sac", "100", "1-60"), "iqm"] == pytest.approx(280 + 20 + 20)


def test_summarise_score_uses_pairs_and_is_exact_here(summary):
    row = summary.loc["sac", "all", "1-60"]
    assert row[["score", "score_low", "score_high"]].tolist() == pytest.approx([0.2] * 3)


def test_summarise_probability_and_times(summary):
    # levels differ by two steps between runs, so some of the 25 pairs are ties: count them one by one
    runs = 10 * np.arange(5)
    wins = np.mean((280 + runs[:, None] < 300 + runs) + 0.5 * (280 + runs[:, None] == 300 + runs))
    row = summary.loc["sac", "100", "1-60"]
    assert row["p_better_than_noop"] == pytest.approx(wins)
    assert summary.loc[("noop", "100", "1-60"), "p_better_than_sac"] == pytest.approx(1 - wins)
    assert row["wall_seconds"] == pytest.approx(4.0)
    assert row["decision_ms"] == pytest.approx(2.0)


def test_summarise_comparisons_hold_paired_differences(tables):
    comparisons = summarise(*tables)[1].set_index(["agent", "other", "setpoint", "window"])
    row = comparisons.loc["sac", "oracle", "all", "1-60"]
    assert row[["difference", "difference_low", "difference_high"]].tolist() == pytest.approx([80.0] * 3)
    assert len(comparisons) == 3 * 2 * 3 * 3


def test_summarise_pairs_only_runs_that_both_have(tables):
    losses, timings = tables
    crippled = losses[~((losses["agent"] == "noop") & (losses["seed"] == 4))]
    summary, comparisons = summarise(crippled, timings)
    assert summary.set_index(["agent", "setpoint", "window"]).loc[("noop", "all", "1-60"), "runs"] == 8
    rows = comparisons.set_index(["agent", "other", "setpoint", "window"])
    assert rows.loc[("sac", "noop", "100", "1-60"), "difference"] == pytest.approx(-20.0)


def test_summarise_of_agents_that_met_other_seeds_has_no_paired_difference(tables):
    losses, timings = tables
    moved = losses.assign(seed=losses["seed"] + 100 * (losses["agent"] == "sac"))
    rows = summarise(moved, timings)[1].set_index(["agent", "other", "setpoint", "window"])
    assert np.isnan(rows.loc[("sac", "noop", "100", "1-60"), "difference"])
    assert rows.loc[("noop", "oracle", "100", "1-60"), "difference"] == pytest.approx(100.0)


def test_summarise_leaves_out_an_agent_that_did_not_play_a_setpoint(tables):
    losses, timings = tables
    partial = losses[~((losses["agent"] == "sac") & (losses["setpoint"] == 20))]
    summary, _ = summarise(partial, timings)
    assert set(summary[summary["agent"] == "sac"]["setpoint"]) == {"100"}


def test_summarise_without_oracle_has_no_score(tables):
    losses, timings = tables
    assert "score" not in summarise(losses[losses["agent"] != "oracle"], timings)[0]


def test_summarise_is_deterministic(tables):
    for first, again in zip(summarise(*tables), summarise(*tables), strict=True):
        pd.testing.assert_frame_equal(first, again)


def test_headline_has_a_row_per_setpoint_and_agent(tables):
    """Losses at different setpoints have no common scale: no row is about all of them together."""
    summary = summarise(*tables)[0]
    table = headline(summary)
    assert table["agent"].tolist() == list(STUDY.agents) * 2
    assert table["setpoint"].tolist() == [
        value_text(setpoint) for setpoint in STUDY.arguments["setpoint"] for _ in range(3)
    ]
    assert table.columns.tolist() == [
        "agent", "setpoint", "runs", "steps 1-60", "steps 61-100", "steps 1-100", "IQM 1-100", "score 1-100",
        "ms/decision",
    ]  # fmt: skip
    rows = summary.set_index(["agent", "setpoint", "window"])
    for _, row in table.iterrows():
        assert row["steps 1-60"].startswith(f"{rows.loc[(row['agent'], row['setpoint'], '1-60'), 'mean']:.1f} [")
    assert table["score 1-100"].tolist() == ["0.00 [0.00, 0.00]", "0.20 [0.20, 0.20]", "1.00 [1.00, 1.00]"] * 2


def test_headline_of_one_setpoint_leaves_it_out(tables):
    losses, timings = (table[table["setpoint"] == 100] for table in tables)
    assert headline(summarise(losses, timings)[0]).columns[:2].tolist() == ["agent", "runs"]


def test_headline_of_single_runs_shows_no_interval(tables):
    losses, timings = tables
    assert headline(summarise(losses[losses["run"] == 0], timings)[0])["steps 1-60"][0] == "320.0"


def test_summarise_takes_any_column_vs_loss(tables):
    tenth, loss = (summarise(*tables, column=name)[0] for name in ("fatigue", "loss"))
    np.testing.assert_allclose(10 * tenth[["mean", "mean_low", "iqm"]], loss[["mean", "mean_low", "iqm"]])
    np.testing.assert_allclose(tenth["score"], loss["score"])


def test_summarise_counts_runs_above_thresholds(tables):
    summary = summarise(*tables, thresholds=(325.0, 1e6))[0].set_index(["agent", "setpoint", "window"])
    # noop at setpoint 100 has 320, 330, ..., 360 over steps 1-60; at 20 it has 304, 314, ..., 344
    assert summary.loc[("noop", "100", "1-60"), "runs_above_325"] == 4
    assert summary.loc[("noop", "20", "1-60"), "runs_above_325"] == 2
    assert summary.loc[("noop", "all", "1-60"), "runs_above_325"] == 6
    assert (summary["runs_above_1e+06"] == 0).all()
    assert not [name for name in summarise(*tables)[0] if name.startswith("runs_above")]


def test_summarise_counts_paired_runs_that_are_better(tables):
    losses, timings = tables
    worse = (losses["agent"] == "sac") & (losses["run"] == 2)
    losses = losses.assign(loss=losses["loss"] + 100.0 * worse)
    losses = losses[~((losses["agent"] == "noop") & (losses["seed"] == 4))]
    rows = summarise(losses, timings)[1].set_index(["agent", "other", "setpoint", "window"])
    assert rows.loc[("sac", "noop", "100", "1-60"), ["runs_better", "runs_paired"]].tolist() == [3, 4]
    assert rows.loc[("noop", "sac", "all", "1-60"), ["runs_better", "runs_paired"]].tolist() == [2, 8]


@pytest.fixture
def plain_tables(tables):
    """Return tables without any argument."""
    losses, timings = (table[table["setpoint"] == 100].drop(columns="setpoint") for table in tables)
    return losses, timings


def test_summarise_without_arguments_vs_one_setpoint(plain_tables, tables):
    summary, comparisons = summarise(*plain_tables)
    assert list(summary.columns)[:3] == ["agent", "window", "runs"]
    losses, timings = (table[table["setpoint"] == 100] for table in tables)
    ours, theirs = summarise(losses, timings)
    pd.testing.assert_frame_equal(summary, ours.drop(columns="setpoint"))
    pd.testing.assert_frame_equal(comparisons, theirs.drop(columns="setpoint"))
    assert headline(summary)["agent"].tolist() == list(STUDY.agents)


def test_summarise_groups_by_all_arguments(tables):
    losses, timings = (
        pd.concat([table.assign(mode="fast"), table.assign(mode="slow")])[
            [*table.columns[:2], "mode", *table.columns[2:]]
        ]
        for table in tables
    )
    summary = summarise(losses, timings)[0]
    assert list(summary.columns)[:4] == ["agent", "setpoint", "mode", "window"]
    rows = summary.set_index(["agent", "setpoint", "mode", "window"])
    assert rows.loc[("sac", "20", "slow", "1-60"), "mean"] == pytest.approx(280 + 20 + 4)
    assert rows.loc[("sac", "all", "all", "1-60"), "runs"] == 20
    table = headline(summary)
    assert table["runs"].tolist() == ["5"] * 12
    assert table.columns[:3].tolist() == ["agent", "setpoint", "mode"]


def test_value_text_loses_no_digit():
    assert [value_text(value) for value in (100.0, np.float64(20), 33.333331, "a", np.int64(3), True)] == [
        "100", "20", "33.333331", "a", "3", "True",
    ]  # fmt: skip


def test_summarise_returns_are_weighted_sums_of_the_first_steps():
    """Against sums by hand; runs that are too short have none."""
    rng = np.random.default_rng(0)
    values = rng.uniform(100.0, 300.0, (3, 80))
    losses = pd.DataFrame(
        {
            "agent": "a",
            "setpoint": 70,
            "run": np.repeat(range(3), 80),
            "seed": np.repeat(range(3), 80),
            "timestep": np.tile(range(1, 81), 3),
            "loss": values.ravel(),
        }
    )
    timings = losses[["agent", "setpoint", "run", "seed"]].drop_duplicates()
    timings = timings.assign(steps=80, wall_seconds=1.0, decision_seconds=0.1)
    weights = -(0.9 ** np.arange(50))
    summary, _ = summarise(losses, timings, returns={"discounted": weights, "long": np.ones(81)})
    expected = np.mean([sum(-(0.9**t) * loss for t, loss in enumerate(run[:50])) for run in values])
    assert summary["discounted"].to_numpy() == pytest.approx(expected)
    assert summary["long"].isna().all()
