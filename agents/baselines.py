"""The study of learning curves: loss against environment steps, for trained algorithms and agents that learn online."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from agents.registry import make, names
from agents.runner import Recorder, make_env
from agents.training import TRAINED, Trainer, recipe_of
from habnn_control.experiments.engine import Outcome, Stored, Study, Task, derive_seed, grid, index_columns
from habnn_control.support.names import check_choice

Array = NDArray[np.float64]

LEVELS = (230.0, 221.0)  # losses at setpoint 100 whose steps are counted
_LAST = 100  # steps at the end of an evaluation that its loss is the mean of
_EVALUATION_SEEDS = 1_000_000  # above the seeds of training
_COLUMNS = ("steps", "loss", "whole_loss")


@dataclass(frozen=True)
class BaselineStudy(Study):
    """Learning curves of agents: `runs` seeds each.

    Algorithms of `agents.training` train up to the given number of plant-steps and are evaluated at log-spaced counts:
    their policy without exploration plays fresh plants, and the loss is the mean over the last 100 steps. Any other
    agent plays one plant for `evaluation_steps` steps and learns online; its loss at a count of steps is the mean over
    the last 100, or fewer, steps before it.

    Attributes
    ----------
    agents : sequence of str
    runs : int
    setpoint : float
    on_policy_steps, off_policy_steps : int
        Plant-steps of training, of PPO and A2C, and of SAC and TD3.
    evaluation_plants, evaluation_steps : int
    n_envs : int
        Plants that PPO and A2C train on together; 0 for the number of their recipe.
    seed : int
    """

    name = "baseline study"
    script = "scripts/baselines.py"
    group = "agent"

    agents: Sequence[str]
    runs: int = 3
    setpoint: float = 100.0
    on_policy_steps: int = 10_000_000
    off_policy_steps: int = 100_000
    evaluation_plants: int = 16
    evaluation_steps: int = 1000
    n_envs: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "agents", tuple(self.agents))
        self.check_distinct(agents=self.agents)
        self.check_counts(
            runs=1, on_policy_steps=1, off_policy_steps=1, evaluation_plants=1, evaluation_steps=1, n_envs=0, seed=0
        )
        for agent in self.agents:
            check_choice("baselines", "agent", agent, (*TRAINED, *names()))

    def tasks(self) -> list[Task]:
        """Return one task per agent and run."""
        shared = {
            "setpoint": self.setpoint,
            "evaluation_plants": self.evaluation_plants,
            "evaluation_steps": self.evaluation_steps,
        }

        def settings(levels: Any, run: int) -> dict[str, Any]:
            agent = levels["agent"]
            own: dict[str, Any] = {"agent_seed": derive_seed(self.seed, run, agent)}
            if agent in TRAINED:
                on_policy = recipe_of(agent).on_policy
                own["steps"] = self.on_policy_steps if on_policy else self.off_policy_steps
                own["n_envs"] = (self.n_envs or None) if on_policy else None
            return {**shared, **own}

        return grid({"agent": self.agents}, self.runs, self.seed, settings)

    def tables(self, stored: Stored) -> dict[str, pd.DataFrame]:
        """Return curves (one row per evaluation), and reached (steps until the loss falls to each of LEVELS)."""
        sizes = [len(outcome.arrays["steps"]) for _, outcome in stored]
        curves: dict[str, Any] = index_columns(stored, ["agent"], sizes)
        for name in _COLUMNS:
            curves[name] = np.concatenate([outcome.arrays[name] for _, outcome in stored] or [np.empty(0)])
        reached: dict[str, Any] = index_columns(stored, ["agent"], [len(LEVELS)] * len(stored))
        reached["level"] = np.tile(LEVELS, len(stored))
        pairs = [(outcome.arrays, level) for _, outcome in stored for level in LEVELS]
        reached["steps"] = [steps_to(arrays["steps"], arrays["loss"], level) for arrays, level in pairs]
        return {"curves": pd.DataFrame(curves), "reached": pd.DataFrame(reached)}


def steps_to(steps: Array, losses: Array, level: float) -> float:
    """Return the first number of steps with a loss of at most `level`; infinity if there is none."""
    below = np.flatnonzero(losses <= level)
    return float(steps[below[0]]) if len(below) else float("inf")


def counts(total: int) -> list[int]:
    """Return the log-spaced numbers of steps of evaluations: 0, then two per decade from 10 on, then the total."""
    spaced = np.rint(10.0 ** np.arange(1.0, np.log10(max(total, 1)) + 1e-9, 0.5)).astype(int).tolist()
    return [0, *(count for count in spaced if count < total), total]


def play(task: Task, folder: str | Path) -> Outcome:
    """Run a task of a `BaselineStudy`; training writes its checkpoints below `folder` and goes on from the last."""
    start = perf_counter()
    if task["agent"] in TRAINED:
        rows = _trained(task, Path(folder, "checkpoints", task["agent"], str(task.run)))
    else:
        rows = _online(task)
    columns = dict(zip(_COLUMNS, np.ascontiguousarray(rows.T), strict=True))
    return Outcome(columns, {"wall_seconds": perf_counter() - start})


def _trained(task: Task, folder: Path) -> Array:
    """Train, evaluate and save at every count; the policy of every count is kept."""
    trainer = Trainer(task["agent"], task["agent_seed"] % 2**31, task["n_envs"], setpoint=task["setpoint"])
    latest, rows = folder / "latest", np.empty((0, len(_COLUMNS)))
    if latest.exists():
        rows = trainer.load(latest)
    for count in counts(task["steps"]):
        if len(rows) and count <= rows[-1, 0]:
            continue  # evaluated before the interruption, or inside a rollout that was played to its end
        trainer.learn(count)
        losses = trainer.evaluate(task["evaluation_plants"], task["evaluation_steps"], _EVALUATION_SEEDS + task.seed)
        rows = np.vstack([rows, [trainer.n_steps, losses[-_LAST:].mean(), losses.mean()]])
        trainer.save_policy(folder / f"policy-{trainer.n_steps}")
        trainer.save(latest, rows)
    return rows


def _online(task: Task) -> Array:
    """Let an agent play one plant and learn; return a row per count of steps."""
    n_steps = task["evaluation_steps"]
    with Recorder(make_env(task["setpoint"]), _EVALUATION_SEEDS + task.seed) as env:
        make(task["agent"], env, task["agent_seed"]).learn(n_steps)
        losses = env.columns()["loss"]
    rows = []
    for count in counts(n_steps)[1:]:
        window = losses[max(0, count - _LAST) : count]
        rows.append((count, window.mean(), losses[:count].mean()))
    return np.array(rows, dtype=np.float64)
