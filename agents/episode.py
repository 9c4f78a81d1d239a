"""One episode that survives an interruption: its steps so far, checkpoints of its agent, and how to go on from them."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from agents.base import Agent
from agents.registry import load
from agents.runner import Recorder
from habnn_control.control.model import StepPrediction
from habnn_control.support.files import load_arrays, save_arrays

Array = NDArray[np.float64]

_PROGRESS, _KIND = "progress.npz", "episode"


class EpisodeRecord:
    """Actions and predictions of the complete steps of an episode, kept in a folder every `every` steps.

    A checkpoint is the agent's file and, written after it, progress.npz, which names it. The state of the environment
    is not stored: `resume` repeats the actions in an environment with the same seed.

    Parameters
    ----------
    env : Recorder
        The environment of the episode.
    folder : Path
        Folder for checkpoints.
    every : int
        Steps between checkpoints; 0 for none.

    Attributes
    ----------
    watcher : callable, optional
        Called with the agent after every step.
    """

    def __init__(self, env: Recorder, folder: Path, every: int = 0) -> None:
        self.env, self.folder, self.every = env, folder, every
        self.watcher: Callable[[Agent], None] | None = None
        self.kept = 0  # steps in the last checkpoint
        self._actions: list[NDArray[Any]] = []
        self._bands: list[Array] = []

    @property
    def n_steps(self) -> int:
        """Number of complete steps."""
        return len(self._actions)

    def add(self, agent: Agent, action: Any, prediction: StepPrediction | None) -> None:
        """Append a complete step, and write a checkpoint if one is due."""
        self._actions.append(np.array(action))
        self._bands.append(_band(list(self.env.labels.values()), prediction))
        if self.every and self.n_steps % self.every == 0:
            self.checkpoint(agent)
        if self.watcher is not None:
            self.watcher(agent)

    def ends(self, first: int) -> Array:
        """Return the ends of the 90 % bands from step `first` (from 0) on, (n, n_labels, 2); NaN: not predicted."""
        return np.array(self._bands[first:]).reshape(-1, len(self.env.labels), 2)

    def columns(self, first: int = 0) -> dict[str, Array]:
        """Return the loss and each recorded entry, one value per complete step from `first` (from 0) on."""
        return {name: values[: self.n_steps - first] for name, values in self.env.columns(first).items()}

    def bands(self) -> dict[str, pd.DataFrame]:
        """Return measured values and 90 % bands of each entry that was predicted at every step."""
        columns, ends = self.columns(), self.ends(0)
        return {
            name: pd.DataFrame(
                {
                    "timestep": np.arange(1, self.n_steps + 1),
                    "measured": columns[name],
                    "low": ends[:, place, 0],
                    "high": ends[:, place, 1],
                }
            )
            for place, name in enumerate(self.env.labels)
            if self.n_steps and np.isfinite(ends[:, place]).all()
        }

    def checkpoint(self, agent: Agent) -> None:
        """Store the agent and the steps so far; the checkpoint before is removed."""
        name = f"checkpoint-{self.n_steps}.npz"
        agent.save(self.folder / name)
        arrays = {"actions": np.array(self._actions), "bands": self.ends(0), "loss": self.columns()["loss"]}
        save_arrays(self.folder / _PROGRESS, {"kind": _KIND, "agent_file": name}, arrays)
        self.kept = self.n_steps
        self._remove_checkpoints(keep=name)

    def resume(self) -> Agent | None:
        """Repeat the stored steps in the environment and return the agent of the last checkpoint; None without one."""
        try:
            header, arrays = load_arrays(self.folder / _PROGRESS, _KIND)
        except FileNotFoundError:
            return None
        self._replay(arrays["actions"])
        self._actions, self._bands = list(arrays["actions"]), list(arrays["bands"])
        if not np.array_equal(self.columns()["loss"], arrays["loss"]):
            raise ValueError(
                f"run: {self.env.spec.id if self.env.spec else self.env} must repeat the {self.n_steps} steps stored "
                f"in {self.folder}, got other losses; choose another folder to start anew."
            )
        self.kept = self.n_steps
        return load(self.folder / header["agent_file"], self.env)

    def discard(self) -> None:
        """Remove all checkpoints."""
        with suppress(FileNotFoundError):
            (self.folder / _PROGRESS).unlink()
        self._remove_checkpoints(keep="")

    def _replay(self, actions: NDArray[Any]) -> None:
        over = True
        for action in actions:
            if over:
                self.env.reset()
            _, _, terminated, truncated, _ = self.env.step(action)
            over = terminated or truncated

    def _remove_checkpoints(self, keep: str) -> None:
        for path in self.folder.glob("checkpoint-*.npz"):
            if path.name != keep:
                path.unlink()


def _band(entries: list[int], prediction: StepPrediction | None) -> Array:
    """Return the ends of the 90 % interval of each entry, shape (n_entries, 2); NaN where nothing is predicted."""
    band = np.full((len(entries), 2), np.nan)
    if prediction is not None:
        places = {int(entry): place for place, entry in enumerate(prediction.indices)}
        for row, entry in enumerate(entries):
            if entry in places:
                band[row] = prediction.low[places[entry]], prediction.high[places[entry]]
    return band
