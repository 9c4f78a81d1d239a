"""The command `habnn tune`."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from agents.cli.settings import Tune as Config
from agents.runner import play
from agents.study import ControlStudy
from habnn_control.experiments.engine import Task, write_csv
from habnn_control.experiments.parallel import Progress, execute
from habnn_control.support.command_line import fail
from habnn_control.support.files import check_writable

OFF_POLICY = {
    "normalise": (True, False),
    "learning_rate": (3e-4, 1e-3, 3e-3),
    "learning_starts": (10, 25, 50),
    "gradient_steps": (1, 2),
    "gamma": (0.8, 0.9, 0.95, 0.98),
}
SPACES: dict[str, dict[str, tuple[Any, ...]]] = {
    "a2c": {
        "normalise": (True, False),
        "learning_rate": (3e-4, 7e-4, 2e-3, 5e-3),
        "n_steps": (4, 8, 16),
        "gamma": (0.8, 0.9, 0.95, 0.98),
        "ent_coef": (0.0, 0.01),
    },
    "ppo": {
        "normalise": (True, False),
        "learning_rate": (3e-4, 1e-3, 3e-3),
        "n_steps": (16, 32, 64),
        "batch_size": (16,),
        "n_epochs": (5, 10),
        "gamma": (0.8, 0.9, 0.95, 0.98),
    },
    "sac": OFF_POLICY | {"ent_coef": ("auto", 0.05)},
    "td3": OFF_POLICY | {"action_noise": (0.1, 0.2, 0.4)},
}
LAST_SEED = 49


class Job(NamedTuple):
    """One run of one trial."""

    trial: int
    task: Task


def main(config: Config) -> int:
    """Search and return the exit code."""
    try:
        trials = draw(config.agent, config.trials, np.random.default_rng(config.seed))
        studies = [study_of(config, settings) for settings in trials]
        if config.seed + config.runs - 1 > LAST_SEED:
            raise ValueError(
                f"tune: seeds must be in 0..{LAST_SEED}, got up to {config.seed + config.runs - 1}; use fewer."
            )
        check_writable(config.out)
    except (ValueError, OSError) as error:
        return fail(error)
    jobs = [Job(number, task) for number, study in enumerate(studies) for task in study.tasks()]
    losses: dict[int, list[float]] = {number: [] for number in range(len(trials))}
    with Progress([config.agent] * len(jobs), [config.agent] * len(jobs)) as progress:
        for job, loss in execute(mean_loss, jobs, config.jobs, None):
            losses[job.trial].append(np.inf if isinstance(loss, str) else loss)  # settings that crash never win
            progress.advance(config.agent)
    table = pd.DataFrame.from_records([{"loss": np.mean(losses[n]), **settings} for n, settings in enumerate(trials)])
    table = table.sort_values("loss", kind="stable")
    write_csv(table, config.out)
    print(table.to_string(index=False))
    print(f"\nbest of {len(trials)}: {trials[int(table.index[0])]}")
    return 0


def study_of(config: Config, settings: dict[str, Any]) -> ControlStudy:
    """Return the runs of one trial."""
    arguments = {"setpoint": config.setpoints}
    named = {config.agent: settings}
    return ControlStudy((config.agent,), arguments, config.runs, config.steps, config.seed, agent_settings=named)


def draw(agent: str, trials: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return the settings to try: the defaults, then random ones."""
    space = SPACES[agent]
    return [{}] + [
        {name: values[int(rng.integers(len(values)))] for name, values in space.items()} for _ in range(trials - 1)
    ]


def mean_loss(job: Job) -> float:
    """Play one run and return its mean loss."""
    return float(play(job.task).arrays["loss"].mean())
