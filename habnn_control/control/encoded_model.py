"""Base of the dynamics models that put a regressor behind an `Encoder`: all that does not depend on the regressor."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from habnn_control.control.encoder import Encoder
from habnn_control.control.model import Forecast, Forecaster, Memory, Snapshot, StepPrediction, Transitions
from habnn_control.control.monitor import HALF_WIDTH

Array = NDArray[np.float64]
_MEMORY = "memory_"  # prefix of the memory's arrays in a snapshot


class EncodedModel(ABC):
    """A `DynamicsModel` that lacks its regressor.

    A subclass learns in `_learn`, predicts, and gives what it has learned as arrays.

    Parameters
    ----------
    encoder : Encoder
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self._memory = encoder.empty_memory()

    # ------------------------------------------------------------------ memory

    @property
    def memory(self) -> Memory:
        """Memory of the running episode."""
        return self._memory

    def first_memory(self, observation: ArrayLike) -> Memory:
        """Return the memory of an episode that starts with `observation`; the model stays as it is."""
        return self.encoder.first_memory(observation, self._memory)

    def next_memory(self, memory: Memory, action: ArrayLike, observation: ArrayLike) -> Memory:
        """Return the memory after one more step; the model stays as it is."""
        return self.encoder.next_memory(memory, action, observation)

    def begin(self, observation: ArrayLike) -> None:
        """Start an episode with its first observation."""
        self._memory = self.first_memory(observation)

    def skip(self, action: ArrayLike, observation: ArrayLike | None = None) -> None:
        """Remember a step without learning from it; without an observation, as if the last one had come again."""
        after = self._memory.observation if observation is None else observation
        self._memory = self.next_memory(self._memory, action, after)

    def disturb(self) -> None:  # noqa: B027  # a hook
        """Take note that hidden states of the plant may have changed."""

    def mark(self) -> None:  # noqa: B027  # a hook
        """Take the hidden states of now as those of `predict_as_marked`."""

    def predict_as_marked(self, action: ArrayLike) -> StepPrediction:
        """Predict the observation after `action`; the same as `predict` unless a subclass follows hidden states."""
        return self.predict(action)

    def errors(self, prediction: StepPrediction, observation: ArrayLike) -> Array:
        """Return how far the outputs of the next observation are from its prediction, in standard deviations.

        Both are compared as the model learns them, logarithms as logarithms: there the interval is symmetric.

        Parameters
        ----------
        prediction : StepPrediction
        observation : array_like, shape (n_observed,)

        Returns
        -------
        array, shape (n_outputs,)
        """
        low, high = np.array(observation, dtype=np.float64), np.array(observation, dtype=np.float64)
        low[prediction.indices], high[prediction.indices] = prediction.low, prediction.high
        ends = [self.encoder.target(self._memory, end) for end in (low, high)]
        width = np.maximum((ends[1] - ends[0]) / (2 * HALF_WIDTH), np.finfo(np.float64).tiny)
        return np.asarray((self.encoder.target(self._memory, observation) - (ends[0] + ends[1]) / 2) / width)

    # ------------------------------------------------------------------ learning

    def observe(self, action: ArrayLike, observation: ArrayLike) -> None:
        """Learn from the observation that followed `action`, and move on to it."""
        after = np.asarray(observation, dtype=np.float64)
        if not np.isfinite(after).all():
            raise ValueError(f"model: observation must be finite, got {after}; skip the step.")
        self._learn(action, self.encoder.target(self._memory, after))
        self._memory = self.next_memory(self._memory, action, after)

    def pretrain(self, transitions: Transitions) -> None:
        """Learn from logged steps in their order, as if they were happening now; all of them or none."""
        parts = self._checked(transitions)
        before = self.snapshot()
        try:
            for k, (observation, action, after, start) in enumerate(zip(*parts, strict=True)):
                if start or k == 0:
                    self.begin(observation)
                self.observe(action, after)
        except ValueError:
            self.restore(before)
            raise

    def _checked(self, transitions: Transitions) -> list[Array]:
        """Return the parts of a log as float arrays; raise unless they are finite and of the right shapes."""
        if not isinstance(transitions, Transitions):
            raise TypeError(
                f"model: transitions must be Transitions, got {type(transitions).__name__}; make them with "
                "Transitions.from_frame(frame, observations=..., actions=...) or from_csv."
            )
        parts = [np.asarray(part, dtype=np.float64) for part in transitions]
        n, bounds = len(parts[0]), self.encoder.bounds
        shapes = [(n, bounds.n_observed), (n, bounds.n_actions), (n, bounds.n_observed), (n,)]
        for name, part, shape in zip(Transitions._fields, parts, shapes, strict=True):
            if part.shape != shape or not np.isfinite(part).all():
                raise ValueError(
                    f"model: transitions.{name} must be finite and of shape {shape}, got {part.shape}; give one row "
                    "per step, and leave out steps that were not measured."
                )
        return parts

    # ------------------------------------------------------------------ state

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """Return copies of everything learned and remembered, as arrays."""
        memory = {f"{_MEMORY}{name}": np.array(value) for name, value in self._memory._asdict().items()}
        return {**self._learned(), **memory}

    def restore(self, snapshot: Snapshot, keep_memory: bool = False) -> None:
        """Go back to a snapshot of a model with the same settings; keep the memory of the running episode if asked."""
        self._set_learned(snapshot)
        if not keep_memory:
            self._memory = Memory(**{name: np.array(snapshot[f"{_MEMORY}{name}"]) for name in Memory._fields})

    # ------------------------------------------------------------------ the regressor

    @abstractmethod
    def _learn(self, action: ArrayLike, target: Array) -> None:
        """Learn that `action`, in the running episode, led to `target` (n_outputs,) of `Encoder.target`."""

    @abstractmethod
    def predict(self, action: ArrayLike) -> StepPrediction:
        """Predict the observation after `action` in the running episode."""

    @abstractmethod
    def forecast(self, memory: Memory, sequences: Array) -> Forecast:
        """Return the forecast for action sequences (n, horizon, n_actions) that start from `memory`."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Forecaster:
        """Return a forecaster that follows one model drawn from the posterior."""

    @abstractmethod
    def is_sound(self) -> bool:
        """Tell whether everything learned is finite and of a plausible size."""

    @abstractmethod
    def _learned(self) -> dict[str, NDArray[Any]]:
        """Return copies of everything learned, as arrays."""

    @abstractmethod
    def _set_learned(self, snapshot: Snapshot) -> None:
        """Take over everything learned from a snapshot."""
