"""The oracle: what planning can reach when the plant's equations and hidden state are known."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

import envs
from agents.base import Action, Agent, Step
from habnn_control.control.planning import ICEM, Array, Objective, Plan


class Oracle(Agent):
    """Plan on the true simulator from the true hidden state: a yardstick, the only agent that may look at it.

    Every decision averages the loss over a few random futures, the same for all candidate sequences. A wandering
    setpoint is assumed to stay where it is, because the hidden state does not tell where it is heading.

    The hidden state comes with `info`, which `predict` does not get: it answers only for the observation that `learn`
    met last, as in a callback or after `agents.load`. The other plants of this project have a method `simulate`, which
    the oracle plans with instead.

    Parameters
    ----------
    env : gymnasium.Env
        An Industrial Benchmark with continuous actions, or an environment with a method simulate(actions, rng) that
        returns losses (n, horizon) of action sequences (n, horizon, n_actions) from its present state.
    seed : int
        Seeds the candidates and the random futures.
    horizon : int
        Steps it looks ahead; consumption answers an action for up to 9 steps.
    n_scenarios : int
        Random futures a decision averages over.
    n_candidates, n_iterations : int
        Budget of the planner; see `habnn_control.control.planning.ICEM`.
    """

    default_name = "oracle"
    can_evaluate = False

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        seed: int = 0,
        horizon: int = 30,
        n_scenarios: int = 4,
        n_candidates: int = 300,
        n_iterations: int = 6,
    ) -> None:
        super().__init__(env, seed=seed)
        for name, value in (("horizon", horizon), ("n_scenarios", n_scenarios)):
            if not (isinstance(value, int) and value >= 1):
                raise ValueError(f"oracle: {name} must be a whole number of at least 1, got {value!r}; raise it.")
        space = env.action_space
        self._simulate = getattr(env.unwrapped, "simulate", None)
        if not (isinstance(space, gym.spaces.Box) and (space.shape == (3,) or self._simulate)):
            raise ValueError(
                f"oracle: env must be an Industrial Benchmark with continuous actions, got action space {space}; use "
                "another agent."
            )
        self._mirror = envs.mirror_of(env)
        self._planner = ICEM(n_candidates, n_iterations)
        self._bounds = space.low, space.high
        self._horizon, self._n_scenarios = horizon, n_scenarios
        self._hidden: Array | None = None
        self._plan: Plan | None = None  # of the decision before
        self._next_plan: Plan | None = None
        self._steps = 0

    @classmethod
    def remark(cls, steps: int, settings: Mapping[str, Any]) -> str | None:  # noqa: ARG003
        """Say what its line means."""
        return "oracle plans on the true simulator from the hidden state: about what can be reached at all."

    def _begin(self, observation: NDArray[Any], info: dict[str, Any]) -> None:
        self._hidden = self._hidden_state(observation, info)
        self._plan = None

    def _observe(self, step: Step) -> None:
        self._hidden = self._hidden_state(step.next_observation, step.info)
        self._plan = self._next_plan
        self._steps += 1

    def _act(self, observation: NDArray[Any], *, deterministic: bool) -> Action:  # noqa: ARG002
        hidden = self._hidden
        frame = observation if self._simulate else self._mirror.positions(envs.newest_frame(observation))
        if hidden is None or not np.allclose(frame, hidden[: len(frame)]):
            raise ValueError(
                f"oracle: observation must be the last one that learn met, got {frame.tolist()}; it does not know "
                "the hidden state of others: let it play with learn."
            )
        rng = np.random.default_rng((self.seed, self._steps))  # the same question gets the same answer
        mean_loss = self._objective(hidden, rng)
        self._next_plan = self._planner.plan(mean_loss, *self._bounds, self._horizon, rng, self._plan)
        action: Action = self._mirror.actions(self._next_plan.actions[0]).astype(self.env.action_space.dtype)
        return action

    def _objective(self, hidden: Array, rng: np.random.Generator) -> Objective:
        """Return the function from action sequences (n, horizon, n_actions) to their mean losses (n,)."""
        if self._simulate is not None:
            simulate, seed = self._simulate, int(rng.integers(2**32))  # the same noise for all candidates
            return lambda sequences: simulate(sequences, np.random.default_rng(seed)).mean(axis=1)
        scenarios = envs.draw_noise(rng, self._n_scenarios, self._horizon)

        def mean_loss(sequences: Array) -> Array:
            losses = [envs.simulate(hidden, sequences, noise[None]).mean(axis=1) for noise in scenarios]
            mean: Array = np.mean(losses, axis=0)
            return mean

        return mean_loss

    def _hidden_state(self, observation: NDArray[Any], info: dict[str, Any]) -> Array:
        """Return what identifies the state: the Markov state, or the observation of an environment that simulates."""
        return np.array(observation) if self._simulate else _markov_state(info)

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        arrays = {} if self._hidden is None else {"hidden": self._hidden}
        if self._plan is not None:
            arrays |= {"actions": self._plan.actions, "mean": self._plan.mean, "elites": self._plan.elites}
        return {"steps": self._steps}, arrays

    def _restore(self, state: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._steps = state["steps"]
        self._hidden = arrays.get("hidden")
        if "actions" in arrays:
            self._plan = Plan(arrays["actions"], np.inf, arrays["mean"], arrays["elites"], 0)


def _markov_state(info: dict[str, Any]) -> Array:
    if "markov_state" not in info:
        raise ValueError(
            f"oracle: info must have 'markov_state', got {sorted(info)}; it plans for the Industrial Benchmark only."
        )
    return np.array([info["markov_state"][name] for name in envs.MARKOV_NAMES])
