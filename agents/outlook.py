"""What an agent expects of the plan that it is about to play."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.base import Agent
from agents.mpc import MPCAgent

Array = NDArray[np.float64]
_WIDTH = 1.645  # standard deviations from the middle of a central 90 % interval to its end


class Outlook(NamedTuple):
    """The forecast of a plan.

    Attributes
    ----------
    actions : array, shape (n_steps, n_actions)
        The rest of the plan, without the action that was played last.
    observations : array, shape (n_steps, n_observed)
        Expected observations.
    entries : array of int, shape (n_outputs,)
        Entries of an observation that the model predicts; others are known or given.
    low, high : array, shape (n_steps, n_outputs)
        Ends of the 90 % interval of each predicted entry, noise included.
    loss : array, shape (n_steps,)
        Loss of the expected observations.
    """

    actions: Array
    observations: Array
    entries: NDArray[np.int64]
    low: Array
    high: Array
    loss: Array


def outlook(agent: Agent) -> Outlook | None:
    """Return the forecast of the rest of an agent's plan; None for agents that do not plan, or have no plan left."""
    plan = agent.plan if isinstance(agent, MPCAgent) else None
    if not isinstance(agent, MPCAgent) or plan is None or len(plan) < 2:
        return None
    actions = np.asarray(plan[1:], dtype=np.float64)
    forecast = agent.model.forecast(agent.model.memory, actions[None])
    observations = np.asarray(forecast.observations[0], dtype=np.float64)
    mean = observations[:, forecast.entries]
    width = _WIDTH * np.hypot(forecast.deviations[0], forecast.noise[0])
    loss = np.asarray(agent.plant.loss(actions, observations), dtype=np.float64)
    return Outlook(actions, observations, forecast.entries, mean - width, mean + width, loss)
