"""The control study as a client of the experiment engine: agents in an environment, over a grid of its arguments."""

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd

import envs
from agents.registry import check_name
from agents.runner import BENCHMARK, import_plugins, measured_env
from habnn_control.experiments.engine import Outcome, Stored, Study, Task, derive_seed, grid, index_columns, level_text
from habnn_control.support.names import nearest

_RESERVED = ("agent", "run", "seed", "timestep", "loss")  # columns of losses.csv that no argument may be called


@dataclass(frozen=True)
class ControlStudy(Study):
    """Every agent under every combination of environment arguments, `runs` times `steps` steps.

    Run r meets the environment seed `seed + r`, whatever the agent, so that agents can be compared in pairs. losses.csv
    has one row per step, timings.csv one row per run. On the Industrial Benchmark, arguments with a single value have
    no column, except the setpoint.

    Attributes
    ----------
    agents : sequence of str
    arguments : mapping of str to sequence
        Values of each argument of the environment.
    runs, steps : int
    seed : int
    pretrain_steps : int
        Steps before the measured run; see `agents.runner.play`.
    env : str
        Id of a registered Gymnasium environment.
    agent_settings : mapping of str to mapping
        Settings of agents, by their names.
    plugins : sequence of str
        Modules to import first, which may register agents and environments.
    mirrored : bool
        On the Industrial Benchmark: run r meets the mirror image r mod 8 of `envs.IMAGES`.
    evaluate : bool
        Whether agents that train in episodes stop learning before the measured run; see `agents.runner.play`.
    log_agents : sequence of str
    log_arguments : mapping of str to sequence
        Who makes the log for agents that learn from one, and values of the environment's arguments in it; see
        `agents.runner.logged_steps`.
    """

    name = "comparison"
    script = "habnn compare"
    group = "agent"
    parquet = ("losses",)

    agents: Sequence[str]
    arguments: Mapping[str, Sequence[Any]]
    runs: int
    steps: int
    seed: int = 0
    pretrain_steps: int = 0
    env: str = BENCHMARK
    agent_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    plugins: Sequence[str] = ()
    mirrored: bool = False
    evaluate: bool = False
    log_agents: Sequence[str] = ()
    log_arguments: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        mappings = ("arguments", "agent_settings", "log_arguments")
        plain: Any = {name: _plain(name, getattr(self, name)) for name in mappings}
        sequences = {name: tuple(getattr(self, name)) for name in ("agents", "plugins", "log_agents")}
        for name, value in {**sequences, **plain}.items():
            object.__setattr__(self, name, value)
        self.check_distinct(agents=self.agents, **self.arguments)
        self.check_distinct(**({"log_agents": self.log_agents} if self.log_agents else {}), **self.log_arguments)
        self.check_counts(runs=1, steps=1, seed=0, pretrain_steps=0)
        for name in self.arguments:
            if name in _RESERVED:
                raise ValueError(
                    f"ControlStudy: arguments must not be called {', '.join(_RESERVED)}, got {name!r}; results have "
                    "columns with these names."
                )
        if self.evaluate and self.pretrain_steps == 0:
            raise ValueError(
                "ControlStudy: evaluate must follow training, got pretrain_steps 0; pass the steps to train before."
            )
        if (self.log_agents or self.log_arguments) and self.pretrain_steps == 0:
            raise ValueError(
                "ControlStudy: log_agents and log_arguments must go with a log, got pretrain_steps 0; pass its length."
            )
        if self.mirrored and (self.env != BENCHMARK or "mirror" in self.arguments):
            raise ValueError(
                f"ControlStudy: mirrored must go with {BENCHMARK} and without a mirror of its own, got {self.env} and "
                f"{self.arguments}; leave one of them out."
            )
        for name in self.agent_settings:
            if name not in self.agents:
                raise ValueError(
                    f"ControlStudy: agent_settings must be of {', '.join(self.agents)}, got {name!r}; "
                    f"{nearest(name, self.agents)}"
                )

    @property
    def factors(self) -> dict[str, Sequence[Any]]:
        """What tasks differ in: the agent, and the arguments that have a column."""
        shown = {name: values for name, values in self.arguments.items() if self._has_column(name, values)}
        return {"agent": self.agents, **shown}

    def _has_column(self, name: str, values: Sequence[Any]) -> bool:
        return self.env != BENCHMARK or name == "setpoint" or len(values) > 1

    def tasks(self) -> list[Task]:
        """Return all tasks in canonical order: by agent, arguments and run."""
        factors = self.factors
        arguments = {name: values[0] for name, values in self.arguments.items() if name not in factors}
        shared = {
            "env": self.env,
            "env_arguments": arguments,
            "steps": self.steps,
            "pretrain_steps": self.pretrain_steps,
            "plugins": list(self.plugins),
            "evaluate": self.evaluate,
            "log_agents": list(self.log_agents),
            "log_arguments": self.log_arguments,
        }

        def settings(levels: Mapping[str, Any], run: int) -> dict[str, Any]:
            agent = levels["agent"]
            own: dict[str, Any] = {"agent_seed": derive_seed(self.seed, run, agent)}
            if self.mirrored:
                own["env_arguments"] = {**arguments, "mirror": list(envs.IMAGES[run % len(envs.IMAGES)])}
            return {**shared, **own, "agent_settings": self.agent_settings.get(agent, {})}

        return grid(factors, self.runs, self.seed, settings)

    def fits(self, task: Task, outcome: Outcome) -> bool:
        """Return whether an outcome has a loss, and one value per step in every column."""
        return "loss" in outcome.arrays and all(item.shape == (task["steps"],) for item in outcome.arrays.values())

    def tables(self, stored: Stored) -> dict[str, pd.DataFrame]:
        """Return losses (one row per step) and timings (one row per run)."""
        factors = list(self.factors)
        losses: dict[str, Any] = index_columns(stored, factors, [task["steps"] for task, _ in stored])
        losses["timestep"] = np.concatenate([np.arange(1, task["steps"] + 1) for task, _ in stored] or [np.arange(0)])
        names = dict.fromkeys(["loss", *(name for _, outcome in stored for name in outcome.arrays)])
        for name in names:
            parts = [outcome.arrays.get(name, np.full(task["steps"], np.nan)) for task, outcome in stored]
            losses[name] = np.concatenate(parts or [np.empty(0)])
        timings: dict[str, Any] = index_columns(stored, factors, [1] * len(stored))
        timings["steps"] = [task["steps"] for task, _ in stored]
        for name in ("wall_seconds", "decision_seconds"):
            timings[name] = [outcome.numbers[name] for _, outcome in stored]
        return {"losses": pd.DataFrame(losses), "timings": pd.DataFrame(timings)}

    def check(self) -> None:
        """Raise unless all agents are known and the environment can be made with every combination of arguments.

        Call `agents.runner.import_plugins` first.
        """
        for name in (*self.agents, *self.log_agents):
            check_name(name)
        check_env(self.env)
        if self.env == BENCHMARK:
            for setpoint in self.arguments.get("setpoint", ()):
                check_setpoint(setpoint)
        logged = {**self.arguments, **self.log_arguments}
        for names, values in ((part, level) for part in (self.arguments, logged) for level in product(*part.values())):
            arguments = dict(zip(names, values, strict=True))
            try:
                measured_env(self.env, **arguments).close()
            except Exception as error:  # an environment may raise anything
                raise ValueError(
                    f"{self.env}: env-arg must be arguments that the environment accepts, got {arguments} ({error}); "
                    "see its documentation."
                ) from error


def read_arguments(texts: Sequence[str], env: str = "", **short: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the values of the arguments of an environment, from the command line.

    Parameters
    ----------
    texts : sequence of str
        Arguments written as name=value or name=value,value,... A value is read as a Python literal if it is one, else
        as text. Commas inside brackets or quotes do not separate values.
    env : str
        Id of the environment: the Industrial Benchmark has the setpoint 100 if nothing else is given.
    **short
        Values of arguments that have a flag of their own; empty if the flag was not given.
    """
    arguments: dict[str, list[Any]] = {name: list(values) for name, values in short.items() if values}
    for text in texts:
        name, equals, values = text.partition("=")
        if not (name.isidentifier() and equals and values):
            raise ValueError(f"env-arg: argument must be written name=value, got {text!r}; for example g=9.81,3.71.")
        if name in arguments:
            raise ValueError(f"env-arg: argument must be given once, got {name!r} twice; write name=value,value.")
        arguments[name] = _read_values(values)
    return {"setpoint": [100.0], **arguments} if env == BENCHMARK else arguments


def read_agent_settings(text: str) -> dict[str, dict[str, Any]]:
    """Return the settings of agents from a JSON object such as {"habnn": {"horizon": 20}}."""
    try:
        settings = json.loads(text or "{}")
    except ValueError as error:
        settings = str(error)
    if not (isinstance(settings, dict) and all(isinstance(value, dict) for value in settings.values())):
        raise ValueError(
            f"agent-settings: JSON must be an object of objects, got {text!r}; for example "
            '\'{"habnn": {"horizon": 20}}\'.'
        )
    return settings


def check_env(env: str) -> None:
    """Raise unless `env` is the id of a registered environment; "module:ID" imports the module first."""
    module, _, name = env.rpartition(":")
    if module:
        import_plugins([module])
    if name not in gym.registry:
        raise ValueError(
            f"env: id must be that of a registered Gymnasium environment, got {name!r}; {nearest(name, gym.registry)}"
        )


def check_setpoint(setpoint: float) -> None:
    """Raise unless the Industrial Benchmark has this setpoint."""
    if not (isinstance(setpoint, int | float) and 0.0 <= setpoint <= 100.0):
        closest = min(max(0.0, setpoint), 100.0) if isinstance(setpoint, int | float) else 100.0  # NaN becomes 0
        raise ValueError(f"plant: setpoint must be in 0..100, got {level_text(setpoint)}; the nearest is {closest:g}.")


def _read_values(text: str) -> list[Any]:
    """Split at the commas that separate literals: the pieces are joined again until each is a literal or plain text."""
    values: list[Any] = []
    piece = ""
    for part in text.split(","):
        piece = f"{piece},{part}" if piece else part
        try:
            values.append(ast.literal_eval(piece.strip()))
        except (ValueError, SyntaxError):
            if piece.lstrip()[:1] in tuple("([{'\""):
                continue  # a bracket or quote that the next part may close
            values.append(piece)
        piece = ""
    return [*values, piece] if piece else values


def _plain(name: str, value: Any) -> Any:
    """Return a value as JSON gives it back, so that a stored study equals a new one."""
    try:
        return json.loads(json.dumps(value))
    except TypeError as error:
        raise ValueError(
            f"ControlStudy: {name} must be numbers, texts, lists and mappings, got {value!r} ({error}); the study is "
            "stored as JSON."
        ) from None
