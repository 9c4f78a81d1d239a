"""One-step dynamics learned online: (recent history, action) -> distribution of the next observation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from habnn_control._names import nearest
from habnn_control.network import HABNN

Array = NDArray[np.float64]
TARGETS = ("absolute", "delta", "log")
_LOG_OFFSET = 0.01  # of the range, added before the logarithm: noise near the lower bound must not dominate


@dataclass(frozen=True)
class Kinematics:
    """Actuators that are observed and follow the actions exactly: next = clip(value + step * action, low, high).

    Attributes
    ----------
    indices : sequence of int
        Where the actuators stand in the observation, in the order of the actions.
    steps : sequence of float
        How far an action of 1 moves each of them.
    """

    indices: tuple[int, ...]
    steps: tuple[float, ...]


class Prediction(NamedTuple):
    """The predicted entries of the next observation: which, expected value, ends of the central interval."""

    indices: NDArray[np.int64]
    mean: Array
    low: Array
    high: Array


class Forecast(NamedTuple):
    """What a model expects of n candidate sequences over a horizon.

    Attributes
    ----------
    observations : array, shape (n, horizon, n_observed)
        Expected observations.
    deviations : array, shape (n, horizon, n_observed)
        Standard deviations of what the model does not know about them; the observation noise is not in them.
    information : array, shape (n, horizon)
        Nats that observing the step would tell about the model, the entries taken as independent.
    """

    observations: Array
    deviations: Array
    information: Array


class _Transform:
    """Between observed values and the network's targets."""

    def __init__(self, kind: str, low: Array, high: Array, gain: float) -> None:
        self.log, self.gain = kind == "log", gain
        self.centre, self.unit = _units(low, high)
        self.shift = _LOG_OFFSET * 2 * self.unit - low
        if self.log and not np.isfinite(low).all():
            raise ValueError(f"TransitionModel: target 'log' must have a lower bound, got low = {low}; use 'absolute'.")

    def forward(self, values: Array) -> Array:
        if self.log:
            return np.asarray(self.gain * np.log(np.maximum(values + self.shift, 1e-3 * self.unit)))
        return np.asarray(self.gain * (values - self.centre) / self.unit)

    def inverse(self, targets: Array, noise: Array | float = 0.0) -> Array:
        """Return the expected values for targets with Gaussian noise of variance `noise` around them."""
        if self.log:
            return self._exp(targets + 0.5 * noise / self.gain) - self.shift
        return self.centre + self.unit * targets / self.gain

    def slope(self, targets: Array) -> Array:
        """Return the derivative of `inverse`."""
        return self._exp(targets) / self.gain if self.log else np.broadcast_to(self.unit / self.gain, targets.shape)

    def _exp(self, targets: Array) -> Array:
        return np.asarray(np.exp(np.minimum(targets / self.gain, 50.0)))


class TransitionModel:
    """A HABNN that learns how a plant answers to its actions, from one stream of observations.

    The network's inputs are what the agent sets (actuator positions with known kinematics, actions otherwise) now and
    in the `history` steps before, the last `memory` values of what it predicts, slow averages of these, and the
    exogenous entries. Units come from the bounds of the observation: nothing is estimated before learning starts.

    Parameters
    ----------
    low, high : array_like
        Bounds of the observations; an unbounded entry has unit 1.
    action_low, action_high : array_like
        Bounds of the actions.
    history : int
        Steps of the past that what the agent sets is remembered for; 0 with `memory=1` is the paper's single frame.
    memory : int
        Number of past values of the predicted entries among the inputs.
    averages : sequence of float
        Time constants, in steps, of running averages of the predicted entries among the inputs.
    target : {"absolute", "delta", "log"}
        What the network predicts: the value, its change, or its logarithm above the lower bound.
    kinematics : Kinematics, optional
        Actuators whose motion is known. Without, the network predicts all entries that are not exogenous.
    exogenous : sequence of int
        Entries that nothing the agent does can change: inputs, held at their last value when looking ahead.
    input_gain, target_gain : float
        Multiply inputs, which then lie in [-gain, gain], and targets.
    network : dict
        Settings of `HABNN.control` to change.
    seed : int
        Draws the prior of the network.
    """

    def __init__(
        self,
        low: ArrayLike,
        high: ArrayLike,
        action_low: ArrayLike,
        action_high: ArrayLike,
        *,
        history: int = 10,
        memory: int = 2,
        averages: Sequence[float] = (8.0,),
        target: str = "log",
        kinematics: Kinematics | None = None,
        exogenous: Sequence[int] = (),
        input_gain: float = 2.0,
        target_gain: float = 1.0,
        network: dict[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        if target not in TARGETS:
            valid = ", ".join(TARGETS)
            raise ValueError(
                f"TransitionModel: target must be one of {valid}, got {target!r}; {nearest(target, TARGETS)}"
            )
        if history < 0 or memory < 0 or not all(1 <= constant < inf for constant in averages):
            raise ValueError(
                "TransitionModel: history and memory must not be negative and averages at least 1, "
                f"got {history}, {memory}, {averages}; 10, 2 and (8,) are good starts."
            )
        self.low, self.high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
        self._action_units = _units(np.asarray(action_low, dtype=np.float64), np.asarray(action_high, dtype=np.float64))
        self._actuated = np.array(() if kinematics is None else kinematics.indices, dtype=np.int64)
        self._steps = np.array(() if kinematics is None else kinematics.steps)
        self._exogenous = np.array(sorted(exogenous), dtype=np.int64)
        taken = {*self._actuated.tolist(), *self._exogenous.tolist()}
        self.outputs = np.array([i for i in range(len(self.low)) if i not in taken], dtype=np.int64)
        self._transform = _Transform(target, self.low[self.outputs], self.high[self.outputs], target_gain)
        self._delta = target == "delta"
        self._memory, self._rates, self._gain = memory, 1 / np.array(averages, dtype=np.float64), input_gain
        n_set = len(self._actuated) or len(self._action_units[0])
        n_outputs = len(self.outputs)
        n_inputs = n_set * (history + 1) + n_outputs * (memory + len(self._rates)) + len(self._exogenous)
        self.network = HABNN.control(n_inputs, n_outputs, **{"seed": seed, **(network or {})})
        self._settings = np.zeros((history + 1, n_set))  # what the agent set, newest last
        self._past = np.zeros((max(memory, 1), n_outputs))  # targets relative to the first ones, newest last
        self._slow = np.zeros((len(self._rates), n_outputs))
        self._first = np.full(n_outputs, np.nan)  # targets of the very first observation: the origin of all others
        self._observation = np.full(len(self.low), np.nan)

    # ------------------------------------------------------------------ history

    def begin(self, observation: ArrayLike) -> None:
        """Start an episode: the past is taken to have been as the first observation is."""
        self._observation = np.array(observation, dtype=np.float64)
        targets = self._transform.forward(self._observation[self.outputs])
        if np.isnan(self._first).any():
            self._first = targets
        self._past[:] = self._slow[:] = targets - self._first
        self._settings[:] = self._scaled_setting(self._observation[self._actuated]) if len(self._actuated) else 0.0

    def _scaled_setting(self, values: Array) -> Array:
        """Bring actuator positions, or actions, to [-gain, gain]."""
        if len(self._actuated):
            centre, unit = _units(self.low[self._actuated], self.high[self._actuated])
        else:
            centre, unit = self._action_units
        return np.asarray(self._gain * (values - centre) / unit)

    def _inputs(self, settings: Array, past: Array, slow: Array) -> Array:
        """Return network inputs (n, n_inputs) for n windows of settings, past targets and their slow averages."""
        n = len(settings)
        parts = [settings.reshape(n, -1), past[:, past.shape[1] - self._memory :].reshape(n, -1), slow.reshape(n, -1)]
        if len(self._exogenous):
            centre, unit = _units(self.low[self._exogenous], self.high[self._exogenous])
            held = self._gain * (self._observation[self._exogenous] - centre) / unit
            parts.append(np.broadcast_to(held, (n, len(held))))
        return np.concatenate(parts, axis=1)

    def _next_setting(self, action: Array) -> Array:
        """Return what the action sets, scaled: the actuators' next positions, or the action itself."""
        if not len(self._actuated):
            return self._scaled_setting(action)
        position = self._observation[self._actuated] + self._steps * action
        return self._scaled_setting(np.clip(position, self.low[self._actuated], self.high[self._actuated]))

    def _next_inputs(self, action: ArrayLike) -> Array:
        setting = self._next_setting(np.asarray(action, dtype=np.float64))
        settings = np.concatenate([self._settings[1:], setting[None]])
        return self._inputs(settings[None], self._past[None], self._slow[None])

    # ------------------------------------------------------------------ one step

    def predict(self, action: ArrayLike, coverage: float = 0.9) -> Prediction:
        """Predict the observation after `action`, noise included."""
        distribution = self.network.predict(self._next_inputs(action))
        origin = self._first + (self._past[-1] if self._delta else 0.0)
        ends = [self._transform.inverse(end[0] + origin) for end in distribution.interval(coverage)]
        mean = self._transform.inverse(distribution.mean[0] + origin, self.network.noise_variance)
        return Prediction(self.outputs, mean, *ends)

    def observe(self, action: ArrayLike, observation: ArrayLike) -> None:
        """Learn from the observation that followed `action`, and move on to it."""
        targets = self._transform.forward(np.asarray(observation, dtype=np.float64)[self.outputs]) - self._first
        self.network.update(self._next_inputs(action)[0], targets - self._past[-1] if self._delta else targets)
        self.follow(action, observation)

    def follow(self, action: ArrayLike, observation: ArrayLike) -> None:
        """Move on to the observation that followed `action` without learning from it."""
        after = np.array(observation, dtype=np.float64)
        targets = self._transform.forward(after[self.outputs]) - self._first
        self._observation = after
        reached = after[self._actuated] if len(self._actuated) else np.asarray(action, dtype=np.float64)
        self._settings = np.concatenate([self._settings[1:], self._scaled_setting(reached)[None]])
        self._past = np.concatenate([self._past[1:], targets[None]])
        self._slow += self._rates[:, None] * (targets - self._slow)

    # ------------------------------------------------------------------ looking ahead

    def forecast(self, sequences: Array, function: Callable[[Array], Array] | None = None) -> Forecast:
        """Look ahead along candidate sequences (n, horizon, n_actions), feeding expected values back.

        For speed, the hidden layers' weights count as certain here: what is not known is that of the output layer.

        Parameters
        ----------
        sequences : array, shape (n, horizon, n_actions)
        function : callable, optional
            A draw of `network.sample_function` to follow instead of the mean; it knows no uncertainty.
        """
        n, horizon, _ = sequences.shape
        length, depth = len(self._settings), len(self._past)
        settings = np.empty((n, length + horizon, self._settings.shape[1]))
        settings[:, :length] = self._settings
        past = np.empty((n, depth + horizon, len(self.outputs)))
        past[:, :depth] = self._past
        slow = np.repeat(self._slow[None], n, axis=0)
        variances = np.zeros((n, horizon, len(self.outputs)))
        positions = self._positions(sequences)
        settings[:, length:] = self._scaled_setting(positions if len(self._actuated) else sequences)
        lookup = _OutputLayerUncertainty(self.network) if function is None else None
        bound_low, bound_high = (self._transform.forward(b[self.outputs]) - self._first for b in (self.low, self.high))
        for k in range(horizon):
            inputs = self._inputs(settings[:, k + 1 : k + 1 + length], past[:, k : k + depth], slow)
            if lookup is not None:
                mean, variances[:, k] = lookup(inputs)
            else:
                assert function is not None
                mean = function(inputs)
            if self._delta:
                mean = mean + past[:, k + depth - 1]
            past[:, depth + k] = np.clip(mean, bound_low, bound_high)
            slow += self._rates[:, None] * (past[:, depth + k][:, None] - slow)
        return self._in_units(past[:, depth:] + self._first, variances, positions)

    def _positions(self, sequences: Array) -> Array:
        """Return the actuators' positions along the sequences, (n, horizon, n_actuated)."""
        low, high = self.low[self._actuated], self.high[self._actuated]
        positions = np.empty((*sequences.shape[:2], len(self._actuated)))
        here = np.broadcast_to(self._observation[self._actuated], (len(sequences), len(self._actuated)))
        for k in range(positions.shape[1] if len(self._actuated) else 0):
            here = np.clip(here + self._steps * sequences[:, k], low, high)
            positions[:, k] = here
        return positions

    def _in_units(self, targets: Array, variances: Array, positions: Array) -> Forecast:
        noise = self.network.noise_variance
        shape = (*targets.shape[:2], len(self.low))
        observations, deviations = np.empty(shape), np.zeros(shape)
        observations[..., self._exogenous] = self._observation[self._exogenous]
        observations[..., self._actuated] = positions
        observations[..., self.outputs] = self._transform.inverse(targets, noise)
        deviations[..., self.outputs] = self._transform.slope(targets) * np.sqrt(variances)
        return Forecast(observations, deviations, 0.5 * np.log1p(variances / noise).sum(axis=2))

    # ------------------------------------------------------------------ state

    def get_state(self) -> dict[str, Array]:
        """Return everything learned and remembered as arrays; `set_state` continues exactly."""
        network = {f"network_{name}": np.asarray(value) for name, value in self.network.get_state().items()}
        names = ("settings", "past", "slow", "first", "observation")
        return network | {name: np.array(getattr(self, f"_{name}")) for name in names}

    def set_state(self, state: dict[str, Array]) -> None:
        """Take up what `get_state` of a model with the same settings returned."""
        prefix = "network_"
        self.network.set_state({k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)})
        for name in ("settings", "past", "slow", "first", "observation"):
            setattr(self, f"_{name}", np.array(state[name]))


class _OutputLayerUncertainty:
    """Mean and variance of a network's function with the hidden weights at their locations."""

    def __init__(self, network: HABNN) -> None:
        *self.hidden, self.output = network.point_weights()
        self.slope = network.settings.negative_slope
        self.scales = network.output_covariances()

    def __call__(self, inputs: Array) -> tuple[Array, Array]:
        z = inputs
        for weight in self.hidden:
            z = z @ weight[:-1]
            z += weight[-1]
            np.maximum(z, self.slope * z, out=z)
        z = np.column_stack([z, np.ones(len(z))])
        variance = np.stack([((z @ scale) * z).sum(axis=1) for scale in self.scales], axis=1)
        return z @ self.output, np.maximum(variance, 0.0)


def _units(low: Array, high: Array) -> tuple[Array, Array]:
    """Return centre and half range of each interval; 0 and 1 where it has no end."""
    bounded = np.isfinite(low) & np.isfinite(high)
    low, high = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)
    return (low + high) / 2, (high - low) / 2
