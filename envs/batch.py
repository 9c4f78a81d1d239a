"""Plants with the frames their observations are made of: what the single and the vector environment share."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from envs._kernels import benchmark
from envs._kernels.benchmark import FloatArray
from envs.siemens import SiemensSimulator
from envs.simulator import NumbaSimulator, possible
from envs.variant import OWNER, Variant

N_FRAME = 6  # setpoint, velocity, gain, shift, fatigue, consumption: the first variables of a state


class PlantBatch:
    """Run n plants of one variant, each with its own random generator."""

    def __init__(self, variant: Variant, n: int) -> None:
        simulator = SiemensSimulator if variant.backend == "siemens" else NumbaSimulator
        self._simulator: SiemensSimulator | NumbaSimulator = simulator(n, variant.wandering)
        self._variant = variant
        self._started = False
        self._frames = np.zeros((n, variant.n_frames, N_FRAME))  # newest first

    @property
    def states(self) -> FloatArray:
        """The plants' states (n, N_STATE); read only."""
        return self._simulator.states

    def reseed(self, generators: Sequence[np.random.Generator | None]) -> None:
        """Give plants new generators; a plant with None keeps the one it has."""
        if any(generator is None for generator in generators):
            settled = self._simulator.settled_generators()
            generators = [new or old for new, old in zip(generators, settled, strict=True)]
        self._simulator.reseed(generators)  # type: ignore[arg-type]

    def reset(self, start: FloatArray) -> None:
        """Start all plants anew at (n, 4) setpoints, velocities, gains and shifts."""
        everyone = np.ones(len(start), dtype=bool)
        self._restart(everyone, start)
        self._simulator.step(np.zeros((len(start), 3)))
        self._record(everyone)
        self._started = True

    def step(self, actions: FloatArray, restart: NDArray[np.bool_] | None = None) -> None:
        """Step all plants with actions (n, 3), except those to restart at the variant's own start."""
        self._check_started("step")
        if restart is not None:
            self._restart(restart, self._variant.read_start(None, len(actions)))
            actions = np.where(restart[:, None], 0.0, actions)
        self._simulator.step(actions)
        self._record(restart)

    def _check_started(self, method: str) -> None:
        if not self._started:
            raise ResetNeeded(f"{OWNER}: reset must be called before {method}, got no call; call reset first.")

    def _restart(self, which: NDArray[np.bool_], start: FloatArray) -> None:
        self._simulator.states = np.where(which[:, None], benchmark.fresh(start), self._simulator.states)

    def _record(self, restarted: NDArray[np.bool_] | None) -> None:
        frame = self._simulator.states[:, :N_FRAME]
        if self._frames.shape[1] > 1:
            self._frames[:, 1:] = self._frames[:, :-1]
        self._frames[:, 0] = frame
        if restarted is not None:
            self._frames[restarted] = frame[restarted, None]

    def observations(self) -> FloatArray:
        """Return the plants' observations (n, n_frames * 6)."""
        return self._frames.reshape(len(self._frames), -1).copy()

    def get_state(self) -> dict[str, Any]:
        """Return copies of all that the future depends on."""
        self._check_started("get_state")
        return {
            "plants": self._simulator.states.copy(),
            "frames": self._frames.copy(),
            "generators": [generator.bit_generator.state for generator in self._simulator.settled_generators()],
        }

    def set_state(self, state: Mapping[str, Any]) -> list[np.random.Generator]:
        """Continue exactly where get_state was called, or raise; return the restored generators."""
        check_entries(state, "plants", "frames", "generators")
        plants = _numbers("plants", state["plants"], self._simulator.states.shape)
        frames = _numbers("frames", state["frames"], self._frames.shape)
        if not possible(plants).all():
            raise ValueError(f"{OWNER}: state['plants'] must be states of plants, got {plants}; save it again.")
        if not isinstance(state["generators"], list):
            raise TypeError(f"{OWNER}: state['generators'] must be a list, got {state['generators']!r}; save it again.")
        generators = [_generator(saved) for saved in state["generators"]]
        if len(generators) != len(plants):
            raise ValueError(
                f"{OWNER}: state['generators'] must have {len(plants)} entries, got {len(generators)}; save it again."
            )
        self._simulator.reseed(generators)
        self._simulator.states, self._frames, self._started = plants, frames, True
        return generators


def check_entries(state: Any, *names: str) -> None:
    """Raise unless a saved state is a dict with the given entries."""
    if not isinstance(state, Mapping):
        raise TypeError(f"{OWNER}: state must be a dict of get_state, got {state!r}; pass what get_state returned.")
    if missing := [name for name in names if name not in state]:
        raise ValueError(f"{OWNER}: state must be a dict of get_state, got one without {missing}; save it again.")


def _numbers(name: str, values: Any, shape: tuple[int, ...]) -> FloatArray:
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{OWNER}: state[{name!r}] must be numbers, got {values!r}; save the state again.") from None
    if numbers.shape != shape or not np.isfinite(numbers).all():
        raise ValueError(
            f"{OWNER}: state[{name!r}] must be finite and of shape {shape}, got shape {numbers.shape}; "
            "restore it into an environment made with the same arguments."
        )
    return numbers


def _generator(saved: Any) -> np.random.Generator:
    bit_generator = np.random.PCG64(0)
    try:
        bit_generator.state = saved
    except (TypeError, ValueError, KeyError) as problem:
        raise ValueError(
            f"{OWNER}: state['generators'] must hold states of NumPy's PCG64, got {saved!r}; save the state again."
        ) from problem
    return np.random.Generator(bit_generator)
