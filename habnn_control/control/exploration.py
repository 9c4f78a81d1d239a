"""Active sampling: how much a planner fears and seeks what its model does not know."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import inf, isfinite
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from habnn_control.control.transition_model import Forecast
from habnn_control.support.names import nearest

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


class Record:
    """How things went lately: the level of the losses, and how far they are from the best they have been.

    The first `SETTLING` losses set no record: what the plant does before it answers to a new controller is not what
    that controller can reach.

    Parameters
    ----------
    losses : array_like
        Of the last steps, newest last; at most WINDOW + SETTLING are kept.
    best : float
        Lowest mean over `WINDOW` steps so far, but for what has been conceded since.
    """

    WINDOW = 50
    SETTLING = 25
    _KEPT = WINDOW + SETTLING

    def __init__(self, losses: ArrayLike = (), best: float = inf) -> None:
        self.losses = np.array(losses, dtype=np.float64)
        self.best = best

    def append(self, loss: float) -> None:
        """Take one more loss; one that is not finite is left out."""
        if isfinite(loss):
            self.losses = np.append(self.losses, loss)[-self._KEPT :]
            if self._has_settled:
                self.best = min(self.best, float(self._recent.mean()))

    @property
    def _has_settled(self) -> bool:
        return len(self.losses) == self._KEPT

    @property
    def _recent(self) -> Array:
        return self.losses[-self.WINDOW :]

    @property
    def level(self) -> float:
        """Mean size of the last losses: the unit of curiosity; 1 before the first."""
        return float(np.abs(self._recent).mean()) if len(self.losses) else 1.0

    @property
    def regret(self) -> float:
        """How much higher the last losses are than the best they have been, in parts of their level."""
        if not self._has_settled or self.level == 0:
            return 0.0
        return (float(self._recent.mean()) - self.best) / self.level

    def concede(self) -> None:
        """Give up half of the regret: the best was luck, perhaps, or belongs to a state that does not come back."""
        self.best += 0.5 * self.regret * self.level


@dataclass(frozen=True)
class Strategy:
    """Turns a forecast into the costs a planner minimises.

    The cost of a plan is its expected loss, plus `caution` times the standard deviation of its total loss that comes
    from not knowing the model, minus `curiosity` times the nats of information that playing it would give. Both look
    at the plan as a whole: staying at an unknown place repeats one risk and one lesson, a varied plan spreads the risk
    and learns more.

    Parameters
    ----------
    caution : Schedule
        Positive fears the unknown, negative seeks it (optimism).
    curiosity : Schedule
        Worth of a nat, in parts of the level of the last losses. Information runs out as the model learns, so it fades
        by itself.
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

    def costs(self, forecast: Forecast, actions: Array, loss: Loss, weights: Array, step: int, record: Record) -> Array:
        """Return the cost (n,) of each candidate.

        Parameters
        ----------
        forecast : Forecast
            Of n candidates over a horizon.
        actions : array, shape (n, horizon, n_actions)
        loss : callable
            See `Loss`.
        weights : array, shape (horizon,)
            How much each step counts.
        step : int
            Steps planned so far, for the schedules.
        record : Record
            How things went so far.
        """
        values = np.asarray(loss(actions, forecast.observations))
        if values.shape != actions.shape[:2]:
            raise ValueError(
                f"sampling: loss must return one value a step, shape {actions.shape[:2]}, got {values.shape}; "
                "index observations as observations[..., k]."
            )
        costs = values @ weights
        if caution := self.caution.value(step):
            costs = costs + caution * loss_deviation(forecast, actions, loss, values, weights)
        if curiosity := self.curiosity.value(step):
            costs = costs - curiosity * record.level * forecast.information
        return np.asarray(costs)


def loss_deviation(forecast: Forecast, actions: Array, loss: Loss, values: Array, weights: Array) -> Array:
    """Return the standard deviation (n,) of each candidate's weighted total loss; the entries are independent.

    The loss counts as linear, with its slope over one standard deviation of the observation noise.

    Parameters
    ----------
    values : array, shape (n, horizon)
        The losses of the forecast itself.
    """
    gradients = np.empty_like(forecast.slopes)
    for output, (entry, noise) in enumerate(zip(forecast.entries, np.moveaxis(forecast.noise, 2, 0), strict=True)):
        step = np.where(noise > 0, noise, 1.0)
        moved = forecast.observations.copy()
        moved[..., entry] += step
        gradients[..., output] = (loss(actions, moved) - values) / step * weights
    return forecast.total_deviation(gradients)


STRATEGIES = {
    "default": Strategy(caution=Schedule(3.0, 1.0, 0.99)),
    "greedy": Strategy(),
    "optimistic": Strategy(caution=Schedule(-1.0, -1.0)),
    "pessimistic": Strategy(caution=Schedule(3.0, 3.0)),
    "curious": Strategy(caution=Schedule(3.0, 1.0, 0.99), curiosity=Schedule(0.067, 0.067)),
    "information": Strategy(curiosity=Schedule(0.067, 0.067)),
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
    parts: dict[str, Any] = {
        name: Schedule(*value) if name in ("caution", "curiosity") else value for name, value in choice.items()
    }
    return Strategy(**parts)
