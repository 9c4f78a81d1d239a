"""The general agent: model predictive control with a dynamics model that learns in every step."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, Self

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agents.base import Action, RecurrentAgent, Step, keyword_names
from agents.sensors import SensorCheck
from envs import find_plant
from habnn_control.control.actuator_search import StepLog, find_actuators
from habnn_control.control.excitation import Sweeps
from habnn_control.control.exploration import Exploration, Probing
from habnn_control.control.limits import LimitMonitor, fallback_action
from habnn_control.control.model import DynamicsModel, StepPrediction, Transitions
from habnn_control.control.monitor import LossMonitor
from habnn_control.control.planning import ICEM, Plan, Planner, make_planner
from habnn_control.control.plant import Actuators, Bounds, Plant
from habnn_control.control.probing import Bursts
from habnn_control.control.transition_model import TransitionModel
from habnn_control.support.names import check_choice

logger = logging.getLogger(__name__)
Array = NDArray[np.float64]
ModelFactory = Callable[..., DynamicsModel]  # called with plant, bounds and seed=

_SNAPSHOT_EVERY = 25  # steps between snapshots of a sound model
_HALF_WIDTH = 1.645  # of a normal distribution's central 90 % interval, in standard deviations
_LOG = "log_"  # prefix of the steps that actuators are searched in, in an agent's file
ACTUATORS = ("described", "found", "learned")
MODELS = {  # imported when the first one is built
    "habnn": ("habnn_control.control.transition_model", "TransitionModel"),
    "ensemble": ("agents.ensemble", "EnsembleModel"),
    "gp": ("agents.gaussian_process", "GaussianProcessModel"),
    "linear": ("agents.linear", "LinearModel"),
}


class _State(NamedTuple):
    """What `predict` must know of the episode: returned by each call, handed to the next one."""

    memory: Any
    action: Action
    plan: Plan | None
    n_steps: int


class MPCAgent(RecurrentAgent):
    """Model predictive control on a dynamics model that learns in every step.

    Each decision minimises, over action sequences, the expected loss of the model's forecast plus what the exploration
    adds for its uncertainty. It works on any environment with flat Box spaces and bounded actions. The environment's
    attribute `plant`, or the argument, says what the loss is and what is known of the process.

    Parameters
    ----------
    env : gymnasium.Env
    seed : int
    plant : Plant, optional
        Description of the process; the environment's own unless given.
    actuators : {"described", "found", "learned"}
        Where the motion of the actuators comes from: the plant's description; the first steps, in which the agent looks
        for observation entries that follow the actions and then starts its model anew with them; or the model, which
        learns it like everything else. Actuators that the plant does not describe are looked for, unless "learned".
    model : mapping or callable, optional
        Settings of the dynamics model: "kind" ("habnn", the default, "ensemble", "gp" or "linear") and its parameters,
        see the classes that MODELS names. A callable is called as model(plant, bounds, seed=seed) and returns a
        `DynamicsModel`.
    planner : mapping or Planner, optional
        Settings of the planner: "kind" ("icem", the default, "mppi" or "random-shooting") and its parameters, see
        `habnn_control.control.planning`.
    exploration : mapping or Exploration, optional
        Settings of `habnn_control.control.exploration.Exploration`: risk, information, thompson, excitation.
    horizon : int
        Number of steps in which a plan moves.
    hold : int
        Number of further steps after the last move (`Plant.rest`): its delayed effects count too.
    tail : float
        Number of steps that the last one stands for: the plant stays for a while where the plan leaves it.
    """

    default_name: ClassVar[str] = "mpc"

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        seed: int = 0,
        plant: Plant | None = None,
        actuators: str = "described",
        model: Mapping[str, Any] | ModelFactory | None = None,
        planner: Mapping[str, Any] | Planner | None = None,
        exploration: Mapping[str, Any] | Exploration | None = None,
        horizon: int = 25,
        hold: int = 10,
        tail: float = 5.0,
    ) -> None:
        super().__init__(env, seed=seed)
        self._bounds = _box_bounds(env)
        check_choice("mpc", "actuators", actuators, ACTUATORS)
        self.plant = _described(env, plant, actuators == "described")
        self.plant.check(self._bounds)
        _check_horizon(horizon, hold, tail)
        self.exploration = exploration if isinstance(exploration, Exploration) else Exploration.make(exploration or {})
        self.planner = make_planner(planner or {}) if isinstance(planner, Mapping | None) else planner
        self._build = model if callable(model) else _model_factory(model or {})
        self.model: DynamicsModel = self._build(self.plant, self._bounds, seed=seed)
        self._low, self._high = self._bounds.action_low, self._bounds.action_high
        self._horizon, self._hold = horizon, hold
        self._weights = np.append(np.ones(horizon + hold - 1), tail)
        rest = np.zeros(len(self._low)) if self.plant.rest is None else np.array(self.plant.rest)
        self._rest_action: Array = np.clip(rest, self._low, self._high)
        self._plan: Plan | None = None
        self._sensors = SensorCheck(self.name, self._bounds)
        self._motion = self._excitation()
        self._monitor = LossMonitor()
        self._limits = LimitMonitor(self.name, self.plant.chance_limits)
        self._n_steps = 0  # learned from online
        searches = actuators != "learned" and self.plant.actuators is None
        self._log = StepLog() if searches else None  # steps in which actuators are looked for
        self._snapshot = self.model.snapshot()

    def _excitation(self) -> Sweeps | Bursts:
        settings = self.exploration.excitation
        if isinstance(settings, Probing):
            return Bursts(settings, self.plant, self._bounds, self.seed)
        return Sweeps(settings, self.plant, self._bounds)

    @classmethod
    def setting_hint(cls, name: str) -> str:
        """Return the group that a setting belongs to, if it belongs to one."""
        groups = {
            "model": keyword_names(TransitionModel.__init__),
            "planner": [field.name for field in fields(ICEM)],
            "exploration": [field.name for field in fields(Exploration)],
        }
        for group, names in groups.items():
            if name in names:
                return f"it is a setting of {group}: pass {group}={{{name!r}: ...}}."
        return super().setting_hint(name)

    # ------------------------------------------------------------------ learning

    def pretrain(self, transitions: Transitions) -> Self:
        """Learn from logged steps before going online, which then begins without excitation, but as risk-averse."""
        self.model.pretrain(transitions)
        if self._log is not None:
            self._search_actuators(transitions)
        self._motion.length = 0
        self._log = None
        self._current = None  # the model's memory is that of the log's last episode
        self._keep_snapshot()
        return self

    def _begin(self, observation: NDArray[Any], info: dict[str, Any]) -> None:  # noqa: ARG002
        self.model.begin(self._checked(observation))
        self._plan = None
        self._sensors.begin()

    def _act(self, observation: NDArray[Any], *, deterministic: bool) -> Action:  # noqa: ARG002  # `predict` has its own
        action = self._choose(observation).astype(self.env.action_space.dtype)
        self.prediction = self.model.predict(action)
        return action

    def _choose(self, observation: NDArray[Any]) -> Array:
        if not self.model.is_sound():
            self._go_back()
            return self._first_action(None, observation)
        if self._n_steps < self._motion.length:
            return self._motion.first(self._n_steps)
        self._plan = self._search(self.exploration, self.model.memory, self._rng(), self._plan)
        planned = self._first_action(self._plan, observation)
        moved = self._motion.later(self._n_planned, self._monitor, planned)
        return moved if self._limits.permits(self.model, self.model.memory, moved) else planned

    @property
    def _n_planned(self) -> int:
        """Number of steps learned from since the excitation at the start."""
        return max(self._n_steps - self._motion.length, 0)

    def _observe(self, step: Step) -> None:
        self._n_steps += 1
        step, complete = self._sensors.repaired(step, self.model, self.prediction)
        try:
            if complete:
                self.model.observe(step.action, step.next_observation)
            else:
                self.model.skip(step.action, step.next_observation)
        except ValueError as error:  # too large to learn from: counts as not measured
            logger.warning("%s: step %d is not learned from: %s", self.name, self._n_steps, error)
            self.model.skip(step.action)
            complete = False
        given = list(self.plant.exogenous)
        moved = np.any(np.abs(step.next_observation[given] - step.observation[given]) > 0)
        if moved and isinstance(self._motion, Sweeps):
            self._motion.disturbed = self._n_planned
        if self._n_planned and complete:
            after = np.asarray(step.next_observation, dtype=np.float64)
            self._monitor.append(float(self.plant.loss(step.action, after)), *self._predicted_loss(step))
            self._limits.observe(after)
        if self._log is not None:
            self._keep_log(step, complete)
        if self._n_steps % _SNAPSHOT_EVERY == 0:
            self._keep_snapshot()

    def _keep_log(self, step: Step, complete: bool) -> None:
        """Append a step to the log, and look for actuators in it."""
        assert self._log is not None
        if not complete:
            self._log.clear()
            return
        self._log.append(step.observation, step.action, step.next_observation)
        self._search_actuators(self._log.transitions)
        if self.plant.actuators is not None or self._log.is_full:
            self._log = None

    def _search_actuators(self, log: Transitions) -> None:
        """Start the model anew with the actuators that a log shows, if it shows any."""
        found = find_actuators(self.plant, self._bounds, log.observations, log.actions, log.next_observations)
        if found is not None:
            logger.info("%s: entries %s follow the actions with steps %s.", self.name, found.entries, found.steps)
            self._take_over(found)
            self.model.pretrain(log)

    def _take_over(self, actuators: Actuators) -> None:
        """Build model and excitation anew, with actuators whose motion is known from now on."""
        self.plant = replace(self.plant, actuators=actuators)
        self.model = self._build(self.plant, self._bounds, seed=self.seed)
        progress = self._motion.get_state()
        self._motion = self._excitation()
        self._motion.set_state(progress)
        self._plan, self._snapshot = None, self.model.snapshot()

    def _keep_snapshot(self) -> None:
        if self.model.is_sound():
            self._snapshot = self.model.snapshot()

    def _go_back(self) -> None:
        """Restore the last model that was known to be sound."""
        self.model.restore(self._snapshot, keep_memory=True)
        self._plan = None
        logger.warning("%s: the model is not sound at step %d; back to its last snapshot.", self.name, self._n_steps)

    def _progress(self, step: Step) -> dict[str, str]:
        """Return the loss, and half the width of the 90 % interval of its prediction."""
        return {**super()._progress(step), "uncertainty": f"{_HALF_WIDTH * self._predicted_loss(step)[1]:.1f}"}

    def _predicted_loss(self, step: Step) -> tuple[float, float]:
        """Return mean and standard deviation of the loss that was predicted for a step, with independent entries."""
        prediction = self.prediction
        assert isinstance(prediction, StepPrediction)
        indices, mean, low, high = prediction
        n = len(indices)
        cases = np.tile(np.asarray(step.next_observation, dtype=np.float64), (2 * n + 1, 1))
        cases[:, indices] = mean
        cases[np.arange(n), indices], cases[np.arange(n, 2 * n), indices] = low, high  # each entry at its ends
        losses = self.plant.loss(np.broadcast_to(step.action, (len(cases), len(step.action))), cases)
        width = np.sqrt(np.sum((losses[n : 2 * n] - losses[:n]) ** 2))
        return float(losses[-1]), float(width / (2 * _HALF_WIDTH))

    # ------------------------------------------------------------------ acting without learning

    def _predict_one(
        self, observation: NDArray[Any], state: _State | None, deterministic: bool
    ) -> tuple[Action, _State]:
        """Plan without learning; deterministic leaves out information, optimism and Thompson sampling."""
        exploration = self.exploration.exploiting() if deterministic else self.exploration
        if state is None:
            memory, plan, n_steps = self.model.first_memory(observation), None, 0
        else:
            memory = self.model.next_memory(state.memory, state.action, observation)
            plan, n_steps = state.plan, state.n_steps
        plan = self._search(exploration, memory, self._rng(n_steps), plan)
        action = self._first_action(plan, observation).astype(self.env.action_space.dtype)
        return action, _State(memory, action, plan, n_steps + 1)

    # ------------------------------------------------------------------ planning

    @property
    def plan(self) -> Array | None:
        """Actions (horizon, n_actions) that the last decision in `learn` planned, with its own; None without a plan."""
        return None if self._plan is None else np.asarray(self._plan.actions)

    def _rng(self, *more: int) -> np.random.Generator:
        """Return the generator of one decision: equal questions have equal answers, and asking changes nothing."""
        return np.random.default_rng((self.seed, self._n_steps, *more))

    def _search(
        self, exploration: Exploration, memory: Any, rng: np.random.Generator, previous: Plan | None
    ) -> Plan | None:
        """Return the best plan from `memory`; None, with a warning, if no candidate has a finite cost."""
        forecaster = self.model.draw(rng) if exploration.thompson else self.model

        def objective(sequences: Array) -> Array:
            actions = self.plant.continued(sequences, self._hold, self._bounds)
            forecast = forecaster.forecast(memory, actions)
            costs = exploration.costs(forecast, actions, self.plant.cost, self._weights, self._n_planned, self._monitor)
            return self._limits.charged(costs, forecast)

        plan = self.planner.plan(objective, self._low, self._high, self._horizon, rng, previous)
        if np.isfinite(plan.cost):
            return plan if self._limits.accepts(plan.cost, self.plant.fallback is not None) else None
        logger.warning("%s: no candidate has a finite cost at step %d; resting.", self.name, self._n_steps)
        return None

    def _first_action(self, plan: Plan | None, observation: NDArray[Any]) -> Array:
        if plan is None:
            return fallback_action(self.plant.fallback, observation, self._rest_action, self._low, self._high)
        return np.asarray(plan.actions[0])

    # ------------------------------------------------------------------ files

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        plan = {} if self._plan is None else {f"plan_{k}": np.asarray(v) for k, v in self._plan._asdict().items()}
        model = {f"model_{name}": value for name, value in self.model.snapshot().items()}
        log = {f"{_LOG}{k}": v for k, v in self._log.transitions._asdict().items()} if self._log else {}
        found = self.plant.actuators
        state = {
            "n_steps": self._n_steps,
            "motion": self._motion.get_state(),
            "monitor": self._monitor.get_state(),
            "searching": self._log is not None,
            "actuators": None if found is None else [found.entries, found.steps],
            "levels": self._limits.levels.tolist(),
        }
        return state, model | plan | log

    def _restore(self, state: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._n_steps = state["n_steps"]
        if self.plant.actuators is None and state["actuators"] is not None:
            self._take_over(Actuators(*state["actuators"]))
        self._motion.set_state(state["motion"])
        self._limits.levels = np.array(state["levels"])
        self._log = StepLog() if state["searching"] else None
        if f"{_LOG}actions" in arrays:
            self._log = StepLog(Transitions(*(arrays[f"{_LOG}{name}"] for name in Transitions._fields)))
        prefix = "model_"
        self.model.restore({k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)})
        self._monitor = LossMonitor(**state["monitor"])
        self._keep_snapshot()
        plan: dict[str, Any] = {name: arrays[f"plan_{name}"] for name in Plan._fields if f"plan_{name}" in arrays}
        self._plan = Plan(**plan) if plan else None


def _box_bounds(env: gym.Env[Any, Any]) -> Bounds:
    observed, acted = env.observation_space, env.action_space
    if not (isinstance(observed, gym.spaces.Box) and isinstance(acted, gym.spaces.Box)):
        raise TypeError(f"mpc: env must have Box spaces, got {observed} and {acted}; use continuous actions.")
    if len(observed.shape) != 1 or len(acted.shape) != 1:
        raise ValueError(f"mpc: env must have flat spaces, got {observed} and {acted}; flatten them.")
    if not acted.is_bounded():
        raise ValueError(f"mpc: env must have bounded actions, got {acted}; rescale or clip them.")
    return Bounds.of(observed.low, observed.high, acted.low, acted.high)


def _described(env: gym.Env[Any, Any], plant: Plant | None, with_actuators: bool) -> Plant:
    found = find_plant(env) if plant is None else plant
    if not isinstance(found, Plant):
        raise ValueError(
            f"mpc: plant must be a Plant with the loss of this environment, got {found!r}; pass plant=Plant(loss)."
        )
    return found if with_actuators else replace(found, actuators=None)


def _check_horizon(horizon: int, hold: int, tail: float) -> None:
    whole = isinstance(horizon, int) and isinstance(hold, int)
    if not (whole and horizon >= 1 and hold >= 0 and 0 < tail < np.inf):
        raise ValueError(
            f"mpc: horizon must be at least 1, hold at least 0, both whole, and tail positive, got {horizon}, {hold} "
            f"and {tail}; 25, 10 and 5 are the defaults."
        )


def _model_factory(settings: Mapping[str, Any]) -> ModelFactory:
    """Return a function that builds the model which `settings` describe."""
    parameters = dict(settings)
    kind = parameters.pop("kind", "habnn")
    check_choice("model", "kind", kind, MODELS)
    module, attribute = MODELS[kind]
    factory = getattr(import_module(module), attribute)
    for name in parameters:
        check_choice(f"model {kind}", "setting", name, keyword_names(factory.__init__))

    def build(plant: Plant, bounds: Bounds, seed: int) -> DynamicsModel:
        model: DynamicsModel = factory(plant, bounds, **{"seed": seed, **parameters})
        return model

    return build
