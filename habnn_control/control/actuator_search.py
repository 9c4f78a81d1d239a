"""Actuator search: which observation entries follow the actions, and how far, found from the first steps."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from habnn_control.control.model import Transitions
from habnn_control.control.plant import Actuators, Bounds, Plant

Array = NDArray[np.float64]

_SPARE_SAMPLES = 3  # beyond one sample per action: a fit that must be believed needs samples to be wrong about
_TOLERANCE = 0.05  # largest error of a motion, in parts of the motion: a model learns less in tens of steps
_LONGEST_SEARCH = 100  # steps after which actuators that were not found are left to the model


class StepLog:
    """The first steps of an agent, kept until actuators are found in them or `is_full`.

    Parameters
    ----------
    rows : Transitions, optional
        Steps to begin with.
    """

    def __init__(self, rows: Transitions | None = None) -> None:
        parts = [] if rows is None else [np.asarray(part) for part in rows]
        self._rows: list[tuple[Array, Array, Array, bool]] = list(zip(*parts, strict=True))

    def append(self, observation: ArrayLike, action: ArrayLike, next_observation: ArrayLike) -> None:
        """Append a step; it starts an episode unless its observation is the one after the last step."""
        before, moved, after = (np.array(part, dtype=np.float64) for part in (observation, action, next_observation))
        starts = not (self._rows and np.array_equal(self._rows[-1][2], before))
        self._rows.append((before, moved, after, starts))

    def clear(self) -> None:
        """Forget all steps: a model cannot learn across a step that was not measured."""
        self._rows = []

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def is_full(self) -> bool:
        """Whether enough steps were searched."""
        return len(self) >= _LONGEST_SEARCH

    @property
    def transitions(self) -> Transitions:
        """The steps; at least one must be there."""
        return Transitions(*(np.array(part) for part in zip(*self._rows, strict=True)))


def find_actuators(
    plant: Plant, bounds: Bounds, before: ArrayLike, actions: ArrayLike, after: ArrayLike
) -> Actuators | None:
    """Return the actuators that n steps show by least squares; None unless there is exactly one for each action.

    An actuator is an entry with after = clip(before + step * action, low, high), whose bounds are finite and which is
    neither exogenous nor ignored.

    Parameters
    ----------
    plant : Plant
    bounds : Bounds
    before, after : array_like, shape (n, n_observed)
        Observations before and after each step.
    actions : array_like, shape (n, n_actions)
    """
    first, moves, last = (np.asarray(part, dtype=np.float64) for part in (before, actions, after))
    found: dict[int, tuple[int, float]] = {}
    for entry in plant.outputs(bounds.n_observed):
        low, high = bounds.low[entry], bounds.high[entry]
        free = (last[:, entry] > low) & (last[:, entry] < high)  # a position at its end hides the motion
        match = _followed(moves[free], (last - first)[free, entry]) if np.isfinite(high - low) else None
        if match is not None:
            action, step = match
            if action in found:
                return None
            found[action] = entry, step
    if len(found) < bounds.n_actions:
        return None
    entries, steps = zip(*(found[action] for action in range(bounds.n_actions)), strict=True)
    return Actuators(entries, steps)


def _followed(actions: Array, change: Array) -> tuple[int, float] | None:
    """Return the action that changes (n,) follow, and the change per unit of it; None if there is no such action."""
    n, n_actions = actions.shape
    if n < n_actions + _SPARE_SAMPLES:
        return None
    steps, _, rank, _ = np.linalg.lstsq(actions, change, rcond=1e-3)
    action = int(np.argmax(np.abs(steps)))
    error = change - steps[action] * actions[:, action]
    exact = np.sqrt(np.mean(error**2)) <= _TOLERANCE * np.sqrt(np.mean(change**2))
    if rank < n_actions or steps[action] == 0 or not exact:
        return None
    return action, float(steps[action])
