"""Active sampling: how much a planner fears and seeks what its model does not know."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from habnn_control._names import nearest
from habnn_control.dynamics import Forecast

Array = NDArray[np.float64]


class Loss(Protocol):
    """What a step costs: batches of actions and of the observations they led to -> losses; lower is better."""

    def __call__(self, actions: Array, observations: Array) -> Array:
        """Return losses (...,) for actions (..., n_actions) and next observations (..., n_observed)."""


@dataclass(frozen=True)
class Schedule:
    """A weight that decays with the steps planned: start * decay^step, never nearer to zero than `floor`."""

    start: float = 0.0
    floor: float = 0.0
    decay: float = 1.0

    def __post_init__(self) -> None:
        if not (isfinite(self.start) and isfinite(self.floor) and 0 < self.decay <= 1):
            raise ValueError(f"Schedule: start and floor must be finite and decay in (0, 1], got {self}; fix it.")

    def value(self, step: int) -> float:
        """Return the weight at a step."""
        return self.floor + (self.start - self.floor) * self.decay**step


@dataclass(frozen=True)
class Strategy:
    """Turns a forecast into the costs a planner minimises.

    The cost of a step is its expected loss, plus `caution` times the loss's epistemic standard deviation, minus
    `curiosity` times the nats of information that the step would give about the model.

    Parameters
    ----------
    caution : Schedule
        Positive fears the unknown, negative seeks it (optimism).
    curiosity : Schedule
        In units of the loss, for one nat. Information runs out as the model learns, so it fades by itself.
    thompson : bool
        Plan on one draw of the model instead of its mean.
    """

    caution: Schedule = Schedule()
    curiosity: Schedule = Schedule()
    thompson: bool = False

    def without_exploration(self) -> "Strategy":
        """Return the same strategy without what it does to learn: caution stays, the rest goes."""
        careful = self.caution if self.caution.start >= 0 and self.caution.floor >= 0 else Schedule()
        return Strategy(caution=careful)

    def costs(self, forecast: Forecast, actions: Array, loss: Loss, step: int, weights: Array) -> Array:
        """Return the cost (n,) of each candidate.

        Parameters
        ----------
        forecast : Forecast
            Of n candidates over a horizon.
        actions : array, shape (n, horizon, n_actions)
        loss : callable
            See `Loss`.
        step : int
            Steps planned so far, for the schedules.
        weights : array, shape (horizon,)
            How much each step counts.
        """
        values = np.asarray(loss(actions, forecast.observations))
        if values.shape != actions.shape[:2]:
            raise ValueError(
                f"sampling: loss must return one value a step, shape {actions.shape[:2]}, got {values.shape}; "
                "index observations as observations[..., k]."
            )
        caution, curiosity = self.caution.value(step), self.curiosity.value(step)
        if caution:
            values = values + caution * loss_deviation(forecast, actions, loss, values)
        if curiosity:
            values = values - curiosity * forecast.information
        return np.asarray(values @ weights)


def loss_deviation(forecast: Forecast, actions: Array, loss: Loss, values: Array) -> Array:
    """Return the epistemic standard deviation of the loss, (n, horizon): each entry moved by its own, errors added."""
    total = np.zeros_like(values)
    for entry in np.flatnonzero(forecast.deviations.any(axis=(0, 1))):
        moved = forecast.observations.copy()
        moved[..., entry] += forecast.deviations[..., entry]
        total += (loss(actions, moved) - values) ** 2
    return np.asarray(np.sqrt(total))


STRATEGIES = {
    "default": Strategy(caution=Schedule(3.0, 1.0, 0.99), curiosity=Schedule(20.0, 20.0)),
    "greedy": Strategy(),
    "optimistic": Strategy(caution=Schedule(-1.0, -1.0)),
    "pessimistic": Strategy(caution=Schedule(3.0, 1.0, 0.99)),
    "information": Strategy(curiosity=Schedule(20.0, 20.0)),
    "thompson": Strategy(thompson=True),
}


def strategy(choice: str | Mapping[str, Any]) -> Strategy:
    """Return the strategy of that name, or the one described by parameters of `Strategy`.

    A schedule is described by its numbers: {"caution": (3.0, 1.0, 0.99)}.
    """
    if isinstance(choice, str):
        if choice not in STRATEGIES:
            valid = ", ".join(STRATEGIES)
            raise ValueError(
                f"sampling: strategy must be one of {valid}, got {choice!r}; {nearest(choice, STRATEGIES)}"
            )
        return STRATEGIES[choice]
    names = [field.name for field in fields(Strategy)]
    for name in choice:
        if name not in names:
            raise ValueError(
                f"sampling: a strategy must be described by {', '.join(names)}, got {name!r}; {nearest(name, names)}"
            )
    parts: dict[str, Any] = {n: value if n == "thompson" else Schedule(*value) for n, value in choice.items()}
    return Strategy(**parts)
