"""Sensor faults, and abrupt changes of the plant that are no faults, in a running Industrial Benchmark."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from habnn_control.control.plant import Plant

Array = NDArray[np.float64]

ENTRIES = {"setpoint": 0, "velocity": 1, "gain": 2, "shift": 3, "fatigue": 4, "consumption": 5}
_SPIKES = {"consumption": (-1e4, 0.0, 5000.0), "fatigue": (0.0, 300.0), "gain": (0.0,), "setpoint": (0.0,)}
_HARMLESS = 2.0  # error of a reading of consumption, as its noise has


@dataclass(frozen=True)
class Fault:
    """What happens to a plant or its sensors.

    Attributes
    ----------
    name : str
    group : {"fault", "change", "chance"}
        A fault of a sensor, a change of the plant, or something that tells how much is chance.
    steps : int
        How long it lasts.
    reported : callable, optional
        What the sensors make of an observation, from the last observation before and the true one.
    moved : callable, optional
        What the actuators make of an action.
    setpoint : float, optional
        New setpoint of the plant; it stays.
    """

    name: str
    group: str
    steps: int
    reported: Callable[[Array, Array], Array] | None = None
    moved: Callable[[Array], Array] | None = None
    setpoint: float | None = None


class Disturbed(gym.Wrapper[Any, Any, Any, Any]):
    """An Industrial Benchmark to which something happens after `start`."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._fault: Fault | None = None
        self._left = 0
        self._before: Array = np.zeros(0)  # the last observation without a fault

    @property
    def plant(self) -> Plant:
        """Description of the process, which faults do not change."""
        plant: Plant = self.env.get_wrapper_attr("plant")
        return plant

    def start(self, fault: Fault) -> None:
        """Begin a fault with the next step."""
        self._fault, self._left = fault, fault.steps
        if fault.setpoint is not None:
            env: Any = self.unwrapped
            state = env.get_state()
            state["plants"][0, ENTRIES["setpoint"]] = fault.setpoint
            env.set_state(state)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment, and report what the fault makes of the observation."""
        fault = self._fault if self._left > 0 else None
        self._left -= 1
        if fault is not None and fault.moved is not None:
            action = fault.moved(np.array(action))
        observation, *rest = super().step(action)
        if fault is None:
            self._before = np.array(observation)
        elif fault.reported is not None:
            observation = fault.reported(self._before, np.array(observation))
        return observation, *rest


def sensor_faults(length: int) -> list[Fault]:
    """Return single bad readings, and `length` steps of stuck, zero and missing sensors."""
    found = []
    for name, spikes in _SPIKES.items():
        entry = ENTRIES[name]
        found += [_reading(f"{name}: one reading of {value:g}", entry, value, 1) for value in spikes]
        if name != "setpoint":  # a constant setpoint is always stuck
            found.append(_reading(f"{name}: stuck for {length} steps", entry, None, length))
        found.append(_reading(f"{name}: zero for {length} steps", entry, 0.0, length))
        found.append(_reading(f"{name}: missing for {length} steps", entry, np.nan, length))
    return found


def real_changes(stopped: int, setpoint: float) -> list[Fault]:
    """Return a change of the setpoint, and actuators that do not move for `stopped` steps."""
    changes = [Fault(f"the setpoint changes to {setpoint:g}", "change", 1, setpoint=setpoint)]
    for actuator, name in enumerate(("velocity", "gain", "shift")):
        changes.append(Fault(f"{name} does not move for {stopped} steps", "change", stopped, moved=_without(actuator)))
    return changes


def chance() -> Fault:
    """Return a fault that is none, after which runs differ by chance."""

    def reported(_: Array, now: Array) -> Array:
        now[ENTRIES["consumption"]] += _HARMLESS
        return now

    return Fault(f"consumption: one reading {_HARMLESS:g} too high, as by noise", "chance", 1, reported)


def _reading(name: str, entry: int, value: float | None, steps: int) -> Fault:
    """Return the fault of an entry that reads `value` for some steps; None stands for its last value."""

    def reported(before: Array, now: Array) -> Array:
        now[entry] = before[entry] if value is None else value
        return now

    return Fault(name, "fault", steps, reported)


def _without(actuator: int) -> Callable[[Array], Array]:
    def moved(action: Array) -> Array:
        action[actuator] = 0.0
        return action

    return moved
