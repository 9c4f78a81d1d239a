"""Names of all agents, and how to build and load them."""

from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from agents.base import CURRENT, Agent, describe_spaces
from habnn_control.support.files import load_arrays
from habnn_control.support.names import nearest


class _Entry(NamedTuple):
    module: str
    attribute: str
    preset: dict[str, Any] = {}  # noqa: RUF012  # never written to


# The second form of each baseline: the best of 20 settings (the first one SB3's defaults) by the mean loss of 4 runs of
# 300 steps (SAC: 200) on seeds 0 to 3, as `scripts/tune.py --agent ... --trials 20 --runs 4` finds them.
_TUNED: dict[str, dict[str, Any]] = {
    "a2c": {"normalise": False, "learning_rate": 3e-4, "n_steps": 4, "gamma": 0.9, "ent_coef": 0.0},
    "td3": {
        "normalise": True,
        "learning_rate": 1e-3,
        "learning_starts": 50,
        "gradient_steps": 2,
        "gamma": 0.8,
        "action_noise": 0.4,
    },
    "sac": {
        "normalise": True,
        "learning_rate": 3e-4,
        "learning_starts": 25,
        "gradient_steps": 2,
        "gamma": 0.9,
        "ent_coef": 0.05,
    },
    "ppo": {"normalise": True, "learning_rate": 3e-4, "n_steps": 16, "batch_size": 16, "n_epochs": 5, "gamma": 0.8},
}
# What the paper tells of its agent; it leaves open the planner, the noise (here fixed) and how uncertainty counts.
_PAPER: dict[str, Any] = {
    "offset_time": inf,
    "history": 0,
    "memory": 1,
    "target": "absolute",
    "kinematics": False,
    "excitation": 0,
    "sampling": "optimistic",
    "network": {
        "hidden": (80,),
        "activation": "relu",
        "dof": 12.0,
        "scale": 0.01,
        "covariance": "diagonal",
        "output_prior_std": 1.0,
        "output_scale": 0.01,
        "fan": "out",
        "noise_weight": inf,
    },
}
# The default with one thing changed: what does each part earn?
_ABLATIONS: dict[str, dict[str, Any]] = {
    "greedy": {"sampling": "greedy"},
    "optimistic": {"sampling": "optimistic"},
    "pessimistic": {"sampling": "pessimistic"},
    "curious": {"sampling": "curious"},
    "information": {"sampling": "information"},
    "thompson": {"sampling": "thompson"},
    "diagonal": {"network": {"covariance": "diagonal"}},
    "gaussian": {"network": {"dof": inf}},
    "drift": {"network": {"drift": 1e-4}},
    "constant-offset": {"offset_time": inf},
    "no-history": {"history": 0},
    "dense-prior": {"prior": "dense"},
    "no-excitation": {"excitation": 0},
    "no-dither": {"dither": 0.0},
    "no-resweep": {"resweep": 0.0},
    "no-recovery": {"recovery": inf},
    "learned-kinematics": {"kinematics": False},
}
_ENTRIES = {
    "habnn": _Entry("agents.habnn", "HABNNAgent"),
    "habnn-paper": _Entry("agents.habnn", "HABNNAgent", _PAPER),
    **{f"habnn-{name}": _Entry("agents.habnn", "HABNNAgent", preset) for name, preset in _ABLATIONS.items()},
    "noop": _Entry("agents.reference", "Noop"),
    "random": _Entry("agents.reference", "Random"),
    "hold": _Entry("agents.reference", "Hold"),
    "wander": _Entry("agents.reference", "Wander"),
    "oracle": _Entry("agents.oracle", "Oracle"),
    **{name: _Entry("agents.sb3", name.upper()) for name in _TUNED},
    **{f"{name}-tuned": _Entry("agents.sb3", name.upper(), preset) for name, preset in _TUNED.items()},
}
NAMES = tuple(_ENTRIES)
BASELINES = tuple(name for name, entry in _ENTRIES.items() if entry.module == "agents.sb3")


def make(name: str, env: gym.Env[Any, Any], seed: int = 0, **settings: Any) -> Agent:
    """Build the agent called `name`.

    Parameters
    ----------
    name : str
        One of `agents.NAMES`.
    env : gymnasium.Env
        The environment it will control.
    seed : int
        Seeds the agent's own random numbers, never the environment.
    **settings
        The agent's own settings; an unknown one raises with the nearest valid name.

    Returns
    -------
    Agent
    """
    check_name(name)
    entry = _ENTRIES[name]
    kind: type[Agent] = getattr(import_module(entry.module), entry.attribute)
    valid = kind.setting_names()
    for setting in settings:
        if setting not in valid:
            raise ValueError(f"{name}: setting must be one of {valid}, got {setting!r}; {nearest(setting, valid)}")
    agent = kind(env, seed=seed, **entry.preset | settings)
    agent.name = name
    agent.settings = entry.preset | settings
    return agent


def load(path: str | Path, env: gym.Env[Any, Any], **settings: Any) -> Agent:
    """Load the agent that `Agent.save` wrote to `path`, to go on in `env`.

    Parameters
    ----------
    path : str or Path
        The saved agent.
    env : gymnasium.Env
        An environment with the spaces the agent was made for.
    **settings
        Functions that the agent was made with, such as a loss: a file cannot hold them.

    Returns
    -------
    Agent
    """
    header, arrays = load_arrays(path, "agent")
    spaces = describe_spaces(env)
    if header["spaces"] != spaces:
        raise ValueError(
            f"load: env must have the spaces {header['spaces']} of {path}, got {spaces}; make the same environment."
        )
    agent = make(header["agent"], env, header["seed"], **header["settings"] | settings)
    agent._current = arrays.get(CURRENT)
    try:
        agent._restore(header["state"], arrays)
    except KeyError as missing:
        raise ValueError(
            f"load: {path} must hold {missing} of a {header['agent']} agent, got the file of another release; load it "
            "with the one that saved it."
        ) from missing
    return agent


def names() -> tuple[str, ...]:
    """Return the names of all registered agents."""
    return tuple(_ENTRIES)


def agent_class(name: str) -> type[Agent]:
    """Return the class of the agent called `name`."""
    check_name(name)
    entry = _ENTRIES[name]
    kind: type[Agent] = getattr(import_module(entry.module), entry.attribute)
    return kind


def preset(name: str) -> dict[str, Any]:
    """Return the settings that the agent called `name` is built with unless the user gives others."""
    check_name(name)
    return dict(_ENTRIES[name].preset)


def check_name(name: str) -> None:
    """Raise unless `name` is an agent."""
    if name not in _ENTRIES:
        raise ValueError(f"agents: name must be one of {', '.join(NAMES)}, got {name!r}; {nearest(name, NAMES)}")
