"""scripts/compare.py on plants other than the Industrial Benchmark."""

import importlib
import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
CASES = {
    "TwoTanks-v0": ["noop", "random", "pi"],
    "Pendulum-v1": ["noop", "random", "extremum-seeking"],
    "MountainCarContinuous-v0": ["noop", "random"],
    "PCGym/CSTR-v0": ["noop", "pi", "sac"],
    "PCGym/PolymerisationReactor-v0": ["noop", "habnn"],
}


@pytest.mark.parametrize("env", CASES)
def test_compare_plays_the_plant(env, tmp_path, monkeypatch, capsys):
    if env.startswith("PCGym") and importlib.util.find_spec("pcgym") is None:
        pytest.skip("needs the extra plants")
    monkeypatch.syspath_prepend(str(SCRIPTS))
    compare, agents = importlib.import_module("compare"), CASES[env]
    arguments = ["--env", env, "--agents", *agents, "--smoke", "--jobs", "1", "--out", str(tmp_path / "out")]
    assert compare.main(arguments) == 0
    losses = pd.read_csv(tmp_path / "out/losses.csv")
    assert losses.groupby("agent", sort=False).size().to_dict() == dict.fromkeys(agents, 2 * 20)
    assert np.isfinite(losses["loss"]).all()
    assert "report:" in capsys.readouterr().out


def test_compare_names_the_missing_extra(tmp_path, monkeypatch, capsys):
    from envs import processes
    from habnn_control.support import extras

    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    processes._model_classes.cache_clear()
    processes.dynamics_of.cache_clear()
    arguments = ["--env", "PCGym/CSTR-v0", "--agents", "noop", "--smoke", "--out", str(tmp_path / "out")]
    assert importlib.import_module("compare").main(arguments) == 2
    assert 'pip install -c constraints.txt -e ".[plants]"' in capsys.readouterr().err
