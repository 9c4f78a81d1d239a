"""Encoder: between observations and actions on one side, and a regressor's inputs and targets on the other."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from habnn_control.control.model import Memory
from habnn_control.control.plant import Bounds, Plant
from habnn_control.control.transform import Transform, scaling
from habnn_control.support.names import check_choice

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

TARGETS = ("absolute", "delta", "log", "softplus")
_INPUT_RANGE = 2.0  # scaled inputs lie in [-2, 2]


class Encoder:
    """History and scaling of a dynamics model; no part of it is learned.

    The inputs of the regressor are the averages of each signal over windows of the past, oldest first, and then the
    last `past_outputs` outputs. The signals of a step are its actuator positions (or actions, where positions are not
    known) and the exogenous entries before it. The windows lie around the ages of `window_ages`: the newest ones are
    single steps, the step to come the last of them, and older ones are wider. Scaling follows from the bounds of the
    spaces.

    Parameters
    ----------
    plant : Plant
    bounds : Bounds
        Of observations and actions; an unbounded observation entry is not scaled.
    history : int
        Number of past steps that the windows cover; 0 with `past_outputs=1` is a single frame.
    past_outputs : int, optional
        Number of past values of each output among the inputs. Default: none where the actuators are known, else 2.
    target : {"absolute", "delta", "log", "softplus"}
        What the regressor predicts of each output: its value, its change, or a function of its distance from the lower
        bound, the logarithm or the inverse of softplus; see `Transform`.
    """

    def __init__(
        self, plant: Plant, bounds: Bounds, history: int = 16, past_outputs: int | None = None, target: str = "softplus"
    ) -> None:
        check_choice("model", "target", target, TARGETS)
        known = plant.actuators is not None
        n_past = (0 if known else 2) if past_outputs is None else past_outputs
        if not (history >= 0 and n_past >= 0):
            raise ValueError(
                f"model: history and past_outputs must not be negative, got {history} and {n_past}; 16 and 2 are good "
                "starts."
            )
        plant.check(bounds)
        self.plant, self.bounds, self.history, self.past_outputs = plant, bounds, history, n_past
        self.outputs = np.array(plant.outputs(bounds.n_observed), dtype=np.int64)
        self._actuated = np.array(plant.actuated, dtype=np.int64)
        self._exogenous = np.array(plant.exogenous, dtype=np.int64)
        self._fixed = np.array([*plant.exogenous, *plant.ignored], dtype=np.int64)
        self.ages = window_ages(history)
        self._windows = windows(self.ages)
        self._delta = target == "delta"
        self._transform = Transform(target, bounds.low[self.outputs], bounds.high[self.outputs])
        self._exogenous_scaling = scaling(bounds.low[self._exogenous], bounds.high[self._exogenous])
        if known:
            self._actuation_scaling = scaling(bounds.low[self._actuated], bounds.high[self._actuated])
        else:
            self._actuation_scaling = scaling(bounds.action_low, bounds.action_high)

    @property
    def n_outputs(self) -> int:
        """Number of predicted entries."""
        return len(self.outputs)

    @property
    def n_inputs(self) -> int:
        """Number of inputs of the regressor."""
        return self.n_signals * len(self.ages) + self.n_outputs * self.past_outputs

    @property
    def n_signals(self) -> int:
        """Number of signals: actuators, then exogenous entries."""
        return self.bounds.n_actions + len(self._exogenous)

    @property
    def feeds_back(self) -> bool:
        """Whether a prediction is an input of the next one."""
        return bool(self.past_outputs) or self._delta

    def histories(self) -> tuple[list[Indices], list[Indices]]:
        """Return the inputs that hold the values of one signal or output over time, oldest first.

        The first list has one array per actuator and per output, the second one per exogenous entry.
        """
        n_actions, n_windows = self.bounds.n_actions, self.n_signals * len(self.ages)
        signals = np.arange(n_windows).reshape(self.n_signals, -1)
        past = np.arange(n_windows, self.n_inputs).reshape(-1, self.n_outputs).T if self.past_outputs else ()
        return [*signals[:n_actions], *past], list(signals[n_actions:])

    # ------------------------------------------------------------------ memory

    def empty_memory(self) -> Memory:
        """Return the memory of a model that has not seen any observation."""
        return Memory(
            observation=np.full(self.bounds.n_observed, np.nan),
            signals=np.zeros((self.history + 1, self.n_signals)),
            past=np.zeros((max(self.past_outputs, 1), self.n_outputs)),
            origin=np.full(self.n_outputs, np.nan),
        )

    def first_memory(self, observation: ArrayLike, before: Memory) -> Memory:
        """Return the memory at the start of an episode, whose past is taken to have been as its first observation."""
        first = np.array(observation, dtype=np.float64)
        outputs = first[self.outputs]
        origin = outputs if np.isnan(before.origin).any() else before.origin
        here = self.scaled(first[self._actuated]) if len(self._actuated) else np.zeros(self.bounds.n_actions)
        return Memory(
            observation=first,
            signals=np.broadcast_to(np.append(here, self._exogenous_signals(first)), before.signals.shape),
            past=np.broadcast_to(self._transform.forward(outputs, origin), before.past.shape),
            origin=origin,
        )

    def next_memory(self, memory: Memory, action: ArrayLike, observation: ArrayLike) -> Memory:
        """Return the memory after `action` led to `observation`."""
        after = np.array(observation, dtype=np.float64)
        reached = after[self._actuated] if len(self._actuated) else np.asarray(action, dtype=np.float64)
        return Memory(
            observation=after,
            signals=np.concatenate([memory.signals[1:], self.signals(memory, reached[None, None])[0]]),
            past=np.concatenate([memory.past[1:], self._relative(memory, after)[None]]),
            origin=memory.origin,
        )

    # ------------------------------------------------------------------ inputs

    def scaled(self, actuation: Array) -> Array:
        """Return actuator positions, or actions, scaled to [-2, 2]."""
        centre, half_range = self._actuation_scaling
        return np.asarray(_INPUT_RANGE * (actuation - centre) / half_range)

    def actuation(self, memory: Memory, sequences: Array) -> Array:
        """Return the positions (n, horizon, n_actions) that action sequences lead to, or the actions themselves."""
        if self.plant.actuators is None:
            return sequences
        here, low, high = (part[self._actuated] for part in (memory.observation, self.bounds.low, self.bounds.high))
        return self.plant.actuators.positions(here, sequences, low, high)

    def _exogenous_signals(self, observation: Array) -> Array:
        centre, half_range = self._exogenous_scaling
        return np.asarray(_INPUT_RANGE * (observation[self._exogenous] - centre) / half_range)

    def signals(self, memory: Memory, actuation: Array) -> Array:
        """Return signals (n, horizon, n_signals) along the actuation of n plans; exogenous entries stay as they are."""
        held = self._exogenous_signals(memory.observation)
        held = np.broadcast_to(held, (*actuation.shape[:2], len(held)))
        return np.concatenate([self.scaled(actuation), held], axis=2)

    def averages(self, memory: Memory, actuation: Array) -> Array:
        """Return the averages over windows (n, horizon, n_signals * n_windows) along the actuation of n plans."""
        n, horizon, _ = actuation.shape
        known = np.broadcast_to(memory.signals[1:], (n, self.history, self.n_signals))
        whole = np.concatenate([known, self.signals(memory, actuation)], axis=1)
        bands = np.zeros((self.history + horizon, horizon, len(self.ages)))
        for k in range(horizon):
            bands[k : k + self.history + 1, k] = self._windows
        found = whole.transpose(0, 2, 1) @ bands.reshape(len(bands), -1)  # (n, n_signals, horizon * n_windows)
        return found.reshape(n, self.n_signals, horizon, -1).transpose(0, 2, 1, 3).reshape(n, horizon, -1)

    def inputs(self, averages: Array, past: Array) -> Array:
        """Return inputs (n, n_inputs) for averages (n, n_signals * n_windows) and past outputs.

        Parameters
        ----------
        averages : array, shape (n, n_signals * n_windows)
        past : array, shape (n, at least past_outputs, n_outputs)
        """
        recent = past[:, past.shape[1] - self.past_outputs :]
        return np.concatenate([averages, recent.reshape(len(averages), -1)], axis=1)

    def next_inputs(self, memory: Memory, action: ArrayLike) -> Array:
        """Return the inputs (1, n_inputs) for the step that follows `action`."""
        reached = self.actuation(memory, np.asarray(action, dtype=np.float64)[None, None])
        return self.inputs(self.averages(memory, reached)[0], memory.past[None])

    # ------------------------------------------------------------------ targets

    def _relative(self, memory: Memory, observation: Array) -> Array:
        """Return the scaled outputs of an observation relative to the origin."""
        return self._transform.forward(observation[self.outputs], memory.origin)

    def target(self, memory: Memory, observation: ArrayLike) -> Array:
        """Return what the regressor learns from the observation of the next step, (n_outputs,)."""
        relative = self._relative(memory, np.asarray(observation, dtype=np.float64))
        return relative - memory.past[-1] if self._delta else relative

    def target_bounds(self, memory: Memory) -> tuple[Array, Array]:
        """Return the scaled outputs, relative to the origin, at the bounds of the observation space."""
        return self._relative(memory, self.bounds.low), self._relative(memory, self.bounds.high)

    def accumulated(self, target: Array, past: Array) -> Array:
        """Return the scaled outputs of predicted targets (n, n_outputs) after past outputs (n, depth, n_outputs)."""
        return target + past[:, -1] if self._delta else target

    def values(self, memory: Memory, outputs: Array, noise_variance: Array | float = 0.0) -> Array:
        """Return the expected values for scaled outputs with Gaussian noise of this variance around them."""
        return self._transform.inverse(outputs, memory.origin, noise_variance)

    def slopes(self, memory: Memory, outputs: Array) -> Array:
        """Return the derivative of `values` with respect to the scaled outputs."""
        return self._transform.slope(outputs, memory.origin)

    def next_values(self, memory: Memory, target: Array, noise_variance: Array | float = 0.0) -> Array:
        """Return the values that a predicted target (n_outputs,) of the next step stands for."""
        outputs = self.accumulated(target, memory.past[None])[0] if self._delta else target
        return self._transform.inverse(outputs, memory.origin, noise_variance)

    def observations(self, memory: Memory, actuation: Array, values: Array) -> Array:
        """Return whole observations (n, horizon, n_observed) for actuation and predicted values along n plans."""
        whole = np.empty((*values.shape[:2], self.bounds.n_observed))
        whole[..., self._fixed] = memory.observation[self._fixed]
        if len(self._actuated):
            whole[..., self._actuated] = actuation
        whole[..., self.outputs] = values
        return whole


def window_ages(history: int) -> Indices:
    """Return the ages, in steps and oldest first, of the windows that cover `history` steps of the past.

    The gaps grow with the age: what happened long ago need not be known to the step.
    """
    ages = [0]
    while ages[-1] < history:
        ages.append(min(ages[-1] + max(1, ages[-1] // 2), history))
    return np.array(ages[::-1], dtype=np.int64)


def windows(ages: Indices) -> Array:
    """Return weights (history + 1, n_windows) of averages around these ages: tents that reach to the next ages."""
    steps = np.arange(ages[0] + 1)[::-1]  # age of each row, oldest first
    tents = np.stack([np.interp(steps, ages[::-1], row[::-1]) for row in np.eye(len(ages))], axis=1)
    return np.asarray(tents / tents.sum(axis=0))
