"""Planners: search the sequence of actions that minimises an objective.

An objective takes candidate sequences (n, horizon, n_actions) and returns their costs (n,). A cost that is not finite
counts as infinite: such a candidate never wins, and the plan says how many such candidates there were.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from math import inf
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from habnn_control.support.names import check_choice

Array = NDArray[np.float64]
Objective = Callable[[Array], Array]


class Plan(NamedTuple):
    """The best sequence found.

    Attributes
    ----------
    actions : array, shape (horizon, n_actions)
        The best sequence of all candidates.
    cost : float
        Cost of `actions`; infinite if no candidate had a finite cost.
    mean : array, shape (horizon, n_actions)
        Centre of the search when it ended; the next plan starts from it, shifted by one step.
    elites : array, shape (k, horizon, n_actions)
        The next best sequences, best first, that the next plan tries again, shifted by one step.
    rejected : int
        Number of candidates whose cost was not finite.
    """

    actions: Array
    cost: float
    mean: Array
    elites: Array
    rejected: int


def coloured_noise(rng: np.random.Generator, n: int, horizon: int, n_actions: int, exponent: float) -> Array:
    """Draw noise of unit variance whose power falls with frequency^-exponent, shape (n, horizon, n_actions).

    0 is white; 2 and more move slowly, as actuators do, and get farther from the start than white noise.
    """
    white = rng.standard_normal((n, n_actions, horizon))
    waves = np.maximum(np.abs(np.fft.fftfreq(horizon, 1 / horizon)), 1)  # the constant part counts as the slowest wave
    amplitude = waves ** (-exponent / 2)
    amplitude /= np.sqrt(np.mean(amplitude**2))
    spectrum = np.fft.rfft(white, axis=-1) * amplitude[: horizon // 2 + 1]
    return np.ascontiguousarray(np.moveaxis(np.fft.irfft(spectrum, n=horizon, axis=-1), -1, 1))


class Planner(Protocol):
    """Anything that searches a plan."""

    def plan(
        self,
        objective: Objective,
        low: ArrayLike,
        high: ArrayLike,
        horizon: int,
        rng: np.random.Generator,
        previous: Plan | None = None,
    ) -> Plan:
        """Search a sequence of `horizon` actions within [low, high]; see `SamplingPlanner.plan`."""


@dataclass(frozen=True)
class SamplingPlanner(ABC):
    """Base of the planners that evaluate random candidates.

    Parameters
    ----------
    n_candidates : int
        Number of sequences evaluated per iteration.
    n_iterations : int
        Number of iterations.
    colour : float
        Exponent of the noise that makes candidates; see `coloured_noise`.
    spread : float
        Standard deviation of the first candidates, in half ranges of the actions.
    """

    n_candidates: int = 100
    n_iterations: int = 3
    colour: float = 2.0
    spread: float = 0.6

    def __post_init__(self) -> None:
        self._check_whole("n_candidates", 2)
        self._check_whole("n_iterations", 1)
        if not (0 <= self.colour < inf and 0 < self.spread < inf):
            raise ValueError(
                f"{type(self).__name__}: colour must be at least 0 and spread positive, both finite, got {self.colour} "
                f"and {self.spread}; 2 and 0.6 are good starts."
            )

    def _check_whole(self, field: str, least: int) -> None:
        value = getattr(self, field)
        if not (isinstance(value, int) and value >= least):
            raise ValueError(
                f"{type(self).__name__}: {field} must be a whole number of at least {least}, got {value!r}; raise it."
            )

    def plan(
        self,
        objective: Objective,
        low: ArrayLike,
        high: ArrayLike,
        horizon: int,
        rng: np.random.Generator,
        previous: Plan | None = None,
    ) -> Plan:
        """Search a sequence of `horizon` actions within [low, high].

        Parameters
        ----------
        objective : callable
            Costs (n,) of candidates (n, horizon, n_actions).
        low, high : array_like, shape (n_actions,)
            Bounds of the actions; no candidate leaves them.
        horizon : int
            Length of the sequence.
        rng : Generator
            The only source of chance.
        previous : Plan, optional
            The plan of the previous step, of the same horizon: the search starts from it, shifted by one step.
        """
        search = _Search(objective, np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64))
        self._check(search, horizon, previous)
        centre = np.broadcast_to((search.low + search.high) / 2, (horizon, len(search.low)))
        if previous is None:
            return self._search(search, centre, np.empty((0, *centre.shape)), rng)
        warm = [_shifted(actions, centre[0]) for actions in (previous.mean, previous.actions, *previous.elites)]
        return self._search(search, warm[0], np.stack([centre, *warm[1:]]), rng)

    def _check(self, search: "_Search", horizon: int, previous: Plan | None) -> None:
        name, low, high = type(self).__name__, search.low, search.high
        if not (isinstance(horizon, int) and horizon >= 1):
            raise ValueError(f"{name}: horizon must be a whole number of at least 1, got {horizon!r}; raise it.")
        if not (low.ndim == 1 and low.shape == high.shape and (low < high).all() and np.isfinite(high - low).all()):
            raise ValueError(
                f"{name}: low and high must be finite vectors with low < high, got {low} and {high}; "
                "pass the bounds of the action space."
            )
        if previous is not None and previous.actions.shape != (horizon, len(low)):
            raise ValueError(
                f"{name}: previous must be a plan of shape {(horizon, len(low))}, got {previous.actions.shape}; "
                "start without one."
            )

    def _candidates(self, mean: Array, std: Array, extra: Array, rng: np.random.Generator) -> Array:
        """Return noisy copies of the mean, the first ones replaced by the mean itself and the extra sequences."""
        horizon, n_actions = mean.shape
        candidates = mean + std * coloured_noise(rng, self.n_candidates, horizon, n_actions, self.colour)
        given = np.concatenate([mean[None], extra])[: self.n_candidates]
        candidates[: len(given)] = given
        return candidates

    @abstractmethod
    def _search(self, search: "_Search", mean: Array, extra: Array, rng: np.random.Generator) -> Plan:
        """Minimise, starting from `mean` and trying the `extra` sequences too."""


class _Search:
    """One search: evaluates candidates within the bounds and remembers the best one."""

    def __init__(self, objective: Objective, low: Array, high: Array) -> None:
        self.objective, self.low, self.high = objective, low, high
        self.half_range = (high - low) / 2
        self.best: Array | None = None
        self.best_cost = inf
        self.rejected = 0

    def evaluate(self, candidates: Array) -> tuple[Array, Array]:
        """Clip the candidates, return them and their costs, both sorted with the best first."""
        candidates = np.clip(candidates, self.low, self.high)
        costs = np.asarray(self.objective(candidates), dtype=np.float64)
        if costs.shape != (len(candidates),):
            raise ValueError(
                f"planner: objective must return costs of shape ({len(candidates)},), got {costs.shape}; "
                "return one cost per candidate."
            )
        bad = ~np.isfinite(costs)
        self.rejected += int(bad.sum())
        costs = np.where(bad, inf, costs)
        order = np.argsort(costs, kind="stable")
        candidates, costs = candidates[order], costs[order]
        if self.best is None or costs[0] < self.best_cost:
            self.best, self.best_cost = candidates[0].copy(), float(costs[0])
        return candidates, costs

    def result(self, mean: Array, elites: Array) -> Plan:
        assert self.best is not None
        return Plan(self.best, self.best_cost, np.clip(mean, self.low, self.high), elites.copy(), self.rejected)


def _shifted(actions: Array, last: Array) -> Array:
    """Drop the first action, which has been played, and append `last`."""
    return np.concatenate([actions[1:], last[None]])


@dataclass(frozen=True)
class ICEM(SamplingPlanner):
    """Improved cross-entropy method (Pinneri et al., 2020): coloured noise, elites kept and shifted, best-seen action.

    Differs: the number of candidates does not fall with the iterations, and the last mean is evaluated too.

    Parameters
    ----------
    n_elites : int
        Number of best candidates that the next iteration's mean and spread come from.
    n_kept : int
        Number of elites evaluated again in the next iteration and, shifted, in the next plan.
    least_spread : float
        Smallest standard deviation of the candidates, in half ranges of the actions.
    momentum : float
        Share of the previous mean and spread in the new ones.
    """

    n_elites: int = 10
    n_kept: int = 3
    least_spread: float = 0.05
    momentum: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_whole("n_elites", 1)
        self._check_whole("n_kept", 1)
        if not self.n_kept <= self.n_elites <= self.n_candidates:
            raise ValueError(
                f"ICEM: n_kept <= n_elites <= n_candidates must hold, got {self.n_kept}, {self.n_elites}, "
                f"{self.n_candidates}; lower the first two or raise n_candidates."
            )
        if not (0 <= self.least_spread < inf and 0 <= self.momentum < 1):
            raise ValueError(
                f"ICEM: least_spread must be finite and at least 0, momentum in [0, 1), got {self.least_spread} and "
                f"{self.momentum}; 0.05 and 0.1 are good starts."
            )

    def _search(self, search: _Search, mean: Array, extra: Array, rng: np.random.Generator) -> Plan:
        std = np.broadcast_to(self.spread * search.half_range, mean.shape)
        for _ in range(self.n_iterations):
            candidates, costs = search.evaluate(self._candidates(mean, std, extra, rng))
            elites = candidates[: self.n_elites][np.isfinite(costs[: self.n_elites])]
            if len(elites):
                keep = self.momentum
                mean = keep * mean + (1 - keep) * elites.mean(axis=0)
                std = np.maximum(keep * std + (1 - keep) * elites.std(axis=0), self.least_spread * search.half_range)
            extra = elites[: self.n_kept]
        search.evaluate(mean[None])  # often better than any candidate
        return search.result(mean, extra)


@dataclass(frozen=True)
class MPPI(SamplingPlanner):
    """Model predictive path integral control: the mean of all candidates, weighted by exp(-cost / temperature).

    Parameters
    ----------
    temperature : float
        In units of the difference between the median and the lowest cost.
    """

    temperature: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.temperature < inf:
            raise ValueError(f"MPPI: temperature must be positive, got {self.temperature}; 0.3 is a good start.")

    def _search(self, search: _Search, mean: Array, extra: Array, rng: np.random.Generator) -> Plan:
        std = np.broadcast_to(self.spread * search.half_range, mean.shape)
        for _ in range(self.n_iterations):
            candidates, costs = search.evaluate(self._candidates(mean, std, extra, rng))
            finite = np.isfinite(costs)
            if finite.any():
                excess = costs[finite] - costs[0]
                unit = float(np.median(excess)) or 1.0  # unlike a standard deviation, blind to a few huge costs
                weight = np.exp(-excess / (self.temperature * unit))
                mean = np.tensordot(weight / weight.sum(), candidates[finite], axes=1)
        search.evaluate(mean[None])
        return search.result(mean, candidates[:0])


@dataclass(frozen=True)
class RandomShooting(SamplingPlanner):
    """The best of many random sequences, drawn around the middle of the range in every iteration."""

    def _search(self, search: _Search, mean: Array, extra: Array, rng: np.random.Generator) -> Plan:
        centre = np.broadcast_to((search.low + search.high) / 2, mean.shape)
        std = np.broadcast_to(self.spread * search.half_range, mean.shape)
        for _ in range(self.n_iterations):
            search.evaluate(self._candidates(centre, std, extra, rng))
        assert search.best is not None
        return search.result(search.best, extra[:0])


PLANNERS: dict[str, type[SamplingPlanner]] = {"icem": ICEM, "mppi": MPPI, "random-shooting": RandomShooting}


def make_planner(settings: Mapping[str, Any]) -> SamplingPlanner:
    """Return the planner that `settings` describe: its name under "kind" (default "icem"), and its parameters."""
    parameters = dict(settings)
    kind = parameters.pop("kind", "icem")
    check_choice("planner", "kind", kind, PLANNERS)
    for name in parameters:
        check_choice(kind, "setting", name, [field.name for field in fields(PLANNERS[kind])])
    return PLANNERS[kind](**parameters)
