"""A sparse prior for networks whose inputs are time series: each hidden unit filters few signals."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from habnn_control.network import HABNN

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

_DECAYS = 2.0, 12.0  # steps; range of the time constants with which filters decay into the past
_SMOOTHNESS = 0.5  # correlation length of a random filter, in time constants; at least one step
_BIAS_RANGE = 2.0  # biases are uniform in [-2, 2], which places the kinks of the units inside the range of the inputs


def focus(network: HABNN, signals: Sequence[Indices], common: Sequence[Indices], ages: Indices, seed: int) -> None:
    """Redraw the prior locations of the first layer, in place: each unit filters the history of one or two signals.

    A dense prior mixes all inputs in every unit, and the output layer needs many samples to separate their effects.
    The filters decay into the past, each unit's with a time constant of its own.

    Parameters
    ----------
    network : HABNN
        An untrained network.
    signals : sequence of int arrays
        Per signal, the indices of the inputs that hold its values, oldest first.
    common : sequence of int arrays
        The same for signals that every unit sees; they shift the kink of the unit.
    ages : array of int
        Ages, in steps and oldest first, of the values of a signal. A shorter signal has the last ones.
    seed : int
        Seed of the draws.
    """
    rng = np.random.default_rng((seed, 1))
    gaps = np.gradient(ages.astype(np.float64)) if len(ages) > 1 else np.ones(1)  # steps that one value stands for
    loc = network.weight_loc[0]  # (n_hidden, n_inputs + 1), a view

    def filter_of(indices: Indices, decay: float) -> Array:
        n = len(indices)
        return np.asarray(np.abs(gaps[-n:]) * _random_filter(rng, ages[-n:], decay))

    for unit in loc:
        unit[:] = 0.0
        decay = np.exp(rng.uniform(*np.log(_DECAYS)))
        n_seen = min(int(rng.integers(1, 3)), len(signals))
        for signal in rng.choice(len(signals), n_seen, replace=False):
            unit[signals[signal]] = filter_of(signals[signal], decay)
        unit *= rng.uniform(0.5, 1.5) / np.linalg.norm(unit)
        for indices in common:
            shape = filter_of(indices, decay)
            unit[indices] = shape * (rng.standard_normal() / np.linalg.norm(shape))
        unit[-1] = rng.uniform(-_BIAS_RANGE, _BIAS_RANGE)
    n_out, n_in = loc.shape
    loc *= np.sqrt(n_in if network.settings.fan == "in" else n_out)  # undoes the gain 1 / sqrt(fan)


def _random_filter(rng: np.random.Generator, ages: Indices, decay: float) -> Array:
    """Return filter coefficients at these ages: a smooth Gaussian process that decays into the past."""
    time = ages / max(_SMOOTHNESS * decay, 1.0)
    covariance = np.exp(-0.5 * (time[:, None] - time) ** 2) + 1e-6 * np.eye(len(ages))
    return np.asarray(np.exp(-ages / decay) * (np.linalg.cholesky(covariance) @ rng.standard_normal(len(ages))))
