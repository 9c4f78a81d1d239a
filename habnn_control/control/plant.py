"""Plant: what a controller is told about a process beyond its observation and action spaces."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from operator import index
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from habnn_control.control.limits import ChanceLimit, Limit, named_entries

__all__ = ["Actuators", "Bounds", "ChanceLimit", "Limit", "Loss", "Plant"]

Array = NDArray[np.float64]


class Bounds(NamedTuple):
    """Bounds of the spaces, each a vector of float64; infinite where an observation has none.

    Attributes
    ----------
    low, high : array, shape (n_observed,)
    action_low, action_high : array, shape (n_actions,)
    """

    low: Array
    high: Array
    action_low: Array
    action_high: Array

    @classmethod
    def of(cls, low: ArrayLike, high: ArrayLike, action_low: ArrayLike, action_high: ArrayLike) -> Self:
        """Return the bounds given as anything that NumPy reads."""
        parts = low, high, action_low, action_high
        return cls(*(np.asarray(part, dtype=np.float64) for part in parts))

    @property
    def n_observed(self) -> int:
        """Length of an observation."""
        return len(self.low)

    @property
    def n_actions(self) -> int:
        """Length of an action."""
        return len(self.action_low)


class Loss(Protocol):
    """Losses of batches of steps; lower is better."""

    def __call__(self, actions: Array, observations: Array, /) -> Array:
        """Return losses (...,) for actions (..., n_actions) and the observations (..., n_observed) after them."""


@dataclass(frozen=True)
class Actuators:
    """Observation entries that follow the actions exactly: next = clip(position + step * action, low, high).

    The range [low, high] of a position is that of its entry in the observation space.

    Attributes
    ----------
    entries : sequence of int
        The observation entry of each actuator, in the order of the actions.
    steps : sequence of float
        Change of each position per unit of its action; negative if the actuator moves against its action.
    sweep : sequence of float
        How far an excitation may move each position to either side, as a part of its range, at most a half; a quarter
        each if left out.
    """

    entries: Sequence[int]
    steps: Sequence[float]
    sweep: Sequence[float] = ()

    def __post_init__(self) -> None:
        entries, steps = _entries("actuators.entries", self.entries), tuple(float(step) for step in self.steps)
        sweep = tuple(float(part) for part in self.sweep) or (0.25,) * len(entries)
        if len(steps) != len(entries) or not all(isfinite(step) and step != 0 for step in steps):
            raise ValueError(
                f"Plant: actuators.steps must be finite, not zero and one per entry of {entries}, got {steps}; give "
                "the change of each position per unit of its action."
            )
        if len(sweep) != len(entries) or not all(0 < part <= 0.5 for part in sweep):
            raise ValueError(
                f"Plant: actuators.sweep must be in (0, 0.5] and one per entry of {entries}, got {sweep}; a quarter of "
                "the range is a good start."
            )
        for name, value in (("entries", entries), ("steps", steps), ("sweep", sweep)):
            object.__setattr__(self, name, value)

    def positions(self, start: Array, actions: Array, low: Array, high: Array) -> Array:
        """Return the positions (n, horizon, n_actuators) that action sequences of that shape lead to.

        Parameters
        ----------
        start, low, high : array, shape (n_actuators,)
            Present positions, and their range.
        actions : array, shape (n, horizon, n_actuators)
        """
        moves = np.array(self.steps) * actions
        reached, here = np.empty(moves.shape), start
        for k in range(moves.shape[1]):
            here = reached[:, k] = np.minimum(np.maximum(here + moves[:, k], low), high)
        return reached


@dataclass(frozen=True)
class Plant:
    """The description of a process that a controller works with.

    An environment offers one as its attribute `plant`; a user passes `plant=` to `agents.make`.

    Attributes
    ----------
    loss : callable
        Losses (...,) of actions (..., n_actions) and the observations (..., n_observed) after them; lower is better.
    actuators : Actuators, optional
        Observation entries whose motion is known. None: the model learns all motion.
    exogenous : sequence of int
        Entries that no action changes, such as a load: inputs of the model, held at their last value in a forecast.
    limits : sequence of Limit and ChanceLimit
        Soft bounds that plans are charged for on top of the loss, and bounds that may be passed with a stated
        probability only.
    ignored : sequence of int
        Entries that the controller leaves out, such as older frames.
    columns : mapping of str to int
        Names of the entries that results show, in that order; every entry as `entry_K` if left out.
    rest : sequence of float, optional
        Action that a plan goes on with after its last move. If left out: 0, by which known actuators stay in place; but
        the last action of the plan where actuators are not known and 0 is not inside the range of every action, as
        with a valve whose opening is the action.
    fallback : callable, optional
        A controller of the user's own, from an observation (n_observed,) to an action: it takes over in steps in which
        the model is not sound or no plan keeps the chance limits.
    """

    loss: Loss
    actuators: Actuators | None = None
    exogenous: Sequence[int] = ()
    limits: Sequence[Limit | ChanceLimit] = ()
    ignored: Sequence[int] = ()
    columns: Mapping[str, int] = field(default_factory=dict)
    rest: Sequence[float] | None = None
    fallback: Callable[[Array], ArrayLike] | None = None

    def __post_init__(self) -> None:
        if not callable(self.loss):
            raise TypeError(f"Plant: loss must be a function, got {self.loss!r}; pass loss(actions, observations).")
        if not isinstance(self.actuators, Actuators | None):
            raise TypeError(
                f"Plant: actuators must be an Actuators or None, got {self.actuators!r}; pass "
                "Actuators(entries, steps)."
            )
        kinds = (Limit, ChanceLimit)
        if isinstance(self.limits, kinds) or not all(isinstance(limit, kinds) for limit in self.limits):
            raise TypeError(
                f"Plant: limits must be a sequence of Limit, got {self.limits!r}; pass [Limit(entry, price, ...)]."
            )
        if not (self.fallback is None or callable(self.fallback)):
            raise TypeError(f"Plant: fallback must be a function, got {self.fallback!r}; pass fallback(observation).")
        for name in ("exogenous", "ignored"):
            object.__setattr__(self, name, tuple(sorted(_entries(name, getattr(self, name)))))
        object.__setattr__(self, "limits", tuple(self.limits))
        object.__setattr__(self, "columns", dict(self.columns))
        if self.rest is not None:
            object.__setattr__(self, "rest", tuple(float(part) for part in self.rest))
        _entries("columns", self.columns.values())
        roles = [*self.actuated, *self.exogenous, *self.ignored]
        if len(set(roles)) < len(roles):
            raise ValueError(
                f"Plant: actuators, exogenous and ignored must not share entries, got {self.actuated}, "
                f"{self.exogenous} and {self.ignored}; give each entry one role."
            )

    @property
    def actuated(self) -> tuple[int, ...]:
        """Entries of the known actuators, in the order of the actions."""
        return () if self.actuators is None else tuple(self.actuators.entries)

    def outputs(self, n_observed: int) -> tuple[int, ...]:
        """Return the entries that a model must predict: all without another role."""
        taken = {*self.actuated, *self.exogenous, *self.ignored}
        return tuple(entry for entry in range(n_observed) if entry not in taken)

    def cost(self, actions: Array, observations: Array) -> Array:
        """Return what a plan is charged per step: the loss, and the price of soft limits that are passed."""
        total = np.asarray(self.loss(actions, observations))
        for limit in self.limits:
            if isinstance(limit, Limit):
                total = total + limit.cost(observations)
        return total

    @property
    def chance_limits(self) -> tuple[ChanceLimit, ...]:
        """The limits with a stated probability, which need the predictive distribution of a plan."""
        return tuple(limit for limit in self.limits if isinstance(limit, ChanceLimit))

    def continued(self, sequences: Array, n_steps: int, bounds: Bounds) -> Array:
        """Return plans (n, horizon, n_actions) with the `n_steps` actions that follow their last move appended."""
        low, high = bounds.action_low, bounds.action_high
        if self.rest is not None:
            last = np.array(self.rest)
        elif self.actuators is not None or ((low < 0) & (high > 0)).all():
            last = np.clip(0.0, low, high)
        else:
            last = sequences[:, -1:]
        rest = np.broadcast_to(last, (len(sequences), n_steps, bounds.n_actions))
        return np.concatenate([sequences, rest], axis=1)

    def check(self, bounds: Bounds) -> None:
        """Raise unless the description fits the spaces."""
        n_observed, n_actions = bounds.n_observed, bounds.n_actions
        limited = named_entries(self.limits)
        named = [*self.actuated, *self.exogenous, *self.ignored, *limited, *self.columns.values()]
        if named and max(named) >= n_observed:
            raise ValueError(
                f"Plant: entries must be below {n_observed}, the length of an observation, got {max(named)}; count "
                "from 0."
            )
        if not self.outputs(n_observed):
            raise ValueError(
                "Plant: at least one entry must be left to predict, got roles for all; leave out what the model shall "
                "learn."
            )
        if self.rest is not None:
            rest = np.array(self.rest)
            if rest.shape != (n_actions,) or not ((bounds.action_low <= rest) & (rest <= bounds.action_high)).all():
                raise ValueError(
                    f"Plant: rest must be an action between {bounds.action_low} and {bounds.action_high}, got "
                    f"{self.rest}; give one number per action."
                )
        if self.actuators is None:
            return
        if len(self.actuated) != n_actions:
            raise ValueError(
                f"Plant: actuators must be one per action, {n_actions}, got {len(self.actuated)}; give all of them, or "
                "None to have their motion learned."
            )
        low, high = (bound[list(self.actuated)] for bound in (bounds.low, bounds.high))
        if not np.isfinite(high - low).all():
            raise ValueError(
                f"Plant: actuators must have finite bounds in the observation space, got {low} and {high}; positions "
                "stop at them."
            )

    def labels(self, n_observed: int) -> dict[str, int]:
        """Return names of the observation entries that results show, in order."""
        return dict(self.columns) or {f"entry_{entry}": entry for entry in range(n_observed)}


def _entries(name: str, values: Any) -> tuple[int, ...]:
    """Return observation entries as a tuple of ints, or raise."""
    try:
        entries = tuple(index(value) for value in values)
    except TypeError:
        raise TypeError(f"Plant: {name} must be whole numbers, got {values!r}; give observation entries.") from None
    if len(set(entries)) < len(entries) or any(entry < 0 for entry in entries):
        raise ValueError(f"Plant: {name} must be distinct and not negative, got {entries}; count entries from 0.")
    return entries
