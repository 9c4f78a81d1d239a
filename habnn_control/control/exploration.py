"""Exploration: what an agent does in order to learn, and how it weighs the uncertainty of its plans."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from math import inf, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from habnn_control.control.model import Forecast
from habnn_control.control.monitor import LossMonitor
from habnn_control.support.names import check_choice

Array = NDArray[np.float64]
Cost = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Schedule:
    """A weight that moves from `start` to `floor` with the planned steps: floor + (start - floor) * decay^step."""

    start: float = 0.0
    floor: float = 0.0
    decay: float = 1.0

    def __post_init__(self) -> None:
        if not (isfinite(self.start) and isfinite(self.floor) and 0 < self.decay <= 1):
            raise ValueError(
                f"Schedule: start and floor must be finite and decay in (0, 1], got {self}; pass a number, or (start, "
                "floor, decay)."
            )

    def value(self, step: int) -> float:
        """Return the weight at a step."""
        return self.floor + (self.start - self.floor) * self.decay**step


@dataclass(frozen=True)
class Excitation:
    """Scripted sweeps of the actuators; see `habnn_control.control.excitation.Sweeps` for the motion.

    All but `length` need actuators whose motion is known; None is the default of `Sweeps` there, and nothing elsewhere.

    Parameters
    ----------
    length : int
        Steps at the start in which all actuators sweep. 0 also switches off `dither` and `resweep`.
    dither : float, optional
        Amplitude, in parts of the full action, of a square wave added to the slowest actuator's action while exogenous
        entries move, so that the model can tell the effects of the two apart.
    resweep : float, optional
        How far the fastest actuator moves to either side in later sweeps, as a part of its range; 0 for none.
    surprise : float, optional
        Surprise of a `LossMonitor` from which the fastest actuator sweeps half of its range to either side; inf for
        never.
    """

    length: int = 32
    dither: float | None = None
    resweep: float | None = None
    surprise: float | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.length, int) and self.length >= 0):
            raise ValueError(
                f"exploration: excitation.length must be a whole number of at least 0, got {self.length!r}; 0 switches "
                "it off."
            )
        if not (0 <= (self.dither or 0) <= 1 and 0 <= (self.resweep or 0) <= 0.5):
            raise ValueError(
                f"exploration: excitation.dither must be in [0, 1] and resweep in [0, 0.5], got {self.dither} and "
                f"{self.resweep}; 0 switches them off."
            )
        if self.surprise is not None and not self.surprise > 0:
            raise ValueError(
                f"exploration: excitation.surprise must be positive, got {self.surprise}; inf switches it off."
            )

    @property
    def needs_actuators(self) -> bool:
        """Whether a motion is asked for that is possible with known actuators only."""
        return bool(self.dither or self.resweep) or self.surprise not in (None, inf)


@dataclass(frozen=True)
class Probing:
    """A burst at the start, probes that the model chooses, and recoveries; the same for all actuators.

    See `habnn_control.control.probing.Bursts` and `habnn_control.control.probes.Probes` for the motions. Amplitudes are
    parts of the range.

    Parameters
    ----------
    length : int
        Steps of the burst at the start; within 20 every actuator has been on one side and back.
    amplitude : float
        How far the actuators move to either side in the burst at the start.
    amplitudes : tuple of float
        How far one actuator may move to either side in a probe.
    budget : float
        What probes may cost in all, in parts of the level of the losses times the root of the number of steps; 0 for
        none.
    surprise : float
        Surprise of a `LossMonitor` at which hidden states are taken to have changed; inf for never.
    recovers : bool
        Whether all actuators go from end to end when the regret exceeds what that costs.
    """

    length: int = 20
    amplitude: float = 0.1
    amplitudes: tuple[float, ...] = (0.1, 0.3)
    budget: float = 1.0
    surprise: float = 4.5
    recovers: bool = True

    def __post_init__(self) -> None:
        if not (isinstance(self.length, int) and self.length >= 0):
            raise ValueError(
                f"exploration: excitation.length must be a whole number of at least 0, got {self.length!r}; 0 switches "
                "it off."
            )
        if not (self.amplitudes and all(0 < amplitude <= 0.5 for amplitude in (self.amplitude, *self.amplitudes))):
            raise ValueError(
                f"exploration: excitation.amplitude and amplitudes must be parts of the range in (0, 0.5], got "
                f"{self.amplitude} and {self.amplitudes}; half of the range is as far as the middle is from its ends."
            )
        if not (0 <= self.budget < inf and self.surprise > 0):
            raise ValueError(
                f"exploration: excitation.budget must be finite and not negative and surprise positive, got "
                f"{self.budget} and {self.surprise}; a budget of 0 or a surprise of inf switches it off."
            )


EXCITATIONS: dict[str, type[Excitation] | type[Probing]] = {"probing": Probing, "sweeps": Excitation}


@dataclass(frozen=True)
class Exploration:
    """How uncertainty enters the cost of a plan, and what is done beside the plan in order to learn.

    The cost of a plan is its expected loss, plus the risk weight times its risk, minus the information weight times the
    mutual information between the model and the plan's observations. Both look at the plan as a whole: resting at an
    unknown place repeats one risk and one observation, a varied plan spreads the risk and learns more.

    The risk is a mean of two epistemic standard deviations: that of the plan's total loss, and that of its difference
    from the total loss of resting. What is unknown of all plans alike, such as the effect of an exogenous entry that
    has never been where it is now, counts in the first one only, where it hides how little is known of the differences.

    Parameters
    ----------
    risk : Schedule
        Risk weight: positive is risk-averse, negative is optimistic.
    relative : float
        Weight in [0, 1] of the difference from resting in the risk; the rest is that of the total loss.
    information : Schedule
        Value of one nat, in parts of the level of the recent losses. Information runs out as the model learns, so its
        effect fades by itself.
    thompson : bool
        Plan on one model drawn from the posterior instead of the expected one.
    hazard : float
        Weight of the expected cost of changes for the worse, of their rate as `Hazard` has learned it; 0 for none.
    excitation : Excitation or Probing
        Moves beside the plan.
    """

    risk: Schedule = Schedule(4.0, 1.0, 0.995)
    relative: float = 0.4
    information: Schedule = Schedule()
    thompson: bool = False
    hazard: float = 1.0
    excitation: Excitation | Probing = Probing()

    def __post_init__(self) -> None:
        if not 0 <= self.hazard < inf:
            raise ValueError(
                f"exploration: hazard must be finite and not negative, got {self.hazard}; 0 switches it off."
            )
        if not 0 <= self.relative <= 1:
            raise ValueError(f"exploration: relative must be in [0, 1], got {self.relative}; 0.4 is a good start.")

    @classmethod
    def make(cls, settings: Mapping[str, Any]) -> "Exploration":
        """Return the exploration that `settings` describe.

        A schedule is a number, or (start, floor, decay); the excitation is a mapping of its "kind", "probing" (the
        default) or "sweeps", and its parameters.
        """
        _check_names("exploration", settings, cls)
        parts = dict(settings)
        for name in ("risk", "information"):
            if name in parts and not isinstance(parts[name], Schedule):
                value = parts[name]
                parts[name] = Schedule(value, value) if isinstance(value, int | float) else Schedule(*value)
        excitation = parts.get("excitation", cls.excitation)
        if isinstance(excitation, Mapping):
            parts["excitation"] = _make_excitation(excitation)
        elif not isinstance(excitation, Excitation | Probing):
            raise TypeError(
                f"exploration: excitation must be a mapping of its parameters, got {excitation!r}; pass "
                "{'length': ...}, 0 for none."
            )
        return cls(**parts)

    def exploiting(self) -> "Exploration":
        """Return the same risk aversion without anything that is done only to learn."""
        averse = self.risk.start >= 0 and self.risk.floor >= 0
        risk = self.risk if averse else Schedule()
        return Exploration(risk, self.relative, hazard=self.hazard, excitation=Excitation(0))

    def costs(
        self, forecast: Forecast, actions: Array, cost: Cost, weights: Array, step: int, monitor: LossMonitor
    ) -> Array:
        """Return the cost (n,) of each plan.

        Parameters
        ----------
        forecast : Forecast
            Of n plans over a horizon; the first one rests.
        actions : array, shape (n, horizon, n_actions)
        cost : callable
            Losses per step; see `habnn_control.control.plant.Plant.cost`.
        weights : array, shape (horizon,)
            Weight of each step.
        step : int
            Number of steps planned so far, for the schedules.
        monitor : LossMonitor
            Of the losses so far.
        """
        values = np.asarray(cost(actions, forecast.observations))
        if values.shape != actions.shape[:2]:
            raise ValueError(
                f"Plant: loss must return one value per step, shape {actions.shape[:2]}, got {values.shape}; index "
                "observations as observations[..., k]."
            )
        costs = values @ weights
        if risk := self.risk.value(step):
            costs = costs + risk * loss_risk(forecast, actions, cost, values, weights, self.relative)
        if information := self.information.value(step):
            costs = costs - information * monitor.level * forecast.information
        return np.asarray(costs)


def loss_risk(
    forecast: Forecast, actions: Array, cost: Cost, values: Array, weights: Array, relative: float = 0.0
) -> Array:
    """Return the risk (n,) of each plan: the epistemic standard deviation of its weighted total loss.

    Predicted entries are independent. The loss counts as linear, with its slope over one standard deviation of the
    observation noise.

    Parameters
    ----------
    forecast : Forecast
    actions : array, shape (n, horizon, n_actions)
    cost : callable
        Losses per step.
    values : array, shape (n, horizon)
        Losses of the forecast's expected observations.
    weights : array, shape (horizon,)
    relative : float
        Weight in [0, 1] of the deviation of the difference from the first plan in the risk, in place of the total's.
    """
    gradients = np.empty_like(forecast.slopes)
    for output, (entry, noise) in enumerate(zip(forecast.entries, np.moveaxis(forecast.noise, 2, 0), strict=True)):
        step = np.where(noise > 0, noise, 1.0)
        moved = forecast.observations.copy()
        moved[..., entry] += step
        gradients[..., output] = (cost(actions, moved) - values) / step * weights
    risk = np.zeros(len(actions))
    if relative < 1:
        risk += (1 - relative) * forecast.total_deviation(gradients)
    if relative > 0:
        risk += relative * forecast.relative_deviation(gradients)
    return risk


def _make_excitation(settings: Mapping[str, Any]) -> Excitation | Probing:
    parameters = dict(settings)
    kind = parameters.pop("kind", "probing")
    check_choice("excitation", "kind", kind, EXCITATIONS)
    _check_names("excitation", parameters, EXCITATIONS[kind])
    return EXCITATIONS[kind](**parameters)


def _check_names(owner: str, settings: Mapping[str, Any], kind: Any) -> None:
    for name in settings:
        check_choice(owner, "setting", name, [field.name for field in fields(kind)])
