"""ModelChoice: several dynamics models learn side by side, and the one that predicts losses best is used."""

import inspect
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from habnn_control.control.model import (
    DynamicsModel,
    Forecast,
    Forecaster,
    Memory,
    Snapshot,
    StepPrediction,
    Transitions,
)
from habnn_control.control.plant import Bounds, Plant
from habnn_control.control.transition_model import TransitionModel

Array = NDArray[np.float64]

_BLOCK = 15  # steps that are predicted at once: errors of one step say little about plans
_LONGEST = 2 * _BLOCK  # steps of a block in which some were not measured; after as many a new one begins
_RATE = 0.2  # weight of the newest block in a model's mean error, once there are more than five
_BETTER = 0.75  # a later model is used if its mean error is below this part of all earlier ones'
_FAILED = 10.0  # error of a model whose predictions are not finite, in units of the largest one that is
_START = "start_"  # prefix of the models at the start of the running block, in a snapshot
_FED_BACK = 2  # past outputs among the inputs of the candidates that have any


def make_model(plant: Plant, bounds: Bounds, *, seed: int = 0, **settings: Any) -> DynamicsModel:
    """Return a `TransitionModel` with these settings.

    Where they leave open `target` and `past_outputs`, it is a `ModelChoice` among the forms that suit the plant.
    """
    if settings.get("target") is not None or settings.get("past_outputs") is not None:
        return TransitionModel(plant, bounds, seed=seed, **settings)
    forms = model_forms(plant, bounds)
    return ModelChoice(plant, [TransitionModel(plant, bounds, seed=seed, **{**settings, **form}) for form in forms])


make_model.__signature__ = inspect.signature(TransitionModel)  # type: ignore[attr-defined]


def model_forms(plant: Plant, bounds: Bounds) -> list[dict[str, Any]]:
    """Return the forms of a model that suit a plant, the one to begin with first.

    Outputs are functions of the history of the actuators where these are known, or depend on their own past too, or
    accumulate. Outputs with a lower bound are learned as inverses of softplus.
    """
    low = bounds.low[list(plant.outputs(bounds.n_observed))]
    value = "softplus" if np.isfinite(low).all() else "absolute"
    forms = [{"target": value, "past_outputs": _FED_BACK}, {"target": "delta", "past_outputs": _FED_BACK}]
    return [{"target": value, "past_outputs": 0}, *forms] if plant.actuators is not None else forms


class ModelChoice:
    """A `DynamicsModel` that is the best of several.

    All models learn from every step. After each block of steps every model is asked, as it was at the start of the
    block, for the losses of the block under the actions that were taken. Used from then on is the first model whose
    errors, in the mean over the recent blocks, are near to the smallest ones.

    Parameters
    ----------
    plant : Plant
    models : sequence of DynamicsModel
        At least one; the first one is used until there is evidence for another.
    """

    def __init__(self, plant: Plant, models: Sequence[DynamicsModel]) -> None:
        self._plant, self.models = plant, list(models)
        self.used = 0
        self._errors = np.zeros(len(self.models))
        self._n_blocks = 0
        self._judged = deepcopy(self.models)  # take the states in which the models are judged
        self._start = [model.snapshot() for model in self.models]  # of the running block
        self._actions: list[Array] = []
        self._losses: list[float] = []
        self._measured: list[bool] = []  # whether the loss of each step was measured

    @property
    def model(self) -> DynamicsModel:
        """The model in use."""
        return self.models[self.used]

    # ------------------------------------------------------------------ learning

    @property
    def memory(self) -> tuple[Memory, ...]:
        """Memories of all models."""
        return tuple(model.memory for model in self.models)

    def begin(self, observation: ArrayLike) -> None:
        """Start an episode with its first observation."""
        for model in self.models:
            model.begin(observation)
        self._begin_block()

    def observe(self, action: ArrayLike, observation: ArrayLike) -> None:
        """Learn from the observation that followed `action`; raise ValueError, unchanged, if it is not finite."""
        taken, after = np.array(action, dtype=np.float64), np.array(observation, dtype=np.float64)
        self.models[0].observe(taken, after)
        for model in self.models[1:]:
            _observe_or_skip(model, taken, after)
        self._append(taken, float(self._plant.loss(taken, after)))

    def skip(self, action: ArrayLike, observation: ArrayLike | None = None) -> None:
        """Remember a step whose observation is missing, or partly filled in as given; nothing is learned."""
        for model in self.models:
            model.skip(action, observation)
        self._append(np.array(action, dtype=np.float64), None)

    def pretrain(self, transitions: Transitions) -> None:
        """Learn from logged steps; raise ValueError, unchanged, if they do not fit."""
        before = self.snapshot()
        try:
            for model in self.models:
                model.pretrain(transitions)
        except ValueError:
            self.restore(before)
            raise
        self._begin_block()

    def _append(self, action: Array, loss: float | None) -> None:
        """Append a step to the block, whose loss is None if it was not measured; choose when the block is complete."""
        self._actions.append(action)
        self._losses.append(0.0 if loss is None else loss)
        self._measured.append(loss is not None)
        if sum(self._measured) == _BLOCK:
            self._choose()
            self._begin_block()
        elif len(self._losses) == _LONGEST:
            self._begin_block()

    def _begin_block(self) -> None:
        self._start = [model.snapshot() for model in self.models]
        self._actions, self._losses, self._measured = [], [], []

    def _choose(self) -> None:
        """Compare the losses of the block with those that the models predicted at its start, and choose."""
        actions, losses = np.stack(self._actions)[None], np.array(self._losses)
        errors = np.empty(len(self.models))
        for k, (model, start) in enumerate(zip(self._judged, self._start, strict=True)):
            model.restore(start)
            predicted = self._plant.loss(actions, model.forecast(model.memory, actions).observations)[0]
            errors[k] = np.mean(np.abs(predicted - losses)[self._measured])
        finite = np.isfinite(errors)
        if not finite.any():  # no evidence
            return
        errors[~finite] = _FAILED * errors[finite].max()
        self._n_blocks += 1
        self._errors += max(_RATE, 1 / self._n_blocks) * (errors - self._errors)
        self.used = int(np.argmax(self._errors <= self._errors.min() / _BETTER))  # the first one that is good enough

    # ------------------------------------------------------------------ the model in use

    def predict(self, action: ArrayLike) -> StepPrediction:
        """Predict the observation after `action` in the running episode."""
        return self.model.predict(action)

    def predict_as_marked(self, action: ArrayLike) -> StepPrediction:
        """Predict the observation after `action` if hidden states of the plant were as they were at `mark`."""
        return self.model.predict_as_marked(action)

    def errors(self, prediction: StepPrediction, observation: ArrayLike) -> Array:
        """Return how far the outputs of an observation are from its prediction, in predictive standard deviations."""
        return self.model.errors(prediction, observation)

    def forecast(self, memory: tuple[Memory, ...], sequences: Array) -> Forecast:
        """Return the forecast for action sequences (n, horizon, n_actions) that start from `memory`."""
        return self.model.forecast(memory[self.used], sequences)

    def draw(self, rng: np.random.Generator) -> Forecaster:
        """Return a forecaster that follows one model drawn from the posterior of the model in use."""
        return _OfMany(self.model.draw(rng), self.used)

    def first_memory(self, observation: ArrayLike) -> tuple[Memory, ...]:
        """Return the memories of an episode that starts with `observation`."""
        return tuple(model.first_memory(observation) for model in self.models)

    def next_memory(self, memory: tuple[Memory, ...], action: ArrayLike, observation: ArrayLike) -> tuple[Memory, ...]:
        """Return the memories after one more step."""
        pairs = zip(self.models, memory, strict=True)
        return tuple(model.next_memory(one, action, observation) for model, one in pairs)

    # ------------------------------------------------------------------ hidden states, soundness, snapshots

    def disturb(self) -> None:
        """Take note that hidden states of the plant may have changed."""
        for model in self.models:
            model.disturb()

    def mark(self) -> None:
        """Take the hidden states of now as those of `predict_as_marked`."""
        for model in self.models:
            model.mark()

    def is_sound(self) -> bool:
        """Tell whether everything learned is finite and of a plausible size."""
        return all(model.is_sound() for model in self.models)

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """Return copies of everything learned and remembered, as arrays."""
        found = {
            "used": np.array(self.used),
            "errors": self._errors.copy(),
            "n_blocks": np.array(self._n_blocks),
            "actions": np.array(self._actions),
            "losses": np.array(self._losses),
            "measured": np.array(self._measured, dtype=bool),
        }
        for k, (model, start) in enumerate(zip(self.models, self._start, strict=True)):
            found |= {f"{k}_{name}": part for name, part in model.snapshot().items()}
            found |= {f"{_START}{k}_{name}": part.copy() for name, part in start.items()}
        return found

    def restore(self, snapshot: Snapshot, keep_memory: bool = False) -> None:
        """Go back to a snapshot of a model with the same settings; keep the memory of the running episode if asked."""
        for k, model in enumerate(self.models):
            model.restore(_part(snapshot, f"{k}_"), keep_memory)
        self.used, self._n_blocks = int(snapshot["used"]), int(snapshot["n_blocks"])
        self._errors = np.array(snapshot["errors"])
        if keep_memory:
            self._begin_block()
            return
        self._start = [_part(snapshot, f"{_START}{k}_") for k in range(len(self.models))]
        self._actions, self._losses = list(np.array(snapshot["actions"])), np.array(snapshot["losses"]).tolist()
        self._measured = np.array(snapshot["measured"], dtype=bool).tolist()


def _observe_or_skip(model: DynamicsModel, action: Array, observation: Array) -> None:
    """Let a model learn from a step that another one has learned from, unless it is too large for this one."""
    try:
        model.observe(action, observation)
    except ValueError:
        model.skip(action, observation)


class _OfMany:
    """A forecaster of one of several models, whose memory is one of several memories."""

    def __init__(self, forecaster: Forecaster, place: int) -> None:
        self._forecaster, self._place = forecaster, place

    def forecast(self, memory: tuple[Memory, ...], sequences: Array) -> Forecast:
        """Return the forecast for action sequences (n, horizon, n_actions) that start from `memory`."""
        return self._forecaster.forecast(memory[self._place], sequences)


def _part(snapshot: Snapshot, prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): part for name, part in snapshot.items() if name.startswith(prefix)}
