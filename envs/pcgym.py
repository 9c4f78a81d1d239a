"""Setpoint tracking on the chemical processes of PC-Gym, without resets; needs the extra `plants`."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from envs.processes import OWNER, PROCESSES, dynamics_of
from habnn_control.control.plant import Actuators, Plant
from habnn_control.support.names import check_choice

Array = NDArray[np.float64]

_MOVE = 0.2  # of the scaled range of two, per unit of the action
_PERCENT = 50.0  # of the range, per unit of a scaled quantity
_STATE = ("states", "positions", "clock")


class ProcessEnv(gym.Env[Array, NDArray[np.float32]]):
    """Keep outputs of a chemical process at setpoints that change in a cycle; the equations are PC-Gym's.

    ## Description
    The process starts at rest. Every `hold` steps the setpoints jump to the outputs of another operating point, in a
    cycle without end. Every setpoint can be reached: it is the steady state under inputs inside their range. The
    processes are CSTR, FourTank, MultistageExtraction, DistillationColumn, CSTRSeriesRecycle, HeatExchanger and
    PolymerisationReactor; `envs.processes.PROCESSES` lists inputs, measured states and their ranges.

    ## Action space
    ``Box(-1, 1, (n_inputs,), float32)``: moves each input by up to a tenth of its range per step.

    ## Observation space
    ``Box(-1, 1, float64)``, each entry scaled by its range:

    | entries | quantity |
    |---|---|
    | first, one per tracked output | setpoints, which no action changes |
    | next, one per action | positions of the inputs |
    | rest | measured states, with noise of 0.5 % of their range |

    ## Reward
    ``-loss``, the mean distance between measured and wanted outputs in percent of their ranges.

    ## Plant
    The attribute ``plant`` has the loss, the setpoints as exogenous entries and, with ``known_inputs``, the motion of
    the inputs.

    ## Info
    ``loss``, and ``states``, the true states of the model by name.

    ## Start state
    The steady state of the first operating point.

    ## Episode end
    The environment never terminates. ``gym.make`` truncates after 1000 steps (``max_episode_steps``).

    ## Version history
    * v0: first version.

    Parameters
    ----------
    process : str
        Name of the process.
    hold : int
        Steps between changes of the setpoints.
    noise : float
        Standard deviation of the measurement noise of scaled states.
    known_inputs : bool
        Whether ``plant`` tells how the inputs follow the actions.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium's declaration)

    def __init__(self, process: str, hold: int = 100, noise: float = 0.01, known_inputs: bool = True) -> None:
        check_choice(OWNER, "process", process, PROCESSES)
        if not (isinstance(hold, int) and hold >= 1 and 0 <= noise <= 1):
            raise ValueError(
                f"{OWNER}: hold must be a positive integer and noise in [0, 1], got {hold!r} and {noise}; 100 and 0.01 "
                "are the defaults."
            )
        self._dynamics, self._hold, self._noise = dynamics_of(process), hold, noise
        details = self._dynamics.process
        self._measured, tracked = [one.name for one in details.measured], list(details.tracked)
        resting = [self._dynamics.steady_state(point)[:, None] for point in details.operating_points]
        self._start, self._targets = resting[0], [self._dynamics.scaled(one, tracked)[:, 0] for one in resting]
        n_targets, n_actions = len(tracked), len(details.inputs)
        self._first_measured = n_targets + n_actions
        self._tracked = [self._first_measured + self._measured.index(name) for name in tracked]
        size = self._first_measured + len(self._measured)
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (size,), dtype=np.float64)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (n_actions,), dtype=np.float32)
        names = [*(f"{name}_setpoint" for name in tracked), *(one.name for one in details.inputs), *self._measured]
        positions = range(n_targets, self._first_measured)
        self.plant = Plant(
            self._loss,
            actuators=Actuators(list(positions), [_MOVE] * n_actions) if known_inputs else None,
            exogenous=range(n_targets),
            columns={name: entry for entry, name in enumerate(names)},
        )
        self._clock = -1  # steps since the reset; negative before the first one

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Start an episode and return its first observation and info; there are no options."""
        super().reset(seed=seed)
        if options:
            raise ValueError(f"{OWNER}: options must be empty, got {options}; the start is always the same.")
        self._states, self._clock = self._start.copy(), 0
        self._positions = np.array(self._dynamics.process.operating_points[0], dtype=np.float64)[:, None]
        return self._result()

    def step(self, action: NDArray[Any]) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Move the inputs, advance the process by one step, and return the five values of `gymnasium.Env.step`."""
        if self._clock < 0:
            raise ResetNeeded(f"{OWNER}: step must follow a reset, got none; call reset first.")
        moves = np.asarray(action, dtype=np.float64)
        if moves.shape != self.action_space.shape or not (np.abs(moves) <= 1).all():
            raise ValueError(
                f"{OWNER}: action must be {len(self._positions)} numbers in [-1, 1], got {action!r}; clip them."
            )
        self._clock += 1
        self._states, self._positions = self._moved(self._states, self._positions, moves[:, None])
        observation, info = self._result()
        return observation, -info["loss"], False, False, info

    def simulate(self, actions: NDArray[Any], rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Return the losses (n, horizon) of action sequences (n, horizon, n_actions) from the present state.

        For planning on the true process: without measurement noise, and with the setpoints held where they are.
        """
        n, horizon, _ = actions.shape
        states, positions = np.tile(self._states, (1, n)), np.tile(self._positions, (1, n))
        losses, wanted = np.empty((n, horizon)), self._wanted()[:, None]
        for k in range(horizon):
            states, positions = self._moved(states, positions, actions[:, k].T)
            reached = self._dynamics.scaled(states, self._dynamics.process.tracked)
            losses[:, k] = _PERCENT * np.abs(reached - wanted).mean(axis=0)
        return losses

    def get_state(self) -> dict[str, Any]:
        """Return the complete state of the process, random generator included."""
        values = {name: np.array(getattr(self, f"_{name}")) for name in _STATE}
        return {**values, "generator": self.np_random.bit_generator.state}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state`; the environment then goes on as the other one would have."""
        if missing := [name for name in (*_STATE, "generator") if name not in state]:
            raise ValueError(f"{OWNER}: state must have {', '.join(missing)}, got none; pass one of get_state.")
        self._states, self._positions = np.array(state["states"]), np.array(state["positions"])
        self._clock = int(state["clock"])
        self.np_random.bit_generator.state = state["generator"]

    def _moved(self, states: Array, positions: Array, moves: Array) -> tuple[Array, Array]:
        """Return states and scaled positions (..., n) one step after moves (n_actions, n)."""
        positions = np.clip(positions + _MOVE * moves, -1.0, 1.0)
        return self._dynamics.advanced(states, positions), positions

    def _wanted(self) -> Array:
        return self._targets[(self._clock // self._hold + 1) % len(self._targets)]

    def _result(self) -> tuple[Array, dict[str, Any]]:
        measured = self._dynamics.scaled(self._states, self._measured)[:, 0]
        measured = measured + self._noise * self.np_random.standard_normal(len(measured))
        observation = np.clip([*self._wanted(), *self._positions[:, 0], *measured], -1.0, 1.0)
        states = dict(zip(self._dynamics.states, self._states[:, 0].tolist(), strict=True))
        return observation, {"loss": float(self._loss(observation, observation)), "states": states}

    def _loss(self, actions: Array, observations: Array) -> Array:  # noqa: ARG002
        apart = observations[..., self._tracked] - observations[..., : len(self._tracked)]
        return np.asarray(_PERCENT * np.abs(apart).mean(axis=-1))
