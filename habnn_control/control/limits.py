"""Limits on observations: soft ones with a price, and ones that may be passed with a stated probability only.

The probability is that of the predictive distribution, in which the uncertainty of the model and the noise of the
observations add up. With mean m and standard deviation s of the limited value, the probability of leaving [low, high]
is Phi((m - high) / s) + Phi((low - m) / s). For a function of observations, s follows from its differences over one
standard deviation of each predicted entry, which is exact for linear functions of independent Gaussian entries.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from habnn_control.control.model import Forecast, Forecaster

logger = logging.getLogger(__name__)
Array = NDArray[np.float64]
Value = Callable[[Array], Array]  # of observations (..., n_observed), of shape (...)

UNACCEPTABLE = 1e12  # cost above that of every acceptable plan
_RATE = 0.02  # of the correction of a level after each step
_LEAST_LEVEL = 0.02  # smallest corrected level, in parts of the stated one


@dataclass(frozen=True)
class Limit:
    """A soft bound on an observation entry: leaving [low, high] costs `price` per unit and step in a plan.

    Attributes
    ----------
    entry : int or callable
        An observation entry, or a function of observations (..., n_observed) that returns values (...).
    price : float
        Loss per unit beyond the bound.
    low, high : float
        The bounds; an infinite one is none.
    """

    entry: int | Value
    price: float
    low: float = -inf
    high: float = inf

    def __post_init__(self) -> None:
        _check_entry(self.entry)
        if not (0 < self.price < inf and self.low < self.high):
            raise ValueError(
                f"Plant: a limit must have a positive, finite price and low < high, got {self}; a limit without a "
                "price has no effect."
            )

    def cost(self, observations: Array) -> Array:
        """Return the costs (...,) of observations (..., n_observed)."""
        value = _value(self.entry, observations)
        return np.asarray(self.price * np.maximum(np.maximum(self.low - value, value - self.high), 0.0))


@dataclass(frozen=True)
class ChanceLimit:
    """A bound that may be passed in a part of the steps only, such as "at most 5 % of steps above 60".

    In every step of a plan the probability of leaving [low, high] must be at most `probability`.

    Attributes
    ----------
    entry : int or callable
        An observation entry, or a function of observations (..., n_observed) that returns values (...).
    probability : float
        Largest part of the steps outside, in (0, 1).
    low, high : float
        The bounds; an infinite one is none.
    """

    entry: int | Value
    probability: float
    low: float = -inf
    high: float = inf

    def __post_init__(self) -> None:
        _check_entry(self.entry)
        if not (0 < self.probability < 1 and self.low < self.high):
            raise ValueError(
                f"Plant: a chance limit must have a probability in (0, 1) and low < high, got {self}; 0.05 means at "
                "most one step in twenty."
            )

    def is_violated(self, observation: Array) -> bool:
        """Return whether an observation (n_observed,) is outside."""
        value = float(_value(self.entry, observation))
        return not self.low <= value <= self.high

    def probabilities(self, forecast: Forecast) -> Array:
        """Return the probability (n, horizon) of being outside in each step of each plan."""
        mean, deviation = _moments(self.entry, forecast)
        certain = deviation <= 0
        scale = np.where(certain, 1.0, deviation)
        outside = ndtr((mean - self.high) / scale) + ndtr((self.low - mean) / scale)
        return np.asarray(np.where(certain, (mean > self.high) | (mean < self.low), outside))


class LimitMonitor:
    """The chance limits of a plant while an agent plays: the costs of plans, and levels corrected by what happened.

    A level starts at the stated probability. Every violation lowers it and every step without one raises it again, up
    to the stated probability (adaptive conformal inference), so that the long-run rate is kept even where the model is
    too sure of itself.

    Parameters
    ----------
    owner : str
        Name of the agent, for messages.
    limits : sequence of ChanceLimit
        May be empty: then all plans are acceptable and nothing is computed.
    """

    def __init__(self, owner: str, limits: Sequence[ChanceLimit]) -> None:
        self._owner, self._limits = owner, tuple(limits)
        self._stated = np.array([limit.probability for limit in self._limits])
        self.levels = self._stated.copy()
        self._has_warned = False

    def observe(self, observation: ArrayLike) -> None:
        """Correct the levels by one step."""
        if self._limits:
            after = np.asarray(observation, dtype=np.float64)
            violated = np.array([limit.is_violated(after) for limit in self._limits])
            corrected = self.levels + _RATE * (self._stated - violated)
            self.levels = np.clip(corrected, _LEAST_LEVEL * self._stated, self._stated)

    def excess(self, forecast: Forecast) -> Array:
        """Return how far (n,) the probabilities of each plan are above the levels, summed over steps and limits."""
        total = np.zeros(len(forecast.observations))
        for limit, level in zip(self._limits, self.levels, strict=True):
            total += np.maximum(limit.probabilities(forecast) - level, 0.0).sum(axis=1)
        return total

    def charged(self, costs: Array, forecast: Forecast) -> Array:
        """Return the costs (n,) of plans; those that break a limit cost more than any other, the more they break it."""
        if not self._limits:
            return costs
        excess = self.excess(forecast)
        return np.where((excess > 0) & np.isfinite(costs), UNACCEPTABLE * (1.0 + excess), costs)

    def accepts(self, cost: float, has_fallback: bool) -> bool:
        """Return whether to follow the best plan found: always without a fallback; a broken limit is logged once."""
        if cost < UNACCEPTABLE:
            return True
        if not self._has_warned:
            instead = "the fallback takes over" if has_fallback else "the least violating plan is followed"
            logger.warning("%s: no plan keeps the limits; %s, here and in such steps to come.", self._owner, instead)
            self._has_warned = True
        return not has_fallback

    def permits(self, model: Forecaster, memory: Any, action: Array) -> bool:
        """Return whether an action that no plan contains, such as a probing move, keeps the limits in the next step."""
        return not self._limits or not self.excess(model.forecast(memory, action[None, None]))[0] > 0


def fallback_action(
    fallback: Callable[[Array], ArrayLike] | None, observation: ArrayLike, rest: Array, low: Array, high: Array
) -> Array:
    """Return the action of a user's fallback controller within [low, high]; `rest` without one.

    Raises
    ------
    ValueError
        If the action is not finite or of another shape than `rest`.
    """
    if fallback is None:
        return rest
    action = np.asarray(fallback(np.array(observation, dtype=np.float64)), dtype=np.float64)
    if action.shape != rest.shape or not np.isfinite(action).all():
        raise ValueError(
            f"Plant: fallback must return a finite action of shape {rest.shape}, got {action}; return one number per "
            "action."
        )
    return np.clip(action, low, high)


def named_entries(limits: Sequence[Limit | ChanceLimit]) -> list[int]:
    """Return the observation entries that limits name; functions name none."""
    return [index(limit.entry) for limit in limits if not callable(limit.entry)]


def _moments(entry: int | Value, forecast: Forecast) -> tuple[Array, Array]:
    """Return mean and standard deviation (n, horizon) of a limited value."""
    mean = _value(entry, forecast.observations)
    variance = np.zeros(mean.shape)
    for place, predicted in enumerate(forecast.entries):
        if callable(entry):
            moved = forecast.observations.copy()
            moved[..., predicted] += _deviation(forecast, place)
            variance += (_value(entry, moved) - mean) ** 2
        elif predicted == entry:
            variance += _deviation(forecast, place) ** 2
    return mean, np.sqrt(variance)


def _deviation(forecast: Forecast, place: int) -> Array:
    """Return the standard deviation (n, horizon) of one predicted entry, noise and uncertainty of the model together.

    For speed, the part of the model is computed in the steps 1, 2, 3, 5, 9, ... and the last one, and interpolated
    between these: it changes slowly along a plan.
    """
    n, horizon, n_outputs = forecast.slopes.shape
    steps = np.unique([0, *(2 ** np.arange(np.log2(horizon) + 1)).astype(int), horizon - 1])
    steps = steps[steps < horizon]
    epistemic = np.empty((n, len(steps)))
    for column, step in enumerate(steps):
        weights = np.zeros((n, horizon, n_outputs))
        weights[:, step, place] = forecast.slopes[:, step, place]
        epistemic[:, column] = np.sqrt(np.maximum(forecast.epistemic.of_sums(weights), 0.0))
    between = np.array([np.interp(np.arange(horizon), steps, row) for row in np.eye(len(steps))])
    return np.asarray(np.hypot(epistemic @ between, forecast.noise[..., place]))


def _value(entry: int | Value, observations: Array) -> Array:
    if not callable(entry):
        return np.asarray(observations[..., entry])
    values = np.asarray(entry(observations), dtype=np.float64)
    if values.shape != observations.shape[:-1]:
        raise ValueError(
            f"Plant: a limited function must return one value per observation, shape {observations.shape[:-1]}, got "
            f"{values.shape}; index observations as observations[..., k]."
        )
    return values


def _check_entry(entry: Any) -> None:
    if callable(entry):
        return
    try:
        place = index(entry)
    except TypeError:
        raise TypeError(
            f"Plant: limits.entry must be whole numbers, got {[entry]}; give an observation entry or a function."
        ) from None
    if place < 0:
        raise ValueError(
            f"Plant: limits.entry must be distinct and not negative, got {(entry,)}; count entries from 0."
        )
