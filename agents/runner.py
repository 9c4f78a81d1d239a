"""Play one task of a study: an agent learns in the Industrial Benchmark while every step is recorded."""

from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np

import envs  # noqa: F401  # registers the environments
from agents.base import Agent
from agents.registry import make
from habnn_control.study import COLUMNS, Run, Task


class Recorder(gym.Wrapper[Any, Any, Any, Any]):
    """Record the loss, its parts and the steerings of every step, and the time spent inside the environment.

    Parameters
    ----------
    env : gymnasium.Env
        An Industrial Benchmark.
    seed : int
        Seeds the first reset whatever seed an agent asks for, so that all agents meet the same plant.
    """

    def __init__(self, env: gym.Env[Any, Any], seed: int) -> None:
        super().__init__(env)
        self._seed: int | None = seed
        self._rows: list[tuple[float, ...]] = []
        self.env_seconds = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset with the seed given at construction, later without one."""
        seed, self._seed = self._seed, None
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step and record."""
        start = perf_counter()
        result = super().step(action)
        self.env_seconds += perf_counter() - start
        info = result[4]
        self._rows.append(tuple(float(info[name] if name in info else info["markov_state"][name]) for name in COLUMNS))
        return result

    def columns(self) -> dict[str, np.ndarray]:
        """Return what was recorded: one array for each of COLUMNS."""
        table = np.array(self._rows, dtype=np.float64).reshape(-1, len(COLUMNS))
        return {name: np.ascontiguousarray(table[:, index]) for index, name in enumerate(COLUMNS)}


def make_env(setpoint: float, **settings: Any) -> gym.Env[Any, Any]:
    """Make the Industrial Benchmark as studies use it: one episode without an end unless settings say otherwise."""
    return gym.make("IndustrialBenchmark-v0", **{"setpoint": setpoint, "max_episode_steps": -1, **settings})


def play(task: Task) -> Run:
    """Play a task and return its record.

    Parameters
    ----------
    task : Task
        What to play.

    Returns
    -------
    Run
    """
    start = perf_counter()
    with Recorder(make_env(task.setpoint), task.seed) as env:
        agent = make(task.agent, env, task.agent_seed)
        decision_seconds = learn_timed(agent, env, task.steps)
    columns = env.columns()
    if len(columns["loss"]) != task.steps:
        raise RuntimeError(f"{task.agent}: learn must step {task.steps} times, got {len(columns['loss'])} steps.")
    return Run(columns, perf_counter() - start, decision_seconds)


def learn_timed(agent: Agent, env: Recorder, steps: int, **options: Any) -> float:
    """Let an agent learn and return the seconds it needed apart from those inside the environment."""
    start, before = perf_counter(), env.env_seconds
    agent.learn(steps, **options)
    return perf_counter() - start - (env.env_seconds - before)
