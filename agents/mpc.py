"""The general agent: model predictive control with a dynamics model that learns in every step."""

import logging
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar, NamedTuple, Self

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agents.base import Action, RecurrentAgent, Step, keyword_names
from agents.models import ModelFactory, model_factory
from agents.mpc_checks import box_bounds, check_horizon, described_plant
from agents.sensors import SensorCheck
from habnn_control.control.actuator_search import StepLog, find_actuators, gentle_move, n_gentle
from habnn_control.control.excitation import Sweeps
from habnn_control.control.exploration import Exploration, Probing
from habnn_control.control.hazard import Hazard
from habnn_control.control.limits import LimitMonitor, fallback_action
from habnn_control.control.model import DynamicsModel, StepPrediction, Transitions
from habnn_control.control.monitor import HALF_WIDTH, LossMonitor, predicted_loss
from habnn_control.control.planning import ICEM, Plan, Planner, make_planner
from habnn_control.control.plant import Actuators, Plant
from habnn_control.control.probes import Probes
from habnn_control.control.probing import Bursts
from habnn_control.control.transition_model import TransitionModel
from habnn_control.support.names import check_choice
from habnn_control.support.threads import one_thread

logger = logging.getLogger(__name__)
Array = NDArray[np.float64]

_SETTLING = 50  # planned steps in which a model learns before its errors mean anything
_SNAPSHOT_EVERY = 25  # steps between snapshots of a sound model
_HAZARD = "hazard_"  # prefix of the hazard's arrays in an agent's file
_LOG = "log_"  # prefix of the steps that actuators are searched in, in an agent's file
ACTUATORS = ("described", "found", "learned")


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
        The environment to control; it is never seeded by the agent.
    seed : int
        Seeds all that the agent draws.
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
    fills_gaps: ClassVar[bool] = True

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
        self._bounds = box_bounds(env)
        check_choice("mpc", "actuators", actuators, ACTUATORS)
        self.plant = described_plant(env, plant, actuators == "described")
        self.plant.check(self._bounds)
        check_horizon(horizon, hold, tail)
        self.exploration = exploration if isinstance(exploration, Exploration) else Exploration.make(exploration or {})
        self.planner = make_planner(planner or {}) if isinstance(planner, Mapping | None) else planner
        self._build = model if callable(model) else model_factory(model or {})
        self.model: DynamicsModel = self._build(self.plant, self._bounds, seed=seed)
        self._low, self._high = self._bounds.action_low, self._bounds.action_high
        self._horizon, self._hold = horizon, hold
        self._weights = np.append(np.ones(horizon + hold - 1), tail)
        rest = np.zeros(len(self._low)) if self.plant.rest is None else np.array(self.plant.rest)
        self._rest_action: Array = np.clip(rest, self._low, self._high)
        self._plan: Plan | None = None
        self._as_before: StepPrediction | None = None  # prediction for the plant as it was before a change
        self._sensors = SensorCheck(self.name, self._bounds, self.plant)
        self._motion, self._probes = self._excitation(), self._make_probes()
        self._monitor, self._hazard = LossMonitor(), Hazard(self.plant, self._bounds)
        self._limits = LimitMonitor(self.name, self.plant.chance_limits)
        self._n_steps = 0  # learned from online
        searches = actuators != "learned" and self.plant.actuators is None
        self._log = StepLog() if searches else None  # steps in which actuators are looked for
        self._n_gentle = n_gentle(len(self._low)) if searches and self._motion.length else 0  # before the excitation
        self._snapshot = self.model.snapshot()

    def _excitation(self) -> Sweeps | Bursts:
        settings = self.exploration.excitation
        if isinstance(settings, Probing):
            return Bursts(settings, self.plant, self._bounds, self.seed)
        return Sweeps(settings, self.plant, self._bounds)

    def _make_probes(self) -> Probes | None:
        settings = self.exploration.excitation
        if isinstance(settings, Probing) and self.plant.actuators is not None:
            return Probes(settings, self.plant, self._bounds)
        return None

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
        with one_thread():
            self.model.pretrain(transitions)
        if self._log is not None:
            self._search_actuators(transitions)
        self._motion.length = self._n_gentle = 0
        self._log = None
        self._current = None  # the model's memory is that of the log's last episode
        self._keep_snapshot()
        return self

    def _begin(self, observation: NDArray[Any], info: dict[str, Any]) -> None:  # noqa: ARG002
        self.model.begin(self._checked(observation))
        self._plan = None
        self._sensors.begin(observation)

    def _act(self, observation: NDArray[Any], *, deterministic: bool) -> Action:  # noqa: ARG002  # `predict` has its own
        action = self._choose(self._sensors.complete(observation)).astype(self.env.action_space.dtype)
        self.prediction = self.model.predict(action)
        if self._monitor.regret == 0.0 and not self._monitor.changed:
            self.model.mark()
        self._as_before = self.model.predict_as_marked(action)
        return action

    def _choose(self, observation: NDArray[Any]) -> Array:
        if not self.model.is_sound():
            self._go_back()
            return self._first_action(None, observation)
        if self._n_steps < self._n_gentle:
            return gentle_move(self._low, self._high, self.seed, self._n_steps)
        if self._n_steps < self._n_gentle + self._motion.length:
            return self._motion.first(self._n_steps - self._n_gentle)
        self._plan = self._search(self.exploration, self.model.memory, self._rng(), self._plan)
        planned = self._first_action(self._plan, observation)
        probed = planned
        if self._probes is not None and self._plan is not None:
            probed = self._probed(self._probes, self._plan, planned)
        moved = self._motion.later(self._n_planned, self._monitor, probed)
        return moved if self._limits.permits(self.model, self.model.memory, moved) else planned

    def _probed(self, probes: Probes, plan: Plan, planned: Array) -> Array:
        """Return the planned action, or that of a probe of one actuator; none begins during a recovery."""
        assert isinstance(self._motion, Bursts)
        if self._n_planned >= self._motion.ended and probes.is_due(self._n_planned):
            probes.choose(self.model, np.asarray(plan.actions), self._n_planned, self._monitor.level)
        return probes.action(planned, self._n_planned)

    @property
    def _n_planned(self) -> int:
        """Number of steps learned from since the excitation at the start."""
        return max(self._n_steps - self._n_gentle - self._motion.length, 0)

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
            self._compare(step.action, after)
            self._limits.observe(after)
        if self._log is not None:
            self._keep_log(step, complete)
        if self._n_steps % _SNAPSHOT_EVERY == 0:
            self._keep_snapshot()

    def _compare(self, action: Action, after: Array) -> None:
        """Compare the loss of a step with its predictions; hidden states that seem to have changed are learned anew."""
        assert self.prediction is not None
        assert self._as_before is not None
        before, _ = predicted_loss(self.plant, self._as_before, action, after)
        expected, deviation = predicted_loss(self.plant, self.prediction, action, after)
        self._monitor.append(float(self.plant.loss(action, after)), expected, deviation, before)
        settings = self.exploration.excitation
        if not isinstance(settings, Probing):
            return
        monitor = self._monitor
        if self._n_planned < _SETTLING:
            monitor.settle()
        had_changed = monitor.changed
        noticed = monitor.notices_change(settings.surprise)
        self._hazard.observe(after, exposed=not monitor.changed)
        if noticed:
            self.model.disturb()
            if monitor.changed and not had_changed:
                self._hazard.blame()

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
        gentle = 0 < self._n_steps <= self._n_gentle
        found = find_actuators(self.plant, self._bounds, log.observations, log.actions, log.next_observations, gentle)
        if found is not None:
            logger.info("%s: entries %s follow the actions with steps %s.", self.name, found.entries, found.steps)
            self._take_over(found)
            self.model.pretrain(log)

    def _take_over(self, actuators: Actuators) -> None:
        """Build model and excitation anew, with actuators whose motion is known from now on."""
        self.plant = replace(self.plant, actuators=actuators)
        self._hazard = Hazard(self.plant, self._bounds)
        self.model = self._build(self.plant, self._bounds, seed=self.seed)
        progress = self._motion.get_state()
        self._motion, self._probes = self._excitation(), self._make_probes()
        self._motion.set_state(progress)
        self._sensors.take_over(self.plant)
        self._n_gentle = min(self._n_gentle, self._n_steps)  # the excitation begins
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
        assert self.prediction is not None
        _, deviation = predicted_loss(self.plant, self.prediction, step.action, step.next_observation)
        return {**super()._progress(step), "uncertainty": f"{HALF_WIDTH * deviation:.1f}"}

    # ------------------------------------------------------------------ acting without learning

    def _predict_one(
        self, observation: NDArray[Any], state: _State | None, deterministic: bool
    ) -> tuple[Action, _State]:
        """Plan without learning; deterministic leaves out information, optimism and Thompson sampling."""
        exploration = self.exploration.exploiting() if deterministic else self.exploration
        if state is None:
            memory, plan, n_steps = self.model.first_memory(self._checked(observation)), None, 0
        else:
            observation = self._sensors.completed(observation, state.action, self.model, state.memory)
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
        price = self._motion.price_of_change(self._monitor) if isinstance(self._motion, Bursts) else 0.0
        rest = np.broadcast_to(self._rest_action, (1, self._horizon, len(self._rest_action)))

        def objective(sequences: Array) -> Array:
            actions = self.plant.continued(np.concatenate([rest, sequences]), self._hold, self._bounds)
            forecast = forecaster.forecast(memory, actions)
            costs = exploration.costs(forecast, actions, self.plant.cost, self._weights, self._n_planned, self._monitor)
            costs = costs + exploration.hazard * price * (self._hazard.rate(forecast.observations) @ self._weights)
            return self._limits.charged(costs, forecast)[1:]

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
            "n_gentle": self._n_gentle,
            "motion": self._motion.get_state(),
            "probes": None if self._probes is None else self._probes.get_state(),
            "monitor": self._monitor.get_state(),
            "searching": self._log is not None,
            "actuators": None if found is None else [found.entries, found.steps],
            "sensors": self._sensors.get_state(),
            "levels": self._limits.levels.tolist(),
        }
        hazard = {f"{_HAZARD}{name}": value for name, value in self._hazard.get_state().items()}
        return state, model | plan | log | hazard

    def _restore(self, state: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._n_steps = state["n_steps"]
        if self.plant.actuators is None and state["actuators"] is not None:
            self._take_over(Actuators(*state["actuators"]))
        self._n_gentle = state["n_gentle"]
        self._motion.set_state(state["motion"])
        if self._probes is not None:
            self._probes.set_state(state["probes"])
        self._sensors.set_state(state["sensors"])
        self._limits.levels = np.array(state["levels"])
        self._log = StepLog() if state["searching"] else None
        if f"{_LOG}actions" in arrays:
            self._log = StepLog(Transitions(*(arrays[f"{_LOG}{name}"] for name in Transitions._fields)))
        self._hazard.set_state({k.removeprefix(_HAZARD): v for k, v in arrays.items() if k.startswith(_HAZARD)})
        prefix = "model_"
        self.model.restore({k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)})
        self._monitor = LossMonitor(**state["monitor"])
        self._keep_snapshot()
        plan: dict[str, Any] = {name: arrays[f"plan_{name}"] for name in Plan._fields if f"plan_{name}" in arrays}
        self._plan = Plan(**plan) if plan else None
