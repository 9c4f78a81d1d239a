"""Find the Plant of a wrapped environment and check that it still describes the wrapped environment."""

from typing import Any

import gymnasium as gym
from gymnasium import wrappers

from habnn_control.control.plant import Plant

# Wrappers that may keep both spaces and still change the meaning of actions or observations.
_ALTERING = (gym.ActionWrapper, gym.ObservationWrapper, wrappers.MaxAndSkipObservation, wrappers.RepeatAction)


def find_plant(env: gym.Env[Any, Any]) -> Plant | None:
    """Return the attribute `plant` of an environment or of its outermost wrapper that has one.

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
    while not isinstance(getattr(layer, "plant", None), Plant):
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
    plant: Plant = layer.plant  # type: ignore[attr-defined]
    return plant


def _alters(wrapper: gym.Wrapper[Any, Any, Any, Any]) -> bool:
    """Return whether a wrapper may change a space, an action or an observation."""
    inner = wrapper.env
    same_spaces = wrapper.observation_space == inner.observation_space and wrapper.action_space == inner.action_space
    return isinstance(wrapper, _ALTERING) or not same_spaces
