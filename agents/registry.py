"""Names of all agents, and how to build and load them."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from agents.base import CURRENT, Agent, describe_spaces
from agents.presets import ABLATIONS, PAPER, PEERS, SCRIPTED, TUNED
from habnn_control.support.files import load_arrays
from habnn_control.support.names import nearest


class _Entry(NamedTuple):
    factory: type[Agent] | str  # the class, or "module:class" of one that is imported when it is first built
    preset: Mapping[str, Any]


_ENTRIES: dict[str, _Entry] = {}


def register(name: str, factory: type[Agent] | str, **preset: Any) -> None:
    """Add an agent under a name that `agents.make`, `agents.load` and the scripts then know.

    Parameters
    ----------
    name : str
        A new name.
    factory : type or str
        A subclass of `Agent`, or "module:class" to import it when it is first built.
    **preset
        Settings that the agent is built with unless the user gives others; nested mappings are merged.
    """
    if name in _ENTRIES:
        raise ValueError(f"register: name must be new, got {name!r}; choose another.")
    valid = ":" in factory if isinstance(factory, str) else isinstance(factory, type) and issubclass(factory, Agent)
    if not valid:
        raise TypeError(f"register: factory must be a subclass of Agent or 'module:class', got {factory!r}; pass one.")
    _ENTRIES[name] = _Entry(factory, preset)


def names() -> tuple[str, ...]:
    """Return the names of all registered agents."""
    return tuple(_ENTRIES)


def agent_class(name: str) -> type[Agent]:
    """Return the class of the agent called `name`."""
    check_name(name)
    factory = _ENTRIES[name].factory
    if isinstance(factory, str):
        module, _, attribute = factory.partition(":")
        kind: type[Agent] = getattr(import_module(module), attribute)
        return kind
    return factory


def preset(name: str) -> dict[str, Any]:
    """Return the settings that the agent called `name` is built with unless the user gives others."""
    check_name(name)
    return dict(_ENTRIES[name].preset)


def make(name: str, env: gym.Env[Any, Any], seed: int = 0, **settings: Any) -> Agent:
    """Build the agent called `name`.

    Parameters
    ----------
    name : str
        One of `agents.names()`.
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
    kind = agent_class(name)
    valid = kind.setting_names()
    for setting in settings:
        if setting not in valid:
            hint = kind.setting_hint(setting)
            raise ValueError(f"{name}: setting must be one of {', '.join(valid)}, got {setting!r}; {hint}")
    agent = kind(env, seed=seed, **merge(_ENTRIES[name].preset, settings))
    agent.name = name
    return agent


def merge(preset: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the preset with the changes; mappings in both are merged, so that a change leaves their other parts."""
    both = dict(preset)
    for name, value in changes.items():
        old = both.get(name)
        both[name] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return both


def load(path: str | Path, env: gym.Env[Any, Any], **settings: Any) -> Agent:
    """Load the agent that `Agent.save` wrote to `path`, to go on in `env`.

    Parameters
    ----------
    path : str or Path
        The saved agent.
    env : gymnasium.Env
        An environment with the spaces the agent was made for.
    **settings
        Settings that the file cannot hold, such as a Plant; see `Agent.save`.

    Returns
    -------
    Agent
    """
    header, arrays = load_arrays(path, "agent")
    try:
        return _rebuilt(path, header, arrays, env, settings)
    except _Unfit:
        raise
    except KeyError as missing:
        raise ValueError(
            f"load: {path} must hold {missing} of a {header.get('agent', 'saved')} agent, got the file of another "
            "release; load it with the one that saved it."
        ) from missing
    except Exception as error:  # parts that do not fit together can fail anywhere; here the file has a name
        raise ValueError(
            f"load: {path} must hold a whole agent that fits the given settings, got parts that do not ({error}); "
            "save the agent again."
        ) from error


class _Unfit(ValueError):
    """The file is sound, but the arguments of `load` do not go with it."""


def _rebuilt(
    path: str | Path, header: dict[str, Any], arrays: dict[str, Any], env: gym.Env[Any, Any], settings: dict[str, Any]
) -> Agent:
    spaces = describe_spaces(env)
    if header["spaces"] != spaces:
        raise _Unfit(
            f"load: env must have the spaces {header['spaces']} of {path}, got {spaces}; make the same environment."
        )
    if absent := sorted(set(header["left_out"]) - settings.keys()):
        raise _Unfit(
            f"load: {', '.join(absent)} must be given again, got nothing; {path} holds no functions and no objects."
        )
    current = arrays.get(CURRENT)
    # Before its first episode the memory of a model is NaN, and a current reading may be missing.
    for name, array in arrays.items():
        if current is not None and name != CURRENT and array.dtype.kind == "f" and np.isnan(array).any():
            raise ValueError(f"NaN in {name}")
    if current is not None and not (
        current.shape == env.observation_space.shape and current.dtype == env.observation_space.dtype
    ):
        raise ValueError(f"{CURRENT} of shape {current.shape} and dtype {current.dtype}")
    agent = make(header["agent"], env, header["seed"], **header["settings"] | settings)
    agent._current = current
    agent._restore(header["state"], arrays)
    return agent


def check_name(name: str) -> None:
    """Raise unless `name` is an agent."""
    if name not in _ENTRIES:
        raise ValueError(f"agents: name must be one of {', '.join(names())}, got {name!r}; {nearest(name, names())}")


register("habnn", "agents.mpc:MPCAgent")
register("habnn-paper", "agents.mpc:MPCAgent", **PAPER)
register("habnn-scripted", "agents.mpc:MPCAgent", **SCRIPTED)
for _name, _preset in ABLATIONS.items():
    register(f"habnn-{_name}", "agents.mpc:MPCAgent", **_preset)
register("mpc", "agents.mpc:MPCAgent")
for _name, _preset in PEERS.items():
    register(_name, "agents.mpc:MPCAgent", **_preset)
register("noop", "agents.reference:Noop")
register("random", "agents.reference:Random")
register("hold", "agents.reference:Hold")
register("ib-opt", "agents.reference:IBOpt")
register("wander", "agents.reference:Wander")
register("constant", "agents.constant:Constant")
register("pi", "agents.pi:PI")
register("extremum-seeking", "agents.extremum_seeking:ExtremumSeeking")
register("oracle", "agents.oracle:Oracle")
for _name, _preset in TUNED.items():
    register(_name, f"agents.sb3:{_name.upper()}")
    register(f"{_name}-tuned", f"agents.sb3:{_name.upper()}", **_preset)
