"""Hazard: how often a plant changes for the worse, as a function of where it is."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from habnn_control.control.plant import Bounds, Plant
from habnn_control.control.transform import scaling

Array = NDArray[np.float64]

_BLAMED = 30  # steps before a change is noticed among which its cause is taken to lie
_KEPT = 10_000  # steps that count; older ones are forgotten
_EVERY = 5  # steps between two fits
_PRIOR_RATE = 0.001  # changes per step in the middle of the space, before anything is known
_PRIOR_STD = 2.0  # of the rate's logarithm in the middle, and of its slope from there to each end
_NEWTON_STEPS = 30
_LARGEST = 5.0  # of the logarithm while fitting, against overflow


class Hazard:
    """Changes for the worse per step, a log-linear function of actuator positions and exogenous entries.

    Hidden states of a plant may change for the worse where a model does not see it coming: something jams, and stays
    so wherever the plant goes next. Such changes are counted, each blamed in equal parts on the steps before it. The
    logarithm of their rate has a Gaussian prior, the count of a step is Poisson: `rate` is the posterior's mode. Before
    the first change there is no hazard.

    Parameters
    ----------
    plant : Plant
    bounds : Bounds

    Attributes
    ----------
    n_changes : int
    """

    def __init__(self, plant: Plant, bounds: Bounds) -> None:
        self._entries = [*plant.actuated, *plant.exogenous]
        self._centre, self._half_range = scaling(bounds.low[self._entries], bounds.high[self._entries])
        self.n_changes, self._n_seen = 0, 0
        n = len(self._entries) + 1
        self._places = np.empty((0, n))
        self._exposures = np.empty(0)  # 1 where a change could have begun, 0 where the plant had changed already
        self._counts = np.empty(0)
        self._prior = np.append(np.log(_PRIOR_RATE), np.zeros(n - 1))
        self._slopes = self._prior.copy()

    def observe(self, observation: Array, exposed: bool) -> None:
        """Take note of a step that ended at an observation, in which a change could have begun or not."""
        self._places = np.concatenate([self._places[-_KEPT + 1 :], self._place(observation)[None]])
        self._exposures = np.append(self._exposures[-_KEPT + 1 :], float(exposed))
        self._counts = np.append(self._counts[-_KEPT + 1 :], 0.0)
        self._n_seen += 1
        if self.n_changes and self._n_seen % _EVERY == 0:
            self._fit()

    def blame(self) -> None:
        """Take note that a change for the worse has been noticed."""
        self.n_changes += 1
        self._exposures[-_BLAMED:] = 1.0
        self._counts[-_BLAMED:] += 1.0 / max(len(self._counts[-_BLAMED:]), 1)
        self._fit()

    def rate(self, observations: Array) -> Array:
        """Return the changes per step (...,) at observations (..., n_observed)."""
        if not self.n_changes:
            return np.zeros(observations.shape[:-1])
        return np.asarray(np.exp(np.minimum(self._place(observations) @ self._slopes, 0.0)))

    def _place(self, observations: Array) -> Array:
        """Return 1 and the entries that the rate depends on, scaled to [-1, 1]."""
        scaled = (observations[..., self._entries] - self._centre) / self._half_range
        return np.concatenate([np.ones((*scaled.shape[:-1], 1)), scaled], axis=-1)

    def _fit(self) -> None:
        """Find the posterior's mode by Newton's method with step halving."""
        precision = np.full(len(self._prior), _PRIOR_STD**-2.0)
        slopes, value = self._prior.copy(), self._log_posterior(self._prior)
        for _ in range(_NEWTON_STEPS):
            rates = self._exposures * np.exp(np.minimum(self._places @ slopes, _LARGEST))
            gradient = self._places.T @ (self._counts - rates) - precision * (slopes - self._prior)
            step = np.linalg.solve((self._places.T * rates) @ self._places + np.diag(precision), gradient)
            while (found := self._log_posterior(slopes + step)) < value and np.abs(step).max() > 1e-9:
                step /= 2
            slopes, gained, value = slopes + step, found - value, found
            if gained < 1e-9:
                break
        self._slopes = slopes

    def _log_posterior(self, slopes: Array) -> float:
        """Return the log density of rates with these slopes, up to a constant."""
        logs = self._places @ slopes
        rates = self._exposures * np.exp(np.minimum(logs, _LARGEST))
        return float(self._counts @ logs - rates.sum() - 0.5 * np.sum((slopes - self._prior) ** 2) / _PRIOR_STD**2)

    # ------------------------------------------------------------------ files

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return the state as arrays."""
        return {
            "n_changes": np.array(self.n_changes),
            "n_seen": np.array(self._n_seen),
            "places": self._places.copy(),
            "exposures": self._exposures.copy(),
            "counts": self._counts.copy(),
            "slopes": self._slopes.copy(),
        }

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go back to a state of `get_state`."""
        self.n_changes, self._n_seen = int(state["n_changes"]), int(state["n_seen"])
        self._places, self._exposures = np.array(state["places"]), np.array(state["exposures"])
        self._counts, self._slopes = np.array(state["counts"]), np.array(state["slopes"])
