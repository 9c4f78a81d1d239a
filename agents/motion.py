"""Positions and actions: how agents that think in actuator positions move them."""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agents.base import Action
from envs import find_plant

Array = NDArray[np.float64]


class Motion:
    """Actuator positions of an environment: those that its Plant describes, else the actions themselves.

    Parameters
    ----------
    owner : str
        Name of the agent, for messages.
    env : gymnasium.Env
        An environment with a flat, bounded Box of actions.

    Attributes
    ----------
    n_actions : int
    low, high : array, shape (n_actions,)
        Range of the positions.
    """

    def __init__(self, owner: str, env: gym.Env[Any, Any]) -> None:
        space, observed, plant = env.action_space, env.observation_space, find_plant(env)
        if not (isinstance(space, gym.spaces.Box) and len(space.shape) == 1 and space.is_bounded()):
            raise ValueError(f"{owner}: env must have a flat, bounded Box of actions, got {space}; use another agent.")
        self._space, self.n_actions = space, space.shape[0]
        self._action_low, self._action_high = (np.asarray(end, dtype=np.float64) for end in (space.low, space.high))
        self._actuators = None if plant is None else plant.actuators
        self.low, self.high = self._action_low, self._action_high
        if self._actuators is not None:
            assert isinstance(observed, gym.spaces.Box)  # a Plant with actuators describes a vector
            self._entries = list(self._actuators.entries)
            self.low, self.high = observed.low[self._entries], observed.high[self._entries]
        self.rest: Array = np.clip(np.zeros(self.n_actions), self._action_low, self._action_high)
        if plant is not None and plant.rest is not None:
            self.rest = np.array(plant.rest)

    @property
    def is_known(self) -> bool:
        """Whether the positions are entries of the observation."""
        return self._actuators is not None

    def positions(self, observation: NDArray[Any], remembered: Array) -> Array:
        """Return the present positions (n_actions,): the observed ones, else the `remembered` ones."""
        return np.asarray(observation[self._entries], dtype=np.float64) if self.is_known else remembered

    def towards(self, positions: Array, target: Array) -> tuple[Action, Array]:
        """Return the action that brings `positions` nearest to a target in one step, and the positions it reaches."""
        target = np.clip(target, self.low, self.high)
        if self._actuators is None:
            return target.astype(self._space.dtype), target
        steps = np.array(self._actuators.steps)
        action = np.clip((target - positions) / steps, self._action_low, self._action_high)
        return action.astype(self._space.dtype), np.clip(positions + steps * action, self.low, self.high)
