"""Runs of a study in Weights & Biases; off unless asked for, and without a network unless WANDB_MODE says online."""

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path

from agents.study import ControlStudy
from habnn_control.experiments.engine import load_outcome
from habnn_control.support.extras import check_extra


def check_wandb() -> None:
    """Raise unless the package is installed."""
    check_extra("wandb: logs", "wandb", "wandb")


def log_to_wandb(project: str, folder: str | Path, study: ControlStudy) -> None:
    """Log every finished run of a study: its settings, all columns over timesteps, and its mean loss.

    Parameters
    ----------
    project : str
        Name of the project.
    folder : str or Path
        Results folder; offline logs are written to its subfolder wandb, from where `wandb sync` sends them.
    study : ControlStudy
    """
    check_wandb()
    import wandb  # type: ignore[import-not-found,unused-ignore]

    for task in study.tasks():
        outcome = load_outcome(folder, study, task)
        if outcome is None:
            continue
        identity = hashlib.sha256(json.dumps(asdict(task)).encode()).hexdigest()[
            :16
        ]  # logged again, it is the same run
        run = wandb.init(
            project=project,
            name=study.label(task),
            group=str(task["agent"]),
            id=identity,
            resume="allow",
            dir=str(folder),
            mode=os.environ.get("WANDB_MODE", "offline"),
            config={**task.factors, "run": task.run, "seed": task.seed, "env": study.env, "steps": task["steps"]},
            settings=wandb.Settings(silent=True),
        )
        for k in range(task["steps"]):
            run.log({name: float(values[k]) for name, values in outcome.arrays.items()}, step=k + 1)
        run.summary["mean_loss"] = float(outcome.arrays["loss"].mean())
        run.finish()
