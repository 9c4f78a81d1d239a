"""Let sensors fail and plants change under an agent, and compare its losses with those of an undisturbed run.

For each seed an agent learns for some steps. From there one copy of agent and plant goes on undisturbed, and one more
for every fault. Ratios of losses are those of the true plant, whatever the sensors report. The exit code is 1 if the
mean loss of the steps after a fault is more than 5 % above that of the undisturbed run, or if the agent has not
recovered from a change 100 steps after it. docs/reliability.md holds the table of a full run.
"""

import logging
import sys
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from _faults import Disturbed, Fault, chance, real_changes, sensor_faults  # type: ignore[import-not-found]
from numpy.typing import NDArray

import agents
from agents.runner import make_env
from habnn_control.experiments.parallel import execute
from habnn_control.experiments.provenance import write_meta
from habnn_control.support.command_line import command, fail, flag, parse
from habnn_control.support.files import atomic_write
from habnn_control.support.logging_levels import log_only

Array = NDArray[np.float64]

NAME = "sensor-faults"
_BAR = 1.05  # largest ratio that is promised
_RECOVERY = 100  # steps after a change in which the agent may recover
_ERRORS = 2.0  # standard errors to either side in an interval of 95 %


@dataclass(frozen=True)
class Config:
    """Settings of the study."""

    agent: str = flag("habnn", "the agent")
    setpoint: float = flag(100.0, "load of the plant, 0..100")
    to_setpoint: float = flag(20.0, "load after the change of the setpoint")
    runs: int = flag(8, "number of seeds")
    seed: int = flag(0, "seed of the first run")
    before: int = flag(150, "steps before a fault")
    after: int = flag(200, "steps after a fault, more than 100")
    length: int = flag(25, "steps of a fault that lasts")
    stopped: int = flag(50, "steps in which an actuator does not move")
    only: str = flag("", "part of the names of the faults to play")
    jobs: int = flag(1, "parallel processes")
    out: str = flag("results/sensor-faults", "folder for the tables")


@dataclass(frozen=True)
class Task:
    """All faults of one seed."""

    config: Config
    seed: int


def main(arguments: list[str] | None = None) -> int:
    """Play, write and print the tables, and return the exit code."""
    config, start = parse(Config, __doc__, arguments), perf_counter()
    if not (config.runs >= 1 and config.jobs >= 1 and config.after > _RECOVERY and config.before >= 1):
        return fail(
            f"sensor_faults: runs, jobs and before must be positive and after above {_RECOVERY}, got {config.runs}, "
            f"{config.jobs}, {config.before} and {config.after}; leave them out for the full study."
        )
    rows: list[dict[str, Any]] = []
    tasks = [Task(config, config.seed + run) for run in range(config.runs)]
    for task, result in execute(play_seed, tasks, config.jobs, None):
        if isinstance(result, str):
            return fail(f"sensor_faults: seed {task.seed} must end well, got {result}")
        rows += result
        print(f"seed {task.seed}: {perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    runs = pd.DataFrame(rows).sort_values("seed", kind="stable")
    table, out = summary(runs), Path(config.out)
    for name, frame in ((f"{NAME}-runs", runs), (NAME, table)):
        with atomic_write(out / f"{name}.csv") as file:
            file.write(frame.to_csv(index=False, float_format="%.6g").encode())
    write_meta(out, command(), perf_counter() - start, **asdict(config))
    print(table.to_string(index=False, float_format="%.3f"))
    return 0 if not (table["promised"] == "NO").any() else 1


def play_seed(task: Task) -> list[dict[str, Any]]:
    """Return one row per fault: losses in parts of those of the undisturbed run.

    The undisturbed run of a new setpoint is that of an agent which has had this setpoint all the time.
    """
    with log_only(logging.ERROR, "agents"):  # a warning per fault and seed is what is asked for
        return _play(task.config, task.seed)


def _play(config: Config, seed: int) -> list[dict[str, Any]]:
    length = max(config.length, config.stopped, 1)
    faults = [chance(), *sensor_faults(config.length), *real_changes(config.stopped, config.to_setpoint)]
    agent = _agent(config, config.setpoint, seed)
    agent.learn(config.before)
    clean, rows = _losses(deepcopy(agent), length + config.after), []
    for fault in faults:
        if config.only not in fault.name:
            continue
        usual = clean
        if fault.setpoint is not None:
            settled = _agent(config, fault.setpoint, seed)
            settled.learn(config.before)
            usual = _losses(settled, length + config.after)
        disturbed = deepcopy(agent)
        disturbed.env.start(fault)
        rows.append(_row(fault, seed, _losses(disturbed, fault.steps + config.after), usual))
    return rows


def _agent(config: Config, setpoint: float, seed: int) -> Any:
    env = Disturbed(make_env(setpoint))
    env.reset(seed=seed)
    return agents.make(config.agent, env, seed=seed)


def _losses(agent: Any, n_steps: int) -> Array:
    """Let an agent go on and return the true losses."""
    losses: list[float] = []
    agent.learn(n_steps, resume=True, callback=lambda step: losses.append(step.info["loss"]))
    return np.array(losses)


def _row(fault: Fault, seed: int, losses: Array, clean: Array) -> dict[str, Any]:
    """Return the ratios of the losses to those of the undisturbed run at the same steps."""

    def ratio(first: int, last: int) -> float:
        return float(losses[first:last].mean() / clean[first:last].mean())

    n, end = fault.steps, len(losses)
    late = ratio(n + _RECOVERY, end)
    ratios = {"during": ratio(0, n), "after": ratio(n, end), "first_100": ratio(n, n + _RECOVERY), "then": late}
    return {"group": fault.group, "fault": fault.name, "seed": seed, **ratios}


def summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row per fault: means over the seeds, an interval and the worst seed of what is promised.

    Promised is a ratio of at most 1.05 in the mean of the steps after a fault, and of the steps from the hundredth on
    after a change.
    """
    rows = []
    for (group, fault), part in runs.groupby(["group", "fault"], sort=False):
        judged = part["then" if group == "change" else "after"]
        error = _ERRORS * judged.std() / np.sqrt(len(judged)) if len(judged) > 1 else np.nan
        kept = "-" if group == "chance" else "yes" if judged.mean() <= _BAR else "NO"
        means = part[["during", "first_100", "then"]].mean().to_dict()
        row = {"group": group, "fault": fault, "runs": len(part), **means, "ratio": judged.mean()}
        rows.append({**row, "low": row["ratio"] - error, "high": row["ratio"] + error, "worst": judged.max()})
        rows[-1]["promised"] = kept
    return pd.DataFrame(rows)


if __name__ == "__main__":
    sys.exit(main())
