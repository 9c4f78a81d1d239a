"""One run of the regression study: split, z-score if asked, learn, and score in and out of distribution."""

from functools import cache, lru_cache
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from habnn_control.experiments.engine import Outcome, Task, derive_seed
from habnn_control.regression import methods
from habnn_control.regression.data import read
from habnn_control.regression.predictive import Predictive

Array = NDArray[np.float64]

BLOCKS = ("raw", "z-scored")
TEST_SETS = ("in", "x0.1", "x2", "+3sd")  # the test inputs as they are, and the paper's three shifts of them
# one-pass: the paper's study. to-the-end: the same splits, every method with the epochs its authors use. outliers: a
# tenth of the training targets is replaced. gap, tail: the test set is the middle third, or the outer sixths, of one
# input, which changes with the seed.
PROTOCOLS = ("one-pass", "to-the-end", "outliers", "gap", "tail")
_TO_THE_END = (
    "constant",
    "bayesian-ridge",
    "gp",
    "habnn-recommended",
    "habnn-joint",
    "habnn-committee",
    "pbp:epochs=40",
    "dropout:epochs=400",
    "ensemble:epochs=40",
    "svi:epochs=5000",
    "nuts-long",
)
# The methods that each protocol compares if none are named.
DEFAULT_METHODS = {
    "one-pass": methods.PAPER,
    "to-the-end": _TO_THE_END,
    "outliers": (
        "constant",
        "habnn-recommended",
        "habnn-recommended:dof=12",
        "habnn-recommended:dof=inf",
        "habnn-recommended:outlier_threshold=5",
        "habnn-joint",
        "habnn-joint:outlier_threshold=10",
        "habnn-committee",
        "habnn-committee:outlier_threshold=5",
        "kbnn",
        "bayesian-ridge",
    ),
    "gap": _TO_THE_END,
    "tail": _TO_THE_END,
}
OUTLIER_RATE, OUTLIER_SIZE = 0.1, 50.0  # probability, and largest deviation in standard deviations of the targets
SCORES = ("rmse", "nll", "coverage_50", "coverage_90")
_SHORT = {"nuts-long": "nuts"}  # what imports and compiles the same in less time
_WARM_ROWS = 20  # rows learned before the clock starts: compilation and lazy imports are not training time


class Split(NamedTuple):
    """Training and test data in the scaling of the block; `unit` is the scale of the targets in raw units."""

    x: Array
    y: Array
    test_x: dict[str, Array]
    test_y: Array
    unit: float


def play(task: Task, files: dict[str, Path]) -> Outcome:
    """Run a task on the data of `files[task["dataset"]]`.

    The outcome has the array `scores` of shape (test sets, scores), the training time `fit_seconds`, the processor time
    `cpu_seconds` of tuning and training, and `n_train`, the number of rows the method used.
    """
    data = split(*_read(files[task["dataset"]]), task)
    name = task["method"]
    method_seed = derive_seed(task.seed, 0, methods.split(name)[0])
    _warm_up(name)
    with np.errstate(all="ignore"):  # a method that diverges on raw data gets an infinite score, not a warning
        method = methods.build(name, data.x.shape[1], method_seed)
        busy = process_time()
        method.tune(data.x, data.y)
        start = perf_counter()
        method.fit(data.x, data.y)
        seconds, busy = perf_counter() - start, process_time() - busy
        scores = [score(method.predict(data.test_x[test]), data.test_y, data.unit) for test in TEST_SETS]
    numbers = {"fit_seconds": seconds, "cpu_seconds": busy, "n_train": int(min(len(data.x), method.max_rows))}
    return Outcome({"scores": np.array(scores)}, numbers)


def split(x: Array, y: Array, task: Task) -> Split:
    """Split the rows as the protocol says; shift the test inputs; z-score if the block says so.

    Shifts are made in raw units, before any normalisation: a faulty sensor reads twice as much in its own units.
    """
    rng = np.random.default_rng(task.seed)
    order = rng.permutation(len(x))[: task["max_rows"] or None]
    test, train = parts(x, order, task["protocol"], task.seed)
    shifted = {"in": x[test], "x0.1": 0.1 * x[test], "x2": 2.0 * x[test], "+3sd": x[test] + 3 * x[test].std(axis=0)}
    train_y, target_loc, unit = y[train], float(y[train].mean()), float(y[train].std()) or 1.0
    if task["protocol"] == "outliers":
        replaced = rng.random(len(train)) < OUTLIER_RATE
        train_y = np.where(replaced, target_loc + unit * rng.uniform(-OUTLIER_SIZE, OUTLIER_SIZE, len(train)), train_y)
    if task["block"] == "raw":
        return Split(x[train], train_y, shifted, y[test], 1.0)
    loc, constant = x[train].mean(axis=0), x[train].min(axis=0) == x[train].max(axis=0)
    scale = np.where(constant, 1.0, x[train].std(axis=0))
    standard = {name: np.where(constant, 0.0, values - loc) / scale for name, values in shifted.items()}
    train_x = np.where(constant, 0.0, x[train] - loc) / scale
    return Split(train_x, (train_y - target_loc) / unit, standard, (y[test] - target_loc) / unit, unit)


def parts(x: Array, order: NDArray[np.int64], protocol: str, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of the test and of the training set, both in the given random order.

    In gap and tail splits the test set is the middle third, or the lowest and highest sixth, of input
    seed % n_inputs; equal values are ordered at random.
    """
    if protocol not in ("gap", "tail"):
        cut = max(1, round(0.1 * len(order)))
        return order[:cut], order[cut:]
    place = np.argsort(np.argsort(x[order, seed % x.shape[1]], kind="stable")) / len(order)  # rank in [0, 1)
    middle = np.abs(place - 0.5) < (1 / 6 if protocol == "gap" else 1 / 3)
    inside = middle if protocol == "gap" else ~middle
    return order[inside], order[~inside]


def score(prediction: Predictive, y: Array, unit: float) -> tuple[float, ...]:
    """Return SCORES in the raw units of the targets; a prediction that is not finite has infinite errors.

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
    method = methods.build(_SHORT.get(name, name), 3, 0)
    method.tune(x, x[:, 0])
    method.fit(x, x[:, 0])
    method.predict(x)
