"""Attack the plant with actions, start options and states from outside."""

from typing import Any

import gymnasium as gym
import numpy as np
from _attack import Outcome  # type: ignore[import-not-found]

import envs  # noqa: F401  # registers the environments

_ODD: tuple[Any, ...] = (
    float("nan"), float("inf"), -1e308, 1e308, 10**400, "1", "x", None, 1j, np.datetime64("2020-01-01"), [], {}, -0.0,
)  # fmt: skip


def attack(effort: float) -> list[Outcome]:
    """Return the outcomes of random odd actions and random changes of states."""
    n = max(int(4000 * effort), 50)
    return [_actions(n), _states(n)]


def _actions(n: int) -> Outcome:
    env, twin = (gym.make("IndustrialBenchmark-v0").unwrapped for _ in range(2))
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    twin.reset(seed=0)
    refused, equal = 0, True
    for _ in range(n):
        action = [_ODD[rng.integers(len(_ODD))] if rng.random() < 0.5 else 0.1 for _ in range(3)]
        try:
            observation = env.step(action)[0]
        except (TypeError, ValueError):
            refused += 1
            continue
        equal = equal and bool((observation == twin.step(np.array(action, dtype=np.float64))[0]).all())
    told = f"{refused} refused, {'never' if equal else 'SOMETIMES'} a trace in the plant; the others are steps"
    return Outcome("plant: odd actions", n, told, equal and refused > 0)


def _states(n: int) -> Outcome:
    env: Any = gym.make("IndustrialBenchmark-v0").unwrapped
    env.reset(seed=0)
    rng, refused, inside = np.random.default_rng(1), 0, True
    start = env.get_state()
    for _ in range(n):
        state = {name: np.array(start[name], dtype=object) for name in ("plants", "frames")}
        name = "plants" if rng.random() < 0.5 else "frames"
        state[name].flat[rng.integers(state[name].size)] = _ODD[rng.integers(4)] if rng.random() < 0.5 else 1e3
        try:
            env.set_state({**start, name: state[name].tolist()})
        except (TypeError, ValueError):
            refused += 1
        inside = inside and env.observation_space.contains(env.step(np.zeros(3))[0])
        env.set_state(start)
    told = f"{refused} refused; observations {'always' if inside else 'NOT always'} in their space afterwards"
    return Outcome("plant: changed states", n, told, inside and refused > 0)
