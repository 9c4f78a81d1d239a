"""The command `habnn run`."""

import json
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from tqdm import tqdm

import agents
from agents.cli.settings import REFERENCES
from agents.cli.settings import Episode as Config
from agents.episode import EpisodeRecord
from agents.event_log import EventLog, check_tensorboard
from agents.live import LivePage
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
from habnn_control.support.command_line import command, describe, fail
from habnn_control.support.files import atomic_write, is_leftover, load_arrays, read_json
from habnn_control.support.threads import one_thread

Array = NDArray[np.float64]
Panel = Callable[[Axes], None]

_FIRST_JUDGED = 100  # first step of the printed coverage
_LAST = 100  # steps of the second mean that is printed


def main(config: Config) -> int:
    """Run the episode and return the exit code."""
    try:
        study = resolve(config)
        task = study.tasks()[0]
        env = Recorder(measured_env(study.env, **env_arguments(task)), config.seed)
        made = (task["agent_seed"], task["agent_settings"])
        agent = load(config, env) if config.load else agents.make(task["agent"], env, made[0], **made[1])
        claim(Path(config.out), episode_of(config, study))
        learning = config.learn or not config.load
        resumable = learning and agent.can_resume and not config.tensorboard
        record = EpisodeRecord(env, Path(config.out), config.checkpoint_every if resumable else 0)
        agent = (record.resume() if resumable else None) or agent
        page = live_page(config, study, record)
    except (ValueError, TypeError, OSError) as error:
        return fail(error)
    try:
        with one_thread(), page:  # one thread, as in a comparison: the same bytes
            run(config, study, agent, record)
    except KeyboardInterrupt:
        print(f"\nStopped: {keep(study, agent, record)}", file=sys.stderr)
        return 130
    except Exception as error:
        kept = keep(study, agent, record)
        with suppress(OSError), atomic_write(record.folder / "error.txt") as file:
            file.write(traceback.format_exc().encode())
        code = fail(f"{describe(error)} (in full in {record.folder / 'error.txt'}): {kept}")
        return code if isinstance(error, OSError) else 1  # a full disk is nothing to look into
    return 0


def live_page(config: Config, study: ControlStudy, record: EpisodeRecord) -> AbstractContextManager[Any]:
    """Return the page that shows the episode while it runs, if it was asked for."""
    if not config.live:
        return nullcontext()
    actuators = actuator_columns(record.env, list(record.env.labels))
    idle = [loss for task in study.tasks()[1:] if task["agent"] == "noop" for loss in play(task).arrays["loss"]]
    page = LivePage(record, study.agents[0], study.steps, actuators, config.port, idle)
    record.watcher = page.update
    print(f"live: {page.address}", file=sys.stderr, flush=True)
    return page


def run(config: Config, study: ControlStudy, agent: agents.Agent, record: EpisodeRecord) -> None:
    """Play the episode, write losses, predictions, agent and picture, and print the mean losses."""
    others, left = study.tasks()[1:], study.steps - record.n_steps
    if record.n_steps:
        print(f"going on after step {record.n_steps}, where the last checkpoint was written", file=sys.stderr)
    if config.load and not config.learn:
        evaluate(agent, record, study.steps, config.tensorboard or None)
    elif left:
        agent.learn(
            left,
            progress_bar=True,
            callback=lambda step: record.add(agent, step.action, agent.prediction),
            resume=record.n_steps > 0,
            tensorboard=config.tensorboard or None,
        )
    write_tables(study, agent, record)
    agent.save(record.folder / "agent.npz")
    columns, bands = record.columns(), record.bands()
    references = {other["agent"]: play(other).arrays["loss"] for other in others if other["agent"] != agent.name}
    shown = [loss_panel(agent.name, columns["loss"], references), *panels(record.env, columns, bands)]
    figure = stacked_figure(shown)
    for suffix in ("png", "svg"):
        save_figure(figure, record.folder / f"episode.{suffix}")
    record.discard()
    (record.folder / "error.txt").unlink(missing_ok=True)
    last = min(_LAST, study.steps)
    for name, loss in {agent.name: columns["loss"], **references}.items():
        print(
            f"{name}: mean loss {loss.mean():.1f} over {study.steps} steps, {loss[-last:].mean():.1f} over the last "
            f"{last}"
        )
    print_coverage(bands)
    print(f"written to {record.folder.resolve()}")


def resolve(config: Config) -> ControlStudy:
    """Check the settings and return a study of the agent and its references."""
    if config.checkpoint_every < 0:
        raise ValueError(
            f"run: checkpoint-every must be a number of steps, got {config.checkpoint_every}; 0 means no checkpoints."
        )
    if config.tensorboard:
        check_tensorboard()
    import_plugins(config.plugin)
    references = config.references or (REFERENCES if config.env == BENCHMARK else ())
    arguments = read_arguments(config.env_arg, env=config.env, setpoint=config.setpoint)
    for name, values in arguments.items():
        if len(values) > 1:
            raise ValueError(f"run: {name} must be one value, got {values}; habnn compare plays grids.")
    study = ControlStudy(
        tuple(dict.fromkeys((agent_name(config), *references))),
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


def agent_name(config: Config) -> str:
    """Return the name of the agent to play; raise if it is not that of the file to load."""
    if not config.load:
        return config.agent or "habnn"
    saved = str(load_arrays(config.load, "agent")[0]["agent"])
    if config.agent not in ("", saved):
        raise ValueError(
            f"run: agent must be that of the file to load, got {config.agent!r} and {config.load} of the "
            f"agent {saved}; leave --agent out."
        )
    return saved


def load(config: Config, env: Recorder) -> agents.Agent:
    """Return the saved agent; raise if it cannot play in the way asked for."""
    agent = agents.load(config.load, env)
    if not (config.learn or agent.can_evaluate):
        raise ValueError(
            f"run: load must be an agent that acts on observations alone, got {agent.name}, which needs more "
            "than these; add --learn."
        )
    return agent


def episode_of(config: Config, study: ControlStudy) -> dict[str, Any]:
    """Return what makes an episode another one, as JSON gives it back."""
    names = ("env", "steps", "seed", "arguments", "agent_settings", "plugins")
    shared = {name: getattr(study, name) for name in names}
    own = {"agent": study.agents[0], "references": study.agents[1:], "load": config.load, "learn": config.learn}
    episode: dict[str, Any] = json.loads(json.dumps({**own, **shared}))
    return episode


def claim(out: Path, episode: dict[str, Any]) -> None:
    """Write config.json, or raise if the folder holds anything but this episode."""
    path = out / "config.json"
    wish = f"run: out must be empty or hold an earlier episode with the same settings, got {out}"
    if path.exists() and (found := earlier_episode(path)) is not None:
        changes = [f"{k} {found.get(k)} instead of {v}" for k, v in episode.items() if found.get(k) != v]
        if changes:
            raise ValueError(f"{wish} with {'; '.join(changes)}; choose another folder.")
    elif out.exists() and not (out.is_dir() and all(map(is_leftover, out.iterdir()))):
        raise ValueError(f"{wish} with something else in it; choose another folder.")
    with atomic_write(path) as file:
        file.write((json.dumps({"episode": episode, "command": command()}, indent=2) + "\n").encode())


def earlier_episode(path: Path) -> dict[str, Any] | None:
    """Return the episode in a config.json; None if the file is not one that this command wrote."""
    try:
        config = read_json(path)
    except ValueError:
        return None
    episode = config.get("episode") if isinstance(config, dict) else None
    return episode if isinstance(episode, dict) else None


def write_tables(study: ControlStudy, agent: agents.Agent, record: EpisodeRecord) -> None:
    """Write losses.csv and predictions.csv of the complete steps."""
    task = study.tasks()[0]
    played = replace(
        task, factors={**task.factors, "agent": agent.name}, settings={**task.settings, "steps": record.n_steps}
    )
    outcome = Outcome(record.columns(), {"wall_seconds": 0.0, "decision_seconds": 0.0})
    write_csv(study.tables([(played, outcome)])["losses"], record.folder / "losses.csv")
    write_bands(record.bands(), record.folder / "predictions.csv")


def keep(study: ControlStudy, agent: agents.Agent, record: EpisodeRecord) -> str:
    """Write the tables of an episode that was stopped, and return what a user must know."""
    onward = f"goes on after step {record.kept}" if record.kept else "starts anew"
    try:
        write_tables(study, agent, record)
    except OSError as error:
        return f"nothing more could be written ({describe(error)}); the same command {onward}."
    return f"losses and predictions of {record.n_steps} steps are in {record.folder}, the same command {onward}."


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


def evaluate(agent: agents.Agent, record: EpisodeRecord, steps: int, tensorboard: str | None) -> None:
    """Play without learning or exploring; an episode that ends is followed by a reset."""
    state, start = None, True
    with EventLog(tensorboard) as log:
        for timestep in tqdm(range(1, steps + 1), desc=agent.name):
            if start:
                observation, _ = record.env.reset()
            begins = np.array([start])
            action, state = agent.predict(observation, state=state, episode_start=begins, deterministic=True)
            observation, reward, terminated, truncated, info = record.env.step(action)
            start = terminated or truncated
            log.write(timestep, float(reward), info, {})
            record.add(agent, action, None)
