"""Readings that sensors cannot have made: found, replaced by what the model expects, and logged once per kind."""

import logging
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agents.base import Step
from habnn_control.control.model import DynamicsModel, StepPrediction
from habnn_control.control.monitor import HALF_WIDTH
from habnn_control.control.plant import Bounds, Plant
from habnn_control.control.plausibility import ActuatorSensor, OutputSensor

logger = logging.getLogger(__name__)
Array = NDArray[np.float64]

_TOLERANCE = 1e-6  # of a bound, relative: spaces and observations may be rounded to float32
_KINDS = {
    "missing": "is missing",
    "outside": "is outside the observation space",
    "implausible": "is implausible",
    "constant": "does not change any more",
    "jumped": "has jumped",
    "stuck": "does not follow the actions",
}


class SensorCheck:
    """Find out which entries of observations were measured, and fill in the others.

    An entry was measured if it is finite, inside the observation space and plausible (see
    `habnn_control.control.plausibility`).

    Parameters
    ----------
    owner : str
        Name for log messages.
    bounds : Bounds
    plant : Plant
        Tells positions, whose motion is known, from outputs, which the model predicts.
    """

    def __init__(self, owner: str, bounds: Bounds, plant: Plant) -> None:
        self._owner, self._bounds, self._plant = owner, bounds, plant
        slack = [_TOLERANCE * np.maximum(np.abs(end), 1.0) for end in (bounds.low, bounds.high)]
        self._low, self._high = bounds.low - slack[0], bounds.high + slack[1]
        self._told: set[tuple[int, str]] = set()
        self._held: Array | None = None  # the last observation, if entries of it were filled in
        self._set_plant(plant)

    def _set_plant(self, plant: Plant) -> None:
        self._plant = plant
        self._outputs = {entry: OutputSensor() for entry in plant.outputs(self._bounds.n_observed)}
        self._positions = {entry: ActuatorSensor() for entry in plant.actuated}

    def take_over(self, plant: Plant) -> None:
        """Go on with a description in which more is known."""
        self._set_plant(plant)

    def begin(self, observation: NDArray[Any]) -> None:
        """Start an episode with its first observation, which is complete."""
        self._held = None
        for output in self._outputs.values():
            output.begin()
        for entry, position in self._positions.items():
            position.doubts = position.follows = 0
            position.commanded = position.own = float(observation[entry])

    def complete(self, observation: NDArray[Any]) -> NDArray[Any]:
        """Return the last observation, its entries that were not measured filled in."""
        return observation if self._held is None else self._held

    def completed(self, observation: NDArray[Any], action: Array, model: DynamicsModel, memory: Any) -> NDArray[Any]:
        """Return an observation with missing and impossible entries as the model expects them after an action.

        What it needs of the past is the memory of the model before the action; nothing is learned or logged.
        """
        values = np.array(observation, dtype=np.float64)
        inside = self._inside(values)
        return observation if inside.all() else np.where(inside, values, self._expected(action, model, memory))

    def _inside(self, values: Array) -> NDArray[np.bool_]:
        """Return which entries are finite and in the observation space."""
        return np.asarray(np.isfinite(values) & (values >= self._low) & (values <= self._high))

    def _expected(self, action: ArrayLike, model: DynamicsModel, memory: Any) -> Array:
        """Return the observation that the model expects after an action."""
        actions = np.asarray(action, dtype=np.float64)[None, None]
        return np.asarray(np.clip(model.forecast(memory, actions).observations[0, 0], self._low, self._high))

    # ------------------------------------------------------------------ one step

    def repaired(self, step: Step, model: DynamicsModel, prediction: StepPrediction | None) -> tuple[Step, bool]:
        """Return a step with bad entries replaced, and whether it can be learned from.

        An entry that was not measured is what the model expects: exogenous entries stay, known actuators move as the
        action says. An output that is implausible, but may be a change, is replaced by the nearer end of its 90 %
        interval: learned from, with little effect. A step can be learned from if all entries that the model predicts
        were measured and no position is doubted. The observation before the step is the one that was filled in then.
        The model must not have observed the step yet.
        """
        if self._held is not None:
            step = step._replace(observation=self._held)
        values = np.array(step.next_observation, dtype=np.float64)
        inside = self._inside(values)
        verdicts = {int(k): "outside" if np.isfinite(values[k]) else "missing" for k in np.flatnonzero(~inside)}
        verdicts |= self._inputs(np.asarray(step.action, dtype=np.float64), values, inside)
        if prediction is not None:
            verdicts |= self._predicted(model, prediction, values, inside)
        for entry, kind in verdicts.items():
            self._tell(entry, kind, values[entry])
        if not verdicts and all(values[entry] == value for entry, value in self._believed().items()):
            self._held = None
            return step, True
        self._held = self._filled(step, model, prediction, values, verdicts)
        outputs = self._outputs if prediction is None else prediction.indices
        lost = any(verdicts.get(int(entry), "implausible") != "implausible" for entry in outputs)
        doubted = any(kind in ("jumped", "stuck") for kind in verdicts.values())
        return step._replace(next_observation=self._held), not (lost or doubted)

    def _inputs(self, action: Array, values: Array, inside: NDArray[np.bool_]) -> dict[int, str]:
        """Return what is wrong with positions that were read."""
        bounds, found = self._bounds, {}
        for k, (entry, position) in enumerate(self._positions.items()):
            step = self._plant.actuators.steps[k] if self._plant.actuators is not None else 0.0
            largest = abs(step) * max(abs(float(bounds.action_low[k])), abs(float(bounds.action_high[k])))
            ends = float(bounds.low[entry]), float(bounds.high[entry])
            reading = float(values[entry]) if inside[entry] else None
            found[entry] = position.judge(reading, float(step * action[k]), largest, *ends)
        return {entry: kind for entry, kind in found.items() if kind != "plausible"}

    def _predicted(
        self, model: DynamicsModel, prediction: StepPrediction, values: Array, inside: NDArray[np.bool_]
    ) -> dict[int, str]:
        """Return what is wrong with outputs that were read."""
        indices, mean, low, high = prediction
        whole = np.where(inside, values, 0.0)
        whole[indices] = np.where(inside[indices], values[indices], mean)
        errors, found = model.errors(prediction, whole), {}
        deviations = (high - low) / (2 * HALF_WIDTH)
        for entry, error, deviation in zip(indices.tolist(), errors, deviations, strict=True):
            if not inside[entry]:
                continue
            value = float(values[entry])
            at_bound = not self._bounds.low[entry] < value < self._bounds.high[entry]
            found[entry] = self._outputs[entry].judge(value, float(error), float(deviation), at_bound)
        return {entry: kind for entry, kind in found.items() if kind != "plausible"}

    def _believed(self) -> dict[int, float]:
        """Return the positions to go on with."""
        found = {entry: sensor.commanded for entry, sensor in self._positions.items()}
        return {entry: value for entry, value in found.items() if value is not None}

    def _filled(
        self,
        step: Step,
        model: DynamicsModel,
        prediction: StepPrediction | None,
        values: Array,
        verdicts: dict[int, str],
    ) -> Array:
        """Return the observation to go on with."""
        filled = values.copy()
        lost = [entry for entry, kind in verdicts.items() if kind != "implausible"]
        if lost:
            filled[lost] = self._expected(step.action, model, model.memory)[lost]
        if prediction is not None:
            doubtful = np.array([verdicts.get(int(entry)) == "implausible" for entry in prediction.indices])
            nearer = np.clip(values[prediction.indices], prediction.low, prediction.high)
            filled[prediction.indices[doubtful]] = nearer[doubtful]
        for entry, value in self._believed().items():
            filled[entry] = value
        return filled

    def _tell(self, entry: int, kind: str, value: float) -> None:
        if (entry, kind) not in self._told:
            self._told.add((entry, kind))
            logger.warning(
                "%s: entry %d of the observation %s (%g); the model's expectation stands in, and this is not "
                "logged again.",
                self._owner,
                entry,
                _KINDS[kind],
                value,
            )

    # ------------------------------------------------------------------ files

    def get_state(self) -> dict[str, Any]:
        """Return the state as numbers."""
        return {
            "held": None if self._held is None else self._held.tolist(),
            **{f"{entry}": asdict(sensor) for entry, sensor in self._sensors().items()},
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go back to a state of `get_state`."""
        self._held = None if state["held"] is None else np.array(state["held"])
        for entry, sensor in self._sensors().items():
            for name, value in state[str(entry)].items():
                setattr(sensor, name, value)

    def _sensors(self) -> dict[int, OutputSensor | ActuatorSensor]:
        return {**self._outputs, **self._positions}
