"""The real scripts/sensor_faults.py: what it does to a plant, and what it says of agents whose answer is known."""

import numpy as np
import pandas as pd
import pytest

from agents.runner import make_env
from real_scripts import script


def played(fault, steps=40):
    """Return the observations of a plant at rest, 5 steps before a fault and then, and the true ones."""
    seen = []
    for disturbed in (True, False):
        env = script("_faults")["Disturbed"](make_env(100.0))
        env.reset(seed=0)
        seen.append([env.step(np.full(3, 0.1))[0] for _ in range(5)])
        if disturbed:
            env.start(fault)
        seen[-1] += [env.step(np.full(3, 0.1))[0] for _ in range(steps)]
    return np.array(seen)


def test_faults_change_one_reading_and_nothing_of_the_plant():
    for fault in script("_faults")["sensor_faults"](25):
        reported, true = played(fault)
        differs = (reported != true) & ~(np.isnan(reported) & np.isnan(true))
        assert differs.any() or "gain: zero" in fault.name
        assert len(set(np.nonzero(differs)[1])) == 1, fault.name
        assert not differs[:5].any()
        assert not differs[5 + fault.steps :].any()


def test_changes_change_the_plant_and_are_reported():
    changes = script("_faults")["real_changes"](10, 20.0)
    reported, _ = played(changes[0])
    assert (reported[5:, 0] == 20.0).all()
    for entry, fault in enumerate(changes[1:], start=1):
        reported, true = played(fault)
        assert (reported[5:15, entry] == reported[4, entry]).all()
        assert (reported[15:, entry] > reported[4, entry]).all()
        assert (true[5:15, entry] > true[4, entry]).all()


def test_study_of_an_agent_that_reads_nothing_finds_no_harm(tmp_path, capsys):
    flags = ["--agent", "noop", "--runs", "2", "--before", "20", "--after", "120", "--out", str(tmp_path)]
    assert script("sensor_faults")["main"](flags) == 0
    table = pd.read_csv(tmp_path / "sensor-faults.csv").set_index("fault")
    assert len(table) == 1 + 18 + 4
    faults = table[table["group"] == "fault"]
    assert (faults[["during", "first_100", "then", "ratio", "worst"]] == 1.0).all(axis=None)
    assert table.loc["the setpoint changes to 20", "then"] == pytest.approx(1.0, abs=0.03)
    assert "consumption: zero for 25 steps" in capsys.readouterr().out
    assert len(pd.read_csv(tmp_path / "sensor-faults-runs.csv")) == 2 * 23


def test_study_refuses_runs_that_are_too_short(capsys):
    assert script("sensor_faults")["main"](["--after", "50"]) == 2
    assert "after above 100, got 8, 1, 150 and 50" in capsys.readouterr().err
