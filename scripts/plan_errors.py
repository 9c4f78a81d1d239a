"""Compare what an agent's model believes of plans that were not played with what is true on the Industrial Benchmark.

While an agent learns, its model is asked now and then for the losses of random plans and of the plan about to be
played, and for the standard deviations of these losses; the true losses come from the simulator and its hidden state,
which the agent never sees. A model that knows how sure it is has standardised errors of about 1.
"""

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
from _plan_figure import draw  # type: ignore[import-not-found]
from numpy.typing import NDArray

import agents
import envs
from agents.mpc import MPCAgent
from agents.outlook import plan_losses
from agents.runner import Recorder, make_env
from habnn_control.control.planning import coloured_noise
from habnn_control.experiments.parallel import execute
from habnn_control.experiments.provenance import write_meta
from habnn_control.support.command_line import command, fail, flag, parse
from habnn_control.support.files import atomic_write

Array = NDArray[np.float64]

NAME = "plan-errors"
_SPREAD, _COLOUR = 0.6, 2.0  # of random plans, as those that the planner starts from
_HORIZON = 35  # steps of a plan
_SCENARIOS = 12  # random futures that the true loss of a plan is averaged over


@dataclass(frozen=True)
class Config:
    """Settings of the study."""

    agents: tuple[str, ...] = flag(("habnn", "habnn-narrow-prior"), "agents that plan with a model")
    setpoint: float = flag(100.0, "load of the plant, 0..100")
    wandering: bool = flag(False, "let the setpoint wander; a plan's losses are those of the setpoint as it is")
    runs: int = flag(8, "runs of each agent; run r meets the mirror image r mod 8")
    seed: int = flag(0, "seed of the first run")
    at: tuple[int, ...] = flag((40, 60, 100, 200, 300, 600), "steps after which the model is asked, in rising order")
    plans: int = flag(100, "random plans each time")
    jobs: int = flag(1, "parallel processes")
    out: str = flag("results/plan-errors", "folder for tables and picture")


@dataclass(frozen=True)
class Task:
    """One run of one agent."""

    config: Config
    agent: str
    run: int


class _Watched(Recorder):
    """Keeps the hidden state, which is for the judge alone."""

    def __init__(self, env: gym.Env[Any, Any], seed: int) -> None:
        super().__init__(env, seed)
        self.hidden: Array = np.empty(0)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and keep the hidden state."""
        result = super().step(action)
        self.hidden = np.array(list(result[4]["markov_state"].values()))
        return result


def main(arguments: list[str] | None = None) -> int:
    """Play, write, draw and print, and return the exit code."""
    config, start = parse(Config, __doc__, arguments), perf_counter()
    rising = all(a < b for a, b in zip((0, *config.at), config.at, strict=False))
    if not (config.runs >= 1 and config.plans >= 2 and config.jobs >= 1 and config.at and rising):
        return fail(
            f"plan_errors: runs and jobs must be positive, plans at least 2 and at rising, got {config.runs}, "
            f"{config.jobs}, {config.plans} and {config.at}; leave them out for the full study."
        )
    rows: list[dict[str, Any]] = []
    tasks = [Task(config, agent, run) for agent in config.agents for run in range(config.runs)]
    for task, result in execute(play, tasks, config.jobs, None):
        if isinstance(result, str):
            return fail(f"plan_errors: run {task.run} of {task.agent} must end well, got {result}")
        rows += result
        print(f"{task.agent}, run {task.run}: {perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    plans = pd.DataFrame(rows).sort_values(["agent", "run", "step", "plan"], kind="stable", ignore_index=True)
    table, out = summary(plans, config.agents), Path(config.out)
    for name, frame in ((f"{NAME}-plans", plans), (NAME, table)):
        with atomic_write(out / f"{name}.csv") as file:
            file.write(frame.to_csv(index=False, float_format="%.6g").encode())
    write_meta(out, command(), perf_counter() - start, **asdict(config))
    draw(plans, table, out / f"{NAME}.png")
    print(table.to_string(index=False, float_format="%.2f"))
    return 0


def play(task: Task) -> list[dict[str, Any]]:
    """Return one row per plan that the model was asked for; plan -1 is the agent's own."""
    config = task.config
    seed, mirror = config.seed + task.run, envs.IMAGES[task.run % len(envs.IMAGES)]
    env = _Watched(make_env(config.setpoint, wandering=config.wandering, mirror=mirror), seed)
    agent = agents.make(task.agent, env, seed=seed)
    if not isinstance(agent, MPCAgent):
        raise ValueError(f"plan_errors: agents must plan with a model, got {task.agent!r}; take habnn.")
    rows: list[dict[str, Any]] = []
    done = 0
    for step in config.at:
        agent.learn(step - done, resume=done > 0)
        done = step
        rows += [{"agent": task.agent, "run": task.run, "step": step, **row} for row in _judged(agent, env, config)]
    return rows


def _judged(agent: MPCAgent, env: _Watched, config: Config) -> list[dict[str, Any]]:
    """Return what the model believes of plans from where the plant is, and what is true."""
    rng = np.random.default_rng((config.seed, len(env.hidden), int(1e6 * env.hidden[1])))
    n_actions = int(np.prod(env.action_space.shape or ()))
    drawn = _SPREAD * coloured_noise(rng, config.plans, _HORIZON, n_actions, _COLOUR)
    plans = np.clip(drawn, -1.0, 1.0)
    if agent.plan is not None:
        own = np.zeros((_HORIZON, n_actions))
        own[: min(len(agent.plan), _HORIZON)] = agent.plan[:_HORIZON]
        plans = np.concatenate([own[None], plans])
    believed = plan_losses(agent, plans)
    true = _true_losses(env, np.concatenate([np.zeros((1, _HORIZON, n_actions)), plans]), rng)
    columns = {**believed._asdict(), "true": true[1:], "true_above_rest": true[1:] - true[0]}
    first = -1 if agent.plan is not None else 0
    return [{"plan": first + k, **{name: float(c[k]) for name, c in columns.items()}} for k in range(len(plans))]


def _true_losses(env: _Watched, plans: Array, rng: np.random.Generator) -> Array:
    """Return the mean loss (n,) of plans on the simulator, over the same random futures."""
    mirror = envs.mirror_of(env)
    actions = np.stack([mirror.actions(action) for action in plans.reshape(-1, plans.shape[-1])]).reshape(plans.shape)
    futures = envs.draw_noise(rng, _SCENARIOS, plans.shape[1])
    return np.asarray(np.mean([envs.simulate(env.hidden, actions, noise[None]) for noise in futures], axis=(0, 2)))


def summary(plans: pd.DataFrame, names: tuple[str, ...]) -> pd.DataFrame:
    """Return one row per agent and step.

    Standardised errors are root mean squares over random plans, medians over runs; correlations likewise. What the
    agent's own plan promised and what was true are means over runs, beyond resting.
    """
    rows = []
    for (agent, step), part in plans.groupby(["agent", "step"]):
        runs = [run for _, run in part[part["plan"] >= 0].groupby("run")]
        own = part[part["plan"] < 0]
        rows.append(
            {
                "agent": agent,
                "step": step,
                "runs": len(runs),
                "error_of_total": _median(_standardised(run, "mean", "true", "deviation") for run in runs),
                "error_of_difference": _median(
                    _standardised(run, "above_rest", "true_above_rest", "above_rest_deviation") for run in runs
                ),
                "correlation": _median(float(run["mean"].corr(run["true"])) for run in runs),
                "promised": own["above_rest"].mean(),
                "true": own["true_above_rest"].mean(),
            }
        )
    order = {name: k for k, name in enumerate(names)}
    table = pd.DataFrame(rows)
    return table.sort_values(["agent", "step"], key=lambda c: c.map(order) if c.name == "agent" else c)


def _standardised(run: pd.DataFrame, mean: str, true: str, deviation: str) -> float:
    """Return the root mean square of errors in units of their predicted standard deviations."""
    return float(np.sqrt(np.mean(((run[mean] - run[true]) / run[deviation]) ** 2)))


def _median(values: Any) -> float:
    return float(np.median(list(values)))


if __name__ == "__main__":
    sys.exit(main())
