"""The vector environment of the Industrial Benchmark as a VecEnv of Stable-Baselines3: one kernel for all plants."""

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agents.sb3 import old_gym_hidden
from envs import IndustrialBenchmarkVectorEnv

with old_gym_hidden():
    from stable_baselines3.common.vec_env import VecEnv

_OWNER = "SB3VectorEnv"


class SB3VectorEnv(VecEnv):
    """n plants behind the interface of Stable-Baselines3, stepped together without a Python loop over plants.

    All plants start and end their episodes together: at the end, `infos` hold the last observation of each plant under
    "terminal_observation" and "TimeLimit.truncated", and the observations returned are those after the reset, as SB3
    wants it. Plant i has the seed `seed + i`; what SB3 asks for with `VecEnv.seed` counts from the next reset on.

    Observations are float32, which is what SB3 computes with. Frames of the past come with
    ``observation_type="include_past"`` and ``n_past_timesteps``: the last frames in one flat observation, newest first.

    Parameters
    ----------
    num_envs : int
        Number of plants.
    episode_steps : int
        Length of an episode.
    seed : int, optional
        Of the first reset.
    **variant
        Parameters of `IndustrialBenchmarkEnv`, such as setpoint.
    """

    def __init__(self, num_envs: int, episode_steps: int = 1000, seed: int | None = None, **variant: Any) -> None:
        if not (isinstance(episode_steps, int) and episode_steps >= 1):
            raise ValueError(
                f"{_OWNER}: episode_steps must be a positive integer, got {episode_steps!r}; see the class."
            )
        self.vector = IndustrialBenchmarkVectorEnv(num_envs, max_episode_steps=None, **variant)
        self.plant, self.render_mode = self.vector.plant, None
        observed: Any = self.vector.single_observation_space
        low, high = (np.asarray(end, dtype=np.float32) for end in (observed.low, observed.high))
        super().__init__(num_envs, gym.spaces.Box(low, high), self.vector.single_action_space)
        self._episode_steps, self._clock = episode_steps, 0
        self._seed = seed
        self._actions: NDArray[Any] = np.zeros(0)

    def reset(self) -> NDArray[np.float32]:
        """Start an episode on every plant and return the observations (n, n_observed)."""
        if self._seeds[0] is not None:
            self._seed = self._seeds[0]
        observations, _ = self.vector.reset(seed=self._seed)
        self._seed, self._clock = None, 0
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = [{} for _ in range(self.num_envs)]
        return observations.astype(np.float32)

    def step_async(self, actions: NDArray[Any]) -> None:
        """Take the actions of the step to come."""
        self._actions = actions

    def step_wait(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Step all plants; return observations, rewards, dones and infos."""
        observations, rewards, _, _, _ = self.vector.step(self._actions)
        self._clock += 1
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        ended = self._clock >= self._episode_steps
        if ended:
            for info, last in zip(infos, observations.astype(np.float32), strict=True):
                info.update({"TimeLimit.truncated": True, "terminal_observation": last})
            observations, _ = self.vector.reset()
            self._clock = 0
        return observations.astype(np.float32), rewards.astype(np.float32), np.full(self.num_envs, ended), infos

    def get_state(self) -> dict[str, Any]:
        """Return the complete state of all plants, random generators included, and the step count."""
        return {**self.vector.get_state(), "clock": self._clock}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a state of `get_state`."""
        self.vector.set_state(state)
        self._clock, self._seed = int(state["clock"]), None

    # ------------------------------------------------------------------ what else SB3 asks for

    def close(self) -> None:
        """Close the vector environment."""
        self.vector.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute, which all plants share, once per plant."""
        return [getattr(self if attr_name == "render_mode" else self.vector, attr_name) for _ in self._chosen(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:  # SB3's signature
        """Refuse: plants have no attributes of their own."""
        raise NotImplementedError(f"{_OWNER}: {attr_name} must be given when the environment is made.")

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Refuse: plants are no objects of their own."""
        raise NotImplementedError(f"{_OWNER}: {method_name} must be called on the attribute `vector`, for all plants.")

    def env_is_wrapped(self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: Any = None) -> list[bool]:  # noqa: ARG002
        """Return False for every plant."""
        return [False for _ in self._chosen(indices)]

    def _chosen(self, indices: Any) -> Sequence[int]:
        return list(self._get_indices(indices))
