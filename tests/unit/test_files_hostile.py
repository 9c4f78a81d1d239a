"""Damaged and hostile files: one clear error that names the file, bounded memory, nothing loaded that was changed."""

import json
import os
import time
import tracemalloc
import zipfile

import gymnasium as gym
import numpy as np
import pytest

import agents
import envs  # noqa: F401  # registers the environments
from habnn_control import HABNN
from habnn_control.experiments.provenance import write_meta
from habnn_control.support import files
from habnn_control.support.files import load_arrays, read_json, remove_leftovers, save_arrays
from real_scripts import script

N_MUTATIONS = 2000
SCRIPT = script("_attack_files")
CRAFTED, mutated, sealed, header, npy = (SCRIPT[name] for name in ("CRAFTED", "mutated", "sealed", "header", "npy"))


@pytest.fixture
def network_file(tmp_path):
    path = tmp_path / "network"
    HABNN.control(2, 1, hidden=(2,)).save(path)
    return path


def test_load_raises_one_clear_error_on_thousands_of_mutations(network_file):
    content, rng = network_file.read_bytes(), np.random.default_rng(0)
    n_changed = 0
    for _ in range(N_MUTATIONS):
        damaged = mutated(content, rng)
        if damaged == content:
            continue
        n_changed += 1
        network_file.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"^load: .*network must be a habnn_control file"):
            HABNN.load(network_file)
    assert n_changed > 0.95 * N_MUTATIONS


@pytest.mark.parametrize("name", CRAFTED)
def test_load_raises_on_crafted_files_within_bounded_memory(tmp_path, name):
    path = tmp_path / "crafted"
    sealed(path, CRAFTED[name])
    tracemalloc.start()
    with pytest.raises(ValueError, match="crafted must be a habnn_control file of kind 'demo', got"):
        load_arrays(path, "demo")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * max(path.stat().st_size, 100_000)


def test_load_raises_on_compressed_bombs(tmp_path):
    path = tmp_path / "bomb"
    sealed(path, [header(), ("a.npy", npy((25_000_000,), data=bytes(200_000_000)))], zipfile.ZIP_DEFLATED)
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"'header\.json' is compressed or too large"):
        load_arrays(path, "demo")
    assert tracemalloc.get_traced_memory()[1] < 10 * path.stat().st_size
    tracemalloc.stop()


def test_load_raises_on_two_members_of_one_name(tmp_path):
    path = tmp_path / "twice"
    with pytest.warns(UserWarning, match="Duplicate name"):
        sealed(path, [header(), ("a.npy", npy((0,))), ("a.npy", npy((0,)))])
    with pytest.raises(ValueError, match="two members of one name"):
        load_arrays(path, "demo")


def test_load_raises_on_devices_pipes_and_large_files(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"/dev/zero must be .*\(not a regular file"):
        load_arrays("/dev/zero", "demo")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"pipe must be .*\(not a regular file"):
        load_arrays(tmp_path / "pipe", "demo")
    monkeypatch.setattr(files, "LARGEST_FILE", 10)
    save_arrays(tmp_path / "x", {"kind": "demo"}, {})
    with pytest.raises(ValueError, match="where at most 10 are read"):
        load_arrays(tmp_path / "x", "demo")


def test_load_raises_on_the_version_without_checksum(tmp_path):
    path = tmp_path / "old"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps({"format": "habnn_control", "format_version": 1, "kind": "demo"}))
    with pytest.raises(ValueError, match="got format version 1; this release reads version 2"):
        load_arrays(path, "demo")


@pytest.mark.parametrize(
    "change",
    [
        {"settings": {"n_inputs": 10**9, "n_outputs": 10**9}},
        {"settings": {"hidden": [10**15]}},
        {"settings": {"dof": 0.5}},
        {"settings": {"noise_variance": [-1.0]}},
        {"settings": {"unknown": 1}},
        {"settings": 7},
        {"dof": 0.5},
        {"dof": "many"},
        {"dof": None},
        {"n_samples": -1},
        {"n_samples": 1e400},
        {"arrays": {"loc": np.full(9, np.nan)}},
        {"arrays": {"loc": np.zeros(8)}},
        {"arrays": {"scale": -np.ones(27)}},
        {"arrays": {"per_output": np.array([[-1.0], [10.0]])}},
        {"arrays": {"loc": np.array(["a"] * 9)}},
        {"arrays": {"rival_loc": np.zeros(9)}},
    ],
)
def test_load_checks_values_as_the_constructor_does(network_file, change):
    top, arrays = load_arrays(network_file, "HABNN")
    assert arrays["loc"].shape == (9,)
    assert arrays["scale"].shape == (27,)
    if isinstance(change.get("settings"), dict):
        top["settings"] |= change["settings"]
    else:
        top |= {name: value for name, value in change.items() if name != "arrays"}
    save_arrays(network_file, top, arrays | change.get("arrays", {}))
    with pytest.raises(ValueError, match=r"HABNN: .*network must hold the settings and the state of a network"):
        HABNN.load(network_file)


SMALL = {"model": {"network": {"hidden": (4,)}, "history": 3}, "planner": {"n_candidates": 10}}


@pytest.mark.parametrize(("name", "settings"), [("random", {}), ("wander", {}), ("habnn", SMALL)])
def test_agents_load_names_the_file_whatever_is_wrong(tmp_path, name, settings):
    env, path = gym.make("IndustrialBenchmark-v0"), tmp_path / "agent"
    env.reset(seed=0)
    agents.make(name, env, **settings).learn(3).save(path)
    top, arrays = load_arrays(path, "agent")
    broken = [{key: value for key, value in top.items() if key != absent} for absent in ("agent", "settings", "state")]
    broken += [top | {"seed": "x"}, top | {"settings": 3}, top | {"state": 3}, top | {"agent": "nobody"}]
    for one in broken:
        save_arrays(path, one, arrays)
        with pytest.raises(ValueError, match=r"load: .*agent must hold"):
            agents.load(path, env)
    save_arrays(path, top, arrays | {"current_observation": np.zeros(3)})
    with pytest.raises(ValueError, match=r"load: .*agent must hold"):
        agents.load(path, env)
    for array in arrays:
        if array != "current_observation" and arrays[array].dtype.kind == "f" and arrays[array].size:
            save_arrays(path, top, arrays | {array: np.full_like(arrays[array], np.nan)})
            with pytest.raises(ValueError, match=r"load: .*agent must hold"):
                agents.load(path, env)


def test_agents_load_accepts_an_agent_that_has_not_begun(tmp_path):
    env = gym.make("IndustrialBenchmark-v0")
    agents.make("habnn", env, **SMALL).save(tmp_path / "fresh")
    env.reset(seed=0)
    agents.load(tmp_path / "fresh", env).learn(2)


@pytest.mark.parametrize("content", [b"", b"[", b"[" * 100_000, b"\xff\xfe", b"{}", b"[1]", b'{"wall_seconds": 1e999}'])
def test_damaged_meta_is_written_anew(tmp_path, content):
    (tmp_path / "meta.json").write_bytes(content)
    write_meta(tmp_path, "command", 2.0)
    meta = read_json(tmp_path / "meta.json")
    assert meta["wall_seconds"] == 2.0
    assert len(meta["commits"]) == 1


def test_read_json_names_the_file(tmp_path):
    (tmp_path / "x.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"x\.json must be a JSON file"):
        read_json(tmp_path / "x.json")
    with pytest.raises(ValueError, match="/dev/zero must be a JSON file"):
        read_json("/dev/zero")


def test_leftovers_of_killed_writers_are_removed_when_stale(tmp_path):
    old, young, other = (tmp_path / "runs" / name for name in (".x.0123456789ab.tmp", ".x.0123456789ac.tmp", ".my.tmp"))
    old.parent.mkdir()
    for path in (old, young, other):
        path.write_bytes(b"half")
    for path in (old, other):
        os.utime(path, (time.time() - 4000,) * 2)
    remove_leftovers(tmp_path)
    assert sorted(old.parent.iterdir()) == sorted([young, other])
