"""Provenance: accumulated wall time, commits, and no need for git."""

import json

import numpy as np

from habnn_control.experiments.provenance import commit, write_meta


def test_write_meta_adds_up_wall_time_over_resumed_calls(tmp_path):
    write_meta(tmp_path, "compare --runs 3", 1.25, jobs=2)
    write_meta(tmp_path, "compare --runs 3", 2.5, jobs=1)
    meta = json.loads((tmp_path / "meta.json").read_text())
    assert meta["command"] == "compare --runs 3"
    assert meta["wall_seconds"] == 3.75
    assert meta["settings"] == {"jobs": 1}
    assert meta["versions"]["numpy"] == np.__version__
    assert len(meta["commits"]) == 1


def test_write_meta_without_git_says_unknown(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit() == "unknown"
    write_meta(tmp_path, "compare", 1.0)
    assert json.loads((tmp_path / "meta.json").read_text())["commits"] == ["unknown"]
