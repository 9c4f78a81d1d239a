"""The HABNN dynamics model: learns one-step transitions online, in closed form."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from habnn_control._network.prior import focus
from habnn_control.control.encoded_model import EncodedModel
from habnn_control.control.encoder import Encoder
from habnn_control.control.model import DenseCovariance, Forecast, Memory, Snapshot, StepPrediction, Transitions
from habnn_control.control.plant import Bounds, Plant
from habnn_control.control.rollout import MeanFunction, PointNetwork, roll_out
from habnn_control.network import HABNN, FunctionSample
from habnn_control.support.names import check_choice

Array = NDArray[np.float64]

PRIORS = ("focused", "dense")
_NETWORK = "network_"  # prefix of the network's arrays in a snapshot
_LARGEST_WEIGHT = 1e30  # inputs and targets are of order one, and so are weights
_COVERAGE, _WIDTH_RATE = 0.9, 0.05  # nominal coverage of intervals, and how fast their widths follow misses
_LARGEST_WIDTH = 100.0  # of the interval widths' correction, and the inverse of the smallest
_LOG_WORTH = 333  # steps that a log counts for at most: its steps are not independent, its hidden states not today's
_EPISODE_NOISE = 25.0  # variance that a new episode adds to each output bias, in parts of the noise variance
# Hidden weights change slowly, as a plant is learned in hundreds of samples, not thousands; units are partly linear.
_SETTINGS: dict[str, Any] = {"hidden": (320,), "scale": 0.003, "activation": "leaky_relu", "slope": 0.3}


class _OneStep(NamedTuple):
    """One step from a memory: the network's inputs, and the predictive distribution of its targets."""

    memory: Memory
    action: Array
    inputs: Array
    mean: Array
    low: Array
    high: Array


class TransitionModel(EncodedModel):
    """A `DynamicsModel` with a HABNN behind an `Encoder`.

    Parameters
    ----------
    plant : Plant
        Says which entries follow the actions, which are exogenous and which to predict.
    bounds : Bounds
        Of observations and actions.
    history : int
        See `Encoder`.
    past_outputs : int, optional
        See `Encoder`.
    target : str, optional
        "softplus" (the default), "log", "absolute" or "delta"; see `Encoder`.
    prior : {"focused", "dense"}
        What a hidden unit looks at before learning: the history of one or two signals, or all inputs. Always dense with
        fewer than two steps of history.
    offset_time : float
        Time constant, in steps, with which the bias of each output follows slow states of the plant that no input
        shows: process noise on the output bias. `inf` makes the biases constant.
    network : dict, optional
        Settings of `HABNN.control` to change.
    seed : int
        Draws the prior of the network.
    """

    def __init__(
        self,
        plant: Plant,
        bounds: Bounds,
        *,
        history: int = 16,
        past_outputs: int | None = None,
        target: str | None = None,
        prior: str = "focused",
        offset_time: float = 150.0,
        network: dict[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        check_choice("model", "prior", prior, PRIORS)
        if not offset_time >= 1:
            raise ValueError(f"model: offset_time must be at least 1, got {offset_time}; inf switches it off.")
        super().__init__(Encoder(plant, bounds, history, past_outputs, "softplus" if target is None else target))
        n_inputs, n_outputs = self.encoder.n_inputs, self.encoder.n_outputs
        self.network = HABNN.control(n_inputs, n_outputs, **{"seed": seed, **_SETTINGS, **(network or {})})
        if prior == "focused" and history > 1 and self.network.settings.hidden:
            focus(self.network, *self.encoder.histories(), self.encoder.ages, seed)
        # A random walk with this part of the noise variance per step is followed with a gain of 1 / offset_time.
        self._bias_noise = offset_time**-2.0
        self._widths = np.ones(n_outputs)  # factors on the intervals' widths that hold their coverage
        self._ahead: _OneStep | None = None  # the last prediction
        self._point: PointNetwork | None = None  # for forecasts, until the network changes
        self._marked = np.zeros(n_outputs)  # output biases of `mark`

    def begin(self, observation: ArrayLike) -> None:
        """Start an episode: the output biases become uncertain, as its hidden states are not those of the last one."""
        self.disturb()
        super().begin(observation)

    def disturb(self) -> None:
        """Make the output biases uncertain: hidden states of the plant may have changed."""
        if self._bias_noise and self.network.n_samples:
            self.network.add_bias_noise(_EPISODE_NOISE * self.network.noise_variance)
            self._ahead = self._point = None

    def mark(self) -> None:
        """Take the output biases of now as those of `predict_as_marked`."""
        self._marked = self._biases()

    def _biases(self) -> Array:
        """Return the output biases (n_outputs,) on the scale of the targets."""
        return np.array(self.network.point_weights()[-1][-1])

    # ------------------------------------------------------------------ one step

    def predict(self, action: ArrayLike) -> StepPrediction:
        """Predict the observation after `action` in the running episode, noise included.

        The widths of the intervals follow how often observations fell outside (adaptive conformal inference), so that
        they hold 90 % of the observations in the long run even where the network is too sure or not sure enough.
        """
        return self._shifted(self._one_step(action), np.zeros(self.encoder.n_outputs))

    def predict_as_marked(self, action: ArrayLike) -> StepPrediction:
        """Predict the observation after `action` with the output biases of `mark`."""
        return self._shifted(self._one_step(action), self._marked - self._biases())

    def _shifted(self, step: _OneStep, change: Array) -> StepPrediction:
        """Return the prediction of a step whose targets are changed by (n_outputs,)."""
        encoder, memory = self.encoder, self._memory
        mean = encoder.next_values(memory, step.mean + change, self.network.noise_variance)
        low, high = (encoder.next_values(memory, end + change) for end in (step.low, step.high))
        return StepPrediction(encoder.outputs, mean, low, high)

    def _one_step(self, action: ArrayLike) -> _OneStep:
        """Return the prediction for `action`; computed once, though `predict` and `observe` both ask for it."""
        action, last = np.array(action, dtype=np.float64), self._ahead
        if last is None or last.memory is not self._memory or not np.array_equal(last.action, action):
            inputs = self.encoder.next_inputs(self._memory, action)
            distribution = self.network.predict(inputs)
            centre = distribution.loc[0]
            ends = (centre + self._widths * (end[0] - centre) for end in distribution.interval(_COVERAGE))
            last = self._ahead = _OneStep(self._memory, action, inputs[0], distribution.mean[0], *ends)
        return last

    def _learn(self, action: ArrayLike, target: Array) -> None:
        step = self._one_step(action)
        self.network.update(step.inputs, target)
        self.network.add_bias_noise(self._bias_noise * self.network.noise_variance)
        self._point = None
        missed = (target < step.low) | (target > step.high)
        widths = self._widths * np.exp(_WIDTH_RATE * (missed - (1 - _COVERAGE)))
        self._widths = np.clip(widths, 1 / _LARGEST_WIDTH, _LARGEST_WIDTH)

    def pretrain(self, transitions: Transitions) -> None:
        """Learn from logged steps in their order, as if they were happening now; all of them or none.

        A long log is discounted to a few hundred steps by covariance inflation: thousands of steps that look alike
        would leave no epistemic variance beside them.
        """
        super().pretrain(transitions)
        self.network.inflate_output_scale(max(len(np.asarray(transitions.actions)) / _LOG_WORTH, 1.0))
        self._point = None

    # ------------------------------------------------------------------ plans

    def forecast(self, memory: Memory, sequences: Array) -> Forecast:
        """Return the forecast for action sequences (n, horizon, n_actions) that start from `memory`.

        Expected values are fed back. The weights of the hidden layers count as certain, for speed: the epistemic
        covariance is that of the output layer.
        """
        if self._point is None:
            self._point = PointNetwork(self.network)
        function, actuation = MeanFunction(self._point), self.encoder.actuation(memory, sequences)
        outputs = roll_out(self.encoder, memory, actuation, function)
        values = self.encoder.values(memory, outputs, self.network.noise_variance)
        return Forecast(
            self.encoder.observations(memory, actuation, values),
            self.encoder.outputs,
            self.encoder.slopes(memory, outputs),
            self.network.noise_variance,
            function.covariance(len(sequences)),
        )

    def draw(self, rng: np.random.Generator) -> "FunctionForecaster":
        """Return a forecaster that follows one function drawn from the posterior."""
        return FunctionForecaster(self.encoder, self.network.sample_function(rng), self.network.noise_variance)

    # ------------------------------------------------------------------ state

    def is_sound(self) -> bool:
        """Tell whether everything learned is finite and of a plausible size."""
        network = self.network
        learned = (*network.weight_loc, *network.weight_scale_sq, network.noise_variance)
        return all(bool((np.abs(part) < _LARGEST_WEIGHT).all()) for part in learned)

    def _learned(self) -> dict[str, NDArray[Any]]:
        network = {f"{_NETWORK}{name}": np.array(value) for name, value in self.network.get_state().items()}
        return {**network, "widths": self._widths.copy(), "marked": self._marked.copy()}

    def _set_learned(self, snapshot: Snapshot) -> None:
        self.network.set_state({k.removeprefix(_NETWORK): v for k, v in snapshot.items() if k.startswith(_NETWORK)})
        self._widths, self._marked = np.array(snapshot["widths"]), np.array(snapshot["marked"])
        self._ahead = self._point = None


class FunctionForecaster:
    """Forecasts along one function, without epistemic covariance."""

    def __init__(self, encoder: Encoder, function: FunctionSample, noise_variance: Array) -> None:
        self._encoder, self._function, self._noise_variance = encoder, function, noise_variance

    def forecast(self, memory: Memory, sequences: Array) -> Forecast:
        """Return the forecast for action sequences (n, horizon, n_actions) that start from `memory`."""
        encoder, actuation = self._encoder, self._encoder.actuation(memory, sequences)
        outputs = roll_out(encoder, memory, actuation, self._function)
        n, horizon, n_outputs = outputs.shape
        return Forecast(
            encoder.observations(memory, actuation, encoder.values(memory, outputs, self._noise_variance)),
            encoder.outputs,
            encoder.slopes(memory, outputs),
            self._noise_variance,
            DenseCovariance(np.zeros((n, n_outputs, horizon, horizon))),
        )
