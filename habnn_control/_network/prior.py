"""A prior for networks that look at histories: hidden units that look at few signals at once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from habnn_control.network import HABNN

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

_SMOOTHNESS = 2.0  # steps over which a random filter keeps its sign, roughly
_FADING = 4.0  # and over which it forgets: what was set lately tells more
_SPREAD = 2.0  # kinks lie within this many units of the inputs' middle
_ALWAYS = 1.0  # weight of what every unit sees, beside about 1 of all the rest


def focus(network: HABNN, signals: Sequence[Indices], always: Indices, seed: int) -> None:
    """Draw the first layer's prior locations anew: each unit filters the history of one or two signals.

    A dense prior mixes all inputs in every unit, and many samples pass before the output layer has told them apart.
    The filters fade into the past: what acts within some five steps is learned sooner, what acts later not.

    Parameters
    ----------
    network : HABNN
        Not trained yet.
    signals : sequence of arrays
        Inputs that are values of the same signal, in the order of time.
    always : array of int
        Inputs that every unit sees: they move its kink.
    seed : int
    """
    rng = np.random.default_rng((seed, 1))
    loc = network.weight_loc[0]  # (n_hidden, n_inputs + 1), a view
    for unit in loc:
        unit[:] = 0.0
        n_seen = min(int(rng.integers(1, 3)), len(signals))
        for signal in rng.choice(len(signals), n_seen, replace=False):
            unit[signals[signal]] = _smooth_noise(rng, len(signals[signal]))
        unit *= rng.uniform(0.5, 1.5) / np.linalg.norm(unit)
        unit[always] = _ALWAYS * rng.standard_normal(len(always))
        unit[-1] = rng.uniform(-_SPREAD, _SPREAD)
    n_out, n_in = loc.shape
    loc *= np.sqrt(n_in if network.settings.fan == "in" else n_out)  # the fan rule divides by this


def _smooth_noise(rng: np.random.Generator, n: int) -> Array:
    """Return a random filter over n steps, newest last: smooth, and fading into the past."""
    age = np.arange(n)[::-1]
    time = age / _SMOOTHNESS
    covariance = np.exp(-0.5 * (time[:, None] - time) ** 2) + 1e-6 * np.eye(n)
    return np.asarray(np.exp(-age / _FADING) * (np.linalg.cholesky(covariance) @ rng.standard_normal(n)))
