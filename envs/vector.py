"""Many plants in one Gymnasium vector environment."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from envs._kernels import benchmark
from envs._kernels.benchmark import CONSUMPTION, FATIGUE, MARKOV_NAMES, FloatArray
from envs.batch import PlantBatch, check_entries
from envs.mirror import Mirror
from envs.variant import OWNER, Variant


class IndustrialBenchmarkVectorEnv(VectorEnv[FloatArray, Any, NDArray[Any]]):
    """n plants of IndustrialBenchmarkEnv, stepped together.

    Plant i equals the single environment with the same seed, bit for bit. ``reset(seed=s)`` gives plant i the seed
    ``s + i``; ``reset(seed=[...])`` takes one seed per plant, where None continues the present random stream. After the
    end of an episode the next step restarts the plant and ignores its action (``AutoresetMode.NEXT_STEP``). A reset
    option may be one number, or one per plant.

    Parameters
    ----------
    num_envs : int
        Number of plants.
    max_episode_steps : int or None
        Number of steps after which an episode is truncated; None for never.
    **variant
        Parameters of IndustrialBenchmarkEnv: setpoint, wandering, reward_type, action_type, observation_type,
        n_past_timesteps, backend and mirror.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 (Gymnasium's declaration)

    def __init__(self, num_envs: int = 1, max_episode_steps: int | None = 1000, **variant: Any) -> None:
        _check_count("num_envs", num_envs)
        if max_episode_steps is not None:
            _check_count("max_episode_steps", max_episode_steps)
        self.variant = Variant(**variant)
        self.plant = self.variant.plant()
        self.mirror = Mirror(self.variant.mirror)
        self.num_envs = num_envs
        self.max_episode_steps = max_episode_steps
        self.single_observation_space = self.variant.observation_space()
        self.single_action_space = self.variant.action_space()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._batch = PlantBatch(self.variant, num_envs)
        self._seeded = False
        self._steps = np.zeros(num_envs, dtype=np.int64)
        self._ended = np.zeros(num_envs, dtype=bool)
        self._losses = np.zeros(num_envs)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Start an episode on every plant and return the observations (n, n_observed) and the infos."""
        start = self.variant.read_start(options, self.num_envs)
        generators = self._generators(seed)
        self._batch.reseed(generators)
        self._seeded = True
        self._batch.reset(start)
        self._losses = benchmark.loss(self._batch.states)
        self._steps = np.zeros(self.num_envs, dtype=np.int64)
        self._ended = np.zeros(self.num_envs, dtype=bool)
        return self._batch.observations(), self._info()

    def step(self, actions: Any) -> tuple[FloatArray, FloatArray, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Step every plant, or restart it if its episode ended; return the five values of `VectorEnv.step`."""
        changes = self.variant.read_actions(actions, self.num_envs)
        restart = self._ended
        self._batch.step(changes, restart if restart.any() else None)
        before, self._losses = self._losses, benchmark.loss(self._batch.states)
        rewards = self.variant.reward(before, self._losses)
        rewards[restart] = 0.0
        self._steps = np.where(restart, 0, self._steps + 1)
        limit = self.max_episode_steps
        self._ended = np.zeros(self.num_envs, dtype=bool) if limit is None else self._steps >= limit
        return (
            self._batch.observations(),
            rewards,
            np.zeros(self.num_envs, dtype=bool),
            self._ended.copy(),
            self._info(),
        )

    def get_state(self) -> dict[str, Any]:
        """Return the complete state of the simulation, random generators and step counts included, as a dict."""
        return {**self._batch.get_state(), "steps": self._steps.copy(), "ended": self._ended.copy()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state returned by `get_state` of an environment with the same arguments.

        The environment then continues bit for bit as the other would have.
        """
        check_entries(state, "steps", "ended")
        steps, ended = np.array(state["steps"]), np.array(state["ended"])
        if not (steps.shape == ended.shape == (self.num_envs,) and steps.dtype.kind == "i" and ended.dtype == bool):
            raise ValueError(
                f"{OWNER}: state['steps'] and state['ended'] must be {self.num_envs} integers and booleans, "
                f"got {steps} and {ended}; save the state again."
            )
        self._batch.set_state(state)
        self._losses = benchmark.loss(self._batch.states)
        self._steps, self._ended, self._seeded = steps, ended, True

    def _generators(self, seed: int | Sequence[int | None] | None) -> list[np.random.Generator | None]:
        """Return one new generator per plant, or None for a plant that keeps its present generator."""
        if seed is None:
            seeds: Sequence[int | None] = [None] * self.num_envs
        elif isinstance(seed, int):
            seeds = range(seed, seed + self.num_envs)
        else:
            seeds = seed
        if len(seeds) != self.num_envs:
            raise ValueError(
                f"{OWNER}: seed must be an integer or {self.num_envs} integers, got {len(seeds)}; pass one per plant."
            )
        return [None if entry is None and self._seeded else np_random(entry)[0] for entry in seeds]

    def _info(self) -> dict[str, Any]:
        """Return the info of all plants, with the mask per entry that Gymnasium's vector environments add."""
        columns = self._batch.states.T.copy(order="K")
        entries = {
            "loss": self._losses.copy(),
            "consumption": columns[CONSUMPTION].copy(),
            "fatigue": columns[FATIGUE].copy(),
            "markov_state": _with_masks(dict(zip(MARKOV_NAMES, columns, strict=False)), self.num_envs),
        }
        return _with_masks(entries, self.num_envs)


def _with_masks(entries: dict[str, Any], n: int) -> dict[str, Any]:
    """Return the entries, each with an added mask of the plants that it holds for, which are all."""
    mask = np.ones(n, dtype=bool)
    return entries | {f"_{name}": mask for name in entries}


def _check_count(name: str, value: Any) -> None:
    """Raise unless the value is an integer of at least 1."""
    if not (isinstance(value, int) and value >= 1):
        raise ValueError(f"{OWNER}: {name} must be an integer of at least 1, got {value!r}; see gym.make_vec.")
