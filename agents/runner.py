"""Play one task of a study: an agent learns in the Industrial Benchmark while every step is recorded."""

from pathlib import Path
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np

import envs  # noqa: F401  # registers the environments
from agents.base import Agent, Step
from agents.mpc import MPCAgent
from agents.registry import make
from habnn_control.control.model import Transitions
from habnn_control.experiments.engine import COLUMNS, Run, Task


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


def check_setpoint(setpoint: float) -> None:
    """Raise unless the plant has this setpoint."""
    if not 0.0 <= setpoint <= 100.0:
        nearest = min(max(0.0, setpoint), 100.0)  # in this order NaN becomes 0
        raise ValueError(f"plant: setpoint must be in 0..100, got {setpoint:g}; the nearest is {nearest:g}.")


def play(task: Task, tensorboard: str | None = None, **settings: Any) -> Run:
    """Play a task and return its record.

    Parameters
    ----------
    task : Task
        What to play. Its `pretrain_steps` come before the measured episode, in an environment with another seed: for
        the SB3 baselines that many steps of ordinary training in episodes of 1000 steps, for the HABNN agents a log of
        as many steps of the agent "wander" to learn from. Other agents do without.
    tensorboard : str, optional
        Folder for TensorBoard logs, one below it for each run.
    **settings
        Settings of the agent.

    Returns
    -------
    Run
    """
    start = perf_counter()
    log = Path(tensorboard) / f"setpoint-{task.setpoint:g}/seed-{task.seed}/{task.agent}" if tensorboard else None
    with Recorder(make_env(task.setpoint, wandering=task.wandering), task.seed) as env:
        agent = make(task.agent, env, task.agent_seed, **settings)
        if task.pretrain_steps and task.agent.split("-")[0] in ("a2c", "td3", "sac", "ppo"):
            _train(agent, task, log and log / "pretraining")
            agent.set_env(env)
        elif task.pretrain_steps and isinstance(agent, MPCAgent):
            agent.pretrain(logged_steps(task))
        before = perf_counter()
        agent.learn(task.steps, tensorboard=log)
        decision_seconds = perf_counter() - before - env.env_seconds
    columns = env.columns()
    if len(columns["loss"]) != task.steps:
        raise RuntimeError(f"{task.agent}: learn must step {task.steps} times, got {len(columns['loss'])} steps.")
    return Run(columns, perf_counter() - start, decision_seconds)


def _train(agent: Agent, task: Task, log: Path | None) -> None:
    with make_env(task.setpoint, wandering=task.wandering, max_episode_steps=1000) as school:
        school.reset(seed=task.agent_seed)
        agent.set_env(school)
        agent.learn(task.pretrain_steps, tensorboard=log)


def logged_steps(task: Task) -> Transitions:
    """Let "wander" play `pretrain_steps` steps of the task's plant and return its log."""
    steps: list[Step] = []
    with make_env(task.setpoint, wandering=task.wandering) as plant:
        plant.reset(seed=task.agent_seed)
        make("wander", plant, task.agent_seed).learn(task.pretrain_steps, callback=steps.append)
    return Transitions(
        observations=np.array([step.observation for step in steps]),
        actions=np.array([step.action for step in steps]),
        next_observations=np.array([step.next_observation for step in steps]),
        starts=np.arange(len(steps)) == 0,
    )
