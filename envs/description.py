"""Find the Plant that describes an environment, through wrappers that leave its description true."""

from typing import Any

import gymnasium as gym
from gymnasium import wrappers

from habnn_control.control.plant import Plant

# Wrappers that keep both spaces and still change what actions or observations mean.
_ALTERING = (gym.ActionWrapper, gym.ObservationWrapper, wrappers.MaxAndSkipObservation, wrappers.RepeatAction)


def find_plant(env: gym.Env[Any, Any]) -> Plant | None:
    """Return the description that an environment, or one of its wrappers, offers as its attribute `plant`.

    A wrapper outside of it that changes a space, an action or an observation makes the description wrong: that raises.
    None if nothing offers a description.
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
            f"plant: the wrappers around an environment must leave its spaces, actions and observations as its Plant "
            f"describes them, got {', '.join(altering)}; pass plant=Plant(...) for the wrapped environment, or give "
            "the wrapper an attribute `plant`."
        )
    plant: Plant = layer.plant  # type: ignore[attr-defined]
    return plant


def _alters(wrapper: gym.Wrapper[Any, Any, Any, Any]) -> bool:
    inner = wrapper.env
    same_spaces = wrapper.observation_space == inner.observation_space and wrapper.action_space == inner.action_space
    return isinstance(wrapper, _ALTERING) or not same_spaces
