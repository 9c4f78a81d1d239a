"""One run of the regression study: splits, shifts, scores."""

import numpy as np
import pytest
from scipy import integrate, stats

from habnn_control import StudentT
from habnn_control.experiments.engine import Task
from habnn_control.regression.predictive import GaussianMixture
from habnn_control.regression.protocol import BLOCKS, SCORES, TEST_SETS, play, score, split


def table(n=200):
    rng = np.random.default_rng(3)
    x = np.column_stack([rng.normal(300, 40, n), rng.uniform(0, 1e-3, n), np.full(n, 288.0)])
    return x, 5000 + 20 * x[:, 0] + rng.normal(0, 100, n)


def task(method="constant", block="raw", seed=0, max_rows=0, protocol="one-pass"):
    factors = {"method": method, "dataset": "generated", "block": block}
    return Task(factors, 0, seed, {"max_rows": max_rows, "protocol": protocol})


@pytest.fixture
def files(tmp_path):
    x, y = table()
    np.savetxt(tmp_path / "generated.csv", np.column_stack([x, y]), delimiter=",", fmt="%.17g")
    return {"generated": tmp_path / "generated.csv"}


def test_split_is_a_partition_that_the_seed_alone_decides():
    x, y = table()
    first, again, other = split(x, y, task()), split(x, y, task("habnn")), split(x, y, task(seed=1))
    assert (len(first.y), len(first.test_y)) == (180, 20)
    np.testing.assert_array_equal(np.sort([*first.y, *first.test_y]), np.sort(y))
    np.testing.assert_array_equal(first.y, again.y)
    assert not np.array_equal(first.test_y, other.test_y)


def test_split_shifts_the_test_inputs_as_the_paper_says():
    x, y = table()
    tests = split(x, y, task()).test_x
    assert tuple(tests) == TEST_SETS
    np.testing.assert_allclose(tests["x0.1"], 0.1 * tests["in"])
    np.testing.assert_allclose(tests["x2"], 2 * tests["in"])
    np.testing.assert_allclose(tests["+3sd"] - tests["in"], np.tile(3 * tests["in"].std(axis=0), (20, 1)), atol=1e-9)


def test_split_z_scores_with_the_training_part_alone():
    x, y = table()
    raw, standard = split(x, y, task()), split(x, y, task(block="z-scored"))
    np.testing.assert_allclose(standard.x[:, :2].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(standard.x[:, :2].std(axis=0), 1)
    np.testing.assert_array_equal(standard.x[:, 2], 0)  # an input that never changes says nothing
    np.testing.assert_allclose(standard.test_y * raw.y.std() + raw.y.mean(), raw.test_y)
    np.testing.assert_allclose(
        standard.test_x["x2"][:, 0] * raw.x[:, 0].std() + raw.x[:, 0].mean(), 2 * raw.test_x["in"][:, 0]
    )


def test_split_uses_as_many_rows_as_asked():
    x, y = table()
    part = split(x, y, task(max_rows=50))
    assert (len(part.y), len(part.test_y)) == (45, 5)


def test_score_vs_scipy():
    y = np.array([0.3, -1.0, 2.0])
    prediction = StudentT(np.zeros(3), np.full(3, 0.5), 7.0)
    rmse, nll, half, ninety = score(prediction, y, unit=10.0)
    law = stats.t(7, scale=10 * np.sqrt(0.5))
    assert rmse == pytest.approx(10 * np.sqrt(np.mean(y**2)))
    assert nll == pytest.approx(-law.logpdf(10 * y).mean())
    assert half == np.mean(np.abs(10 * y) <= law.ppf(0.75))
    assert ninety == np.mean(np.abs(10 * y) <= law.ppf(0.95))


def test_score_of_a_diverged_prediction_is_infinite():
    prediction = StudentT(np.array([np.nan, 0.0]), np.ones(2), np.inf)
    rmse, nll, _, ninety = score(prediction, np.zeros(2), 1.0)
    assert rmse == nll == np.inf
    assert ninety == 0.5


def test_play_scores_the_constant_predictor_alike_in_both_blocks_vs_formula(files):
    outcomes = [play(task(block=block), files) for block in BLOCKS]
    scores = [outcome.arrays["scores"] for outcome in outcomes]
    np.testing.assert_allclose(*scores, rtol=1e-9)
    x, y = table()
    part = split(x, y, task())
    wanted = -stats.norm(part.y.mean(), part.y.std()).logpdf(part.test_y).mean()
    np.testing.assert_allclose(scores[0][:, SCORES.index("nll")], wanted, rtol=1e-9)
    assert outcomes[0].numbers["n_train"] == 180


def test_play_repeats_itself_and_learns(files):
    first, again = (play(task("habnn-recommended"), files).arrays["scores"] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    constant = play(task(), files).arrays["scores"]
    assert first[0, 0] < 0.5 * constant[0, 0]
    assert first[0, 1] < constant[0, 1] - 0.5


def test_gaussian_mixture_vs_quadrature():
    mixture = GaussianMixture(np.array([[0.0], [3.0], [3.5]]), np.array([[1.0], [0.25], [4.0]]))

    def density(y):
        return float(np.exp(mixture.logpdf(np.array([y]))[0]))

    assert integrate.quad(density, -30, 30)[0] == pytest.approx(1.0, abs=1e-8)
    assert integrate.quad(density, -30, 2.0)[0] == pytest.approx(mixture.cdf(np.array([2.0]))[0], abs=1e-8)
    assert integrate.quad(lambda y: y * density(y), -30, 30)[0] == pytest.approx(mixture.mean[0], abs=1e-8)


def test_play_counts_the_rows_a_method_used(files, monkeypatch):
    monkeypatch.setattr("habnn_control.regression.methods.closed_form.Constant.max_rows", 100)
    assert play(task(), files).numbers["n_train"] == 100


@pytest.mark.parametrize("seed", [0, 4])
def test_gap_and_tail_splits_hold_out_the_middle_and_the_ends_of_one_input(seed):
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((300, 3)), np.zeros(300)
    column = x[:, seed % 3]
    gap, tail = (split(x, y, task(seed=seed, protocol=name)) for name in ("gap", "tail"))
    held, kept = gap.test_x["in"][:, seed % 3], gap.x[:, seed % 3]
    assert len(held) == pytest.approx(100, abs=2)
    assert not ((kept > held.min()) & (kept < held.max())).any()
    low, high = np.quantile(column, [1 / 6, 5 / 6])
    assert len(tail.test_y) == pytest.approx(100, abs=2)
    assert (np.abs(tail.x[:, seed % 3] - (low + high) / 2) < (high - low) / 2 + 0.05).all()
    assert len(gap.x) + len(held) == len(tail.x) + len(tail.test_y) == 300


def test_outlier_split_replaces_a_tenth_of_the_training_targets_only():
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2000, 3)), rng.standard_normal(2000)
    clean, spoilt = split(x, y, task(block="z-scored")), split(x, y, task(block="z-scored", protocol="outliers"))
    np.testing.assert_array_equal(spoilt.x, clean.x)
    np.testing.assert_array_equal(spoilt.test_y, clean.test_y)
    changed = spoilt.y != clean.y
    assert changed.mean() == pytest.approx(0.1, abs=5 * np.sqrt(0.09 / 1800))
    assert np.abs(spoilt.y).max() == pytest.approx(50, abs=2)


def test_play_measures_processor_time_and_splits_of_other_protocols_can_be_scored(tmp_path):
    rng = np.random.default_rng(0)
    file = tmp_path / "set.csv"
    np.savetxt(file, rng.standard_normal((60, 3)), delimiter=",")
    for protocol in ("one-pass", "to-the-end", "outliers", "gap", "tail"):
        plan = Task(
            {"method": "constant", "dataset": "set", "block": "raw"}, 0, 0, {"max_rows": 0, "protocol": protocol}
        )
        outcome = play(plan, {"set": file})
        assert outcome.numbers["cpu_seconds"] >= 0
        assert np.isfinite(outcome.arrays["scores"]).all()
