"""Attack the network with hostile streams, then let it learn clean data."""

import logging
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from _attack import Outcome  # type: ignore[import-not-found]
from numpy.typing import NDArray

from habnn_control import HABNN
from habnn_control.support.logging_levels import log_only

Array = NDArray[np.float64]

NETWORKS: dict[str, Callable[[], HABNN]] = {
    "control": lambda: HABNN.control(6, 2, hidden=(10,), scale=0.003, activation="leaky_relu", slope=0.3),
    "deep": lambda: HABNN.control(6, 2, hidden=(10, 10)),
    "drift": lambda: HABNN.control(6, 2, hidden=(10,), drift=1e-3, max_dof=200),
    "outliers": lambda: HABNN.control(6, 2, hidden=(10,), outlier_threshold=5.0),
    "observation": lambda: HABNN.control(6, 2, hidden=(10,), output_distance="observation"),
    "gaussian control": lambda: HABNN.control(6, 2, hidden=(10,), dof=math.inf),
    "paper": lambda: HABNN.paper(6, 2, hidden=(20,)),
    "diagonal": lambda: HABNN(6, 2, hidden=(20,), noise_variance=0.1, noise_weight=10),
    "tagi": lambda: HABNN.tagi(6, 2, hidden=(20,)),
    "kbnn": lambda: HABNN.kbnn(6, 2, hidden=(10,)),
    "linear": lambda: HABNN.control(6, 2, hidden=()),
}
N_HOSTILE = 300


def clean(n: int, seed: int) -> tuple[Array, Array]:
    """Return ordinary samples of two functions of six inputs, with noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 6))
    y = np.stack([np.sin(x[:, 0]) + 0.5 * x[:, 1], x[:, 2] * np.tanh(x[:, 3])], axis=1)
    return x, y + 0.1 * rng.normal(size=y.shape)


def streams() -> dict[str, tuple[Array, Array]]:
    """Return the inputs and targets of each attack."""
    rng = np.random.default_rng(2)
    x, sign = rng.normal(size=(N_HOSTILE, 6)), (-1.0) ** np.arange(N_HOSTILE)[:, None]
    sizes_x, sizes_y = 10 ** rng.uniform(-5, 99, size=x.shape), 10 ** rng.uniform(-5, 99, size=(N_HOSTILE, 2))
    y = rng.normal(size=(N_HOSTILE, 2))
    return {
        "alternating 1e6": (x, np.tile(1e6 * sign, 2)),
        "one 1e100": (x[:1], np.full((1, 2), 9.9e99)),
        "constant 1e6": (x, np.full((N_HOSTILE, 2), 1e6)),
        "targets of any size": (x, sign * sizes_y),
        "inputs of any size": (np.sign(x) * sizes_x, y),
        "all of any size": (np.sign(x) * sizes_x, sign * sizes_y),
        "inputs of 1e6": (1e6 * x, y),
        "inputs of 1e-90": (1e-90 * x, 1e-90 * y),
        "one input": (np.repeat(x[:1], N_HOSTILE, axis=0), np.tile(1e6 * sign, 2)),
    }


def learn(network: HABNN, x: Array, y: Array) -> int:
    """Learn one by one and return how many samples were refused."""
    refused = 0
    for row, target in zip(x, y, strict=True):
        try:
            network.update(row, target)
        except ValueError:
            refused += 1
    return refused


def least_eigenvalue(network: HABNN) -> float:
    """Return the least eigenvalue of the scale matrices relative to the largest; the least scale if diagonal."""
    least = math.inf
    for scale in network.weight_scale_sq:
        if not np.isfinite(scale).all():
            return -math.inf
        values = np.linalg.eigvalsh(scale) if scale.ndim == 3 else scale
        least = min(least, float((values.min(axis=1) / values.max(axis=1)).min()))
    return least


def error(network: HABNN) -> float:
    """Return the root mean squared error on clean samples."""
    x, y = clean(500, seed=9)
    return math.sqrt(np.mean((network.predict(x).mean - y) ** 2))


def attack(effort: float) -> list[Outcome]:
    """Return the outcomes of all streams on all networks, and of random streams on random networks."""
    with log_only(logging.ERROR, "habnn_control"):  # networks that start anew say so
        return [_hostile_streams(), _random_attacks(max(int(300 * effort), 10))]


def _hostile_streams() -> Outcome:
    x, y = clean(5000, seed=8)
    least, ratio, refused, n_cases = 0.0, 0.0, 0, 0
    for make in NETWORKS.values():
        expected = error(make().fit(x, y))
        for hostile in streams().values():
            network = make()
            learn(network, *hostile)
            least = min(least, least_eigenvalue(network))
            refused += learn(network, x, y)
            ratio, n_cases = max(ratio, error(network) / expected), n_cases + 1
    told = f"least / largest eigenvalue {least:.0e}, {refused} clean samples refused, RMSE after 5000 clean samples "
    return Outcome(
        f"network: {len(NETWORKS)} networks x {len(streams())} hostile streams of {N_HOSTILE} samples",
        n_cases,
        f"{told}at most {ratio:.2f} times that without attack",
        bool(least > -1e-9 and refused == 0 and ratio < 1.5),
    )


def _random_attacks(n: int) -> Outcome:
    rng, least, finite = np.random.default_rng(0), 0.0, True
    for _ in range(n):
        network = HABNN.control(6, 2, **_settings(rng))
        for _ in range(3):
            learn(network, *_stream(rng))
        least = min(least, least_eigenvalue(network))
        finite = finite and all(np.isfinite(part).all() for part in (*network.weight_loc, network.noise_variance))
    told = f"least / largest eigenvalue {least:.0e}, {'all' if finite else 'NOT all'} parameters finite"
    return Outcome("network: random settings, random streams up to 1e99", n, told, finite and least > -1e-9)


def _settings(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "hidden": tuple(rng.integers(1, 12, size=rng.integers(0, 3)).tolist()),
        "scale": 10 ** rng.uniform(-4, 1),
        "noise_variance": 10 ** rng.uniform(-8, 1),
        "noise_weight": rng.choice([3.0, 100.0, math.inf]),
        "dof": rng.choice([2.5, 12.0, 150.0, math.inf]),
        "activation": str(rng.choice(["relu", "leaky_relu", "identity"])),
        "outlier_threshold": rng.choice([5.0, math.inf]),
        "drift": rng.choice([0.0, 1e-3]),
        "seed": int(rng.integers(1000)),
    }


def _stream(rng: np.random.Generator) -> tuple[Array, Array]:
    n = int(rng.integers(1, 150))
    x, y = rng.normal(size=(n, 6)), rng.normal(size=(n, 2))
    kind = rng.integers(6)
    if kind == 0:
        return x, y * 10 ** rng.uniform(-3, 12)
    if kind == 1:
        return x, np.sign(y) * 10 ** rng.uniform(-5, 99, size=y.shape)
    if kind == 2:
        return np.sign(x) * 10 ** rng.uniform(-6, 6, size=x.shape), y
    if kind == 3:
        return x[:1] + 10 ** rng.uniform(-8, 0) * x, y * 10 ** rng.uniform(-3, 8)
    if kind == 4:
        return np.sign(x) * 10 ** rng.uniform(-5, 99, size=x.shape), y
    return x, np.where(rng.random(y.shape) < 0.1, 1e6 * y, y)
