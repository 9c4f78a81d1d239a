"""A sparse prior for networks whose inputs are time series: each hidden unit filters few signals."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from habnn_control.network import HABNN

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

_LENGTH_SCALE = 2.0  # steps; correlation length of a random filter
_DECAY = 4.0  # steps; time constant with which a filter decays into the past, as recent values are more informative
_BIAS_RANGE = 2.0  # biases are uniform in [-2, 2], which places the kinks of the units inside the range of the inputs
_COMMON_STD = 1.0  # prior standard deviation of the weights of common inputs; the filter of a unit has norm 0.5 to 1.5


def focus(network: HABNN, signals: Sequence[Indices], always: Indices, seed: int) -> None:
    """Redraw the prior locations of the first layer, in place: each unit filters the history of one or two signals.

    A dense prior mixes all inputs in every unit, and the output layer needs many samples to separate their effects.
    The filters decay into the past: effects with a delay of up to about five steps are learned sooner, later effects
    are not.

    Parameters
    ----------
    network : HABNN
        An untrained network.
    signals : sequence of int arrays
        Per signal, the indices of the inputs that hold its values, oldest first.
    always : array of int
        Indices of inputs that every unit sees; they shift the kink of the unit.
    seed : int
        Seed of the draws.
    """
    rng = np.random.default_rng((seed, 1))
    loc = network.weight_loc[0]  # (n_hidden, n_inputs + 1), a view
    for unit in loc:
        unit[:] = 0.0
        n_seen = min(int(rng.integers(1, 3)), len(signals))
        for signal in rng.choice(len(signals), n_seen, replace=False):
            unit[signals[signal]] = _random_filter(rng, len(signals[signal]))
        unit *= rng.uniform(0.5, 1.5) / np.linalg.norm(unit)
        unit[always] = _COMMON_STD * rng.standard_normal(len(always))
        unit[-1] = rng.uniform(-_BIAS_RANGE, _BIAS_RANGE)
    n_out, n_in = loc.shape
    loc *= np.sqrt(n_in if network.settings.fan == "in" else n_out)  # undoes the gain 1 / sqrt(fan)


def _random_filter(rng: np.random.Generator, n: int) -> Array:
    """Return filter coefficients (n,), newest last: a smooth Gaussian process that decays into the past."""
    age = np.arange(n)[::-1]
    time = age / _LENGTH_SCALE
    covariance = np.exp(-0.5 * (time[:, None] - time) ** 2) + 1e-6 * np.eye(n)
    return np.asarray(np.exp(-age / _DECAY) * (np.linalg.cholesky(covariance) @ rng.standard_normal(n)))
