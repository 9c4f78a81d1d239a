"""Readings that sensors cannot have made: found, replaced by what the model expects, and logged once per kind."""

import logging

import numpy as np
from numpy.typing import NDArray

from agents.base import Step
from habnn_control.control.model import DynamicsModel, StepPrediction
from habnn_control.control.plant import Bounds

logger = logging.getLogger(__name__)
Array = NDArray[np.float64]

_TOLERANCE = 1e-6  # of a bound, relative: spaces and observations may be rounded to float32


class SensorCheck:
    """Find out which entries of observations were measured, and fill in the others.

    An entry was measured if it is finite and inside the observation space.

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
        self._held: Array | None = None  # the last observation, if entries of it were filled in

    def begin(self) -> None:
        """Start an episode, whose first observation is complete."""
        self._held = None

    def repaired(self, step: Step, model: DynamicsModel, prediction: StepPrediction | None) -> tuple[Step, bool]:
        """Return a step with missing entries filled in, and whether all entries that the model predicts were measured.

        A missing entry is what the model expects: exogenous entries stay, known actuators move as the action says. The
        observation before the step is the one that was filled in then. The model must not have observed the step yet.
        """
        if self._held is not None:
            step = step._replace(observation=self._held)
        values = np.array(step.next_observation, dtype=np.float64)
        finite = np.isfinite(values)
        measured = finite & (values >= self._low) & (values <= self._high)
        if measured.all():
            self._held = None
            return step, True
        self._tell(values, finite, measured)
        actions = np.asarray(step.action, dtype=np.float64)[None, None]
        expected = model.forecast(model.memory, actions).observations[0, 0]
        self._held = np.where(measured, values, np.clip(expected, self._low, self._high))
        outputs = slice(None) if prediction is None else prediction.indices
        return step._replace(next_observation=self._held), bool(measured[outputs].all())

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
