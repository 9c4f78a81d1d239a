"""The command `habnn tune`."""

import pandas as pd
import pytest

from agents.cli.main import main
from agents.cli.tune import draw
from agents.runner import play
from agents.study import ControlStudy


def test_tune_ranks_trials_by_mean_loss(tmp_path, capsys):
    flags = ["--agent", "a2c", "--trials", "3", "--runs", "2", "--steps", "12", "--jobs", "1"]
    assert main(["tune", *flags, "--out", str(tmp_path / "t.csv")]) == 0
    table = pd.read_csv(tmp_path / "t.csv")
    assert table["loss"].is_monotonic_increasing
    defaults = table[table["gamma"].isna()]["loss"].item()
    tasks = ControlStudy(("a2c",), {"setpoint": [100.0]}, 2, 12, 0).tasks()
    assert defaults == pytest.approx(sum(play(task).arrays["loss"].mean() for task in tasks) / 2)
    assert "best of 3" in capsys.readouterr().out


@pytest.mark.parametrize("agent", ["a2c", "ppo", "sac", "td3"])
def test_tune_space_is_accepted_by_the_agent(agent):
    import numpy as np

    (_, settings) = draw(agent, 2, np.random.default_rng(0))
    study = ControlStudy((agent,), {"setpoint": [100.0]}, 1, 20, 0, agent_settings={agent: settings})
    assert len(play(study.tasks()[0]).arrays["loss"]) == 20


def test_tune_refuses_the_seeds_of_reported_comparisons(tmp_path, capsys):
    assert main(["tune", "--seed", "48", "--runs", "3", "--out", str(tmp_path / "t.csv")]) == 2
    assert "seeds must be in 0..49, got up to 50" in capsys.readouterr().err
