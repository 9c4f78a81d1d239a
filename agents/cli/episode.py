"""The command `habnn run`."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from tqdm import tqdm

import agents
from agents.cli.settings import REFERENCES
from agents.cli.settings import Episode as Config
from agents.event_log import EventLog, check_tensorboard
from agents.reporting import actuator_columns
from agents.runner import BENCHMARK, Recorder, env_arguments, import_plugins, measured_env, play
from agents.study import ControlStudy, read_agent_settings, read_arguments
from habnn_control.experiments.engine import Outcome, write_csv
from habnn_control.experiments.plotting import (
    columns_panel,
    loss_panel,
    prediction_panel,
    save_figure,
    stacked_figure,
)
from habnn_control.support.command_line import command, fail
from habnn_control.support.files import atomic_write, is_leftover, read_json

Array = NDArray[np.float64]
Panel = Callable[[Axes], None]

_FIRST_JUDGED = 100  # first step of the printed coverage


def main(config: Config) -> int:
    """Run the episode and return the exit code."""
    try:
        study = resolve(config)
        task = study.tasks()[0]
        env = Recorder(measured_env(study.env, **env_arguments(task)), config.seed)
        made = (task["agent_seed"], task["agent_settings"])
        agent = load(config, env) if config.load else agents.make(config.agent, env, made[0], **made[1])
        claim(Path(config.out), config)
    except (ValueError, TypeError, OSError) as error:
        return fail(error)
    try:
        with threadpool_limits(1):  # as in scripts/compare.py: the same sums in the same order on every machine
            run(config, study, agent, env)
    except OSError as error:  # a full disk
        return fail(error)
    return 0


def run(config: Config, study: ControlStudy, agent: agents.Agent, env: Recorder) -> None:
    """Play the episode, write losses, predictions, agent and picture, and print the mean losses."""
    out, (task, *others) = Path(config.out), study.tasks()
    predictions: list[Any] = []
    log = config.tensorboard or None
    if config.load and not config.learn:
        evaluate(agent, env, study.steps, log)
    else:
        agent.learn(
            study.steps,
            progress_bar=True,
            callback=lambda _: predictions.append(agent.prediction),
            tensorboard=log,
        )
    columns = env.columns()
    played = replace(task, factors={**task.factors, "agent": agent.name})
    outcome = Outcome(dict(columns), {"wall_seconds": 0.0, "decision_seconds": 0.0})
    write_csv(study.tables([(played, outcome)])["losses"], out / "losses.csv")
    agent.save(out / "agent.npz")
    bands = predicted_bands(env.labels, columns, predictions)
    write_bands(bands, out / "predictions.csv")
    references = {other["agent"]: play(other).arrays["loss"] for other in others if other["agent"] != agent.name}
    figure = stacked_figure([loss_panel(agent.name, columns["loss"], references), *panels(env, columns, bands)])
    for suffix in ("png", "svg"):
        save_figure(figure, out / f"episode.{suffix}")
    for name, loss in {agent.name: columns["loss"], **references}.items():
        print(
            f"{name}: mean loss {loss.mean():.1f} over {study.steps} steps, {loss[-100:].mean():.1f} over the last 100"
        )
    print_coverage(bands)
    print(f"written to {out.resolve()}")


def resolve(config: Config) -> ControlStudy:
    """Check the settings and return a study of the agent and its references."""
    if config.tensorboard:
        check_tensorboard()
    import_plugins(config.plugin)
    references = config.references or (REFERENCES if config.env == BENCHMARK else ())
    arguments = read_arguments(config.env_arg, env=config.env, setpoint=config.setpoint)
    for name, values in arguments.items():
        if len(values) > 1:
            raise ValueError(f"run_episode: {name} must be one value, got {values}; scripts/compare.py plays grids.")
    study = ControlStudy(
        tuple(dict.fromkeys((config.agent, *references))),
        arguments,
        runs=1,
        steps=min(config.steps, 20) if config.smoke else config.steps,
        seed=config.seed,
        env=config.env,
        agent_settings=read_agent_settings(config.agent_settings),
        plugins=config.plugin,
    )
    study.check()
    return study


def load(config: Config, env: Recorder) -> agents.Agent:
    """Return the saved agent; raise if it cannot play in the way asked for."""
    agent = agents.load(config.load, env)
    if not (config.learn or agent.can_evaluate):
        raise ValueError(
            f"run_episode: load must be an agent that acts on observations alone, got {agent.name}, which needs more "
            "than these; add --learn."
        )
    return agent


def claim(out: Path, config: Config) -> None:
    """Write config.json, or raise if the folder holds anything but an earlier episode."""
    path = out / "config.json"
    earlier = path.exists() and holds_episode(path)
    free = not out.exists() or (out.is_dir() and all(map(is_leftover, out.iterdir())))
    if not (earlier or free):
        raise ValueError(
            f"run_episode: out must be empty or hold an earlier episode, got {out}; choose another folder."
        )
    with atomic_write(path) as file:
        file.write((json.dumps({"episode": asdict(config), "command": command()}, indent=2) + "\n").encode())


def holds_episode(path: Path) -> bool:
    """Return whether a config.json is one that this script wrote."""
    try:
        config = read_json(path)
    except ValueError:
        return False
    return isinstance(config, dict) and "episode" in config


def predicted_bands(
    labels: Mapping[str, int], columns: Mapping[str, Array], predictions: Sequence[Any]
) -> dict[str, pd.DataFrame]:
    """Return measured values and 90 % bands of each predicted entry; nothing unless all steps were predicted."""
    if len(predictions) != len(columns["loss"]) or any(one is None for one in predictions):
        return {}
    bands = {}
    places = {int(index): place for place, index in enumerate(predictions[0].indices)}
    for name in (name for name, entry in labels.items() if entry in places):
        at = places[labels[name]]
        ends = {end: [float(getattr(one, end)[at]) for one in predictions] for end in ("low", "high")}
        timesteps = np.arange(1, len(predictions) + 1)
        bands[name] = pd.DataFrame({"timestep": timesteps, "measured": columns[name], **ends})
    return bands


def panels(env: Recorder, columns: Mapping[str, Array], bands: Mapping[str, pd.DataFrame]) -> list[Panel]:
    """Return the panels under the loss: actuators (or, if none are known, all entries without a band), and bands."""
    actuators = actuator_columns(env, list(env.labels))
    names = actuators or [name for name in env.labels if name not in bands]
    entries = [env.labels[name] for name in names]
    low, high = (np.ravel(getattr(env.observation_space, end, ())) for end in ("low", "high"))
    limits = (float(low[entries].min()), float(high[entries].max())) if actuators else None
    label = "actuator position" if actuators else "observation"
    shown = [columns_panel({name: columns[name] for name in names}, label, limits)] if names else []
    return shown + [
        prediction_panel(name, *band[["measured", "low", "high"]].to_numpy().T) for name, band in bands.items()
    ]


def write_bands(bands: Mapping[str, pd.DataFrame], path: Path) -> None:
    """Write the bands of all entries as one table; without bands, remove the table of an earlier episode."""
    if bands:
        write_csv(pd.concat(bands, names=["entry"]).reset_index("entry"), path)
    else:
        path.unlink(missing_ok=True)


def print_coverage(bands: Mapping[str, pd.DataFrame]) -> None:
    """Print which part of the measured values lies in the bands, without the first steps, where bands are wide."""
    for name, band in bands.items():
        judged = band[band["timestep"] >= _FIRST_JUDGED]
        if len(judged):
            covered = judged["measured"].between(judged["low"], judged["high"])
            print(f"{name}: 90 % bands cover {100 * covered.mean():.1f} % of the steps from {_FIRST_JUDGED} on")


def evaluate(agent: agents.Agent, env: Recorder, steps: int, tensorboard: str | None) -> None:
    """Play without learning or exploring; an episode that ends is followed by a reset."""
    state, start = None, True
    with EventLog(tensorboard) as log:
        for timestep in tqdm(range(1, steps + 1), desc=agent.name):
            if start:
                observation, _ = env.reset()
            begins = np.array([start])
            action, state = agent.predict(observation, state=state, episode_start=begins, deterministic=True)
            observation, reward, terminated, truncated, info = env.step(action)
            start = terminated or truncated
            log.write(timestep, float(reward), info, {})
