"""Make the pictures that no study makes: an episode of the plant, a regression with its bands, the network's uses."""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from matplotlib.figure import Figure
from matplotlib.image import imsave

import agents
import envs  # noqa: F401  # registers the environments
from habnn_control import HABNN
from habnn_control.support.command_line import flag, parse
from habnn_control.support.files import atomic_write


@dataclass(frozen=True)
class Config:
    """Settings of the pictures."""

    out: str = flag("docs", "folder for the pictures")
    only: tuple[str, ...] = flag((), "names of pictures; without it, all")
    seed: int = flag(1000, "seed of the plant and of the data")


def main(arguments: list[str] | None = None) -> int:
    """Write the pictures and print where they are."""
    config = parse(Config, __doc__, arguments)
    network = import_module("_network_figures")  # beside this script
    makers: dict[str, Callable[[Path, int], None]] = {"episode": episode, "regression": regression}
    makers |= {name: partial(network.write, name) for name in network.PICTURES}
    for name in config.only or makers:
        path = Path(config.out) / f"{name}.png"
        makers[name](path, config.seed)
        print(path)
    return 0


def episode(path: Path, seed: int) -> None:
    """Render 150 steps of the plant under the static policy `hold`."""
    with gym.make("IndustrialBenchmark-v0", setpoint=100, render_mode="rgb_array") as env:
        env.reset(seed=seed)
        agents.make("hold", env).learn(150)
        picture: Any = env.render()
    with atomic_write(path) as file:
        imsave(file, picture, format="png")


def regression(path: Path, seed: int) -> None:
    """Draw what a network and its Gaussian limit predict inside and outside 40 noisy samples."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.uniform(-2, -0.5, 20), rng.uniform(0.6, 2, 20)])
    rng.shuffle(x)
    y = np.sin(2 * x) + 0.1 * rng.standard_normal(40)
    grid = np.linspace(-4, 4, 400)
    figure = Figure(figsize=(8, 3.3), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, dof, title in zip(
        panels, (4.0, math.inf), ("HABNN, Student-t, dof 4", "Gaussian limit (KBNN)"), strict=True
    ):
        network = HABNN.control(1, 1, hidden=(100,), dof=dof, prior_std=2.0, seed=seed).fit(x[:, None], y)
        prediction = network.predict(grid[:, None])
        for coverage, shade in ((0.99, 0.15), (0.9, 0.3)):
            low, high = prediction.interval(coverage)
            axes.fill_between(grid, low[:, 0], high[:, 0], color="#0072B2", alpha=shade, linewidth=0)
        axes.plot(grid, prediction.mean[:, 0], color="#0072B2")
        axes.plot(grid, np.sin(2 * grid), color="black", linestyle="--", linewidth=1)
        axes.plot(x, y, "o", color="#D55E00", markersize=4)
        axes.set(title=title, xlabel="x", ylim=(-4, 4), xlim=(-4, 4))
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    panels[0].set_ylabel("y")
    panels[0].text(3.0, 1.15, "truth")
    panels[1].text(0.2, 3.4, "90 % and 99 % bands", color="#0072B2")
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=150)


if __name__ == "__main__":
    sys.exit(main())
