"""Odd surroundings: no cache folder, folder names with $, spreadsheets, temporary folders, many threads."""

import logging
import tempfile

import gymnasium as gym
import numba.core.caching
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from threadpoolctl import threadpool_info, threadpool_limits

import agents
import envs  # noqa: F401  # registers the environments
from agents.base import RecurrentAgent
from habnn_control.experiments.engine import read_csv, write_csv
from habnn_control.experiments.parallel import execute
from habnn_control.experiments.plotting import figure_bytes, label_line_ends
from habnn_control.support import jit


def test_kernels_compile_without_a_cache_folder(tmp_path, monkeypatch, caplog):
    """A read-only installation with an unwritable home: numba finds no place for its cache."""
    monkeypatch.setattr(numba.core.caching.CacheImpl, "_locator_classes", [])
    jit._warn_without_cache.cache_clear()
    kernel = jit.compiler(tmp_path)
    with caplog.at_level(logging.WARNING):
        twice, thrice = kernel()(lambda x: 2 * x), kernel()(lambda x: 3 * x)
    assert twice(2) + thrice(2) == 10
    assert [record.message[:11] for record in caplog.records] == ["jit: neithe"]


@pytest.mark.parametrize("name", ["results$", "a$b$c", r"$\frac$", "$"])
def test_figures_show_dollar_signs(name):
    figure = Figure()
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], label=name)
    axes.set_title(name, loc="left")
    axes.set_ylabel(name)
    axes.legend()
    label_line_ends(axes)
    assert figure_bytes(figure, "png").startswith(b"\x89PNG")
    assert name.replace("\\", "") in figure_bytes(figure, "svg").decode().replace("\\", "")


def test_csv_neutralises_formulas_and_reads_them_back(tmp_path):
    texts = ["=1+1", "+a", "-a", "@x", "\tq", "'=x", "plain", "", "'quoted"]
    table = pd.DataFrame({"agent": texts, "loss": np.linspace(-1, 1, len(texts))})
    write_csv(table, tmp_path / "x.csv")
    cells = [line.rsplit(",", 1)[0].strip('"') for line in (tmp_path / "x.csv").read_text().split("\n")[1:-1]]
    assert not [cell for cell in cells if cell[:1] in ("=", "+", "-", "@", "\t")]
    again = read_csv(tmp_path / "x.csv")
    assert again["agent"].fillna("").tolist() == texts
    np.testing.assert_array_equal(again["loss"], table["loss"])


@pytest.mark.parametrize("name", ["a2c", "sac"])
def test_sb3_agents_leave_no_folders_behind(tmp_path, monkeypatch, name):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    env = gym.make("IndustrialBenchmark-v0")
    agents.make(name, env, seed=0).learn(12)
    assert not list(tmp_path.glob("SB3*"))  # torch leaves a folder of its own


def blas_threads(_):
    return max(pool["num_threads"] for pool in threadpool_info())


def test_agents_learn_and_predict_on_one_thread(monkeypatch):
    """More threads are slower for small matrices, and add up in another order."""
    seen = []

    class Watched(RecurrentAgent):
        def _act(self, *_, **__):
            seen.append(blas_threads(0))
            return np.zeros(3, dtype=np.float32)

        def _predict_one(self, *_):
            return self._act(), None

    env = gym.make("IndustrialBenchmark-v0")
    with threadpool_limits(2):
        agent = Watched(env)
        agent.learn(1)
        agent.predict(np.zeros(6))
        agent.predict(np.zeros((1, 6)))
        ours = agents.make("habnn", env)
        monkeypatch.setattr(ours.model, "pretrain", lambda _: seen.append(blas_threads(0)))
        ours.pretrain(None)
        assert blas_threads(0) == 2
    assert seen == [1, 1, 1, 1]


def test_tasks_run_on_one_thread():
    with threadpool_limits(2):
        assert list(execute(blas_threads, [0], 1, None)) == [(0, 1)]
