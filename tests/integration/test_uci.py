"""The real scripts/uci.py, as a user calls it, on generated data."""

import json
import resource
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
QUICK = ["constant", "habnn", "habnn-recommended", "tagi", "kbnn"]


def main(*arguments):
    return runpy.run_path(str(ROOT / "scripts" / "uci.py"))["main"]([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with two small sets in very different units."""
    path = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    for name, unit in (("concrete", 1e3), ("mine", 1e-3)):
        x = rng.uniform(1, 3, size=(160, 3)) * unit
        y = x @ [2.0, -1.0, 0.5] / unit + 0.1 * rng.standard_normal(160)
        pd.DataFrame(np.column_stack([x, y]), columns=["a", "b", "c", "y"]).to_csv(path / f"{name}.csv", index=False)
    return path


def flags(folder, out, runs=3, jobs=1, methods=QUICK):
    sets = ["--datasets", "concrete", "--data-dir", folder, "--dataset-file", folder / "mine.csv"]
    return ["--methods", *methods, *sets, "--runs", runs, "--jobs", jobs, "--seed", 5, "--out", out]


@pytest.fixture(scope="module")
def done(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("uci") / "study"
    command = [sys.executable, str(ROOT / "scripts" / "uci.py"), *map(str, flags(folder, out))]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, result.stderr
    return out, result.stdout


def test_uci_writes_results_tables_and_figures(done):
    out, text = done
    results = pd.read_csv(out / "results.csv")
    assert len(results) == len(QUICK) * 2 * 2 * 3 * 4
    assert set(results["seed"]) == {5, 6, 7}
    assert np.isfinite(results[["rmse", "nll"]]).all(axis=None)
    made = {path.name for path in out.iterdir()}
    wanted = {
        "summary.csv",
        "relative.csv",
        "times.csv",
        "bars.csv",
        "tables.md",
        "config.json",
        "meta.json",
        "time.png",
        "cost.png",
        "report.html",
    }
    assert made >= wanted | {
        f"{kind}-{block}.svg" for kind in ("accuracy", "ood", "coverage") for block in ("raw", "z-scored")
    }
    assert text.strip() == (out / "tables.md").read_text().strip()
    page = (out / "report.html").read_text()
    assert "The first tables show the z-scored block" in page
    assert page.count("<figure>") == 8  # time, cost, and accuracy, shifts and coverage of both blocks
    assert "| habnn |" in text
    assert "(16.8)" in text  # the paper's RMSE on Concrete stands beside ours
    assert json.loads((out / "meta.json").read_text())["command"].endswith(str(out))


def test_uci_recommended_learns_on_raw_units_what_others_cannot(done):
    summary = pd.read_csv(done[0] / "summary.csv")
    rows = summary[(summary["test_set"] == "in") & (summary["block"] == "raw")].set_index(["method", "dataset"])
    for dataset in ("concrete", "mine"):
        assert rows.at[("habnn-recommended", dataset), "rmse"] < 0.5 * rows.at[("constant", dataset), "rmse"]
        assert rows.at[("habnn-recommended", dataset), "nll"] < rows.at[("constant", dataset), "nll"]
    shifted = summary[(summary["test_set"] == "ood") & (summary["block"] == "raw")].set_index(["method", "dataset"])
    for dataset in ("concrete", "mine"):
        assert abs(shifted.at[("habnn-recommended", dataset), "nll"] - shifted.at[("constant", dataset), "nll"]) < 1


def test_uci_gives_the_same_bytes_in_two_processes(done, folder, tmp_path):
    assert main(*flags(folder, tmp_path / "two", jobs=2)) == 0
    assert (tmp_path / "two" / "results.csv").read_bytes() == (done[0] / "results.csv").read_bytes()


def test_uci_resumes_and_refuses_another_study(folder, tmp_path, capsys):
    out = tmp_path / "study"
    assert main(*flags(folder, out, runs=2, methods=["constant", "habnn"])) == 0
    before = (out / "results.csv").read_bytes()
    stored = sorted((out / "runs").rglob("*.run"))
    assert len(stored) == 16
    stored[3].unlink()
    stored[5].write_bytes(b"damaged")
    kept = stored[0].stat().st_mtime_ns
    assert main(*flags(folder, out, runs=2, methods=["constant", "habnn"])) == 0
    assert (out / "results.csv").read_bytes() == before
    assert stored[0].stat().st_mtime_ns == kept
    assert main(*flags(folder, out, runs=3, methods=["constant", "habnn"])) == 0  # a study can grow
    assert len(list((out / "runs").rglob("*.run"))) == 24
    assert main(*flags(folder, out, runs=2, methods=["constant", "habnn"])) == 2
    assert "runs 3 instead of 2" in capsys.readouterr().err


def test_uci_on_a_full_disk_keeps_the_runs_and_goes_on_later(folder, done, tmp_path, capsys):
    study = flags(folder, tmp_path / "study")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))  # room for a run, not for the table of all
    try:
        assert main(*study) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    *_, line = capsys.readouterr().err.splitlines()
    assert "File too large" in line
    assert "results.csv" in line
    assert "the same command goes on from there" in line
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "study").rglob("*.run")}
    assert len(kept) == len(QUICK) * 2 * 2 * 3
    assert main(*study) == 0
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert (tmp_path / "study" / "results.csv").read_bytes() == (done[0] / "results.csv").read_bytes()


def test_uci_makes_sensitivity_tables(folder, tmp_path):
    out = tmp_path / "study"
    assert (
        main(
            "--sensitivity", "--datasets", "concrete", "--data-dir", folder, "--runs", 1, "--max-rows", 60, "--out", out
        )
        == 0
    )
    text = (out / "tables.md").read_text()
    assert "| habnn:dof=75 |" in text
    assert "(17.2)" in text  # printed for Concrete at dof 75
    assert set(pd.read_csv(out / "results.csv")["block"]) == {"raw"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "tagl"], "did you mean 'tagi'"),
        (["--blocks", "row"], "blocks must be of raw, z-scored, got 'row'"),
        (["--protocol", "gaps"], "did you mean 'gap'"),
        (["--runs", "0"], "runs must be an integer of at least 1, got 0"),
        (["--datasets", "concret"], "did you mean 'concrete'"),
    ],
)
def test_uci_raises_on_settings(folder, tmp_path, capsys, arguments, message):
    assert main("--data-dir", folder, "--datasets", "concrete", "--out", tmp_path / "new", *arguments) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_uci_reports_a_run_that_fails_with_its_factors_and_goes_on_later(folder, tmp_path, capsys, monkeypatch):
    from habnn_control.regression.methods.closed_form import Constant

    def explode(*_):
        raise ArithmeticError("too much data")

    study = flags(folder, tmp_path / "study", runs=1, methods=["constant", "habnn"])
    with monkeypatch.context() as patch:
        patch.setattr(Constant, "predict", explode)
        assert main(*study) == 1
    line = "failed: method constant, dataset concrete, block raw, run 0, seed 5: ArithmeticError: too much data"
    assert line in capsys.readouterr().err
    assert len(list((tmp_path / "study/runs/constant").rglob("*.error.txt"))) == 4
    assert main(*study) == 0
    assert not list(tmp_path.rglob("*.error.txt"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--methods", "habn"], "method must be one of"),
        (["--datasets", "concrete", "whine"], "dataset must be one of concrete"),
        (["--protocol", "gaps"], "protocol must be one of"),
    ],
)
def test_uci_reports_wrong_names_before_it_downloads(tmp_path, monkeypatch, capsys, wrong, message):
    def download(*_):
        raise AssertionError("a download was started")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("habnn_control.regression.data._download", download)
    assert main(*wrong, "--out", tmp_path / "x") == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
