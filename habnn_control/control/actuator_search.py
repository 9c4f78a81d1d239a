"""Actuator search: which observation entries follow the actions, and how far, found from the first steps."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from habnn_control.control.model import Transitions
from habnn_control.control.plant import Actuators, Bounds, Plant

Array = NDArray[np.float64]

_SPARE_SAMPLES = 3  # beyond one sample per action: a fit that must be believed needs samples to be wrong about
_TOLERANCE = 0.05  # largest error of a motion, in parts of the motion: a model learns less in tens of steps
_LONGEST_SEARCH = 100  # steps after which actuators that were not found are left to the model
_GENTLE = 0.25  # of the full actions: positions that are read exactly show their motion in small moves too
_EXACT = 0.001  # the tolerance for small moves, in which what leaks or lags looks like a position
_TRIES = 2  # gentle moves per sample that a fit needs at least: some positions may be at their ends


def n_gentle(n_actions: int) -> int:
    """Return the number of gentle moves with which a search begins."""
    return _TRIES * (n_actions + _SPARE_SAMPLES)


def gentle_move(low: Array, high: Array, seed: int, step: int) -> Array:
    """Return the action of a step of the search: a part of the full actions with signs drawn at random."""
    signs = np.random.default_rng((seed, 78, step)).choice([-1.0, 1.0], len(low))
    return np.asarray((low + high + _GENTLE * signs * (high - low)) / 2)


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
    plant: Plant, bounds: Bounds, before: ArrayLike, actions: ArrayLike, after: ArrayLike, gentle: bool = False
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
    gentle : bool
        Whether the steps are gentle moves: then only entries that follow exactly are found.
    """
    tolerance = _EXACT if gentle else _TOLERANCE
    first, moves, last = (np.asarray(part, dtype=np.float64) for part in (before, actions, after))
    found: dict[int, tuple[int, float]] = {}
    for entry in plant.outputs(bounds.n_observed):
        low, high = bounds.low[entry], bounds.high[entry]
        free = (last[:, entry] > low) & (last[:, entry] < high)  # a position at its end hides the motion
        match = _followed(moves[free], (last - first)[free, entry], tolerance) if np.isfinite(high - low) else None
        if match is not None:
            action, step = match
            if action in found:
                return None
            found[action] = entry, step
    if len(found) < bounds.n_actions:
        return None
    entries, steps = zip(*(found[action] for action in range(bounds.n_actions)), strict=True)
    return Actuators(entries, steps)


def _followed(actions: Array, change: Array, tolerance: float) -> tuple[int, float] | None:
    """Return the action that changes (n,) follow, and the change per unit of it; None if there is no such action."""
    n, n_actions = actions.shape
    if n < n_actions + _SPARE_SAMPLES:
        return None
    steps, _, rank, _ = np.linalg.lstsq(actions, change, rcond=1e-3)
    action = int(np.argmax(np.abs(steps)))
    error = change - steps[action] * actions[:, action]
    exact = np.sqrt(np.mean(error**2)) <= tolerance * np.sqrt(np.mean(change**2))
    if rank < n_actions or steps[action] == 0 or not exact:
        return None
    return action, float(steps[action])
