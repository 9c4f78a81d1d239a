"""Probes: short waves of one actuator, chosen by what the model would learn from them for what they cost."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from habnn_control.control.exploration import Probing
from habnn_control.control.model import DynamicsModel, Forecast
from habnn_control.control.plant import Bounds, Plant
from habnn_control.control.probing import quarters, speeds, wave

Array = NDArray[np.float64]

_FIRST = 10  # planned steps before the first probe
_EVERY = 5  # planned steps between two looks for a worthwhile probe
_AFTER = 10  # steps after a wave in which its effects count
_NOTHING = 1e-100  # cost of a probe that costs nothing: gains are divided by it
_LEAST_COST = 0.02  # of a step of a probe, in parts of the level of the losses: what is free today may not be tomorrow


class Probe(NamedTuple):
    """A square wave of one actuator: its first side, the steps to that side, and the planned step it began at."""

    actuator: int
    sign: int
    quarter: int
    began: int = 0


class Probes:
    """Chooses and plays probes.

    A probe is a square wave of one actuator; the planner moves the others. Of all actuators, both first sides and the
    amplitudes of the settings, the probe with the greatest information (nats that its observations give about the
    model, beyond those of the plan) per expected loss is played, as soon as the budget allows: all probes together may
    cost `budget` times the level of the losses times the square root of the number of steps. Cheap moves of an actuator
    whose effect is unknown are thus made often, dear ones and those that teach nothing rarely.

    Parameters
    ----------
    settings : Probing
    plant : Plant
        Its actuators are known.
    bounds : Bounds
    """

    def __init__(self, settings: Probing, plant: Plant, bounds: Bounds) -> None:
        self._settings, self._plant, self._bounds = settings, plant, bounds
        self._low, self._high = bounds.action_low, bounds.action_high
        self._candidates = _candidates(settings, speeds(plant, bounds))
        self.spent = 0.0  # loss that the probes so far were expected to cost
        self.ended = 0  # planned step after the last probe
        self.probe: Probe | None = None  # under way

    def action(self, planned: Array, n_planned: int) -> Array:
        """Return the planner's action, changed by the probe that is under way."""
        probe = self.probe
        if probe is not None and n_planned - probe.began >= 4 * probe.quarter:
            self.probe, self.ended = None, n_planned
        if self.probe is None:
            return planned
        moved = np.array(planned)
        moved[self.probe.actuator] = self._wave(self.probe)[n_planned - self.probe.began]
        return moved

    def is_due(self, n_planned: int) -> bool:
        """Tell whether it is time to look for a probe."""
        return (
            self.probe is None
            and self._settings.budget > 0
            and n_planned >= _FIRST
            and (n_planned - self.ended) % _EVERY == _EVERY - 1
        )

    def choose(self, model: DynamicsModel, plan: Array, n_planned: int, level: float) -> None:
        """Begin the best probe beside a plan (horizon, n_actions), if the budget allows for it."""
        sequences = self._sequences(plan)
        forecast = model.forecast(model.memory, sequences)
        costs = self._costs(forecast, sequences) + _LEAST_COST * level * self._durations()
        gains = np.maximum(forecast.information[1:] - forecast.information[0], 0.0)
        best = int(np.argmax(gains / np.maximum(costs, _NOTHING)))
        if gains[best] > 0 and self.spent + costs[best] <= self._settings.budget * level * np.sqrt(n_planned):
            self.spent += float(costs[best])
            self.probe = self._candidates[best]._replace(began=n_planned)

    def _durations(self) -> Array:
        return np.array([4.0 * probe.quarter for probe in self._candidates])

    def _sequences(self, plan: Array) -> Array:
        """Return the plan, and the plan with each probe in place of one actuator, (n + 1, steps, n_actions)."""
        n_steps = int(self._durations().max()) + _AFTER
        whole = self._plant.continued(plan[None, :n_steps], max(n_steps - len(plan), 0), self._bounds)
        sequences = np.repeat(whole, len(self._candidates) + 1, axis=0)
        for sequence, probe in zip(sequences[1:], self._candidates, strict=True):
            sequence[: 4 * probe.quarter, probe.actuator] = self._wave(probe)
        return np.asarray(np.clip(sequences, self._low, self._high))

    def _wave(self, probe: Probe) -> Array:
        """Return the actions of a probe's actuator."""
        ahead = probe.sign * wave(np.arange(4 * probe.quarter), probe.quarter) > 0
        return np.asarray(np.where(ahead, self._high[probe.actuator], self._low[probe.actuator]))

    def _costs(self, forecast: Forecast, sequences: Array) -> Array:
        """Return what each probe is expected to cost beyond the plan."""
        losses = self._plant.cost(sequences, forecast.observations).sum(axis=1)
        return np.asarray(np.maximum(losses[1:] - losses[0], 0.0))

    def get_state(self) -> dict[str, Any]:
        """Return the state as numbers."""
        return {"spent": self.spent, "ended": self.ended, "probe": None if self.probe is None else list(self.probe)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go back to a state of `get_state`."""
        self.spent, self.ended = state["spent"], state["ended"]
        self.probe = None if state["probe"] is None else Probe(*state["probe"])


def _candidates(settings: Probing, speed: Array) -> list[Probe]:
    found = [
        Probe(actuator, sign, int(quarter))
        for amplitude in settings.amplitudes
        for actuator, quarter in enumerate(quarters(amplitude, speed))
        for sign in (-1, 1)
    ]
    return sorted(set(found))
