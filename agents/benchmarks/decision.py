"""Time of one decision of HABNN-MPC on one core, beside an ensemble in the same loop and in the same run."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any

import gymnasium as gym
import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import agents
import envs  # noqa: F401 (registers IndustrialBenchmark-v0)
from agents import Step
from agents.benchmarks.timing import Result

ID, SETPOINT = "IndustrialBenchmark-v0", 100.0
N_LEARNED = 100  # steps before the clock starts
N_TURNS = 5  # turns of HABNN-MPC per round, in which an ensemble has one
# The ensemble as PETS sizes it, and with the hidden width of our network; neither trains while the clock runs.
UNTRAINED: dict[str, Any] = {"training": {"every": 10**9}}
ENSEMBLES: dict[str, dict[str, Any]] = {
    "PETS-style, 4 layers of 200": {"hidden": (200, 200, 200, 200), **UNTRAINED},
    "lean PETS-style, 2 layers of 320": {"hidden": (320, 320), **UNTRAINED},
}
BAR_MICROSECONDS, BAR_PETS = 50_000.0, 10.0


def measure(repeats: int) -> list[Result]:
    """Return the median times of turns of the default agent and of ensembles in its place.

    A turn is everything from one step to the next: the agent plans, the plant moves (about 0.01 ms), the agent learns.
    The ensembles do not train in their turns.
    """
    with threadpool_limits(1), _one_torch_thread():
        players = {"HABNN-MPC": _agent("habnn")}
        players |= {name: _agent("pets", model=settings) for name, settings in ENSEMBLES.items()}
        players["HABNN-MPC"].learn(N_LEARNED)
        for name in ENSEMBLES:
            players[name].learn(1)  # warms up
        times: dict[str, list[float]] = {name: [] for name in players}
        for _ in range(repeats):
            for name, agent in players.items():
                times[name] += _turns(agent, 1 if name in ENSEMBLES else N_TURNS)
    return _results({name: median(values) for name, values in times.items()})


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _agent(name: str, **settings: Any) -> agents.Agent:
    env = gym.make(ID, setpoint=SETPOINT, max_episode_steps=-1)
    env.reset(seed=0)
    if name == "pets":
        settings["exploration"] = {"excitation": {"length": 0}}
    return agents.make(name, env, seed=0, **settings)


def _turns(agent: agents.Agent, n_turns: int) -> list[float]:
    """Let the agent go on, and return the microseconds of each of its turns."""
    stamps = [perf_counter()]

    def stamp(_: Step) -> None:
        stamps.append(perf_counter())

    agent.learn(n_turns, callback=stamp, resume=True)
    return [1e6 * (end - start) for start, end in pairwise(stamps)]


def _results(medians: dict[str, float]) -> list[Result]:
    turn = medians["HABNN-MPC"]
    results = [Result("HABNN-MPC, one turn; 50 ms / median", turn, BAR_MICROSECONDS / turn, 1.0)]
    for name in ENSEMBLES:
        bar = None if name.startswith("lean") else BAR_PETS
        results += [
            Result(f"{name}, one turn", medians[name], 1.0),
            Result(f"HABNN-MPC, one turn, over {name}", turn, medians[name] / turn, bar),
        ]
    return results
