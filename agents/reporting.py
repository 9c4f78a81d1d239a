"""The report of a control study: what is specific to its environment, its agents and the HABNN paper."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd

from agents.monitor import IMPORTED
from agents.registry import agent_class, merge, preset
from agents.runner import BENCHMARK, import_plugins, measured_env
from envs import find_plant
from habnn_control.experiments import report
from habnn_control.experiments.plotting import Reference
from habnn_control.experiments.report import Presentation
from habnn_control.support.files import read_json

_THRESHOLD = 250.0  # runs on the Industrial Benchmark above it have missed a good operating point
# Sums of rewards as others publish them: NeoRL, undiscounted over 1000 steps; Siemens (LION, WSBC, MOOSE), discounted.
_RETURNS = {"return_1000": -np.ones(1000), "discounted_mean_100": -(0.97 ** np.arange(100)) / 100}
_SEEDS = "Run r of every agent met the same environment seed."


def write_report(folders: Sequence[str | Path], out: str | Path | None = None) -> tuple[pd.DataFrame, Path]:
    """Write tables, figures and page of control studies; see `habnn_control.experiments.report.write_report`."""
    return report.write_report(folders, partial(_present, folders), out)


def printed_losses() -> pd.DataFrame:
    """Return the losses printed in the HABNN paper, figure "Performance on the Industrial Benchmark"."""
    return pd.read_csv(Path(__file__).with_name("printed_losses.csv"))


def actuator_columns(env: gym.Env[Any, Any], columns: Sequence[str]) -> list[str]:
    """Return which of the recorded columns are positions of known actuators, in their order."""
    plant = find_plant(env)
    if plant is None:
        return []
    labels = plant.labels(len(columns))
    return [name for name in columns if labels.get(name) in plant.actuated]


def _present(folders: Sequence[str | Path], losses: pd.DataFrame) -> Presentation:
    configs = [_configuration(folder) for folder in folders]
    ids = list(dict.fromkeys(config["env"] for config in configs))
    recorded = list(losses.columns)[list(losses.columns).index("loss") + 1 :]
    panels = _panels(configs[0], recorded)
    remarks = _remarks(configs, int(losses["timestep"].max()))
    steps = sorted({config["pretrain_steps"] for config in configs if config.get("evaluate")})
    if steps:
        count = " or ".join(map(str, steps))
        remarks.append(
            f"Protocol: agents of Stable-Baselines3 learned for {count} steps; the run shown is a fresh one in which "
            "they no longer learn (--evaluate)."
        )
    if any(IMPORTED in config for config in configs):
        return _imported(configs[0], ids)
    if ids != [BENCHMARK]:
        return Presentation(
            title=f"Agents on {', '.join(ids)}",
            introduction=f"{_beginning(configs)} Lower losses are better. {_SEEDS}",
            panels=panels,
            remarks=remarks,
        )
    return Presentation(
        title="Agents on the Industrial Benchmark",
        introduction=(f"{_beginning(configs)} Loss = consumption + 3 fatigue at each step; lower is better. {_SEEDS}"),
        label="loss = consumption + 3 fatigue",
        panels=panels,
        panels_title="Actuators",
        panels_name="steerings",
        thresholds=(_THRESHOLD,),
        returns=_RETURNS,
        reference=Reference(printed_losses(), "hollow: printed in the paper"),
        reference_remark="Hollow markers are the values printed in the HABNN paper, not measured here.",
        remarks=remarks,
    )


def _beginning(configs: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence on what the agents of the studies have seen before the runs that are shown."""
    steps = sorted({int(config.get("pretrain_steps", 0)) for config in configs})
    if steps == [0]:
        return "Every agent starts cold and learns while it runs the plant."
    count = " or ".join(map(str, steps))
    return (
        f"Before the runs shown, agents of Stable-Baselines3 were trained for {count} steps, and agents that can "
        "learn from a log were given one of as many steps of a wandering policy; all others start cold."
    )


def _imported(config: Mapping[str, Any], ids: Sequence[str]) -> Presentation:
    """Return the presentation of monitor files that others may have written."""
    return Presentation(
        title=f"Agents on {', '.join(ids)}",
        introduction=(
            f"Read from the monitor.csv files in {config[IMPORTED]}. A timestep is one episode, and its loss is minus "
            "the return; lower is better."
        ),
        label="minus the return of an episode",
        remarks=[
            f"All runs are cut to {config['episodes']} episodes, the length of the shortest.",
            "Runs are not paired: nothing in the files says that two of them met the same environment.",
        ],
    )


def _configuration(folder: str | Path) -> dict[str, Any]:
    """Return what config.json says of environment and agents; folders of older releases name no environment."""
    config = read_json(Path(folder) / "config.json")
    if not isinstance(config, dict):
        raise ValueError(f"report: {folder}/config.json must hold an object, got {config!r:.60}; choose another one.")
    return {"env": BENCHMARK, "arguments": {}, "agents": [], "agent_settings": {}, "plugins": [], **config}


def _panels(config: Mapping[str, Any], recorded: Sequence[str]) -> list[str]:
    """Return the columns to draw: the actuators of the Plant if it names some, else all."""
    arguments = {name: values[0] for name, values in config["arguments"].items()}
    try:
        import_plugins(config["plugins"])
        env = measured_env(config["env"], **arguments)
    except Exception:  # the environment is not installed here: its results can be shown all the same
        return list(recorded)
    panels = actuator_columns(env, recorded) or list(recorded)
    env.close()
    return panels


def _remarks(configs: Sequence[Mapping[str, Any]], steps: int) -> list[str]:
    """Return the remarks of all agents of the studies, each once."""
    remarks: dict[str | None, None] = {}
    for config in configs:
        for name in config["agents"]:
            try:
                settings = merge(preset(name), config["agent_settings"].get(name, {}))
            except ValueError:  # an agent of a plugin that is not installed here
                continue
            remarks[agent_class(name).remark(steps, settings)] = None
    return [remark for remark in remarks if remark]
