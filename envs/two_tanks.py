"""Two tanks in a row behind a slow pump: a small process with a delay and a load that nobody controls."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from habnn_control.control.plant import Actuators, Plant

Array = NDArray[np.float64]

OWNER = "TwoTanks"
DEMAND, PUMP, FIRST, SECOND = range(4)  # entries of an observation
_LOW, _HIGH = np.array([0.5, 0.0, 0.0, 0.0]), np.array([1.5, 100.0, 60.0, 60.0])
_PUMP_STEP = 4.0  # percent per unit of the action
_DELAY = 4  # steps until a change of the pump reaches the first tank
_SUBSTEPS, _TIME_STEP = 5, 0.2
_INFLOW, _OUTFLOW = 0.065, 0.55
_WANDER, _JUMP, _JUMP_EVERY = 0.01, 0.35, 60
_NOISE = 0.3  # standard deviation of a level reading, cm
_START = np.array([1.0, 45.0, 30.0, 20.0])
_STATE = ("demand", "pump", "levels", "clock")


def flow_through(levels: Array, pump: Array | float, demand: Array | float) -> Array:
    """Return the levels (..., 2) one step later.

    Parameters
    ----------
    levels : array, shape (..., 2)
    pump : array or float, shape (...)
        What reaches the first tank during the step, in percent.
    demand : array or float, shape (...)
        Opening of the outlet of the second tank.
    """
    first, second = levels[..., 0], levels[..., 1]
    for _ in range(_SUBSTEPS):
        between = _OUTFLOW * np.sqrt(first)
        out = _OUTFLOW * demand * np.sqrt(second)
        first = np.clip(first + _TIME_STEP * (_INFLOW * pump - between), _LOW[FIRST], _HIGH[FIRST])
        second = np.clip(second + _TIME_STEP * (between - out), _LOW[SECOND], _HIGH[SECOND])
    return np.stack([first, second], axis=-1)


class TwoTanksEnv(gym.Env[Array, NDArray[np.float32]]):
    """Keep the level of the second of two tanks at a target, against a demand that wanders and jumps.

    ## Description
    A pump feeds the first tank, which drains into the second, which drains to a consumer. Flows follow the square root
    of the level above them. A change of the pump takes four steps to reach the first tank.

    ## Action space
    ``Box(-1, 1, (1,), float32)``: moves the pump by up to 4 % per step.

    ## Observation space
    ``Box((4,), float64)``:

    | entry | quantity | range |
    |---|---|---|
    | 0 | demand, which no action changes | 0.5 to 1.5 |
    | 1 | pump | 0 to 100 % |
    | 2, 3 | levels of the first and the second tank, measured with noise of standard deviation 0.3 | 0 to 60 cm |

    ## Reward
    ``-loss`` with loss = |measured level of the second tank - target|.

    ## Plant
    The attribute ``plant`` has the loss, the demand as an exogenous entry and, with ``known_pump``, the motion of the
    pump.

    ## Info
    ``loss``, and ``levels``, the true levels of both tanks.

    ## Start state
    Demand 1, pump 45 % for as long as the delay, levels 30 and 20 cm. The demand then follows a random walk, and jumps
    by 0.35 to a random side every 60 steps; it turns back at its bounds.

    ## Episode end
    The environment never terminates. ``gym.make`` truncates after 500 steps (``max_episode_steps``).

    ## Version history
    * v0: first version.

    Parameters
    ----------
    target : float
        Wanted level of the second tank, cm, between 0 and 60.
    known_pump : bool
        Whether ``plant`` tells how the pump follows the actions; otherwise a controller has to find out.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium's declaration)

    def __init__(self, target: float = 30.0, known_pump: bool = True) -> None:
        if not _LOW[SECOND] < target < _HIGH[SECOND]:
            raise ValueError(f"{OWNER}: target must be between 0 and 60, got {target}; 30 is the default.")
        if not isinstance(known_pump, bool):
            raise TypeError(f"{OWNER}: known_pump must be True or False, got {known_pump!r}; pass a bool.")
        self.observation_space = gym.spaces.Box(_LOW, _HIGH, dtype=np.float64)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), dtype=np.float32)
        self.target = float(target)
        self.plant = Plant(
            self._loss,
            actuators=Actuators([PUMP], [_PUMP_STEP]) if known_pump else None,
            exogenous=[DEMAND],
            columns={"demand": DEMAND, "pump": PUMP, "first": FIRST, "second": SECOND},
        )
        self._clock = -1  # steps since the reset; negative before the first one

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Start an episode and return its first observation and info; there are no options."""
        super().reset(seed=seed)
        if options:
            raise ValueError(f"{OWNER}: options must be empty, got {options}; the start is always the same.")
        self._demand, self._levels = float(_START[DEMAND]), _START[FIRST:].copy()
        self._pump = np.full(_DELAY + 1, _START[PUMP])  # newest last
        self._clock = 0
        return self._result()

    def step(self, action: NDArray[Any]) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Move the pump, advance the process by one step, and return the five values of `gymnasium.Env.step`."""
        if self._clock < 0:
            raise ResetNeeded(f"{OWNER}: step must follow a reset, got none; call reset first.")
        move = np.asarray(action, dtype=np.float64)
        if move.shape != (1,) or not np.abs(move[0]) <= 1:
            raise ValueError(f"{OWNER}: action must be one number in [-1, 1], got {action!r}; clip it.")
        self._clock += 1
        self._pump = _moved(self._pump, move)
        self._demand = self._next_demand()
        self._levels = flow_through(self._levels, self._pump[0], self._demand)
        observation, info = self._result()
        return observation, -info["loss"], False, False, info

    def simulate(self, actions: NDArray[Any], rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Return the losses (n, horizon) of action sequences (n, horizon, 1) from the present state.

        For planning on the true process: without measurement noise, and with the demand held where it is.
        """
        n, horizon, _ = actions.shape
        pump, levels = np.tile(self._pump, (n, 1)), np.tile(self._levels, (n, 1))
        losses = np.empty((n, horizon))
        for k in range(horizon):
            pump = _moved(pump, actions[:, k])
            levels = flow_through(levels, pump[:, 0], self._demand)
            losses[:, k] = np.abs(levels[:, 1] - self.target)
        return losses

    def get_state(self) -> dict[str, Any]:
        """Return the complete state of the process, random generator included."""
        values = {name: np.array(getattr(self, f"_{name}")) for name in _STATE}
        return {**values, "generator": self.np_random.bit_generator.state}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state`; the environment then goes on as the other one would have."""
        if missing := [name for name in (*_STATE, "generator") if name not in state]:
            raise ValueError(f"{OWNER}: state must have {', '.join(missing)}, got none; pass one of get_state.")
        self._pump, self._levels = np.array(state["pump"]), np.array(state["levels"])
        self._demand, self._clock = float(state["demand"]), int(state["clock"])
        self.np_random.bit_generator.state = state["generator"]

    def _next_demand(self) -> float:
        demand = self._demand + _WANDER * self.np_random.standard_normal()
        if self._clock % _JUMP_EVERY == 0:
            side = self.np_random.choice([-1.0, 1.0])
            inside = _LOW[DEMAND] <= demand + side * _JUMP <= _HIGH[DEMAND]
            demand += (side if inside else -side) * _JUMP
        return float(np.clip(demand, _LOW[DEMAND], _HIGH[DEMAND]))

    def _result(self) -> tuple[Array, dict[str, Any]]:
        measured = self._levels + _NOISE * self.np_random.standard_normal(2)
        observation = np.clip([self._demand, self._pump[-1], *measured], _LOW, _HIGH)
        loss = float(abs(observation[SECOND] - self.target))
        return observation, {"loss": loss, "levels": self._levels.copy()}

    def _loss(self, actions: Array, observations: Array) -> Array:  # noqa: ARG002
        return np.asarray(np.abs(observations[..., SECOND] - self.target))


def _moved(pump: Array, action: Array) -> Array:
    """Return the pump's positions (..., delay + 1), newest last, after actions (..., 1)."""
    newest = np.clip(pump[..., -1:] + _PUMP_STEP * action, _LOW[PUMP], _HIGH[PUMP])
    return np.concatenate([pump[..., 1:], newest], axis=-1)
