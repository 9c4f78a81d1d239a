"""A batch of simulated plants and their observations, shared by the single and the vector environment."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from envs._kernels import benchmark
from envs._kernels.benchmark import FloatArray
from envs.mirror import Mirror
from envs.siemens import SiemensSimulator
from envs.simulator import NumbaSimulator, possible
from envs.variant import FRAME_HIGH, FRAME_LOW, OWNER, Variant, real_numbers

N_FRAME = 6  # entries per frame: setpoint, velocity, gain, shift, fatigue, consumption, the first six of a state


class PlantBatch:
    """n plants of one variant, each with its own random generator.

    Parameters
    ----------
    variant : Variant
    n : int
        Number of plants.
    """

    def __init__(self, variant: Variant, n: int) -> None:
        simulator = SiemensSimulator if variant.backend == "siemens" else NumbaSimulator
        self._simulator: SiemensSimulator | NumbaSimulator = simulator(n, variant.wandering)
        self._variant = variant
        self._started = False
        self._mirror = Mirror(variant.mirror)
        self._frames = np.zeros((n, variant.n_frames, N_FRAME))  # newest first, not mirrored

    @property
    def states(self) -> FloatArray:
        """States of the plants, shape (n, N_STATE); not to be written to."""
        return self._simulator.states

    def reseed(self, generators: Sequence[np.random.Generator | None]) -> None:
        """Replace the random generator of each plant, one entry per plant; None keeps the present generator."""
        if any(generator is None for generator in generators):
            present = self._simulator.synchronised_generators()
            generators = [new or old for new, old in zip(generators, present, strict=True)]
        self._simulator.reseed(generators)  # type: ignore[arg-type]

    def reset(self, start: FloatArray) -> None:
        """Restart all plants.

        Parameters
        ----------
        start : array, shape (n, 4)
            Setpoint and positions of velocity, gain and shift per plant.
        """
        all_plants = np.ones(len(start), dtype=bool)
        self._restart(all_plants, start)
        self._simulator.step(np.zeros((len(start), 3)))
        self._record(all_plants)
        self._started = True

    def step(self, actions: FloatArray, restart: NDArray[np.bool_] | None = None) -> None:
        """Step the plants, or restart them at the start of the variant.

        Parameters
        ----------
        actions : array, shape (n, 3)
            Actions; those of restarted plants are ignored.
        restart : array of bool, shape (n,), optional
            Plants to restart; None for none.
        """
        self._check_started("step")
        if restart is not None:
            self._restart(restart, self._variant.read_start(None, len(actions)))
            actions = np.where(restart[:, None], 0.0, actions)
        self._simulator.step(self._mirror.actions(actions))
        self._record(restart)

    def _check_started(self, method: str) -> None:
        """Raise unless `reset` has been called."""
        if not self._started:
            raise ResetNeeded(f"{OWNER}: reset must be called before {method}, got no call; call reset first.")

    def _restart(self, which: NDArray[np.bool_], start: FloatArray) -> None:
        """Replace the states of the selected plants by states before their first step."""
        fresh = benchmark.fresh(self._mirror.start(start))
        self._simulator.states = np.where(which[:, None], fresh, self._simulator.states)

    def _record(self, restarted: NDArray[np.bool_] | None) -> None:
        """Append the present frame to the past frames; for a restarted plant, replace all frames by it."""
        frame = self._simulator.states[:, :N_FRAME]
        if self._frames.shape[1] > 1:
            self._frames[:, 1:] = self._frames[:, :-1]
        self._frames[:, 0] = frame
        if restarted is not None:
            self._frames[restarted] = frame[restarted, None]

    def observations(self) -> FloatArray:
        """Return the observations of the plants, shape (n, n_frames * 6), newest frame first."""
        return self._mirror.positions(self._frames.reshape(len(self._frames), -1).copy())

    def get_state(self) -> dict[str, Any]:
        """Return a dict of copies: states of the plants, past frames and states of the random generators."""
        self._check_started("get_state")
        return {
            "plants": self._simulator.states.copy(),
            "frames": self._frames.copy(),
            "generators": [generator.bit_generator.state for generator in self._simulator.synchronised_generators()],
        }

    def set_state(self, state: Mapping[str, Any]) -> list[np.random.Generator]:
        """Restore a state returned by `get_state`, or raise; return the restored random generators, one per plant.

        The batch then continues bit for bit as it would have after `get_state`.
        """
        check_entries(state, "plants", "frames", "generators")
        plants = _numbers("plants", state["plants"], self._simulator.states.shape)
        frames = _numbers("frames", state["frames"], self._frames.shape)
        if not (possible(plants).all() and _observable(plants[:, :N_FRAME])):
            raise ValueError(f"{OWNER}: state['plants'] must be states of plants, got {plants}; save it again.")
        if not _observable(frames):
            raise ValueError(
                f"{OWNER}: state['frames'] must lie in the observation space, got {frames}; save it again."
            )
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


def _observable(frames: FloatArray) -> bool:
    """Return whether frames (..., N_FRAME) lie in the observation space."""
    return bool(((frames >= FRAME_LOW) & (frames <= FRAME_HIGH)).all())


def check_entries(state: Any, *names: str) -> None:
    """Raise unless a saved state is a mapping with the given entries."""
    if not isinstance(state, Mapping):
        raise TypeError(f"{OWNER}: state must be a dict of get_state, got {state!r}; pass a result of get_state.")
    if missing := [name for name in names if name not in state]:
        raise ValueError(f"{OWNER}: state must be a dict of get_state, got one without {missing}; save it again.")


def _numbers(name: str, values: Any, shape: tuple[int, ...]) -> FloatArray:
    """Return an entry of a saved state as a finite float array of the given shape, or raise."""
    try:
        numbers = real_numbers(values).copy()
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{OWNER}: state[{name!r}] must be numbers, got {values!r}; save the state again.") from None
    if numbers.shape != shape or not np.isfinite(numbers).all():
        raise ValueError(
            f"{OWNER}: state[{name!r}] must be finite and of shape {shape}, got shape {numbers.shape}; "
            "restore it into an environment made with the same arguments."
        )
    return numbers


def _generator(saved: Any) -> np.random.Generator:
    """Return a generator with the saved state of its bit generator, or raise."""
    bit_generator = np.random.PCG64(0)
    try:
        bit_generator.state = saved
    except (TypeError, ValueError, KeyError, OverflowError) as problem:
        raise ValueError(
            f"{OWNER}: state['generators'] must hold states of NumPy's PCG64, got {saved!r}; save the state again."
        ) from problem
    return np.random.Generator(bit_generator)
