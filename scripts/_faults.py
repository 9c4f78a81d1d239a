"""Sensor faults, and abrupt changes of the plant that are no faults, to be switched on in a running environment."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from habnn_control.control.plant import Plant

Array = NDArray[np.float64]
Disturb = Callable[["Disturbed", Array], Array]  # of the environment and of the true observation: the reported one


@dataclass(frozen=True)
class Fault:
    """A fault: its name, what it makes of an observation, for how many steps, and what it does to an action."""

    name: str
    steps: int
    reported: Callable[[Array, Array], Array] | None = None  # of the last true observation before the fault, and now
    moved: Callable[[Array], Array] | None = None  # what the actuators do of an action


class Disturbed(gym.Wrapper[Any, Any, Any, Any]):
    """An environment with one fault after another; none until `start`."""

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

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment, and report what the fault makes of the observation."""
        fault = self._fault if self._left > 0 else None
        if fault is not None and fault.moved is not None:
            action = fault.moved(np.array(action))
        observation, *rest = super().step(action)
        self._left -= 1
        if fault is None:
            self._before = np.array(observation)
        elif fault.reported is not None:
            observation = fault.reported(self._before, np.array(observation))
        return observation, *rest


def reading(name: str, entry: int, value: float | None, steps: int) -> Fault:
    """Return the fault of one entry that reads `value` for some steps; None stands for its last value."""

    def reported(before: Array, now: Array) -> Array:
        now[entry] = before[entry] if value is None else value
        return now

    return Fault(name, steps, reported)


def sensor_faults(entries: dict[str, int], spikes: dict[str, tuple[float, ...]], length: int) -> list[Fault]:
    """Return one bad reading and `length` steps of a stuck, zero or missing sensor, for each of the named entries."""
    found = []
    for name, entry in entries.items():
        found += [reading(f"{name}: one reading of {value:g}", entry, value, 1) for value in spikes[name]]
        for kind, value in (("stuck", None), ("zero", 0.0), ("missing", np.nan)):
            found.append(reading(f"{name}: {kind} for {length} steps", entry, value, length))
    return found
