"""One run of the study: split, perhaps z-score, learn, and score in and out of distribution."""

from functools import cache, lru_cache
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from habnn_control.experiments.engine import agent_seed
from habnn_control.regression import methods
from habnn_control.regression.data import read
from habnn_control.regression.predictive import Prediction

Array = NDArray[np.float64]

BLOCKS = ("raw", "z-scored")
TEST_SETS = ("in", "x0.1", "x2", "+3sd")  # the test inputs as they are, and the paper's three shifts of them
SCORES = ("rmse", "nll", "coverage_50", "coverage_90")
_WARM_ROWS = 20  # learned from before the clock starts: compilers and lazy imports are not training


class Task(NamedTuple):
    """One run: `seed` makes the split, the same for all methods."""

    method: str
    dataset: str
    block: str
    run: int
    seed: int
    max_rows: int


class Outcome(NamedTuple):
    """What came of a task: scores (test sets, scores), the training time and the rows the method used."""

    scores: Array
    fit_seconds: float
    n_train: int


class Split(NamedTuple):
    """Training and test data in the units of the block, and the targets' unit in it."""

    x: Array
    y: Array
    test_x: dict[str, Array]
    test_y: Array
    unit: float


def play(task: Task, files: dict[str, Path]) -> Outcome:
    """Run a task on the data of `files[task.dataset]`."""
    data = split(*_read(files[task.dataset]), task)
    method_seed = agent_seed(task.seed, 0, methods.split(task.method)[0])
    _warm_up(task.method)
    with np.errstate(all="ignore"):  # a method that diverges on raw data gets an infinite score, not a warning
        method = methods.build(task.method, data.x.shape[1], method_seed)
        method.tune(data.x, data.y)
        start = perf_counter()
        method.fit(data.x, data.y)
        seconds = perf_counter() - start
        scores = [score(method.predict(data.test_x[name]), data.test_y, data.unit) for name in TEST_SETS]
    return Outcome(np.array(scores), seconds, int(min(len(data.x), method.max_rows)))


def split(x: Array, y: Array, task: Task) -> Split:
    """Split 90 to 10 at random, in an order that the seed alone decides; shift the test inputs; z-score if asked.

    Shifts are made in raw units: a sensor that reads twice as much does so before anything is normalised.
    """
    order = np.random.default_rng(task.seed).permutation(len(x))[: task.max_rows or None]
    cut = max(1, round(0.1 * len(order)))
    test, train = order[:cut], order[cut:]
    shifted = {"in": x[test], "x0.1": 0.1 * x[test], "x2": 2.0 * x[test], "+3sd": x[test] + 3 * x[test].std(axis=0)}
    if task.block == "raw":
        return Split(x[train], y[train], shifted, y[test], 1.0)
    loc, constant = x[train].mean(axis=0), x[train].min(axis=0) == x[train].max(axis=0)
    scale = np.where(constant, 1.0, x[train].std(axis=0))
    target_loc, unit = float(y[train].mean()), float(y[train].std()) or 1.0
    standard = {name: np.where(constant, 0.0, values - loc) / scale for name, values in shifted.items()}
    train_x = np.where(constant, 0.0, x[train] - loc) / scale
    return Split(train_x, (y[train] - target_loc) / unit, standard, (y[test] - target_loc) / unit, unit)


def score(prediction: Prediction, y: Array, unit: float) -> tuple[float, ...]:
    """Return SCORES in the raw units of the targets; infinite errors and no coverage where a prediction is not finite.

    NLL is the mean of -log p(y) of the predictive distribution, observation noise included.
    """
    rmse = unit * float(np.sqrt(np.mean((prediction.mean - y) ** 2)))
    nll = float(-np.mean(prediction.logpdf(y))) + float(np.log(unit))
    distance = 2 * np.abs(prediction.cdf(y) - 0.5)  # mass of the central interval that ends at y
    coverages = [float(np.mean(distance <= level)) for level in (0.5, 0.9)]
    return rmse if np.isfinite(rmse) else np.inf, nll if np.isfinite(nll) else np.inf, *coverages


@lru_cache(maxsize=2)
def _read(path: Path) -> tuple[Array, Array]:
    return read(path)


@cache
def _warm_up(name: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((_WARM_ROWS, 3))
    method = methods.build(name, 3, 0)
    method.tune(x, x[:, 0])
    method.fit(x, x[:, 0])
    method.predict(x)
