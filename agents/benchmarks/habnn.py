"""Speed of the network on one core, as ratios to plain NumPy and to pytagi measured in the same run."""

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from agents.benchmarks.plain_network import PlainFullNetwork, PlainNetwork
from agents.benchmarks.timing import Result, best_times
from habnn_control import HABNN

Array = NDArray[np.float64]
Workload = Callable[[], int]

WIDTHS = (50, 100, 200, 400, 800, 1600)
# Bars are on the time of a sample inside HABNN.fit, which learns them one by one; a call of HABNN.update adds Python's
# own cost and is shown beside it.
BAR_NUMPY, BAR_PYTAGI, BAR_EINSUM, LARGEST_EXPONENT = 100.0, 5.0, 5.0, 1.1
N_PREDICTED = 1000
N_PASSES, BAR_PASSES = 10, 0.9  # k tempered passes cost k times one pass; the bar leaves a tenth for orders and copies


def measure(repeats: int) -> list[Result]:
    """Time updates of 8-50-1 diagonal and 36-80-2 full networks, their growth with the width, prediction, passes."""
    with threadpool_limits(1):
        return [*_diagonal(repeats), _growth(repeats), *_full(repeats), _passes(repeats)]


def _data(n: int, n_inputs: int, n_outputs: int) -> tuple[Array, Array]:
    x = np.random.default_rng(0).normal(size=(n, n_inputs))
    return x, np.sin(x[:, :n_outputs])


def _fit(network: HABNN, x: Array, y: Array) -> Workload:
    """Return a task that learns the stream, from the same state in every round."""
    start = network.get_state()

    def fit() -> int:
        network.set_state(start)
        network.fit(x, y)
        return len(x)

    return fit


def _update_plain(kind: type[PlainNetwork], network: HABNN, x: Array, y: Array) -> Workload:
    """Return a task that learns a few samples in plain NumPy, from the same state in every round."""

    def update() -> int:
        plain = kind(network)
        for row, target in zip(x, y, strict=True):
            plain.update(row, target)
        return len(x)

    return update


def _diagonal(repeats: int) -> list[Result]:
    """Compare one update of an 8-50-1 network."""
    x, y = _data(500, 8, 1)
    network = HABNN(8, 1)

    def call() -> int:
        for row, target in zip(x, y, strict=True):
            network.update(row, target)
        return len(x)

    plain = _update_plain(PlainNetwork, HABNN(8, 1), x[:10], y[:10])
    tasks = {"fit": _fit(HABNN(8, 1), x, y), "call": call, "NumPy": plain}
    if find_spec("pytagi"):
        tasks["pytagi"] = _update_pytagi(x[:50], y[:50])
    else:
        print("habnn: pytagi is not installed (extra `regression`): its rows are left out.")
    times = best_times(tasks, repeats)
    results = _against("NumPy", "the paper's equations in NumPy", times, BAR_NUMPY)
    return results + (_against("pytagi", "pytagi, batch size 1", times, BAR_PYTAGI) if "pytagi" in times else [])


def _against(key: str, name: str, times: dict[str, float], bar: float) -> list[Result]:
    """Return the rows of one reference."""
    return [
        Result(f"8-50-1: {name}", times[key], 1.0),
        Result(f"8-50-1: fit, a sample, over {key}", times["fit"], times[key] / times["fit"], bar),
        Result(f"8-50-1: update, a call, over {key}", times["call"], times[key] / times["call"]),
    ]


def _update_pytagi(x: Array, y: Array) -> Workload:
    """Return a task that updates pytagi's network with one sample after another: forward, output, backward, step."""
    from pytagi.nn import Linear, MixtureReLU, OutputUpdater, Sequential

    network = Sequential(Linear(8, 50), MixtureReLU(), Linear(50, 1))
    network.set_threads(1)
    updater = OutputUpdater(network.device)
    inputs, targets, noise = x.astype(np.float32), y.astype(np.float32), np.ones(1, dtype=np.float32)

    def update() -> int:
        for row, target in zip(inputs, targets, strict=True):
            network(row)
            updater.update(
                output_states=network.output_z_buffer,
                mu_obs=target,
                var_obs=noise,
                delta_states=network.input_delta_z_buffer,
            )
            network.backward()
            network.step()
        return len(inputs)

    return update


def _growth(repeats: int) -> Result:
    """Fit the exponent of the time of an update over the number of weights; linear cost has 1."""
    x, y = _data(50, 8, 1)
    networks = {width: HABNN(8, 1, (width,)) for width in WIDTHS}
    times = best_times({str(width): _fit(network, x, y) for width, network in networks.items()}, repeats)
    n_weights = [sum(loc.size for loc in network.weight_loc) for network in networks.values()]
    exponent = np.polyfit(np.log(n_weights), np.log([times[str(width)] for width in WIDTHS]), 1)[0]
    name = f"8-{WIDTHS[-1]}-1: fit, a sample; {LARGEST_EXPONENT} / exponent of cost over weights"
    return Result(name, times[str(WIDTHS[-1])], LARGEST_EXPONENT / float(exponent), 1.0)


def _full(repeats: int) -> list[Result]:
    """Compare one update of a 36-80-2 network with full covariance, and time the prediction of a batch."""
    x, y = _data(N_PREDICTED, 36, 2)
    network = HABNN.control(36, 2)

    def predict() -> int:
        network.predict(x)
        return 1

    tasks = {
        "fit": _fit(HABNN.control(36, 2), x[:20], y[:20]),
        "einsum": _update_plain(PlainFullNetwork, network, x[:3], y[:3]),
        "predict": predict,
    }
    times = best_times(tasks, repeats)
    return [
        Result("36-80-2 full: einsum in NumPy", times["einsum"], 1.0),
        Result("36-80-2 full: fit, a sample, over einsum", times["fit"], times["einsum"] / times["fit"], BAR_EINSUM),
        Result(f"36-80-2 full: predict, {N_PREDICTED} inputs at once", times["predict"]),
    ]


def _passes(repeats: int) -> Result:
    """Compare a sample of one pass with a sample of one of several tempered passes, noise inferred."""
    x, y = _data(300, 8, 1)
    one, several = HABNN.offline(8), HABNN.offline(8)
    start = several.get_state()

    def tempered() -> int:
        several.set_state(start)
        several.fit(x, y, passes=N_PASSES)
        return N_PASSES * len(x)

    times = best_times({"one": _fit(one, x, y), "several": tempered}, repeats)
    name = f"8-50-1 full: {N_PASSES} tempered passes, a sample and pass; over one pass"
    return Result(name, times["several"], times["one"] / times["several"], BAR_PASSES)
