"""Find the Plant of a wrapped environment and check that it still describes the wrapped environment."""

from typing import Any

import gymnasium as gym
from gymnasium import wrappers

from envs.classic import known_plant
from habnn_control.control.plant import Plant

# Wrappers that may keep both spaces and still change the meaning of actions or observations.
_ALTERING = (gym.ActionWrapper, gym.ObservationWrapper, wrappers.MaxAndSkipObservation, wrappers.RepeatAction)


def find_plant(env: gym.Env[Any, Any]) -> Plant | None:
    """Return the attribute `plant` of an environment or of its outermost wrapper that has one.

    Pendulum-v1 and MountainCarContinuous-v0 have no such attribute; their Plants are in `envs.classic`.

    Parameters
    ----------
    env : gymnasium.Env

    Returns
    -------
    Plant or None
        None if neither the environment nor a wrapper has a description.

    Raises
    ------
    ValueError
        If a wrapper around the described environment changes a space, an action or an observation, because the
        description is then wrong.
    """
    layer, altering = env, []
    while (plant := _offered(layer)) is None:
        if not isinstance(layer, gym.Wrapper):
            return None
        if _alters(layer):
            altering.append(type(layer).__name__)
        layer = layer.env
    if altering:
        raise ValueError(
            "plant: the wrappers of an environment must keep the spaces, actions and observations that its Plant "
            f"describes, got {', '.join(altering)}; pass plant=Plant(...) for the wrapped environment, or give the "
            "wrapper an attribute `plant`."
        )
    return plant


def runs_on(env: gym.Env[Any, Any]) -> bool:
    """Return whether an environment is a process that runs on: one that offers a Plant as its own attribute."""
    return find_plant(env) is not None and known_plant(env.unwrapped) is None


def _offered(layer: gym.Env[Any, Any]) -> Plant | None:
    """Return the Plant of one layer of wrappers, or of the environment inside them."""
    plant = getattr(layer, "plant", None)
    if isinstance(plant, Plant):
        return plant
    return None if isinstance(layer, gym.Wrapper) else known_plant(layer)


def _alters(wrapper: gym.Wrapper[Any, Any, Any, Any]) -> bool:
    """Return whether a wrapper may change a space, an action or an observation."""
    inner = wrapper.env
    same_spaces = wrapper.observation_space == inner.observation_space and wrapper.action_space == inner.action_space
    return isinstance(wrapper, _ALTERING) or not same_spaces
