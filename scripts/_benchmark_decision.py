"""Time of one decision of HABNN-MPC on one core, beside PETS-style planners with the same budget in the same run."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from statistics import median
from time import perf_counter

import gymnasium as gym
import numpy as np
import torch
from _benchmark import Result  # type: ignore[import-not-found]
from _pets import N_MEMBERS, TrajectorySampler  # type: ignore[import-not-found]
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import agents
import envs  # noqa: F401 (registers IndustrialBenchmark-v0)
from agents import Step
from agents.habnn import HABNNAgent

ID, SETPOINT = "IndustrialBenchmark-v0", 100.0
N_LEARNED = 100  # steps before the clock starts
N_TURNS = 5  # of the agent in each round, in which a PETS-style planner decides once
HIDDEN, N_PARTICLES = (200, 200, 200, 200), 20  # as in PETS
BAR_MICROSECONDS, BAR_PETS = 50_000.0, 10.0


def measure(repeats: int) -> list[Result]:
    """Time turns of the default agent in `learn`, and plans of PETS-style ensembles; medians.

    A turn is all that the agent does from one step to the next: it plans, the plant moves (about 0.01 ms), it learns.
    The ensembles only plan: their training is not in their time.
    """
    with threadpool_limits(1), _one_torch_thread():
        agent = _learned_agent()
        width = agent.model.network.settings.hidden[0]
        planners = {
            "PETS-style": TrajectorySampler(agent, HIDDEN, N_PARTICLES),
            "lean PETS-style": TrajectorySampler(agent, (width, width), N_MEMBERS),
        }
        times = _times(agent, planners, repeats)
    return _results(agent, planners, times)


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _learned_agent() -> HABNNAgent:
    env = gym.make(ID, setpoint=SETPOINT)
    env.reset(seed=0)
    agent = agents.make("habnn", env, seed=0)
    assert isinstance(agent, HABNNAgent)
    return agent.learn(N_LEARNED)


def _times(agent: HABNNAgent, planners: dict[str, TrajectorySampler], repeats: int) -> dict[str, list[float]]:
    """Return all times in microseconds; everyone takes turns, so that a busy moment of the machine meets all."""
    times: dict[str, list[float]] = {name: [] for name in ("agent", *planners)}
    for planner in planners.values():
        planner.plan(np.random.default_rng(0))  # warms up
    for k in range(repeats):
        times["agent"] += _turns(agent)
        for name, planner in planners.items():
            start = perf_counter()
            planner.plan(np.random.default_rng(k))
            times[name].append(1e6 * (perf_counter() - start))
    return times


def _turns(agent: HABNNAgent) -> list[float]:
    """Let the agent go on, and return the microseconds of each of its turns."""
    stamps = [perf_counter()]

    def stamp(_: Step) -> None:
        stamps.append(perf_counter())

    agent.learn(N_TURNS, callback=stamp, resume=True)
    return [1e6 * (end - start) for start, end in pairwise(stamps)]


def _results(agent: HABNNAgent, planners: dict[str, TrajectorySampler], times: dict[str, list[float]]) -> list[Result]:
    medians = {name: median(values) for name, values in times.items()}
    turn, search = medians["agent"], agent._planner
    budget = f"{search.n_iterations} x {search.n_candidates} plans of {agent._horizon + agent._hold}"
    results = [Result(f"{budget}: HABNN-MPC, a turn; 50 ms / median", turn, BAR_MICROSECONDS / turn, 1.0)]
    for name, planner in planners.items():
        widths = "-".join(str(weight.shape[1]) for weight in planner.ensemble.weights)
        outputs = planner.ensemble.weights[-1].shape[2]
        size = f"{N_MEMBERS} MLPs {widths}-{outputs}, {planner.n_particles} particles"
        bar = BAR_PETS if name == "PETS-style" else None
        results += [
            Result(f"{budget}: {name}, {size}", medians[name], 1.0),
            Result(f"{budget}: HABNN-MPC, a turn, over {name}", turn, medians[name] / turn, bar),
        ]
    return results
