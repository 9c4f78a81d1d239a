"""monitor.csv files: those we write are read by Stable-Baselines3, and those it writes become a report of ours."""

import json
import sys
import types

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest

import agents
from agents.cli.main import main
from agents.runner import Recorder, play
from agents.sb3 import import_sb3
from agents.study import ControlStudy
from agents.tracking import log_to_wandb
from control_studies import task_of


def load_results(folder):
    return import_sb3().common.monitor.load_results(str(folder))


def test_monitor_of_a_run_is_read_by_sb3(tmp_path):
    task = task_of("random", steps=12)
    losses = play(task, monitor=str(tmp_path)).arrays["loss"]
    table = load_results(tmp_path / "setpoint-100" / "random")
    assert table["l"].tolist() == [12]  # a run that goes on is one episode
    assert table["r"].tolist() == pytest.approx([-losses.sum()], abs=1e-5)
    head = (tmp_path / "setpoint-100/random/seed-3.monitor.csv").read_text().splitlines()[0]
    assert json.loads(head.removeprefix("#"))["env_id"] == "IndustrialBenchmark-v0"


def test_monitor_has_a_row_per_episode_vs_sb3(tmp_path):
    """The same actions under SB3's own Monitor give the same rows, but for the episode that is cut off."""
    env = import_sb3().common.monitor.Monitor(gym.make("Pendulum-v1", max_episode_steps=5), str(tmp_path / "theirs"))
    ours = Recorder(gym.make("Pendulum-v1", max_episode_steps=5), 3)
    env.reset(seed=3)
    agents.make("random", ours, 1).learn(13, callback=lambda step: _repeat(env, step))
    env.close()
    ours.write_monitor(tmp_path / "ours.monitor.csv")
    theirs, mine = (pd.read_csv(tmp_path / f"{name}.monitor.csv", skiprows=1) for name in ("theirs", "ours"))
    assert mine["l"].tolist() == [5, 5, 3]
    assert mine["r"][0] == pytest.approx(theirs["r"][0], abs=1e-5)
    assert theirs["l"].tolist() == [5, 5]
    assert mine["t"].is_monotonic_increasing


def _repeat(env, step):
    _, _, terminated, truncated, _ = env.step(step.action)
    if terminated or truncated:
        env.reset()


def test_compare_writes_monitors_on_request_and_plot_reads_them(tmp_path):
    flags = ["--env", "Pendulum-v1", "--env-arg", "max_episode_steps=5", "--agents", "random", "noop", "--runs", "2"]
    common = [*flags, "--steps", "20", "--jobs", "1"]
    assert main(["compare", *common, "--out", str(tmp_path / "x"), "--monitor", str(tmp_path / "monitors")]) == 0
    assert main(["compare", *common, "--out", str(tmp_path / "y")]) == 0
    assert (tmp_path / "x/losses.csv").read_bytes() == (tmp_path / "y/losses.csv").read_bytes()
    files = sorted(path.relative_to(tmp_path / "monitors").as_posix() for path in tmp_path.rglob("*monitor.csv"))
    assert files == [f"max_episode_steps-5/{a}/seed-{s}.monitor.csv" for a in ("noop", "random") for s in (0, 1)]
    folder = tmp_path / "monitors/max_episode_steps-5"
    assert main(["plot", str(folder), "--out", str(tmp_path / "report")]) == 0
    summary = pd.read_csv(tmp_path / "report/summary.csv").set_index("agent")
    losses = pd.read_csv(tmp_path / "x/losses.csv")
    for name in ("random", "noop"):
        total = losses[losses["agent"] == name].groupby("run")["loss"].sum().mean() / 4  # four episodes per run
        assert summary.loc[name, "mean"] == pytest.approx(total, rel=1e-6)
        assert summary.loc[name, "runs"] == 2
    page = (tmp_path / "report/report.html").read_text()
    assert "A timestep is one episode, and its loss is minus the return" in page
    assert "cut to 4 episodes" in page
    assert pd.read_csv(tmp_path / "report/comparisons.csv")["runs_paired"].tolist() == [0, 0]


def test_plot_reads_the_files_of_sb3_itself(tmp_path, capsys):
    sb3 = import_sb3()
    for run, length in enumerate((3, 2)):
        env = sb3.common.monitor.Monitor(
            gym.make("CartPole-v1", max_episode_steps=6), str(tmp_path / "mine" / f"{run}")
        )
        for episode in range(length):
            env.reset(seed=episode)
            for _ in range(6):
                if any(env.step(0)[2:4]):
                    break
        env.close()
    assert main(["plot", str(tmp_path / "mine"), "--out", str(tmp_path / "report")]) == 0
    losses = pd.read_csv(tmp_path / "report/losses.csv")
    assert losses.groupby("run")["timestep"].max().to_dict() == {0: 2, 1: 2}
    assert set(losses["agent"]) == {"mine"}
    assert (losses["loss"] < 0).all()
    assert "nan" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("r,l,t\n1,2,3\n", "must be a monitor.csv of Stable-Baselines3, got"),
        ('#{"env_id": "x"}\na,b\n1,2\n', "got other columns"),
        ('#{"env_id": "x"}\nr,l,t\nlots,2,3\n', "must be a monitor.csv of Stable-Baselines3, got could not convert"),
        ('#{"env_id": "x"}\nr,l,t\n', "must hold at least one episode, got none"),
    ],
)
def test_plot_refuses_files_that_are_no_monitors(tmp_path, capsys, text, message):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/1.monitor.csv").write_text(text)
    assert main(["plot", str(tmp_path), "--out", str(tmp_path / "report")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert "1.monitor.csv" in line


def test_plot_of_monitors_keeps_the_results_of_others(tmp_path, capsys):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/1.monitor.csv").write_text('#{"env_id": "x"}\nr,l,t\n1,2,3\n')
    assert main(["plot", str(tmp_path / "a")]) == 2
    assert "pass --out FOLDER" in capsys.readouterr().err
    (tmp_path / "config.json").write_text("{}")
    assert main(["plot", str(tmp_path / "a"), "--out", str(tmp_path)]) == 2
    assert "out must be empty or hold an earlier import" in capsys.readouterr().err


class Wandb(types.ModuleType):
    """Keeps what is logged; the package itself is in an extra."""

    def __init__(self):
        super().__init__("wandb")
        self.runs = []

    @staticmethod
    def Settings(**settings):
        return settings

    def init(self, **arguments):
        run = types.SimpleNamespace(arguments=arguments, rows=[], summary={}, finished=False)
        run.log = lambda values, step: run.rows.append((step, values))
        run.finish = lambda: setattr(run, "finished", True)
        self.runs.append(run)
        return run


def test_compare_logs_runs_in_wandb_offline(tmp_path, monkeypatch):
    fake = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setattr("agents.tracking.check_extra", lambda *_: None)
    flags = ["--agents", "noop", "hold", "--runs", "2", "--steps", "5", "--jobs", "1", "--out", str(tmp_path / "x")]
    assert main(["compare", *flags, "--wandb", "plant"]) == 0
    losses = pd.read_csv(tmp_path / "x/losses.csv")
    assert len(fake.runs) == 4
    assert len({run.arguments["id"] for run in fake.runs}) == 4
    for run in fake.runs:
        assert run.finished
        assert (run.arguments["project"], run.arguments["mode"]) == ("plant", "offline")
        config = run.arguments["config"]
        mine = losses[(losses["agent"] == config["agent"]) & (losses["run"] == config["run"])]
        assert [values["loss"] for _, values in run.rows] == mine["loss"].tolist()
        assert [step for step, _ in run.rows] == [1, 2, 3, 4, 5]
        assert run.summary["mean_loss"] == pytest.approx(mine["loss"].mean())
    before = [run.arguments["id"] for run in fake.runs]
    study = ControlStudy(("noop", "hold"), {"setpoint": [100.0]}, 2, 5)
    log_to_wandb("plant", tmp_path / "x", study)
    assert [run.arguments["id"] for run in fake.runs[4:]] == before


def test_compare_without_wandb_names_the_extra(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert main(["compare", "--agents", "noop", "--wandb", "plant", "--out", str(tmp_path / "x")]) == 2
    assert "must have the package wandb, got none; install the wandb extra" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_recorder_counts_no_episode_before_the_first_step(tmp_path):
    env = Recorder(gym.make("Pendulum-v1"), 0)
    env.reset()
    env.write_monitor(tmp_path / "monitor.csv")
    assert pd.read_csv(tmp_path / "monitor.csv", skiprows=1).empty
    env.step(np.zeros(1, dtype=np.float32))
    env.write_monitor(tmp_path / "monitor.csv")
    assert len(pd.read_csv(tmp_path / "monitor.csv", skiprows=1)) == 1
