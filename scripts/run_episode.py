"""Run one agent in the Industrial Benchmark and keep its losses, the agent itself and a picture.

The same seed gives the episode that is run 0 of scripts/compare.py with that seed.
"""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from tqdm import tqdm

import agents
from agents.event_log import EventLog, check_tensorboard
from agents.mpc import MPCAgent
from agents.registry import check_name
from agents.runner import Recorder, check_setpoint, make_env, play
from habnn_control.control.model import StepPrediction as Prediction
from habnn_control.experiments.engine import Run, Study, tidy_losses, write_csv
from habnn_control.experiments.plotting import (
    loss_panel,
    prediction_panel,
    save_figure,
    stacked_figure,
    steerings_panel,
)
from habnn_control.support.command_line import command, fail, flag, parse
from habnn_control.support.files import atomic_write

Array = NDArray[np.float64]
Panel = Callable[[Axes], None]

_FIRST_JUDGED = 100  # step from which on the printed coverage counts


@dataclass(frozen=True)
class Config:
    """Settings of an episode."""

    agent: str = flag("habnn", f"one of {', '.join(agents.names())}")
    setpoint: float = flag(100.0, "load of the plant, 0..100")
    steps: int = flag(1000, "steps of the episode")
    seed: int = flag(0, "seed of the environment; the agent's own seed is derived from it")
    load: str = flag("", "file of a saved agent to play instead, without learning unless --learn is given")
    learn: bool = flag(False, "let a loaded agent go on learning")
    references: tuple[str, ...] = flag(("noop", "oracle"), "agents to play beside it for the picture")
    tensorboard: str = flag("", "folder for a TensorBoard log")
    out: str = flag("runs/episode", "folder for losses.csv, predictions.csv, agent.npz and episode.png/svg")
    smoke: bool = flag(False, "twenty steps, to see that everything works")


def main(arguments: list[str] | None = None) -> int:
    """Run the episode and return the exit code."""
    config = parse(Config, __doc__, arguments)
    try:
        study = resolve(config)
        env = Recorder(make_env(config.setpoint), config.seed)
        agent = load(config, env) if config.load else agents.make(config.agent, env, study.tasks()[0].agent_seed)
        claim(Path(config.out), config)
    except (ValueError, OSError) as error:
        return fail(error)
    try:
        run(config, study, agent, env)
    except OSError as error:  # a full disk
        return fail(error)
    return 0


def run(config: Config, study: Study, agent: agents.Agent, env: Recorder) -> None:
    """Play the episode, write what came of it and print the mean losses."""
    out, (task, *others) = Path(config.out), study.tasks()
    predictions: list[Prediction] = []
    log = config.tensorboard or None
    if config.load and not config.learn:
        evaluate(agent, env, study.steps, log)
    else:
        agent.learn(
            study.steps, progress_bar=True, callback=lambda _: keep_prediction(agent, predictions), tensorboard=log
        )
    columns = env.columns()
    write_csv(tidy_losses([(task._replace(agent=agent.name), Run(columns, 0.0, 0.0))]), out / "losses.csv")
    agent.save(out / "agent.npz")
    bands = predicted_bands(columns, predictions)
    write_bands(bands, out / "predictions.csv")
    references = {other.agent: play(other).columns["loss"] for other in others if other.agent != agent.name}
    panels: list[Panel] = [loss_panel(agent.name, columns["loss"], references), steerings_panel(columns)]
    panels += [prediction_panel(name, *band[["measured", "low", "high"]].to_numpy().T) for name, band in bands.items()]
    figure = stacked_figure(panels)
    for suffix in ("png", "svg"):
        save_figure(figure, out / f"episode.{suffix}")
    for name, loss in {agent.name: columns["loss"], **references}.items():
        print(
            f"{name}: mean loss {loss.mean():.1f} over {study.steps} steps, {loss[-100:].mean():.1f} over the last 100"
        )
    print_coverage(bands)
    print(f"written to {out.resolve()}")


def resolve(config: Config) -> Study:
    """Check the settings and return a study of the agent and its references."""
    for name in (config.agent, *config.references):
        check_name(name)
    check_setpoint(config.setpoint)
    if config.tensorboard:
        check_tensorboard()
    names = dict.fromkeys((config.agent, *config.references))
    return Study(
        tuple(names), (config.setpoint,), 1, min(config.steps, 20) if config.smoke else config.steps, config.seed
    )


def load(config: Config, env: Recorder) -> agents.Agent:
    """Return the saved agent; raise if it cannot play the way that is asked for."""
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
    free = not out.exists() or (out.is_dir() and not any(out.iterdir()))
    if not (earlier or free):
        raise ValueError(
            f"run_episode: out must be empty or hold an earlier episode, got {out}; choose another folder."
        )
    with atomic_write(path) as file:
        file.write((json.dumps({"episode": asdict(config), "command": command()}, indent=2) + "\n").encode())


def holds_episode(path: Path) -> bool:
    """Return whether a config.json is one that this script wrote."""
    try:
        config = json.loads(path.read_text())
    except ValueError:
        return False
    return isinstance(config, dict) and "episode" in config


def keep_prediction(agent: agents.Agent, predictions: list[Prediction]) -> None:
    """Append what the agent had predicted of the last step, if it is one that predicts."""
    if isinstance(agent, MPCAgent) and agent.prediction is not None:
        predictions.append(agent.prediction)


def predicted_bands(columns: Mapping[str, Array], predictions: list[Prediction]) -> dict[str, pd.DataFrame]:
    """Return what came and its 90 % band, for consumption and fatigue; nothing if not all steps were predicted."""
    if len(predictions) != len(columns["loss"]):
        return {}
    bands = {}
    for name, index in (("consumption", 5), ("fatigue", 4)):  # places in an observation
        at = predictions[0].indices.tolist().index(index)
        ends = {end: [float(getattr(one, end)[at]) for one in predictions] for end in ("low", "high")}
        timesteps = np.arange(1, len(predictions) + 1)
        bands[name] = pd.DataFrame({"timestep": timesteps, "measured": columns[name], **ends})
    return bands


def write_bands(bands: Mapping[str, pd.DataFrame], path: Path) -> None:
    """Write the bands of all entries as one table; without any, leave none from an earlier episode."""
    if bands:
        write_csv(pd.concat(bands, names=["entry"]).reset_index("entry"), path)
    else:
        path.unlink(missing_ok=True)


def print_coverage(bands: Mapping[str, pd.DataFrame]) -> None:
    """Print which part of what came lies in the bands, once these have had time to find their width."""
    for name, band in bands.items():
        judged = band[band["timestep"] >= _FIRST_JUDGED]
        if len(judged):
            covered = judged["measured"].between(judged["low"], judged["high"])
            print(f"{name}: 90 % bands cover {100 * covered.mean():.1f} % of the steps from {_FIRST_JUDGED} on")


def evaluate(agent: agents.Agent, env: Recorder, steps: int, tensorboard: str | None) -> None:
    """Play without learning or exploring."""
    observation, _ = env.reset()
    state = None
    with EventLog(tensorboard) as log:
        for timestep in tqdm(range(1, steps + 1), desc=agent.name):
            start = np.array([timestep == 1])
            action, state = agent.predict(observation, state=state, episode_start=start, deterministic=True)
            observation, reward, _, _, info = env.step(action)
            log.write(timestep, reward, info, {})


if __name__ == "__main__":
    sys.exit(main())
