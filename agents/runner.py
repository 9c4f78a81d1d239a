"""Run one task of a control study: an agent learns in an environment while every step is recorded."""

import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from itertools import product
from pathlib import Path
from time import perf_counter, time
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agents.base import Agent, Step
from agents.monitor import EpisodeRow, write_monitor
from agents.registry import make
from envs import find_plant, runs_on
from habnn_control.control.model import Transitions
from habnn_control.experiments.engine import Outcome, Task, level_text

BENCHMARK = "IndustrialBenchmark-v0"


class Recorder(gym.Wrapper[Any, Any, Any, Any]):
    """Record the loss and the named observation entries of every step, and the time spent inside the environment.

    The loss is info["loss"] if the environment gives one, else minus the reward.

    Parameters
    ----------
    env : gymnasium.Env
    seed : int
        Seeds the first reset whatever seed an agent asks for, so that all agents meet the same environment.

    Attributes
    ----------
    labels : dict of str to int
        Names of the recorded entries: those of the Plant of the environment, else entry_0, entry_1, ... Observations
        that are neither a vector nor an integer have none.
    env_seconds : float
        Wall time inside `step` of the wrapped environment.
    """

    def __init__(self, env: gym.Env[Any, Any], seed: int) -> None:
        super().__init__(env)
        self.labels = _labels(env)
        self.env_seconds = 0.0
        self._seed: int | None = seed
        self._rows: list[tuple[float, ...]] = []
        self._began, self._return, self._length = time(), 0.0, 0  # of the environment, and of the running episode
        self._episodes: list[EpisodeRow] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset with the seed given at construction, later without one."""
        seed, self._seed = self._seed, None
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step and record."""
        start = perf_counter()
        result = super().step(action)
        self.env_seconds += perf_counter() - start
        observation, reward, terminated, truncated, info = result
        entries = np.ravel(observation) if self.labels else ()
        loss = float(info["loss"]) if "loss" in info else -float(reward)
        self._rows.append((loss, *(float(entries[k]) for k in self.labels.values())))
        self._return, self._length = self._return + float(reward), self._length + 1
        if terminated or truncated:
            self._episodes = self._all_episodes()
            self._return, self._length = 0.0, 0
        return result

    def write_monitor(self, path: str | Path) -> None:
        """Write the episodes so far, the running one included, as a monitor.csv of Stable-Baselines3."""
        spec = self.unwrapped.spec
        write_monitor(
            path, type(self.unwrapped).__name__ if spec is None else spec.id, self._began, self._all_episodes()
        )

    def _all_episodes(self) -> list[EpisodeRow]:
        running = EpisodeRow(self._return, self._length, time() - self._began)
        return [*self._episodes, running] if self._length else self._episodes

    def columns(self, first: int = 0) -> dict[str, NDArray[np.float64]]:
        """Return the loss and each recorded entry as an array with one value per step, from `first` (from 0) on."""
        names = ("loss", *self.labels)
        table = np.array(self._rows[first:], dtype=np.float64).reshape(-1, len(names))
        return {name: np.ascontiguousarray(table[:, index]) for index, name in enumerate(names)}


def _labels(env: gym.Env[Any, Any]) -> dict[str, int]:
    space, plant = env.observation_space, find_plant(env)
    if isinstance(space, gym.spaces.Box) and len(space.shape) == 1:
        n_observed = space.shape[0]
    else:
        n_observed = 1 if isinstance(space, gym.spaces.Discrete) else 0
    return {f"entry_{entry}": entry for entry in range(n_observed)} if plant is None else plant.labels(n_observed)


def measured_env(env: str, **arguments: Any) -> gym.Env[Any, Any]:
    """Make the environment of a measured run.

    An environment that offers a Plant as its attribute is a process that runs on: it has no time limit unless
    `max_episode_steps` is among the arguments. Any other environment keeps the limit it was registered with.
    """
    made = gym.make(env, **arguments)
    if "max_episode_steps" in arguments or not runs_on(made):
        return made
    made.close()
    return gym.make(env, max_episode_steps=-1, **arguments)


def make_env(setpoint: float, **arguments: Any) -> gym.Env[Any, Any]:
    """Make the Industrial Benchmark as studies measure it; see `measured_env`."""
    return measured_env(BENCHMARK, setpoint=setpoint, **arguments)


def import_plugins(modules: Iterable[str]) -> None:
    """Import modules that register agents or environments; modules of the working directory are found too."""
    for name in modules:
        here = str(Path.cwd())
        if here not in sys.path:
            sys.path.append(here)
        try:
            import_module(name)
        except ImportError as error:
            raise ValueError(
                f"plugin: module must be one that Python can import, got {name!r} ({error}); add its "
                "folder to PYTHONPATH."
            ) from error


def play(task: Task, tensorboard: str | None = None, monitor: str | None = None) -> Outcome:
    """Run a task of `agents.study.ControlStudy` and return its record.

    Parameters
    ----------
    task : Task
        Its `pretrain_steps` come before the measured run, in an environment with another seed: as ordinary training for
        agents that train in episodes, as a log (`logged_steps`) for agents that can learn from logged steps. Other
        agents go without. With `evaluate`, agents that train in episodes play the measured run with `predict`, as
        stochastic as they are, and learn nothing in it.
    tensorboard : str, optional
        Folder for TensorBoard logs, one subfolder per run.
    monitor : str, optional
        Folder for monitor.csv files of Stable-Baselines3, one subfolder per agent.

    Returns
    -------
    Outcome
        One array per column with one value per step; `decision_seconds` is the wall time of the measured run without
        the time inside env.step.
    """
    start = perf_counter()
    import_plugins(task["plugins"])
    log = _log_folder(task, tensorboard) if tensorboard else None
    with Recorder(measured_env(task["env"], **env_arguments(task)), task.seed) as env:
        agent = make(task["agent"], env, task["agent_seed"], **task["agent_settings"])
        if task["pretrain_steps"]:
            _pretrain(agent, task, env, log and log / "pretraining")
        before = perf_counter()
        if task["evaluate"] and agent.trains_in_episodes:
            _evaluate(agent, env, task["steps"])
        else:
            agent.learn(task["steps"], tensorboard=log)
        decision_seconds = perf_counter() - before - env.env_seconds
        if monitor:
            folder = _log_folder(task, monitor)
            env.write_monitor(folder.parent.parent / folder.name / f"{folder.parent.name}.monitor.csv")
    columns = env.columns()
    if len(columns["loss"]) != task["steps"]:
        raise RuntimeError(f"{task['agent']}: learn must step {task['steps']} times, got {len(columns['loss'])} steps.")
    return Outcome(columns, {"wall_seconds": perf_counter() - start, "decision_seconds": decision_seconds})


def env_arguments(task: Task) -> dict[str, Any]:
    """Return the arguments of the environment of a task: those of the study, and the levels of the task."""
    return {**task["env_arguments"], **_levels(task.factors)}


def logged_steps(task: Task) -> Transitions:
    """Return a log of `pretrain_steps` steps of the environment of a task.

    Each agent of `log_agents` plays, under each combination of `log_arguments`, an equal share of the steps as an
    episode of its own. Without `log_agents` it is "wander" where that fits the environment, else "random".
    """
    arguments, names = task["log_arguments"], task["log_agents"] or [None]
    parts = list(product(product(*arguments.values()), names))
    steps: list[Step] = []
    starts: list[bool] = []
    for part, (values, name) in enumerate(parts):
        n_steps = (task["pretrain_steps"] * (part + 1)) // len(parts) - len(steps)
        if n_steps == 0:
            continue
        seed = task["agent_seed"] + part
        with measured_env(task["env"], **{**env_arguments(task), **dict(zip(arguments, values, strict=True))}) as env:
            env.reset(seed=seed)
            policy = _behaviour(env, seed) if name is None else make(name, env, seed)
            policy.learn(n_steps, callback=steps.append)
        ended = [step.terminated or step.truncated for step in steps[-n_steps:]]
        starts += [True, *ended[:-1]]
    return Transitions(
        observations=np.array([step.observation for step in steps]),
        actions=np.array([step.action for step in steps]),
        next_observations=np.array([step.next_observation for step in steps]),
        starts=np.array(starts),
    )


def _pretrain(agent: Agent, task: Task, env: Recorder, log: Path | None) -> None:
    if agent.trains_in_episodes:
        with gym.make(task["env"], **env_arguments(task)) as school:
            school.reset(seed=task["agent_seed"])
            agent.set_env(school)
            agent.learn(task["pretrain_steps"], tensorboard=log)
        agent.set_env(env)
    elif agent.can_pretrain():
        agent.pretrain(logged_steps(task))


def _evaluate(agent: Agent, env: Recorder, n_steps: int) -> None:
    """Play steps with `agent.predict` and without learning; a finished episode is followed by a new one."""
    observation, _ = env.reset()
    for _ in range(n_steps):
        action, _ = agent.predict(observation, deterministic=False)
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            observation, _ = env.reset()


def _behaviour(env: gym.Env[Any, Any], seed: int) -> Agent:
    """Return the policy that makes logs: "wander" where it fits the environment, else "random"."""
    try:
        return make("wander", env, seed)
    except ValueError:
        return make("random", env, seed)


def _levels(factors: Mapping[str, Any]) -> dict[str, Any]:
    return {name: level for name, level in factors.items() if name != "agent"}


def _log_folder(task: Task, root: str) -> Path:
    levels = [f"{name}-{level_text(level)}" for name, level in _levels(task.factors).items()]
    return Path(root, *levels, f"seed-{task.seed}", task["agent"])
