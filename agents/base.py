"""The interface every agent shares: learn online, predict, save."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from agents.event_log import EventLog
from habnn_control.control.model import StepPrediction, Transitions
from habnn_control.support.files import save_arrays
from habnn_control.support.names import nearest
from habnn_control.support.threads import one_thread

Action = NDArray[Any]
State = Any
CURRENT = "current_observation"  # name of an array in the file of an agent that can be resumed


class Step(NamedTuple):
    """One step of learning, as a callback sees it; `timestep` counts from 1 within this call of learn."""

    timestep: int
    observation: NDArray[Any]
    action: Action
    reward: float
    next_observation: NDArray[Any]
    terminated: bool
    truncated: bool
    info: dict[str, Any]


Callback = Callable[[Step], bool | None]


class Agent(ABC):
    """An agent that controls one environment and may learn while it does.

    A subclass implements `_act`, `_observe` if it learns, and `_begin` if it needs to know of a new episode; one that
    has its own loop replaces `_play`. `agents.make` builds agents by name; `agents.load` rebuilds an agent from the
    name and settings in its file, then hands `_restore` the result of `_state`.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to control. The agent never seeds it: call `env.reset(seed=...)` before `learn`.
    seed : int
        Seeds the agent's own random numbers.

    Attributes
    ----------
    name : str
        The name under which `agents.load` rebuilds the agent.
    settings : dict
        The arguments it was built with, beside `env` and `seed`.
    prediction : StepPrediction, optional
        Prediction of the observation that the last action leads to, for agents that make one.
    """

    default_name: ClassVar[str] = ""  # the registered name of an agent that was built directly
    can_evaluate: ClassVar[bool] = True  # whether `predict` needs nothing but observations
    can_resume: ClassVar[bool] = True  # whether `learn` can do without a reset
    trains_in_episodes: ClassVar[bool] = False  # whether steps before a measured run are ordinary training

    settings: dict[str, Any]

    def __new__(cls, *arguments: Any, **settings: Any) -> Self:  # noqa: ARG004  # as __init__'s
        """Remember the settings that the agent is built with."""
        agent = super().__new__(cls)
        agent.settings = {name: value for name, value in settings.items() if name not in ("env", "seed")}
        return agent

    def __init__(self, env: gym.Env[Any, Any], *, seed: int = 0) -> None:
        self.env = env
        self.seed = seed
        self.name = self.default_name or type(self).__name__
        self.prediction: StepPrediction | None = None
        self._current: NDArray[Any] | None = None  # the observation to act on next; None: reset first

    def set_env(self, env: gym.Env[Any, Any]) -> None:
        """Go on in another environment with the same spaces."""
        old, new = describe_spaces(self.env), describe_spaces(env)
        if old != new:
            raise ValueError(f"{self.name}: env must have the spaces {old}, got {new}; make a new agent for it.")
        self.env = env
        self._current = None

    def learn(
        self,
        total_timesteps: int,
        progress_bar: bool = False,
        callback: Callback | None = None,
        resume: bool = False,
        tensorboard: str | Path | None = None,
    ) -> Self:
        """Play exactly `total_timesteps` steps from a reset and learn from each, on one thread.

        Parameters
        ----------
        total_timesteps : int
            Number of env.step calls; an episode that ends before is followed by a reset.
        progress_bar : bool
            Show progress with the current loss.
        callback : callable, optional
            Gets each `Step`; learning stops after a step for which it returns False.
        resume : bool
            Go on where the last call ended, without a reset, unless the episode was over. After `agents.load` the
            environment must be in the state it had when the agent was saved.
        tensorboard : str or Path, optional
            Folder for a TensorBoard log of the loss and its parts, and of what the agent tells of its training.

        Returns
        -------
        Agent
            The agent itself.
        """
        if not (isinstance(total_timesteps, int | np.integer) and total_timesteps > 0):
            raise ValueError(
                f"{self.name}: total_timesteps must be a positive integer, got {total_timesteps!r}; pass at least 1."
            )
        if resume and not self.can_resume:
            raise ValueError(f"{self.name}: resume must be False, got {resume}; this agent starts with a reset.")
        bar = tqdm(total=total_timesteps, desc=self.name, disable=not progress_bar)
        with one_thread(), EventLog(tensorboard) as log, bar as progress:

            def goes_on(step: Step) -> bool:
                if progress_bar:
                    progress.set_postfix(self._progress(step), refresh=False)
                    progress.update()
                if tensorboard is not None:
                    log.write(step.timestep, step.reward, step.info, self._training_figures())
                return callback is None or callback(step) is not False

            if not resume:
                self._current = None
            self._play(total_timesteps, goes_on)
        return self

    def _play(self, total_timesteps: int, goes_on: Callable[[Step], bool]) -> None:
        """Play and learn, and tell `goes_on` of every step; stop after a step at which it says False."""
        for timestep in range(1, total_timesteps + 1):
            observation = self._reset() if self._current is None else self._current
            action = self._act(observation, deterministic=False)
            step = Step(timestep, observation, action, *_step(self.env, action))
            self._observe(step)
            self._current = None if step.terminated or step.truncated else step.next_observation
            if not goes_on(step):
                break

    def predict(
        self,
        observation: NDArray[Any],
        state: State = None,
        episode_start: NDArray[np.bool_] | None = None,  # noqa: ARG002  # SB3's signature
        deterministic: bool = True,
    ) -> tuple[Action, State]:
        """Choose the action for one observation, or one action per row of a batch (SB3's signature).

        Parameters
        ----------
        observation : array, shape of the observation space, or a batch of these
        state : any
            Returned as it came; only agents with a memory outside `learn` use it.
        episode_start : array of bool, optional
            Rows at which an episode starts; for agents with a memory.
        deterministic : bool
            Whether to leave exploration out.

        Returns
        -------
        action : array
        state : any
        """
        observation = self._checked(observation)
        if observation.shape == self.env.observation_space.shape:
            return self._act(observation, deterministic=deterministic), state
        return self._act_all(observation, deterministic=deterministic), state

    def save(self, path: str | Path) -> None:
        """Save the agent to one file (no pickle); `agents.load(path, env)` brings it back.

        A file holds no functions and no objects: settings such as a Plant must be given to `agents.load` again.
        """
        state, arrays = self._state()
        if self._current is not None:
            arrays = {**arrays, CURRENT: self._current}
        storable = {name: value for name, value in self.settings.items() if is_storable(value)}
        header = {
            "kind": "agent",
            "agent": self.name,
            "seed": self.seed,
            "settings": storable,
            "left_out": sorted(self.settings.keys() - storable.keys()),
            "spaces": describe_spaces(self.env),
            "state": state,
        }
        save_arrays(path, header, arrays)

    def pretrain(self, transitions: Transitions) -> Self:  # a hook
        """Learn from logged steps before `learn`; only for agents with `can_pretrain()`."""
        raise NotImplementedError(f"{self.name}: pretrain must be called on agents that can learn from logs.")

    @classmethod
    def can_pretrain(cls) -> bool:
        """Return whether the agent can learn from logged steps."""
        return cls.pretrain is not Agent.pretrain

    @classmethod
    def remark(cls, steps: int, settings: Mapping[str, Any]) -> str | None:  # noqa: ARG003  # a hook
        """Return what a reader must know to judge runs of `steps` steps with these settings; None if nothing."""
        return None

    @classmethod
    def setting_names(cls) -> list[str]:
        """Return the names of the settings that `agents.make` accepts for this agent."""
        return keyword_names(cls.__init__)

    @classmethod
    def setting_hint(cls, name: str) -> str:
        """Return the end of an error about an unknown setting."""
        return nearest(name, cls.setting_names())

    def _checked(self, observation: NDArray[Any]) -> NDArray[Any]:
        """Return an observation or a batch of them as an array; raise unless it is finite and of the right shape."""
        observation = self._shaped(observation)
        if not np.isfinite(observation).all():
            raise ValueError(
                f"{self.name}: observation must have finite values, got {observation}; pass what the environment "
                "returned."
            )
        return observation

    def _shaped(self, observation: NDArray[Any]) -> NDArray[Any]:
        """Return an observation or a batch of them as an array; raise unless it is of the right shape."""
        observation = np.asarray(observation)
        shape = self.env.observation_space.shape or ()
        if shape not in (observation.shape, observation.shape[1:]):
            raise ValueError(
                f"{self.name}: observation must have shape {shape} or {('n', *shape)}, got {observation.shape}; pass "
                "what the environment returned."
            )
        return observation

    def _reset(self) -> NDArray[Any]:
        observation: NDArray[Any]
        observation, info = self.env.reset()
        self._begin(observation, info)
        return observation

    def _begin(self, observation: NDArray[Any], info: dict[str, Any]) -> None:  # noqa: B027  # a hook
        """Take up an episode that starts with what a reset returned."""

    @abstractmethod
    def _act(self, observation: NDArray[Any], *, deterministic: bool) -> Action:
        """Choose the action for one observation."""

    def _act_all(self, observations: NDArray[Any], *, deterministic: bool) -> Action:
        """Choose an action for each row of a batch."""
        return np.stack([self._act(row, deterministic=deterministic) for row in observations])

    def _observe(self, step: Step) -> None:  # noqa: B027  # a hook: agents that do not learn leave it out
        """Learn from one step."""

    def _progress(self, step: Step) -> dict[str, str]:
        """Return what the progress bar shows after a step."""
        return {"loss": f"{step.info.get('loss', -step.reward):.1f}"}

    def _training_figures(self) -> dict[str, float]:
        """Return what is new of the training since the last call, by the names a log shall have."""
        return {}

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what JSON can hold and the arrays that `_restore` needs."""
        return {}, {}

    def _restore(self, state: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:  # noqa: B027  # a hook
        """Take up what `_state` returned."""


class RecurrentAgent(Agent):
    """An agent whose actions depend on the past of an episode, in `predict` too.

    A subclass whose `predict` copes with entries that are missing has `fills_gaps`; it raises where it cannot.
    """

    fills_gaps: ClassVar[bool] = False

    def predict(
        self,
        observation: NDArray[Any],
        state: State = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = True,
    ) -> tuple[Action, State]:
        """Choose an action without learning.

        Hand each call the `state` that the call before returned, None at the start of an episode. A batch of
        observations has one state per row.

        Parameters
        ----------
        observation : array, shape of the observation space, or a batch of such arrays
            Finite, at least at the start of an episode.
        state : any
            Returned by the call before.
        episode_start : array of bool, optional
            Rows at which an episode starts, whatever their state is.
        deterministic : bool
            Whether to leave out what is done only to learn.

        Returns
        -------
        action : array
        state : any
        """
        observation = self._shaped(observation) if self.fills_gaps else self._checked(observation)
        if observation.shape == self.env.observation_space.shape:
            start = episode_start is not None and bool(np.all(episode_start))
            with one_thread(brief=True):
                return self._predict_one(observation, None if start else state, deterministic)
        states = [None] * len(observation) if state is None else state
        starts = np.broadcast_to(False if episode_start is None else episode_start, len(observation))
        with one_thread(brief=True):
            rows = [
                self._predict_one(row, None if start else one, deterministic)
                for row, one, start in zip(observation, states, starts, strict=True)
            ]
        return np.stack([action for action, _ in rows]), tuple(one for _, one in rows)

    @abstractmethod
    def _predict_one(self, observation: NDArray[Any], state: State, deterministic: bool) -> tuple[Action, State]:
        """Return the action for one observation, and the state for the next call; no state at an episode's start."""


def keyword_names(function: Callable[..., Any]) -> list[str]:
    """Return the names of the keyword-only parameters of a function, the seed left out."""
    parameters = inspect.signature(function).parameters.values()
    return [item.name for item in parameters if item.kind is item.KEYWORD_ONLY and item.name != "seed"]


def is_storable(value: Any) -> bool:
    """Tell whether a setting can be written to a file: numbers, texts, and lists and mappings of such values."""
    if isinstance(value, Mapping):
        return all(isinstance(name, str) and is_storable(part) for name, part in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_storable, value))
    return value is None or isinstance(value, bool | int | float | str)


def describe_spaces(env: gym.Env[Any, Any]) -> dict[str, str]:
    """Return both spaces of an environment as text, to tell whether an agent fits it."""
    return {"observation": str(env.observation_space), "action": str(env.action_space)}


def _step(env: gym.Env[Any, Any], action: Action) -> tuple[float, NDArray[Any], bool, bool, dict[str, Any]]:
    observation, reward, terminated, truncated, info = env.step(action)
    return float(reward), observation, terminated, truncated, info
