"""What an agent expects of the plan that it is about to play, and of any other plan."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.base import Agent
from agents.mpc import MPCAgent
from agents.mpc_checks import box_bounds
from habnn_control.control.exploration import loss_risk

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


class PlanLosses(NamedTuple):
    """What an agent's model expects of n plans: losses per step, in the mean over the steps of a plan.

    Attributes
    ----------
    mean : array, shape (n,)
    deviation : array, shape (n,)
        Epistemic standard deviation of the mean loss.
    above_rest : array, shape (n,)
        Mean loss beyond that of resting.
    above_rest_deviation : array, shape (n,)
        Epistemic standard deviation of that difference.
    """

    mean: Array
    deviation: Array
    above_rest: Array
    above_rest_deviation: Array


def plan_losses(agent: MPCAgent, sequences: Array) -> PlanLosses:
    """Return what the model of an agent expects of action sequences (n, horizon, n_actions) from where the plant is."""
    plant, bounds = agent.plant, box_bounds(agent.env)
    rest = np.zeros(bounds.n_actions) if plant.rest is None else np.array(plant.rest)
    rest = np.broadcast_to(np.clip(rest, bounds.action_low, bounds.action_high), (1, *sequences.shape[1:]))
    actions = np.concatenate([rest, sequences])
    forecast = agent.model.forecast(agent.model.memory, actions)
    values = np.asarray(plant.cost(actions, forecast.observations), dtype=np.float64)
    weights = np.full(actions.shape[1], 1 / actions.shape[1])
    total, difference = (loss_risk(forecast, actions, plant.cost, values, weights, part)[1:] for part in (0.0, 1.0))
    mean = values @ weights
    return PlanLosses(mean[1:], total, mean[1:] - mean[0], difference)
