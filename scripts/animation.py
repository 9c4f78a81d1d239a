"""Make the moving picture of the README: an episode of the agent, its predictions and its plan, and doing nothing.

It is the page of `habnn run --live`, with the loss of doing nothing added.
"""

import io
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

import agents
import envs  # noqa: F401  # registers the environments
from agents.outlook import Outlook, outlook
from habnn_control.support.command_line import flag, parse
from habnn_control.support.files import atomic_write

Array = NDArray[np.float64]

ACTUATORS = {"velocity": (1, "#0072B2", "-"), "gain": (2, "#D55E00", "--"), "shift": (3, "#009E73", "-.")}
OUTPUTS = {"consumption": 5, "fatigue": 4}
_GREY, _BAND, _PLAN, _PLAN_BAND = "#777777", "#B9DFF5", "#D55E00", "#F6DFA8"


@dataclass(frozen=True)
class Config:
    """Settings of the moving picture."""

    out: str = flag("docs/assets/episode.gif", "the GIF file")
    agent: str = flag("habnn", "the agent to show; one that plans")
    setpoint: float = flag(100.0, "load of the plant, 0..100")
    steps: int = flag(200, "steps of the episode")
    every: int = flag(2, "steps per frame")
    seed: int = flag(1000, "seed of the plant")


@dataclass
class Episode:
    """One episode, step by step."""

    observations: list[Array] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    bands: list[tuple[Array, Array]] = field(default_factory=list)  # 90 % intervals, predicted one step before
    plans: list[Outlook | None] = field(default_factory=list)
    entries: tuple[int, ...] = ()  # of an observation, that the bands are of


def main(arguments: list[str] | None = None) -> int:
    """Play, draw, write the file and print its size."""
    config = parse(Config, __doc__, arguments)
    shown, idle = play(config, config.agent), play(config, "noop")
    nows = [*range(config.every, config.steps, config.every), config.steps]
    frames = [draw(shown, idle, now, config) for now in nows]
    write(Path(config.out), frames)
    print(f"{config.out}: {len(frames)} frames, {Path(config.out).stat().st_size / 1e6:.2f} MB")
    return 0


def play(config: Config, name: str) -> Episode:
    """Return an episode of the agent called `name`."""
    env = gym.make("IndustrialBenchmark-v0", setpoint=config.setpoint)
    env.reset(seed=config.seed)
    agent, episode = agents.make(name, env, seed=config.seed), Episode()

    def keep(step: agents.Step) -> None:
        episode.observations.append(np.asarray(step.next_observation, dtype=np.float64))
        episode.losses.append(float(step.info["loss"]))
        episode.plans.append(outlook(agent))
        if agent.prediction is not None:
            episode.bands.append((agent.prediction.low, agent.prediction.high))
            episode.entries = tuple(map(int, agent.prediction.indices))

    agent.learn(config.steps, callback=keep)
    return episode


def draw(shown: Episode, idle: Episode, now: int, config: Config) -> Image.Image:
    """Return the frame after `now` steps."""
    figure = Figure(figsize=(8.0, 6.2), dpi=100, layout="constrained")
    panels = figure.subplots(4, 1, sharex=True, height_ratios=(1.4, 1, 1, 1))
    plan = shown.plans[now - 1]
    _loss_panel(panels[0], shown, idle, now, plan)
    _actuator_panel(panels[1], shown, now, plan)
    for axes, name in zip(panels[2:], OUTPUTS, strict=True):
        _output_panel(axes, name, shown, now, plan)
    for axes in panels:
        axes.axvline(now, color="#BBBBBB", linewidth=0.8)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    panels[-1].set(xlim=(0, config.steps + 26), xlabel="step")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return Image.open(buffer).convert("RGB")


def _ahead(now: int, plan: Outlook) -> Array:
    return np.arange(now + 1, now + 1 + len(plan.loss), dtype=np.float64)


def _loss_panel(axes: Axes, shown: Episode, idle: Episode, now: int, plan: Outlook | None) -> None:
    steps = np.arange(1, now + 1)
    axes.plot(steps, idle.losses[:now], color=_GREY, linewidth=1, linestyle=":")
    axes.plot(steps, shown.losses[:now], color="black", linewidth=1.2)
    if plan is not None:
        axes.plot(_ahead(now, plan), plan.loss, color="black", linewidth=1, linestyle="--")
    last = slice(max(now - 50, 0), now)
    ours, theirs = np.mean(shown.losses[last]), np.mean(idle.losses[last])
    title = f"step {now}: mean loss of the last {min(now, 50)} steps {ours:.0f}, doing nothing {theirs:.0f}"
    axes.set_title(title, fontsize=10, loc="left")
    axes.set(ylim=(100, 440), ylabel="loss")
    _name(axes, 0.66, "the agent; its plan", "black")
    _name(axes, 0.86, "doing nothing", _GREY)


def _actuator_panel(axes: Axes, shown: Episode, now: int, plan: Outlook | None) -> None:
    steps = np.arange(1, now + 1)
    for place, (name, (entry, colour, dashes)) in enumerate(ACTUATORS.items()):
        look: dict[str, Any] = {"color": colour, "linestyle": dashes}
        axes.plot(steps, [row[entry] for row in shown.observations[:now]], linewidth=1.4, **look)
        if plan is not None:
            axes.plot(_ahead(now, plan), plan.observations[:, entry], linewidth=1, alpha=0.6, **look)
        _name(axes, 0.11 * place, name, colour)
    axes.set(ylim=(0, 103), ylabel="actuators")


def _output_panel(axes: Axes, name: str, shown: Episode, now: int, plan: Outlook | None) -> None:
    """Draw the measured values of an output on the 90 % bands of their predictions, and the band of the plan."""
    steps, entry = np.arange(1, now + 1), OUTPUTS[name]
    place = list(shown.entries).index(entry)
    low, high = (np.array([band[side][place] for band in shown.bands[:now]]) for side in (0, 1))
    axes.fill_between(steps, low, high, color=_BAND, linewidth=0)
    axes.plot(steps, [row[entry] for row in shown.observations[:now]], color="black", linewidth=1)
    if plan is not None:
        column = list(plan.entries).index(entry)
        ahead = _ahead(now, plan)
        axes.fill_between(ahead, plan.low[:, column], plan.high[:, column], color=_PLAN_BAND, linewidth=0)
        axes.plot(ahead, plan.observations[:, entry], color=_PLAN, linewidth=1, linestyle="--")
    axes.set(ylim=(0, 300 if name == "consumption" else 100), ylabel=name)
    _name(axes, 0.0, "measured, on the 90 % band predicted one step before", "black")
    _name(axes, 0.86, "predicted", _PLAN)


def _name(axes: Axes, place: float, text: str, colour: str) -> None:
    """Write what a colour means above a panel, at a part of its width."""
    axes.text(place, 1.02, text, color=colour, fontsize=8, va="bottom", transform=axes.transAxes)


def write(path: Path, frames: list[Image.Image]) -> None:
    """Write an animated GIF: ten frames per second, the last one for three seconds, one palette for all."""
    palette = frames[-1].quantize(64, method=Image.Quantize.MEDIANCUT)
    images = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    for image in images:  # mapping to a palette is coarse: the colour of the background, in the corner, becomes white
        colours = np.array(image.getpalette()).reshape(-1, 3)
        colours[np.asarray(image)[0, 0]] = 255
        image.putpalette(colours.ravel().tolist())
    durations = [100] * (len(images) - 1) + [3000]
    with atomic_write(path) as file:
        images[0].save(
            file, format="GIF", save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=True
        )


if __name__ == "__main__":
    sys.exit(main())
