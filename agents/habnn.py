"""HABNN-MPC: learns the plant's dynamics online and plans with what it knows and does not know."""

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agents._excitation import Excitation
from agents.base import Action, Agent, State, Step
from envs import ACTUATOR_STEPS, IndustrialBenchmarkEnv
from habnn_control.control.exploration import Loss, Record, Strategy, strategy
from habnn_control.control.planning import ICEM, Plan
from habnn_control.control.transition_model import (
    PROPAGATIONS,
    Kinematics,
    Memory,
    Prediction,
    TransitionModel,
    Transitions,
)
from habnn_control.support.names import nearest

logger = logging.getLogger(__name__)
Array = NDArray[np.float64]

_SAFE_EVERY = 25  # steps between copies of the network, to go back to when it breaks
_EXCITATION = ("length", "began", "quarter", "stay", "disturbed")  # what is kept of it
_N_PARTICLES = 8  # functions drawn for a decision with propagation "samples"


def plant_loss(actions: Array, observations: Array) -> Array:  # noqa: ARG001  # a Loss may look at the actions
    """Return consumption + 3 x fatigue of Industrial Benchmark observations."""
    return np.asarray(observations[..., 5] + 3.0 * observations[..., 4])


class _State(NamedTuple):
    """What `predict` must know of the episode it plays: returned by each call, handed to the next."""

    memory: Memory
    action: Action
    plan: Plan | None
    n_steps: int


class HABNNAgent(Agent):
    """Model predictive control on a HABNN dynamics model that learns in every step.

    It begins with a short symmetric excitation of all actuators, then plans every action with the improved
    cross-entropy method on the model's forecasts: expected loss, plus caution for what the model does not know (other
    strategies of `habnn_control.control.exploration` seek it). Now and then the fastest actuator sweeps again,
    and while the setpoint moves the slowest one is pushed to and fro (`agents._excitation`).

    Works on any environment with Box observations and actions. On the Industrial Benchmark the loss, the actuators'
    kinematics and the setpoint as an exogenous entry are known; elsewhere the user gives `loss`.

    Parameters
    ----------
    env : gymnasium.Env
    seed : int
    loss : callable, optional
        Losses of batches: (actions (..., n_actions), next observations (..., n_observed)) -> (...,).
    sampling : str or dict
        Strategy of `habnn_control.control.exploration`: default, greedy, optimistic, pessimistic, curious, information, thompson,
        or one described as for `habnn_control.control.exploration.strategy`.
    propagation : {"mean", "moments", "samples"}
        How uncertainty travels along a plan; see `TransitionModel.forecast`.
    kinematics : bool
        On the Industrial Benchmark: whether the actuators' motion is known, or learned like everything else.
    offset_time, history, memory, averages, target, input_gain, target_gain, prior
        As for `TransitionModel`. Where the actuators' motion is known, no past outputs are among the inputs unless
        `memory` is given: what they would add to the next step is worse than nothing ten steps on.
    network : dict
        Settings of the network to change; see `HABNN`.
    horizon : int
        Steps in which the plan moves.
    hold : int
        Steps after these in which it lets the plant run on: delayed effects of the last moves count too.
    tail : float
        How many steps the last one stands for: where the plan leaves the plant is where it stays for a while.
    excitation : int
        Steps of excitation at the start: every actuator moves at its full speed, to and fro. 0 means none, nor any
        `dither` or `resweep` later.
    sweep : float or sequence of float
        How far each moves to either side, as a part of its range; where the motion is not known, three steps. The
        default was chosen for this plant: a shift that swings wide pays, a gain that does brings lasting fatigue.
    dither : float
        How hard the slowest actuator is pushed to and fro while the setpoint moves, in parts of its full speed, on top
        of what the plan says, so that the model can tell what it does from what the setpoint does. 0 means not at all.
        Not after `pretrain`, and not where the actuators' motion is unknown.
    resweep : float
        How far the fastest actuator moves to either side when it sweeps again, at doubling intervals, to rest at the
        upper end for a while; 0 means never. Not after `pretrain`, and not where the actuators' motion is unknown.
    recovery : float
        Regret, in parts of the losses' level, from which it sweeps half its range to either side; inf means never.
    n_candidates, n_iterations : int
        Size of the search.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        seed: int = 0,
        loss: Loss | None = None,
        sampling: str | dict[str, Any] = "default",
        propagation: str = "mean",
        kinematics: bool = True,
        offset_time: float = 150.0,
        history: int = 10,
        memory: int | None = None,
        averages: Sequence[float] = (),
        target: str = "log",
        input_gain: float = 2.0,
        target_gain: float = 1.0,
        prior: str = "focused",
        network: dict[str, Any] | None = None,
        horizon: int = 15,
        hold: int = 10,
        tail: float = 5.0,
        excitation: int = 32,
        sweep: float | Sequence[float] = (0.25, 0.25, 0.45),
        dither: float = 1.0,
        resweep: float = 0.3,
        recovery: float = 0.12,
        n_candidates: int = 100,
        n_iterations: int = 3,
    ) -> None:
        super().__init__(env, seed=seed)
        observed, acted = env.observation_space, env.action_space
        if not (isinstance(observed, gym.spaces.Box) and isinstance(acted, gym.spaces.Box)):
            raise TypeError(f"habnn: env must have Box spaces, got {observed} and {acted}; use continuous actions.")
        if len(observed.shape) != 1 or len(acted.shape) != 1:
            raise ValueError(f"habnn: env must have flat spaces, got {observed} and {acted}; flatten them.")
        if not acted.is_bounded():
            raise ValueError(f"habnn: env must have bounded actions, got {acted}; rescale or clip them.")
        if propagation not in PROPAGATIONS:
            raise ValueError(
                f"habnn: propagation must be one of {', '.join(PROPAGATIONS)}, got {propagation!r}; "
                f"{nearest(propagation, PROPAGATIONS)}"
            )
        on_plant = isinstance(env.unwrapped, IndustrialBenchmarkEnv) and observed.shape == (6,)
        parts = np.array(sweep, dtype=np.float64)
        if not ((parts > 0) & (parts <= 0.5)).all() or (on_plant and parts.shape not in ((), acted.shape)):
            raise ValueError(
                f"habnn: sweep must be one part of the range in (0, 0.5], or one for each actuator, got {sweep}; "
                "a quarter of the range is a good start."
            )
        if not 0 <= dither <= 1:
            raise ValueError(
                f"habnn: dither must be a part of the full speed in [0, 1], got {dither}; 0 switches it off."
            )
        if not (0 <= resweep <= 0.5 and recovery > 0):
            raise ValueError(
                "habnn: resweep must be a part of the range in [0, 0.5] and recovery positive, got "
                f"{resweep} and {recovery}; 0 and inf switch them off."
            )
        if loss is None and not on_plant:
            raise ValueError("habnn: loss must be given for this environment, got None; pass loss=your_function.")
        self._loss: Loss = loss or plant_loss
        self._sampling = strategy(sampling)
        self._low, self._high = acted.low.astype(np.float64), acted.high.astype(np.float64)
        self._horizon, self._hold = horizon, hold
        self._weights = np.append(np.ones(horizon + hold - 1), tail)
        self._planner = ICEM(n_candidates=n_candidates, n_iterations=n_iterations)
        self._propagation = propagation
        known = kinematics and on_plant
        self.model = TransitionModel(
            observed.low,
            observed.high,
            acted.low,
            acted.high,
            offset_time=offset_time,
            history=history,
            memory=(0 if known else 2) if memory is None else memory,
            averages=averages,
            target=target,
            kinematics=Kinematics((1, 2, 3), ACTUATOR_STEPS) if known else None,
            exogenous=(0,) if on_plant else (),
            input_gain=input_gain,
            target_gain=target_gain,
            prior=prior,
            network=network,
            seed=seed,
        )
        self._rest_action = np.clip(np.zeros(len(self._low)), self._low, self._high)  # with kinematics: stay put
        self._plan: Plan | None = None
        self._excitation = self._sweeps(excitation, parts, dither, resweep, recovery, known=known)
        self._record = Record()
        self._n_steps = 0  # learned from online
        self._safe = self.model.network.get_state()  # a copy to go back to
        self.prediction: Prediction | None = None  # of the observation that the last action leads to

    def _sweeps(
        self, length: int, parts: Array, dither: float, resweep: float, recovery: float, *, known: bool
    ) -> Excitation:
        bounds = self._low, self._high
        if not known:
            return Excitation(*bounds, np.full(len(self._low), 3), length)
        speeds = np.array(ACTUATOR_STEPS) / 100.0  # parts of the range a step
        quarters = np.maximum(np.rint(parts / speeds), 1).astype(np.int64)
        fastest = int(speeds.argmax())
        again, widest = (round(part / speeds[fastest]) for part in (resweep, 0.5))
        return Excitation(
            *bounds,
            quarters,
            length,
            slowest=int(speeds.argmin()),
            fastest=fastest,
            dither=dither,
            again=again,
            widest=widest,
            patience=recovery,
        )

    # ------------------------------------------------------------------ learning

    def pretrain(self, transitions: Transitions) -> Self:
        """Learn from logged steps before going online, which then begins without excitation, but as cautiously.

        The best that the log has seen is what the agent's own losses are compared with.
        """
        untaught = self.model.get_state()
        self.model.pretrain(transitions)
        logged = Record(best=self._record.best)
        try:
            for loss in self._loss(np.asarray(transitions.actions), np.asarray(transitions.next_observations)):
                logged.append(float(loss))
        except Exception:  # the user's function
            self.model.set_state(untaught)
            raise
        self._record = Record(best=logged.best)
        self._excitation.length = 0
        self._current = None  # what the model remembers now is the log's last episode
        self._keep_safe()
        return self

    def _begin(self, observation: NDArray[Any], info: dict[str, Any]) -> None:  # noqa: ARG002
        first = self._checked(observation)
        self.model.renew_offsets()
        self.model.begin(first)
        self._plan = None

    def _act(self, observation: NDArray[Any], *, deterministic: bool) -> Action:  # noqa: ARG002  # `predict` has its own
        action = self._choose().astype(self.env.action_space.dtype)
        self.prediction = self.model.predict(action)
        return action

    def _choose(self) -> Array:
        if not self.model.is_sound():
            self._go_back()
            return self._rest_action
        if self._n_steps < self._excitation.length:
            return self._excitation.first(self._n_steps)
        self._plan = self._search(self._sampling, self._rng(), self._plan)
        return self._excitation.later(self._n_planned, self._record, self._first_action(self._plan))

    @property
    def _n_planned(self) -> int:
        """Steps learned from since the excitation at the start."""
        return max(self._n_steps - self._excitation.length, 0)

    def _observe(self, step: Step) -> None:
        self._n_steps += 1
        try:
            self.model.observe(step.action, step.next_observation)
        except ValueError as error:  # not finite, or too large to learn from: as if it had not been measured
            logger.warning("habnn: step %d is not learned from: %s", self._n_steps, error)
            self.model.follow(step.action, self.model.memory.observation)
        given = self.model.exogenous
        if np.any(np.abs(step.next_observation[given] - step.observation[given]) > 0):
            self._excitation.disturbed = self._n_planned
            self._record = Record()  # what was best at another setpoint is no measure of what this one costs
        if self._n_planned:
            self._record.append(float(self._loss(step.action, np.asarray(step.next_observation, dtype=np.float64))))
        if self._n_steps % _SAFE_EVERY == 0:
            self._keep_safe()

    def _keep_safe(self) -> None:
        if self.model.is_sound():
            self._safe = self.model.network.get_state()

    def _go_back(self) -> None:
        """Go back to the last network that was known to be good."""
        self.model.network.set_state(self._safe)
        self._plan = None
        samples = self.model.network.n_samples
        logger.warning("habnn: the model is broken at step %d; back to that of %d samples.", self._n_steps, samples)

    def _progress(self, step: Step) -> dict[str, str]:
        """Return the loss and half the width of the 90 % interval it was predicted with, the parts independent."""
        assert self.prediction is not None
        indices, mean, low, high = self.prediction
        ends = np.tile(np.asarray(step.next_observation, dtype=np.float64), (2, len(indices), 1))
        ends[..., indices] = mean
        ends[:, np.arange(len(indices)), indices] = low, high  # each part at its ends, the others as expected
        losses = self._loss(np.broadcast_to(step.action, (2, len(indices), len(step.action))), ends)
        half_width = 0.5 * np.sqrt(np.sum((losses[1] - losses[0]) ** 2))
        return {**super()._progress(step), "uncertainty": f"{half_width:.1f}"}

    # ------------------------------------------------------------------ acting without learning

    def predict(
        self,
        observation: NDArray[Any],
        state: State = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = True,
    ) -> tuple[Action, State]:
        """Choose an action without learning.

        The model has a memory: hand each call the `state` that the call before returned, None at the start of an
        episode. A batch of observations has a state for each row.

        Parameters
        ----------
        observation : array, shape of the observation space, or a batch of these
        state : any
            Returned by the call before.
        episode_start : array of bool, optional
            Rows at which an episode starts, whatever their state is.
        deterministic : bool
            Whether to leave out what is done only to learn: curiosity, optimism, Thompson's draws.

        Returns
        -------
        action : array
        state : any
        """
        observation = self._checked(observation)
        if observation.shape == self.env.observation_space.shape:
            start = state is None or (episode_start is not None and bool(np.all(episode_start)))
            return self._predict_one(observation, None if start else state, deterministic)
        states = [None] * len(observation) if state is None else state
        starts = np.broadcast_to(False if episode_start is None else episode_start, len(observation))
        rows = [
            self._predict_one(row, None if start else one, deterministic)
            for row, one, start in zip(observation, states, starts, strict=True)
        ]
        return np.stack([action for action, _ in rows]), tuple(one for _, one in rows)

    def _predict_one(
        self, observation: NDArray[Any], state: "_State | None", deterministic: bool
    ) -> tuple[Action, "_State"]:
        chosen, kept = self._sampling.without_exploration() if deterministic else self._sampling, self.model.memory
        try:
            if state is None:
                self.model.begin(observation)
                state = _State(self.model.memory, self._rest_action, None, 0)
            else:
                self.model.memory = state.memory
                self.model.follow(state.action, observation)
            plan = self._search(chosen, self._rng(state.n_steps), state.plan)
            action = self._first_action(plan).astype(self.env.action_space.dtype)
            return action, _State(self.model.memory, action, plan, state.n_steps + 1)
        finally:
            self.model.memory = kept

    # ------------------------------------------------------------------ planning

    def _rng(self, *more: int) -> np.random.Generator:
        """Return the generator of one decision: the same question gets the same answer, asking changes nothing."""
        return np.random.default_rng((self.seed, self._n_steps, *more))

    def _search(self, strategy: Strategy, rng: np.random.Generator, previous: Plan | None) -> Plan | None:
        """Plan; None, with a warning, if no candidate has a finite cost."""
        propagation = "samples" if strategy.thompson else self._propagation
        n_functions = (1 if strategy.thompson else _N_PARTICLES) if propagation == "samples" else 0
        functions = [self.model.network.sample_function(rng) for _ in range(n_functions)]

        def objective(sequences: Array) -> Array:
            tail = np.broadcast_to(self._rest_action, (len(sequences), self._hold, len(self._low)))
            actions = np.concatenate([sequences, tail], axis=1)
            forecast = self.model.forecast(actions, propagation, functions)
            return strategy.costs(forecast, actions, self._loss, self._weights, self._n_planned, self._record)

        plan = self._planner.plan(objective, self._low, self._high, self._horizon, rng, previous)
        if np.isfinite(plan.cost):
            return plan
        logger.warning("habnn: no candidate has a finite cost at step %d; holding still.", self._n_steps)
        return None

    def _first_action(self, plan: Plan | None) -> Array:
        return self._rest_action if plan is None else np.asarray(plan.actions[0])

    # ------------------------------------------------------------------ files

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        plan = {} if self._plan is None else {f"plan_{k}": np.asarray(v) for k, v in self._plan._asdict().items()}
        record = {"record_losses": self._record.losses, "record_best": np.array(self._record.best)}
        excitation = {name: getattr(self._excitation, name) for name in _EXCITATION}
        return {"n_steps": self._n_steps, **excitation}, self.model.get_state() | plan | record

    def _restore(self, state: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._n_steps = state["n_steps"]
        for name in _EXCITATION:
            setattr(self._excitation, name, state[name])
        self.model.set_state(arrays)
        self._record = Record(arrays["record_losses"], float(arrays["record_best"]))
        self._keep_safe()
        plan: dict[str, Any] = {name: arrays[f"plan_{name}"] for name in Plan._fields if f"plan_{name}" in arrays}
        self._plan = Plan(**plan) if plan else None
