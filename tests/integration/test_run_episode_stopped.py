"""An episode that is interrupted: what is kept, and how the same command goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import pandas as pd
import pytest

import agents
from agents.base import Agent
from agents.cli.main import main
from agents.episode import EpisodeRecord
from agents.runner import Recorder, make_env
from tiny_agents import TINY

FLAGS = ["--references", "noop", "--setpoint", "70", "--steps", "30", "--seed", "5", "--checkpoint-every", "4"]
SMALL = ["--agent-settings", json.dumps({"habnn": TINY}), "--agent", "habnn"]


def run(out, *flags):
    return main(["run", *FLAGS, *map(str, flags), "--out", str(out)])


def interrupted_after(monkeypatch, n_steps, error):
    """Raise in the middle of a step, after `n_steps` complete ones."""
    step, count = Recorder.step, [0]

    def stopped(self, action):
        count[0] += 1
        if count[0] > n_steps:
            raise error
        return step(self, action)

    monkeypatch.setattr(Recorder, "step", stopped)


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("habnn", SMALL),
        ("random", ["--agent", "random"]),
        ("hold", ["--agent", "hold"]),
        ("oracle", ["--agent", "oracle", "--agent-settings", '{"oracle": {"horizon": 4, "n_candidates": 20}}']),
    ],
)
def test_stopped_episode_goes_on_to_the_same_bytes(tmp_path, monkeypatch, capsys, name, flags):
    assert run(tmp_path / "whole", *flags) == 0
    with monkeypatch.context() as patch:
        interrupted_after(patch, 17, KeyboardInterrupt())
        assert run(tmp_path / "x", *flags) == 130
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "Stopped" in line]
    assert "losses and predictions of 17 steps are in" in line
    assert line.endswith("the same command goes on after step 16.")
    whole = pd.read_csv(tmp_path / "whole/losses.csv")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "x/losses.csv"), whole.iloc[:17])
    assert (tmp_path / "x/checkpoint-16.npz").exists()
    assert run(tmp_path / "x", *flags) == 0
    assert "going on after step 16" in capsys.readouterr().err
    files = {path.name for path in (tmp_path / "whole").iterdir()}
    assert {path.name for path in (tmp_path / "x").iterdir()} == files  # no checkpoint is left
    for file in files & {"losses.csv", "predictions.csv", "agent.npz"}:
        assert (tmp_path / "x" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
    assert ("predictions.csv" in files) == (name == "habnn")


def test_crashed_episode_keeps_its_steps_and_says_so_in_one_line(tmp_path, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        interrupted_after(patch, 9, ZeroDivisionError("division by zero"))
        assert run(tmp_path / "x", *SMALL) == 1
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ZeroDivisionError: division by zero")
    assert "predictions of 9 steps" in line
    assert "goes on after step 8" in line
    assert "Traceback" in (tmp_path / "x/error.txt").read_text()
    assert len(pd.read_csv(tmp_path / "x/losses.csv")) == 9
    assert set(pd.read_csv(tmp_path / "x/predictions.csv")["entry"]) == {"consumption", "fatigue"}
    assert run(tmp_path / "x", *SMALL) == 0
    assert not (tmp_path / "x/error.txt").exists()


def test_stopped_episode_of_sb3_starts_anew(tmp_path, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        interrupted_after(patch, 9, KeyboardInterrupt())
        assert run(tmp_path / "x", "--agent", "a2c") == 130
    assert "the same command starts anew" in capsys.readouterr().err
    assert len(pd.read_csv(tmp_path / "x/losses.csv")) == 9
    assert not list((tmp_path / "x").glob("checkpoint*"))


def test_resume_goes_over_the_end_of_an_episode(tmp_path):
    def recorder():
        return Recorder(gym.make("Pendulum-v1", max_episode_steps=7), 3)

    whole, first, second = (EpisodeRecord(recorder(), tmp_path, every) for every in (0, 5, 0))
    for record, steps in ((whole, 24), (first, 17)):
        agent = agents.make("random", record.env, 1)
        agent.learn(steps, callback=lambda step, r=record, a=agent: r.add(a, step.action, None))
    agent = second.resume()
    assert second.n_steps == 15
    agent.learn(9, resume=True, callback=lambda step: second.add(agent, step.action, None))
    for name, values in whole.columns().items():
        assert values.tolist() == second.columns()[name].tolist()


def test_resume_raises_where_the_environment_does_not_repeat(tmp_path):
    record = EpisodeRecord(Recorder(make_env(70.0), 3), tmp_path, 5)
    agent: Agent = agents.make("noop", record.env)
    agent.learn(5, callback=lambda step: record.add(agent, step.action, None))
    other = EpisodeRecord(Recorder(make_env(70.0), 4), tmp_path)
    with pytest.raises(ValueError, match=r"must repeat the 5 steps stored in .*got other losses"):
        other.resume()


def test_ctrl_c_in_a_terminal_gives_one_line(tmp_path):
    out = tmp_path / "x"
    command = [str(Path(sys.executable).with_name("habnn")), "run", *SMALL, "--steps", "100000", "--out", str(out)]
    process = subprocess.Popen(
        [*command, "--checkpoint-every", "5"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 120
    while not (out / "progress.npz").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert "the same command goes on after step" in errors.splitlines()[-1]
    assert len(pd.read_csv(out / "losses.csv")) >= 5
