"""HABNN-MPC: learns the plant's dynamics online and plans with what it knows and does not know."""

import logging
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agents.base import Action, Agent, State, Step
from envs import ACTUATOR_STEPS, IndustrialBenchmarkEnv
from habnn_control.dynamics import Kinematics, Prediction, TransitionModel
from habnn_control.planning import ICEM, Plan
from habnn_control.sampling import Loss, strategy

logger = logging.getLogger(__name__)
Array = NDArray[np.float64]


def plant_loss(actions: Array, observations: Array) -> Array:  # noqa: ARG001  # a Loss may look at the actions
    """Return consumption + 3 x fatigue of Industrial Benchmark observations."""
    return np.asarray(observations[..., 5] + 3.0 * observations[..., 4])


class HABNNAgent(Agent):
    """Model predictive control on a HABNN dynamics model that learns in every step.

    It begins with a short symmetric excitation of all actuators, then plans every action with the improved
    cross-entropy method on the model's forecasts: expected loss, plus caution for what the model does not know, minus
    curiosity for what it would learn.

    Works on any environment with Box observations and actions. On the Industrial Benchmark the loss, the actuators'
    kinematics and the setpoint as an exogenous entry are known; elsewhere the user gives `loss`.

    Parameters
    ----------
    env : gymnasium.Env
    seed : int
    loss : callable, optional
        Losses of batches: (actions (..., n_actions), next observations (..., n_observed)) -> (...,).
    sampling : str
        Strategy of `habnn_control.sampling`: default, greedy, optimistic, pessimistic, information, thompson.
    kinematics : bool
        On the Industrial Benchmark: whether the actuators' motion is known, or learned like everything else.
    history, memory, averages, target, input_gain, target_gain
        As for `TransitionModel`.
    network : dict
        Settings of the network to change; see `HABNN`.
    horizon : int
        Steps in which the plan moves.
    hold : int
        Steps after these in which it lets the plant run on: delayed effects of the last moves count too.
    tail : float
        How many steps the last one stands for: where the plan leaves the plant is where it stays for a while.
    excitation : int
        Steps of excitation at the start.
    n_candidates, n_iterations : int
        Size of the search.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        seed: int = 0,
        loss: Loss | None = None,
        sampling: str = "default",
        kinematics: bool = True,
        history: int = 10,
        memory: int = 2,
        averages: Sequence[float] = (8.0,),
        target: str = "log",
        input_gain: float = 2.0,
        target_gain: float = 1.0,
        network: dict[str, Any] | None = None,
        horizon: int = 15,
        hold: int = 10,
        tail: float = 5.0,
        excitation: int = 12,
        n_candidates: int = 100,
        n_iterations: int = 3,
    ) -> None:
        super().__init__(env, seed=seed)
        observed, acted = env.observation_space, env.action_space
        if not (isinstance(observed, gym.spaces.Box) and isinstance(acted, gym.spaces.Box)):
            raise TypeError(f"habnn: env must have Box spaces, got {observed} and {acted}; use continuous actions.")
        if observed.shape is None or len(observed.shape) != 1 or len(acted.shape) != 1:
            raise ValueError(f"habnn: env must have flat spaces, got {observed} and {acted}; flatten them.")
        on_plant = isinstance(env.unwrapped, IndustrialBenchmarkEnv) and observed.shape == (6,)
        if loss is None and not on_plant:
            raise ValueError("habnn: loss must be given for this environment, got None; pass loss=your_function.")
        self._loss: Loss = loss or plant_loss
        self._sampling = strategy(sampling)
        self._low, self._high = acted.low.astype(np.float64), acted.high.astype(np.float64)
        self._horizon, self._hold, self._excitation = horizon, hold, excitation
        self._weights = np.append(np.ones(horizon + hold - 1), tail)
        self._planner = ICEM(n_candidates=n_candidates, n_iterations=n_iterations)
        self._rng = np.random.default_rng(seed)
        known = kinematics and on_plant
        self.model = TransitionModel(
            observed.low,
            observed.high,
            acted.low,
            acted.high,
            history=history,
            memory=memory,
            averages=averages,
            target=target,
            kinematics=Kinematics((1, 2, 3), ACTUATOR_STEPS) if known else None,
            exogenous=(0,) if on_plant else (),
            input_gain=input_gain,
            target_gain=target_gain,
            network=network,
            seed=seed,
        )
        self._rest_action = np.clip(np.zeros(len(self._low)), self._low, self._high)  # with kinematics: stay put
        self._plan: Plan | None = None
        self._n_planned = 0
        self._n_steps = 0
        self.prediction: Prediction | None = None  # of the observation that the last action leads to

    # ------------------------------------------------------------------ the loop

    def _begin(self, observation: NDArray[Any], info: dict[str, Any]) -> None:  # noqa: ARG002
        self.model.begin(observation)
        self._plan = None

    def _act(self, observation: NDArray[Any], *, deterministic: bool) -> Action:  # noqa: ARG002
        action = self._excite(self._n_steps) if self._n_steps < self._excitation else self._planned_action()
        self.prediction = self.model.predict(action)
        return action.astype(self.env.action_space.dtype)

    def _observe(self, step: Step) -> None:
        self.model.observe(step.action, step.next_observation)
        self._n_steps += 1

    def predict(
        self,
        observation: NDArray[Any],
        state: State = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = True,  # noqa: ARG002  # SB3's signature; planning has chance in its search only
    ) -> tuple[Action, State]:
        """Choose an action without learning; call it with each observation in turn, for the model has a memory.

        `state` is the action returned before (None at the start of an episode): the next call knows from it what led
        to its observation.
        """
        if state is None or (episode_start is not None and np.all(episode_start)):
            self._begin(observation, {})
        else:
            self.model.follow(state, observation)
        action = self._planned_action().astype(self.env.action_space.dtype)
        return action, action

    def _excite(self, step: int) -> Array:
        """Return a square wave of all actions, half a period of three steps, each action one step ahead of the last."""
        phase = (step + np.arange(len(self._low))) // 3 % 2
        return np.where(phase == 0, self._low, self._high)

    # ------------------------------------------------------------------ planning

    def _planned_action(self) -> Array:
        function = self.model.network.sample_function(self._rng) if self._sampling.thompson else None

        def objective(sequences: Array) -> Array:
            tail = np.broadcast_to(self._rest_action, (len(sequences), self._hold, len(self._low)))
            actions = np.concatenate([sequences, tail], axis=1)
            forecast = self.model.forecast(actions, function)
            return self._sampling.costs(forecast, actions, self._loss, self._n_planned, self._weights)

        plan = self._planner.plan(objective, self._low, self._high, self._horizon, self._rng, self._plan)
        self._n_planned += 1
        if not np.isfinite(plan.cost):
            logger.warning("habnn: no candidate has a finite cost at step %d; holding still.", self._n_steps)
            self._plan = None
            return self._rest_action
        self._plan = plan
        return np.asarray(plan.actions[0])

    # ------------------------------------------------------------------ files

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        counts = {"n_steps": self._n_steps, "n_planned": self._n_planned, "rng": self._rng.bit_generator.state}
        plan = {} if self._plan is None else {f"plan_{k}": np.asarray(v) for k, v in self._plan._asdict().items()}
        return counts, self.model.get_state() | plan

    def _restore(self, state: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._n_steps, self._n_planned = state["n_steps"], state["n_planned"]
        self._rng.bit_generator.state = state["rng"]
        self.model.set_state(arrays)
        plan: dict[str, Any] = {name: arrays[f"plan_{name}"] for name in Plan._fields if f"plan_{name}" in arrays}
        self._plan = Plan(**plan) if plan else None
