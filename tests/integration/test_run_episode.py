"""The real scripts/run_episode.py, as a user calls it."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from threadpoolctl import threadpool_info, threadpool_limits

import agents
from agents.runner import make_env

ROOT = Path(__file__).parents[2]


def main(script, *arguments):
    """Run the script in this process, which has imported torch already, and return its exit code."""
    return runpy.run_path(str(ROOT / "scripts" / script))["main"]([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def episode(tmp_path_factory):
    out = tmp_path_factory.mktemp("episode") / "demo"
    flags = ["--agent", "a2c", "--setpoint", "70", "--steps", "30", "--seed", "5", "--out", str(out)]
    command = [sys.executable, str(ROOT / "scripts/run_episode.py"), *flags]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, result.stderr
    return out, result


def test_run_episode_keeps_losses_agent_and_picture(episode):
    out, result = episode
    losses = pd.read_csv(out / "losses.csv")
    assert losses.columns.tolist()[:6] == ["agent", "setpoint", "run", "seed", "timestep", "loss"]
    assert (losses["agent"] == "a2c").all()
    assert losses["timestep"].tolist() == list(range(1, 31))
    pixels = np.asarray(Image.open(out / "episode.png").convert("L"))
    assert (pixels < 200).mean() > 0.01
    assert "<svg" in (out / "episode.svg").read_text()
    mean = f"{losses['loss'].mean():.1f}"
    assert f"a2c: mean loss {mean} over 30 steps, {mean} over the last 30" in result.stdout
    assert "noop: mean loss" in result.stdout
    assert "loss=" in result.stderr  # the progress bar


def test_run_episode_is_run_0_of_a_comparison(episode, tmp_path):
    flags = ["--agents", "a2c", "--setpoints", 70, "--steps", 30, "--seed", 5, "--runs", 1, "--jobs", 1]
    assert main("compare.py", *flags, "--out", tmp_path / "x") == 0
    assert (tmp_path / "x/losses.csv").read_bytes() == (episode[0] / "losses.csv").read_bytes()


def test_run_episode_saved_agent_loads(episode):
    agent = agents.load(episode[0] / "agent.npz", make_env(70.0))
    assert agent.name == "a2c"
    assert np.abs(agent.predict(np.full(6, 50.0))[0]).max() <= 1


def test_run_episode_of_habnn_shows_what_it_predicted(tmp_path, capsys):
    """Its figure has two panels more than others', its bar the uncertainty; the saved agent plays on."""
    flags = ["--agent", "habnn", "--setpoint", 70, "--steps", 15, "--seed", 5]
    assert main("run_episode.py", *flags, "--out", tmp_path / "x") == 0
    assert "uncertainty=" in capsys.readouterr().err
    picture = (tmp_path / "x/episode.svg").read_text()
    for text in ("loss", "actuator position", "consumption", "fatigue", "predicted 90 % bands cover"):
        assert f"<!-- {text}" in picture
    losses, bands = (pd.read_csv(tmp_path / "x" / name) for name in ("losses.csv", "predictions.csv"))
    for name, band in bands.groupby("entry"):
        assert band["measured"].tolist() == losses[name].tolist()
        assert (band["low"] < band["high"]).all()
    assert set(bands["entry"]) == {"consumption", "fatigue"}
    load = ["--load", tmp_path / "x/agent.npz", "--setpoint", 70, "--steps", 5]
    assert main("run_episode.py", *load, "--out", tmp_path / "y") == 0
    assert not (tmp_path / "y/predictions.csv").exists()
    assert "predicted 90 % bands" not in (tmp_path / "y/episode.svg").read_text()
    assert set(pd.read_csv(tmp_path / "y/losses.csv")["agent"]) == {"habnn"}


def test_run_episode_load_evaluates_without_learning(episode, tmp_path):
    saved = episode[0] / "agent.npz"
    assert main("run_episode.py", "--load", saved, "--setpoint", 70, "--steps", 10, "--out", tmp_path / "x") == 0
    losses = pd.read_csv(tmp_path / "x/losses.csv")
    assert set(losses["agent"]) == {"a2c"}
    before, after = (agents.load(path, make_env(70.0)) for path in (saved, tmp_path / "x/agent.npz"))
    observations = np.random.default_rng(0).uniform(0, 100, (20, 6))
    np.testing.assert_array_equal(before.predict(observations)[0], after.predict(observations)[0])


def test_run_episode_load_and_learn_changes_the_agent(episode, tmp_path):
    flags = ["--load", episode[0] / "agent.npz", "--learn", "--setpoint", 70, "--steps", 10]
    assert main("run_episode.py", *flags, "--out", tmp_path / "x") == 0
    before, after = (agents.load(path, make_env(70.0)) for path in (episode[0] / "agent.npz", tmp_path / "x/agent.npz"))
    observations = np.random.default_rng(0).uniform(0, 100, (20, 6))
    assert (before.predict(observations)[0] != after.predict(observations)[0]).any()


def test_run_episode_tensorboard_logs_learning_and_evaluation(tmp_path):
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    first = ["--agent", "hold", "--out", tmp_path / "x"]
    again = ["--load", tmp_path / "x/agent.npz", "--out", tmp_path / "y"]
    for flags in (first, again):
        assert main("run_episode.py", *flags, "--steps", 5, "--tensorboard", flags[-1] / "log") == 0
        losses = pd.read_csv(flags[-1] / "losses.csv")["loss"]
        events = accumulators.EventAccumulator(str(flags[-1] / "log")).Reload().Scalars("plant/loss")
        assert [event.step for event in events] == [1, 2, 3, 4, 5]
        assert [event.value for event in events] == pytest.approx(losses, rel=1e-6)


def test_run_episode_load_of_an_oracle_wants_learn(tmp_path, capsys):
    agents.make("oracle", make_env(100.0), n_candidates=20, n_iterations=1, horizon=3).save(tmp_path / "oracle")
    flags = ["--load", tmp_path / "oracle", "--steps", 3, "--out", tmp_path / "x"]
    assert main("run_episode.py", *flags) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "load must be an agent that acts on observations alone, got oracle" in line
    assert "add --learn" in line
    assert not (tmp_path / "x").exists()
    assert main("run_episode.py", *flags, "--learn") == 0
    assert set(pd.read_csv(tmp_path / "x/losses.csv")["agent"]) == {"oracle"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--agent", "a2d"], "did you mean 'a2c'?"),
        (["--setpoint", "-1"], "setpoint must be in 0..100, got -1; the nearest is 0"),
        (["--load", "nothing.npz"], "nothing.npz"),
        (["--load", __file__], "must be a habnn_control file of kind 'agent', got a damaged or foreign file"),
        (["--env", "Pendulun-v1"], "did you mean 'Pendulum-v1'?"),
        (["--env-arg", "setpoint=10,20"], "setpoint must be one value, got [10, 20]"),
        (["--agent-settings", '{"a2c": {}}'], "agent_settings must be of habnn, noop, oracle, got 'a2c'"),
        (["--agent-settings", '{"habnn": {"horizzon": 3}}'], "did you mean 'horizon'?"),
        (["--checkpoint-every", "-1"], "checkpoint-every must be a number of steps, got -1"),
        (["--steps", "0"], "steps must be an integer of at least 1, got 0"),
        (["--out", str(ROOT)], "out must be empty or hold an earlier episode"),
    ],
)
def test_run_episode_refuses_bad_input_in_one_line(flags, message, tmp_path, capsys):
    assert main("run_episode.py", "--out", tmp_path / "x", *flags) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not (tmp_path / "x").exists()


def test_run_episode_refuses_the_folder_of_another_episode(episode, capsys):
    out, _ = episode
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert main("run_episode.py", "--agent", "noop", "--setpoint", 70, "--steps", 40, "--seed", 5, "--out", out) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "out must be empty or hold an earlier episode with the same settings" in line
    assert "agent a2c instead of noop" in line
    assert "steps 30 instead of 40" in line
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_run_episode_refuses_to_load_another_agent(episode, tmp_path, capsys):
    flags = ["--load", episode[0] / "agent.npz", "--setpoint", 70, "--steps", 5, "--out", tmp_path / "x"]
    assert main("run_episode.py", "--agent", "sac", *flags) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "agent must be that of the file to load, got 'sac'" in line
    assert "of the agent a2c; leave --agent out" in line
    assert main("run_episode.py", "--agent", "a2c", *flags) == 0


@pytest.mark.parametrize("text", ["{", "3", '{"agents": ["noop"]}'])
def test_run_episode_refuses_the_folder_of_something_else(tmp_path, capsys, text):
    (tmp_path / "config.json").write_text(text)
    assert main("run_episode.py", "--agent", "noop", "--out", tmp_path) == 2
    assert "out must be empty or hold an earlier episode" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_run_episode_on_a_full_disk_says_so_in_one_line(tmp_path, capsys):
    assert main("run_episode.py", "--agent", "noop", "--steps", 3, "--out", tmp_path / "x") == 0
    (tmp_path / "x/episode.png").unlink()
    (tmp_path / "x/episode.png").mkdir()  # a name that no file can take
    assert main("run_episode.py", "--agent", "noop", "--steps", 3, "--out", tmp_path / "x") == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert "episode.png" in line
    assert len(pd.read_csv(tmp_path / "x/losses.csv")) == 3


def test_run_episode_plays_other_environments_and_resets_after_their_end(tmp_path):
    flags = ["--env", "Pendulum-v1", "--env-arg", "max_episode_steps=8", "--steps", 20, "--references", "noop"]
    assert main("run_episode.py", "--agent", "random", *flags, "--out", tmp_path / "x") == 0
    assert main("run_episode.py", "--load", tmp_path / "x/agent.npz", *flags, "--out", tmp_path / "y") == 0
    for name in "xy":
        losses = pd.read_csv(tmp_path / name / "losses.csv")
        columns = ["agent", "max_episode_steps", "run", "seed", "timestep", "loss", "entry_0", "entry_1", "entry_2"]
        assert losses.columns.tolist() == columns
        assert losses["entry_2"].iloc[[8, 16]].abs().max() < 2.0  # at most 1 at a reset, and one step later


def test_run_episode_agent_settings_reach_the_agent(tmp_path):
    flags = ["--agent", "hold", "--references", "noop", "--steps", 60, "--agent-settings", '{"hold": {"velocity": 10}}']
    assert main("run_episode.py", *flags, "--out", tmp_path / "x") == 0
    assert pd.read_csv(tmp_path / "x/losses.csv")["velocity"].iloc[-1] == pytest.approx(10.0)


def test_run_episode_uses_one_thread(tmp_path, monkeypatch):
    """As the workers of a comparison do: with more, sums have another order, and episodes differ after some hundred."""
    threads = []

    def learn(self, *_, **__):
        threads.extend(pool["num_threads"] for pool in threadpool_info())
        raise OSError("stop here")

    monkeypatch.setattr("agents.base.Agent.learn", learn)
    with threadpool_limits(2):
        assert main("run_episode.py", "--agent", "noop", "--steps", 2, "--out", tmp_path / "x") == 2
    assert threads
    assert set(threads) == {1}


@pytest.mark.slow
def test_run_episode_of_habnn_is_run_0_of_a_comparison_whatever_the_threads(tmp_path):
    """With more than one BLAS thread the losses differed from step 323 on."""
    flags = ["--setpoint", "100", "--steps", "400", "--seed", "11"]
    for threads in ("1", "4"):
        command = [sys.executable, str(ROOT / "scripts/run_episode.py"), "--agent", "habnn", *flags]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        out = ["--out", str(tmp_path / threads)]
        subprocess.run([*command, *out], env=environment, capture_output=True, check=True, timeout=600)
    flags = ["--agents", "habnn", "--setpoints", 100, "--steps", 400, "--seed", 11, "--runs", 1]
    assert main("compare.py", *flags, "--out", tmp_path / "x") == 0
    expected = (tmp_path / "x/losses.csv").read_bytes()
    assert [(tmp_path / threads / "losses.csv").read_bytes() == expected for threads in ("1", "4")] == [True, True]
