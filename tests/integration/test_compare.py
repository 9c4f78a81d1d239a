"""The real scripts/compare.py and scripts/plot.py, as a user calls them."""

import csv
import json
import sys

import numpy as np
import pandas as pd
import pytest

from compare_calls import flags, main, shell

AGENTS = "noop random a2c"


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Return a finished study with SB3 agents, played in two processes."""
    out = tmp_path_factory.mktemp("compare") / "study"
    result = shell(*flags(out, AGENTS, jobs=2))
    assert result.returncode == 0, result.stderr
    return out, result


def test_compare_writes_every_file_and_names_the_report(done):
    out, result = done
    names = {path.name for path in out.iterdir()}
    assert names >= {
        "config.json", "meta.json", "losses.csv", "losses.parquet", "timings.csv", "summary.csv", "comparisons.csv",
        "losses.png", "losses.svg", "steerings-40.png", "steerings-40.svg", "report.html",
    }  # fmt: skip
    assert str(out / "report.html") in result.stdout
    assert result.stdout.split()[:2] == ["agent", "runs"]


def test_compare_losses_are_those_of_the_environment_vs_stepping_it(done):
    import gymnasium as gym

    import envs  # noqa: F401

    losses = pd.read_csv(done[0] / "losses.csv")
    mine = losses[(losses["agent"] == "noop") & (losses["run"] == 1)]
    env = gym.make("IndustrialBenchmark-v0", setpoint=40)
    env.reset(seed=int(mine["seed"].iloc[0]))
    infos = [env.step(np.zeros(3, dtype=np.float32))[4] for _ in range(15)]
    assert mine["loss"].tolist() == [info["loss"] for info in infos]
    assert mine["timestep"].tolist() == list(range(1, 16))
    np.testing.assert_allclose(losses["loss"], losses["consumption"] + 3 * losses["fatigue"])


def test_compare_is_byte_identical_whatever_the_jobs(done, tmp_path):
    out, _ = done
    assert main("compare.py", *flags(tmp_path / "x", AGENTS)) == 0
    assert (tmp_path / "x/losses.csv").read_bytes() == (out / "losses.csv").read_bytes()


def test_compare_pairs_agents_and_extends_seeds(done):
    losses = pd.read_csv(done[0] / "losses.csv")
    assert (losses["seed"] == losses["run"]).all()
    assert losses.groupby(["agent", "setpoint"])["seed"].unique().map(list).tolist() == [[0, 1]] * 3


def test_compare_config_and_meta_tell_how_to_repeat_it(done):
    out, _ = done
    config = json.loads((out / "config.json").read_text())
    assert config == {
        "agents": ["noop", "random", "a2c"], "arguments": {"setpoint": [40.0]}, "runs": 2, "steps": 15, "seed": 0,
        "pretrain_steps": 0, "env": "IndustrialBenchmark-v0", "agent_settings": {}, "plugins": [],
        "mirrored": False,
        "evaluate": False, "log_agents": [], "log_arguments": {},
    }  # fmt: skip
    meta = json.loads((out / "meta.json").read_text())
    assert "--agents noop random a2c --runs 2" in meta["command"]
    assert meta["settings"]["jobs"] == 2
    assert meta["wall_seconds"] > 0


def test_compare_summary_agrees_with_losses(done):
    losses, summary = (pd.read_csv(done[0] / f"{name}.csv") for name in ("losses", "summary"))
    expected = losses.groupby("agent")["loss"].mean()
    rows = summary.set_index("agent")
    np.testing.assert_allclose(rows["mean"].sort_index(), expected.sort_index(), rtol=1e-12)
    assert (rows["decision_ms"] > 0).all()
    assert {"p_better_than_noop", "iqm_low", "wall_seconds", "runs_above_250"} <= set(summary.columns)
    comparisons = pd.read_csv(done[0] / "comparisons.csv")
    assert (comparisons["runs_paired"] == 2).all()
    assert comparisons["runs_better"].between(0, 2).all()


def test_compare_again_plays_nothing_and_keeps_the_results(done):
    out, _ = done
    before = (out / "losses.csv").read_bytes()
    times = {path: path.stat().st_mtime_ns for path in out.rglob("*.run")}
    assert main("compare.py", *flags(out, AGENTS)) == 0
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.run")} == times
    assert (out / "losses.csv").read_bytes() == before


def test_compare_refuses_the_folder_of_another_study(done, capsys):
    out, _ = done
    before = (out / "losses.csv").read_bytes()
    assert main("compare.py", *flags(out, "noop", steps=16)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "out must be an empty folder or hold the same study" in line
    assert "steps 15 instead of 16; choose another folder" in line
    assert (out / "losses.csv").read_bytes() == before


def test_compare_extends_a_study_by_runs_agents_and_setpoints(tmp_path, capsys):
    size = ["--steps", 5, "--jobs", 1]
    more = ["--agents", "noop", "hold", "--runs", 4, "--setpoints", 40, 70]
    assert main("compare.py", "--agents", "noop", "--runs", 2, "--setpoints", 40, *size, "--out", tmp_path / "x") == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "x").rglob("*.run")}
    assert main("compare.py", *more, *size, "--out", tmp_path / "x") == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert main("compare.py", *more, *size, "--out", tmp_path / "new") == 0
    assert (tmp_path / "x/losses.csv").read_bytes() == (tmp_path / "new/losses.csv").read_bytes()
    capsys.readouterr()
    assert main("compare.py", "--agents", "noop", "--runs", 4, "--setpoints", 40, *size, "--out", tmp_path / "x") == 2
    assert "a study can only grow" in capsys.readouterr().err


def test_compare_on_a_dask_cluster_gives_the_same_bytes(done, tmp_path):
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        where = ["--backend", "dask", "--scheduler", cluster.scheduler_address]
        result = shell(*flags(tmp_path / "x", AGENTS), *where)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "x/losses.csv").read_bytes() == (done[0] / "losses.csv").read_bytes()


def test_compare_smoke_is_two_short_runs(tmp_path):
    assert main("compare.py", "--agents", "hold", "--smoke", "--jobs", 1, "--out", tmp_path / "x") == 0
    losses = pd.read_csv(tmp_path / "x/losses.csv")
    assert (losses["run"].nunique(), losses["timestep"].max()) == (2, 20)


def test_compare_pretraining_reaches_the_baselines(done, tmp_path):
    assert main("compare.py", *flags(tmp_path / "x", "a2c", runs=1), "--pretrain-steps", 20) == 0
    cold, warm = (pd.read_csv(folder / "losses.csv") for folder in (done[0], tmp_path / "x"))
    cold = cold[(cold["agent"] == "a2c") & (cold["run"] == 0)]
    assert len(warm) == 15
    assert cold["loss"].tolist() != warm["loss"].tolist()


def test_compare_tensorboard_logs_every_run_and_changes_nothing(done, tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is in the tensorboard extra")
    assert main("compare.py", *flags(tmp_path / "x", AGENTS), "--tensorboard", tmp_path / "logs") == 0
    assert (tmp_path / "x/losses.csv").read_bytes() == (done[0] / "losses.csv").read_bytes()
    logs = {path.parent.relative_to(tmp_path / "logs").as_posix() for path in tmp_path.rglob("events.out.tfevents.*")}
    assert logs == {f"setpoint-40/seed-{seed}/{agent}" for seed in (0, 1) for agent in AGENTS.split()}


@pytest.mark.parametrize(
    ("wrong", "package", "extra"),
    [(["--tensorboard", "x"], "tensorboard", "tensorboard"),
     (["--backend", "dask", "--scheduler", "x"], "distributed", "cluster")],
)  # fmt: skip
def test_compare_without_an_extra_names_it_in_one_line(tmp_path, wrong, package, extra, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    assert main("compare.py", "--agents", "noop", "--out", tmp_path / "x", *wrong) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"must have the package {package}, got none; install the {extra} extra" in line
    assert not (tmp_path / "x").exists()


def test_compare_plays_a_grid_of_another_environment(tmp_path):
    grid = ["--env", "Pendulum-v1", "--env-arg", "g=9.81,3.7", "--agents", "random", "noop"]
    size = ["--runs", 2, "--steps", 5, "--seed", 3]
    for jobs in (1, 2):
        assert main("compare.py", *grid, *size, "--jobs", jobs, "--out", tmp_path / str(jobs)) == 0
    assert (tmp_path / "1/losses.csv").read_bytes() == (tmp_path / "2/losses.csv").read_bytes()
    losses, summary = (pd.read_csv(tmp_path / "1" / f"{name}.csv") for name in ("losses", "summary"))
    columns = ["agent", "g", "run", "seed", "timestep", "loss", "entry_0", "entry_1", "entry_2"]
    assert losses.columns.tolist() == columns
    assert len(losses) == 2 * 2 * 2 * 5
    noop = losses[losses["agent"] == "noop"].set_index(["g", "run", "timestep"])["loss"]
    assert noop[9.81, 0, 1] == noop[3.7, 0, 1]  # the same seed gives the same start
    assert noop[9.81, 0, 5] != noop[3.7, 0, 5]
    assert set(summary["g"]) == {"9.81", "3.7", "all"}
    assert "Agents on Pendulum-v1" in (tmp_path / "1/report.html").read_text()
    before = (tmp_path / "1/report.html").read_bytes()
    assert main("plot.py", tmp_path / "1") == 0
    assert (tmp_path / "1/report.html").read_bytes() == before


def test_compare_env_arg_is_the_long_form_of_setpoints_and_wandering(tmp_path, capsys):
    size = ["--agents", "noop", "--runs", 1, "--steps", 5, "--jobs", 1, "--out", tmp_path / "x"]
    assert main("compare.py", *size, "--setpoints", 100, 40, "--wandering") == 0
    before = (tmp_path / "x/losses.csv").read_bytes()
    assert before.splitlines()[0] == b"agent,setpoint,run,seed,timestep,loss,consumption,fatigue,velocity,gain,shift"
    assert main("compare.py", *size, "--env-arg", "setpoint=100,40", "--env-arg", "wandering=True") == 0
    assert (tmp_path / "x/losses.csv").read_bytes() == before
    assert main("compare.py", *size, "--env-arg", "setpoint=100,40") == 2
    assert "arguments {'setpoint': [100.0, 40.0], 'wandering': [True]} instead of" in capsys.readouterr().err


def test_compare_stores_setpoints_that_differ_in_a_late_digit_apart(tmp_path):
    size = ["--agents", "noop", "--runs", 1, "--steps", 5, "--jobs", 1, "--out", tmp_path / "x"]
    for _ in range(2):
        assert main("compare.py", *size, "--setpoints", "33.33333", "33.333331") == 0
        assert pd.read_csv(tmp_path / "x/losses.csv")["setpoint"].unique().tolist() == [33.33333, 33.333331]
    assert len(list(tmp_path.rglob("*.run"))) == 2


def test_compare_agent_settings_reach_the_agents_and_are_part_of_the_study(tmp_path, capsys):
    size = ["--agents", "hold", "noop", "--runs", 1, "--steps", 40, "--jobs", 2, "--out", tmp_path / "x"]
    assert main("compare.py", *size, "--agent-settings", '{"hold": {"velocity": 20.0}}') == 0
    losses = pd.read_csv(tmp_path / "x/losses.csv")
    assert losses[losses["agent"] == "hold"]["velocity"].iloc[-1] == pytest.approx(20.0)
    assert main("compare.py", *size) == 2
    assert "agent_settings {'hold': {'velocity': 20.0}} instead of {}" in capsys.readouterr().err


ENV_PLUGIN = """
import gymnasium as gym
gym.register("Swing-v0", "gymnasium.envs.classic_control:PendulumEnv", max_episode_steps=3)
"""
AGENT_PLUGIN = """
import agents
from agents.reference import Hold
agents.register("slow", Hold, velocity=20.0)
"""


def test_compare_plugin_registers_an_environment_in_the_workers_too(tmp_path):
    (tmp_path / "my_environment.py").write_text(ENV_PLUGIN)
    study = ["--plugin", "my_environment", "--env", "Swing-v0", "--agents", "noop", "--runs", 2, "--steps", 5]
    result = shell(*study, "--jobs", 2, "--out", tmp_path / "x", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert len(pd.read_csv(tmp_path / "x/losses.csv")) == 10


def test_compare_plugin_registers_an_agent_in_the_workers_too(tmp_path):
    (tmp_path / "my_agent.py").write_text(AGENT_PLUGIN)
    study = ["--plugin", "my_agent", "--agents", "slow", "noop", "--runs", 2, "--steps", 40]
    result = shell(*study, "--jobs", 2, "--out", tmp_path / "x", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    losses = pd.read_csv(tmp_path / "x/losses.csv").set_index(["agent", "timestep"])
    assert losses.loc[("slow", 40), "velocity"].tolist() == pytest.approx([20.0, 20.0])


def test_plot_remakes_everything_from_the_tables(done):
    out, _ = done
    page = (out / "report.html").read_bytes()
    for name in ("report.html", "losses.png", "summary.csv"):
        (out / name).unlink()
    assert main("plot.py", out) == 0
    assert (out / "report.html").read_bytes() == page
    assert (out / "losses.png").stat().st_size > 10_000


def test_plot_overlays_folders(done, tmp_path):
    out, _ = done
    assert main("compare.py", *flags(tmp_path / "hold", "hold random", runs=1)) == 0
    assert main("plot.py", out, tmp_path / "hold", "--out", tmp_path / "both") == 0
    with (tmp_path / "both/summary.csv").open() as file:
        agents = dict.fromkeys(row["agent"] for row in csv.DictReader(file))
    assert list(agents) == ["noop", "random (study)", "a2c", "hold", "random (hold)"]


@pytest.mark.parametrize(
    ("folders", "message"), [(["nowhere"], "nowhere/losses.csv"), (["a", "b"], "out must be given for several folders")]
)
def test_plot_refuses_bad_input_in_one_line(folders, message, capsys):
    assert main("plot.py", *folders) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
