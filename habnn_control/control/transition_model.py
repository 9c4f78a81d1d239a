"""One-step dynamics learned online: (recent history, action) -> distribution of the next observation."""

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from habnn_control._network import kernels
from habnn_control._network.prior import focus
from habnn_control.control.encoder import TARGETS, Transform, units
from habnn_control.control.model import Doubt, Forecast, Kinematics, Memory, Prediction, Transitions
from habnn_control.control.rollout import Certain, Moments, OutputLayerUncertainty, PathDoubt, Trail
from habnn_control.network import HABNN, FunctionSample
from habnn_control.student_t import StudentT
from habnn_control.support.names import nearest

__all__ = ["Forecast", "Kinematics", "Memory", "Prediction", "TransitionModel", "Transitions"]

Array = NDArray[np.float64]
_ABSURD = 1e30  # inputs and targets are of order one, and so are weights
_COVERAGE, _CORRECTION = 0.9, 0.05  # of intervals: which share of the values to hold, and how fast widths follow misses
_LARGEST_WIDTH = 100.0  # and the inverse of the smallest: from there is a way back
_LOG_WORTH = 333  # steps that a log counts for at most: its steps are not independent, its hidden states not today's
_ANEW = 25.0  # what another episode adds to the offsets' variance, in parts of the noise's
PROPAGATIONS = ("mean", "moments", "samples")
PRIORS = ("focused", "dense")
# Hidden units change slowly, as a plant is learned in hundreds of samples, not thousands, and are partly linear.
NETWORK: dict[str, Any] = {"hidden": (320,), "scale": 0.003, "activation": "leaky_relu", "slope": 0.3}


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
    offset_time : float
        Steps over which the offset of each output is forgotten: a plant has slow states that no input shows, and what
        they do to the outputs is followed as a random walk of the network's biases. `inf` makes them constants.
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
    prior : {"focused", "dense"}
        What a hidden unit looks at before learning: the history of one or two signals, or everything. Without at least
        two steps of history it is always dense.
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
        offset_time: float = 150.0,
        history: int = 10,
        memory: int = 2,
        averages: Sequence[float] = (),
        target: str = "log",
        kinematics: Kinematics | None = None,
        exogenous: Sequence[int] = (),
        input_gain: float = 2.0,
        target_gain: float = 1.0,
        prior: str = "focused",
        network: dict[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        if target not in TARGETS:
            valid = ", ".join(TARGETS)
            raise ValueError(
                f"TransitionModel: target must be one of {valid}, got {target!r}; {nearest(target, TARGETS)}"
            )
        if prior not in PRIORS:
            raise ValueError(
                f"TransitionModel: prior must be one of {', '.join(PRIORS)}, got {prior!r}; {nearest(prior, PRIORS)}"
            )
        if history < 0 or memory < 0 or not all(1 <= constant < inf for constant in averages):
            raise ValueError(
                "TransitionModel: history and memory must not be negative and averages at least 1, "
                f"got {history}, {memory}, {averages}; 10, 2 and () are good starts."
            )
        if not offset_time >= 1:
            raise ValueError(
                f"TransitionModel: offset_time must be at least 1, got {offset_time}; inf switches it off."
            )
        self.low, self.high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
        self._action_units = units(np.asarray(action_low, dtype=np.float64), np.asarray(action_high, dtype=np.float64))
        self._actuated = np.array(() if kinematics is None else kinematics.indices, dtype=np.int64)
        self._steps = np.array(() if kinematics is None else kinematics.steps)
        self.exogenous = np.array(sorted(exogenous), dtype=np.int64)
        taken = {*self._actuated.tolist(), *self.exogenous.tolist()}
        self.outputs = np.array([i for i in range(len(self.low)) if i not in taken], dtype=np.int64)
        self._transform = Transform(target, self.low[self.outputs], self.high[self.outputs], target_gain)
        self._delta = target == "delta"
        self._n_past, self._rates, self._gain = memory, 1 / np.array(averages, dtype=np.float64), input_gain
        self._forgetting = offset_time**-2.0  # a random walk of this part of the noise is followed with gain 1 / time
        n_set = len(self._actuated) or len(self._action_units[0])
        n_outputs = len(self.outputs)
        n_inputs = n_set * (history + 1) + n_outputs * (memory + len(self._rates)) + len(self.exogenous)
        self.network = HABNN.control(n_inputs, n_outputs, **{"seed": seed, **NETWORK, **(network or {})})
        if prior == "focused" and history > 1 and self.network.settings.hidden:
            focus(self.network, *self._layout(n_set, history + 1, n_inputs), seed)
        self.memory = Memory(
            observation=np.full(len(self.low), np.nan),
            settings=np.zeros((history + 1, n_set)),
            past=np.zeros((max(memory, 1), n_outputs)),
            slow=np.zeros((len(self._rates), n_outputs)),
            origin=np.full(n_outputs, np.nan),
            widths=np.ones(n_outputs),
        )

    def _layout(self, n_set: int, length: int, n_inputs: int) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
        """Return which inputs belong to the same signal, and which are exogenous, as `_inputs` lines them up."""
        settings = np.arange(length * n_set).reshape(length, n_set)
        end = n_inputs - len(self.exogenous)
        fed_back = np.arange(settings.size, end).reshape(-1, len(self.outputs))
        return [*settings.T, *(fed_back.T if fed_back.size else ())], np.arange(end, n_inputs)

    # ------------------------------------------------------------------ history

    def begin(self, observation: ArrayLike) -> None:
        """Start an episode: the past is taken to have been as the first observation is."""
        first, old = np.array(observation, dtype=np.float64), self.memory
        targets = self._transform.forward(first[self.outputs])
        origin = targets if np.isnan(old.origin).any() else old.origin
        setting = self._scaled_setting(first[self._actuated]) if len(self._actuated) else np.zeros(1)
        self.memory = Memory(
            observation=first,
            settings=np.broadcast_to(setting, old.settings.shape),
            past=np.broadcast_to(targets - origin, old.past.shape),
            slow=np.broadcast_to(targets - origin, old.slow.shape),
            origin=origin,
            widths=old.widths,
        )

    def renew_offsets(self) -> None:
        """Make the offsets uncertain again: the hidden states of another episode are not those of the last one."""
        if self._forgetting and self.network.n_samples:
            self.network.add_bias_noise(_ANEW * self.network.noise_variance)

    def follow(self, action: ArrayLike, observation: ArrayLike) -> None:
        """Move on to the observation that followed `action` without learning from it."""
        after, old = np.array(observation, dtype=np.float64), self.memory
        targets = self._targets(after)
        reached = after[self._actuated] if len(self._actuated) else np.asarray(action, dtype=np.float64)
        self.memory = Memory(
            observation=after,
            settings=np.concatenate([old.settings[1:], self._scaled_setting(reached)[None]]),
            past=np.concatenate([old.past[1:], targets[None]]),
            slow=old.slow + self._rates[:, None] * (targets - old.slow),
            origin=old.origin,
            widths=old.widths,
        )

    def _targets(self, observation: Array) -> Array:
        return self._transform.forward(observation[self.outputs]) - self.memory.origin

    def _scaled_setting(self, values: Array) -> Array:
        """Bring actuator positions, or actions, to [-gain, gain]."""
        if len(self._actuated):
            centre, unit = units(self.low[self._actuated], self.high[self._actuated])
        else:
            centre, unit = self._action_units
        return np.asarray(self._gain * (values - centre) / unit)

    def _held(self) -> Array:
        """Return the exogenous entries, scaled."""
        centre, unit = units(self.low[self.exogenous], self.high[self.exogenous])
        return np.asarray(self._gain * (self.memory.observation[self.exogenous] - centre) / unit)

    def _inputs(self, settings: Array, past: Array, slow: Array, held: Array) -> Array:
        """Return network inputs (n, n_inputs) for n windows of settings, past targets and their slow averages."""
        n = len(settings)
        recent = past[:, past.shape[1] - self._n_past :]
        windows = [part.reshape(n, -1) for part in (settings, recent, slow)]
        return np.concatenate([*windows, np.broadcast_to(held, (n, len(held)))], axis=1)

    def _next_inputs(self, action: ArrayLike) -> Array:
        setting = self._settings_ahead(np.asarray(action, dtype=np.float64)[None, None])[0]
        settings = np.concatenate([self.memory.settings[1:], self._scaled_setting(setting)])
        return self._inputs(settings[None], self.memory.past[None], self.memory.slow[None], self._held())

    # ------------------------------------------------------------------ one step

    def predict(self, action: ArrayLike, coverage: float = _COVERAGE) -> Prediction:
        """Predict the observation after `action`, noise included.

        The interval's width follows how often values have fallen outside (adaptive conformal inference): it holds its
        share of them in the long run even where the network is too sure, or not sure enough.
        """
        distribution = self.network.predict(self._next_inputs(action))
        origin = self.memory.origin + (self.memory.past[-1] if self._delta else 0.0)
        ends = [self._transform.inverse(end + origin) for end in self._interval(distribution, coverage)]
        mean = self._transform.inverse(distribution.mean[0] + origin, self.network.noise_variance)
        return Prediction(self.outputs, mean, *ends)

    def _interval(self, distribution: StudentT, coverage: float) -> tuple[Array, Array]:
        """Return the ends of the central interval of the first row, corrected."""
        centre = distribution.loc[0]
        low, high = (centre + self.memory.widths * (end[0] - centre) for end in distribution.interval(coverage))
        return low, high

    def observe(self, action: ArrayLike, observation: ArrayLike) -> None:
        """Learn from the observation that followed `action`, and move on to it."""
        targets = self._targets(np.asarray(observation, dtype=np.float64))
        inputs, learned = self._next_inputs(action), targets - self.memory.past[-1] if self._delta else targets
        low, high = self._interval(self.network.predict(inputs), _COVERAGE)
        self.network.update(inputs[0], learned)
        self.network.add_bias_noise(self._forgetting * self.network.noise_variance)
        self.follow(action, observation)
        missed = (learned < low) | (learned > high)
        widths = self.memory.widths * np.exp(_CORRECTION * (missed - (1 - _COVERAGE)))
        self.memory = self.memory._replace(widths=np.clip(widths, 1 / _LARGEST_WIDTH, _LARGEST_WIDTH))

    def pretrain(self, transitions: Transitions) -> None:
        """Learn from logged steps in their order, as if they were happening now.

        A long log leaves the network as sure as some hundred steps would: thousands that look alike would leave no
        doubt of what lies beside them either.
        """
        parts = [np.asarray(part, dtype=np.float64) for part in transitions]
        n = len(parts[0])
        n_actions = len(self._action_units[0])
        shapes = [(n, len(self.low)), (n, n_actions), (n, len(self.low)), (n,)]
        for name, part, shape in zip(Transitions._fields, parts, shapes, strict=True):
            if part.shape != shape or not np.isfinite(part).all():
                raise ValueError(
                    f"TransitionModel: transitions.{name} must be finite and of shape {shape}, got {part.shape}; "
                    "give one row a step, and leave out what was not measured."
                )
        state = self.get_state()
        try:
            for k, (before, action, after, start) in enumerate(zip(*parts, strict=True)):
                if start or k == 0:
                    self.renew_offsets()
                    self.begin(before)
                self.observe(action, after)
            self.network.inflate_output_scale(max(n / _LOG_WORTH, 1.0))
        except ValueError:
            self.set_state(state)
            raise

    def is_sound(self) -> bool:
        """Tell whether everything learned is a number, and none is absurdly large."""
        network = self.network
        learned = (*network.weight_loc, *network.weight_scale_sq, network.noise_variance)
        return all(bool((np.abs(part) < _ABSURD).all()) for part in learned)

    # ------------------------------------------------------------------ looking ahead

    def forecast(
        self, sequences: Array, propagation: str = "mean", functions: Sequence[FunctionSample] = ()
    ) -> Forecast:
        """Look ahead along candidate sequences (n, horizon, n_actions), feeding what is predicted back.

        Parameters
        ----------
        sequences : array, shape (n, horizon, n_actions)
        propagation : {"mean", "moments", "samples"}
            What is fed back: the expected values; these and their variances, noise included, all taken as independent
            (moment matching; with delta targets, the change and what it is added to as well, which makes the spread
            too wide where the plant pulls back); or each function's own values. With "mean" the hidden layers' weights
            count as certain, for speed: what is not known is that of the output layer.
        functions : sequence of callable
            Draws of `network.sample_function` to follow with "samples". The forecast has their mean and spread; one
            alone knows no uncertainty (Thompson sampling).
        """
        if propagation not in PROPAGATIONS:
            hint = nearest(propagation, PROPAGATIONS)
            raise ValueError(
                f"TransitionModel: propagation must be one of {', '.join(PROPAGATIONS)}, got {propagation!r}; {hint}"
            )
        if (propagation == "samples") != bool(functions):
            raise ValueError(
                f"TransitionModel: functions must be given with 'samples' and only then, got {len(functions)} with "
                f"{propagation!r}; draw them with network.sample_function."
            )
        ahead, noise = self._settings_ahead(sequences), self.network.noise_variance
        if propagation == "samples":
            paths = np.stack([self._roll_out(ahead, Certain(function))[0] for function in functions])
            values = self._transform.inverse(paths + self.memory.origin, noise)
            slopes = self._transform.slope(paths.mean(axis=0) + self.memory.origin)
            return self._forecast(ahead, values.mean(axis=0), slopes, PathDoubt(_spread(values / slopes)))
        if propagation == "moments":
            targets, variances = self._roll_out(ahead, Moments(self.network))
            noise = noise + variances
            deviations = np.sqrt(variances).transpose(0, 2, 1)
            # The same error in all steps: the worst case.
            doubt: Doubt = PathDoubt(deviations[..., None] * deviations[..., None, :])
        else:
            step = OutputLayerUncertainty(self.network)
            targets, _ = self._roll_out(ahead, step)
            doubt = step.doubt(len(ahead))
        targets += self.memory.origin
        return self._forecast(ahead, self._transform.inverse(targets, noise), self._transform.slope(targets), doubt)

    def _forecast(self, ahead: Array, values: Array, slopes: Array, doubt: Doubt) -> Forecast:
        """Return the forecast for expected values of the outputs, how these move with what is in doubt, and that."""
        observations = np.empty((*values.shape[:2], len(self.low)))
        observations[..., self.exogenous] = self.memory.observation[self.exogenous]
        if len(self._actuated):
            observations[..., self._actuated] = ahead
        observations[..., self.outputs] = values
        return Forecast(observations, self.outputs, slopes, self.network.noise_variance, doubt)

    def _settings_ahead(self, sequences: Array) -> Array:
        """Return what the sequences set: the actuators' positions, (n, horizon, n_actuated), or the actions."""
        if not len(self._actuated):
            return sequences
        here, low, high = (values[self._actuated] for values in (self.memory.observation, self.low, self.high))
        return np.asarray(kernels.positions(here, np.ascontiguousarray(sequences), self._steps, low, high))

    def _roll_out(self, ahead: Array, step: OutputLayerUncertainty | Moments | Certain) -> tuple[Array, Array]:
        """Return targets and their variances along what n candidates set, each (n, horizon, n_outputs)."""
        (n, horizon, _), memory, rates = ahead.shape, self.memory, self._rates
        length = len(memory.settings)
        known = np.broadcast_to(memory.settings, (n, *memory.settings.shape))
        settings, held = np.concatenate([known, self._scaled_setting(ahead)], axis=1), self._held()
        low, high = (self._targets(bound) for bound in (self.low, self.high))
        if not (self._n_past or len(rates) or self._delta):  # nothing is fed back: all steps at once
            windows = np.lib.stride_tricks.sliding_window_view(settings[:, 1:], length, axis=1)
            nothing = np.empty((n * horizon, 0))
            inputs = self._inputs(windows.swapaxes(2, 3).reshape(n * horizon, -1), nothing, nothing, held)
            target, variance = step(inputs, None)
            shape = n, horizon, len(self.outputs)
            return np.clip(target.reshape(shape), low, high), np.broadcast_to(variance, target.shape).reshape(shape)
        mean = Trail(memory.past, memory.slow, n, horizon, 1 - rates, rates)
        spread = Trail(0 * memory.past, 0 * memory.slow, n, horizon, (1 - rates) ** 2, rates**2)
        variances = np.empty((n, horizon, len(self.outputs)))
        for k in range(horizon):
            window = settings[:, k + 1 : k + 1 + length]
            inputs = self._inputs(window, mean.recent, mean.slow, held)
            doubt = self._inputs(0 * window, spread.recent, spread.slow, 0 * held) if step.feeds_variance else None
            target, variances[:, k] = step(inputs, doubt)
            if self._delta:
                target = target + mean.recent[:, -1]
                variances[:, k] += spread.recent[:, -1]
            mean.append(np.clip(target, low, high))
            spread.append(variances[:, k] + self.network.noise_variance if step.feeds_variance else 0 * target)
        return mean.appended, variances

    # ------------------------------------------------------------------ state

    def get_state(self) -> dict[str, Array]:
        """Return everything learned and remembered as arrays; `set_state` continues exactly."""
        network = {f"network_{name}": np.asarray(value) for name, value in self.network.get_state().items()}
        return network | {name: np.array(value) for name, value in self.memory._asdict().items()}

    def set_state(self, state: dict[str, Array]) -> None:
        """Take up what `get_state` of a model with the same settings returned."""
        prefix = "network_"
        self.network.set_state({k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)})
        self.memory = Memory(**{name: np.array(state[name]) for name in Memory._fields})


def _spread(paths: Array) -> Array:
    """Return the covariance (n, n_outputs, horizon, horizon) of drawn paths (n_drawn, n, horizon, n_outputs)."""
    apart = (paths - paths.mean(axis=0)) / np.sqrt(len(paths))
    return np.asarray(np.einsum("fnko,fnlo->nokl", apart, apart))
