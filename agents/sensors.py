"""Readings that sensors cannot have made: found, replaced by what the model expects, and logged once per kind."""

import logging
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from habnn_control.control.model import DynamicsModel
from habnn_control.control.plant import Bounds

logger = logging.getLogger(__name__)
Array = NDArray[np.float64]

_TOLERANCE = 1e-6  # of a bound, relative: spaces and observations may be rounded to float32


class Reading(NamedTuple):
    """An observation with the entries that were not measured filled in.

    Attributes
    ----------
    observation : array, shape (n_observed,)
    measured : array of bool, shape (n_observed,)
    """

    observation: Array
    measured: NDArray[np.bool_]


class SensorCheck:
    """Tells which entries of an observation were measured: those that are finite and inside the observation space.

    Parameters
    ----------
    owner : str
        Name for log messages.
    bounds : Bounds
    """

    def __init__(self, owner: str, bounds: Bounds) -> None:
        self._owner = owner
        slack = [_TOLERANCE * np.maximum(np.abs(end), 1.0) for end in (bounds.low, bounds.high)]
        self._low, self._high = bounds.low - slack[0], bounds.high + slack[1]
        self._told: set[tuple[int, str]] = set()

    def read(self, observation: NDArray[np.generic], action: Array, model: DynamicsModel) -> Reading:
        """Return the observation after `action`; a missing entry is the model's expectation, or the entry before.

        The model must not have observed the step yet.
        """
        values = np.array(observation, dtype=np.float64)
        finite = np.isfinite(values)
        measured = finite & (values >= self._low) & (values <= self._high)
        if measured.all():
            return Reading(values, measured)
        self._tell(values, finite, measured)
        actions = np.asarray(action, dtype=np.float64)[None, None]
        expected = model.forecast(model.memory, actions).observations[0, 0]
        return Reading(np.where(measured, values, np.clip(expected, self._low, self._high)), measured)

    def _tell(self, values: Array, finite: NDArray[np.bool_], measured: NDArray[np.bool_]) -> None:
        for entry in np.flatnonzero(~measured):
            kind = "is outside the observation space" if finite[entry] else "is missing"
            if (int(entry), kind) not in self._told:
                self._told.add((int(entry), kind))
                logger.warning(
                    "%s: entry %d of the observation %s (%g); the model's expectation stands in, and this is not "
                    "logged again.",
                    self._owner,
                    entry,
                    kind,
                    values[entry],
                )
