"""The regression study as a client of the engine: its tasks and tables."""

from dataclasses import replace

import numpy as np
import pytest

from habnn_control.experiments.engine import Outcome, claim, read_csv, read_study, run_study
from habnn_control.regression.protocol import SCORES, TEST_SETS
from habnn_control.regression.study import RegressionStudy

STUDY = RegressionStudy(
    ("tagi", "habnn:dof=20"), ("yacht",), ("abc",), ("raw", "z-scored"), runs=2, seed=5, max_rows=30
)


def play(task):
    scores = np.full((len(TEST_SETS), len(SCORES)), task.seed + 0.1)
    return Outcome({"scores": scores}, {"fit_seconds": 0.5, "cpu_seconds": 0.25, "n_train": task["max_rows"]})


def test_regression_study_tables_have_a_row_per_test_set_and_a_row_per_run(tmp_path):
    assert run_study(STUDY, play, tmp_path) == []
    results, timings = (read_csv(tmp_path / f"{name}.csv") for name in ("results", "timings"))
    index = ["method", "dataset", "block", "run", "seed"]
    assert results.columns.tolist() == [*index, "test_set", *SCORES]
    assert timings.columns.tolist() == [*index, "n_train", "fit_seconds", "cpu_seconds"]
    assert results["test_set"].tolist() == list(TEST_SETS) * 8
    assert timings["method"].tolist() == ["tagi"] * 4 + ["habnn:dof=20"] * 4
    assert timings["seed"].tolist() == [5, 6] * 4
    assert results["nll"].tolist() == [value for seed in (5.1, 6.1) for value in [seed] * len(TEST_SETS)] * 4
    assert timings["n_train"].tolist() == [30] * 8


def test_regression_study_is_read_back_as_it_was(tmp_path):
    claim(tmp_path, STUDY)
    assert read_study(tmp_path, RegressionStudy) == STUDY


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"blocks": ()}, "blocks must be distinct and at least one"),
        ({"runs": 0}, "runs must be an integer of at least 1, got 0"),
        ({"methods": ("tagl",)}, "did you mean 'tagi'"),
    ],
)
def test_regression_study_raises_on_bad_values(change, message):
    fields = {"methods": ("tagi",), "datasets": ("yacht",), "checksums": ("abc",)} | change
    with pytest.raises(ValueError, match=message):
        RegressionStudy(**fields)


def test_regression_study_contains_a_smaller_one_on_the_same_data_only():
    larger = replace(STUDY, datasets=("yacht", "wine"), checksums=("abc", "def"), runs=3)
    assert larger.contains(STUDY)
    assert not STUDY.contains(larger)
    assert not replace(larger, checksums=("other", "def")).contains(STUDY)
