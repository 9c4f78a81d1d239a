"""Stable-Baselines3's A2C, PPO, SAC and TD3 behind the common interface, learning online from the first step."""

import inspect
import io
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agents.base import Action, Agent, Step, keyword_names

_OURS = {"self", "policy", "env", "seed", "verbose", "device", "tensorboard_log", "_init_setup_model"}
_LEARNING_STARTS, _PPO_ROLLOUT = 100, 2048  # SB3's defaults


class SB3Agent(Agent):
    """An algorithm of Stable-Baselines3 with its own defaults; any of its constructor's arguments is a setting.

    `learn` makes exactly the steps asked for: SB3 would go on to the end of a rollout (5 steps for A2C, 2048 for PPO),
    so a callback stops it, and a rollout that is not full is not trained on. A further call of `learn` resets the
    environment and keeps weights, replay buffer and step count: TD3 and SAC draw random actions once, not again.
    Torch is held to one thread, and SB3 seeds the global generators of torch and NumPy with the agent's seed: the same
    seed gives the same run in any number of processes.

    A saved agent holds SB3's own zip, from which only tensors are read, never pickles; like SB3 it leaves the replay
    buffer out.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to control; it is never seeded by the agent.
    seed : int
        Seeds the agent.
    normalise : bool
        Scale observations and rewards by their running mean and variance (SB3's VecNormalize).
    action_noise : float, optional
        Standard deviation of Gaussian exploration noise, for TD3 and SAC.
    **settings
        Arguments of the SB3 class.
    """

    algorithm: ClassVar[str]
    can_resume = False
    trains_in_episodes = True

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        seed: int = 0,
        normalise: bool = False,
        action_noise: float | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(env, seed=seed)
        sb3 = import_sb3()
        import torch

        torch.set_num_threads(1)
        self._tap = _Tap(env)
        vector: Any = sb3.common.vec_env.DummyVecEnv([lambda: sb3.common.monitor.Monitor(self._tap)])
        self._normaliser = sb3.common.vec_env.VecNormalize(vector) if normalise else None
        if action_noise is not None:
            width = np.full(env.action_space.shape or (), action_noise)
            settings["action_noise"] = sb3.common.noise.NormalActionNoise(np.zeros_like(width), width)
        self.model = getattr(sb3, self.algorithm)(
            "MlpPolicy",
            vector if self._normaliser is None else self._normaliser,
            seed=seed,
            device="cpu",
            **settings,
        )
        if not (settings.get("verbose") or settings.get("tensorboard_log")):
            # SB3's own logger would make a folder in the temporary directory for every run.
            self.model.set_logger(sb3.common.logger.Logger(folder=None, output_formats=[]))

    @classmethod
    def setting_names(cls) -> list[str]:
        """Return our settings and the arguments of the SB3 class."""
        arguments = inspect.signature(getattr(import_sb3(), cls.algorithm)).parameters
        return sorted({*keyword_names(cls.__init__), *arguments} - _OURS)

    def set_env(self, env: gym.Env[Any, Any]) -> None:
        """Go on in another environment with the same spaces."""
        super().set_env(env)
        self._tap.env = env

    def _play(self, total_timesteps: int, goes_on: Callable[[Step], bool]) -> None:
        def after_step(*_: Any) -> bool:
            return goes_on(self._tap.last) and self._tap.timestep < total_timesteps

        self._tap.timestep = 0
        self.model.set_env(self.model.get_env())  # makes SB3 reset the environment
        self.model.learn(total_timesteps, callback=after_step, reset_num_timesteps=False, log_interval=None)

    def _training_figures(self) -> dict[str, float]:
        """Return what SB3's logger holds, and empty it: what comes next is new."""
        logger = self.model.logger
        figures = dict(logger.name_to_value)
        logger.dump()
        return figures

    def _act(self, observation: NDArray[Any], *, deterministic: bool) -> Action:
        if self._normaliser is not None:
            observation = self._normaliser.normalize_obs(observation)
        action: Action = self.model.predict(observation, deterministic=deterministic)[0]
        return action

    def _act_all(self, observations: NDArray[Any], *, deterministic: bool) -> Action:
        return self._act(observations, deterministic=deterministic)  # SB3 takes batches as they are

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        buffer = io.BytesIO()
        with old_gym_hidden():
            self.model.save(buffer)
        arrays = {"sb3_zip": np.frombuffer(buffer.getvalue(), dtype=np.uint8)}
        arrays |= {f"{name}_{part}": np.asarray(getattr(owner, part)) for name, part, owner in self._scales()}
        return {"num_timesteps": self.model.num_timesteps}, arrays

    def _restore(self, state: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        load = import_sb3().common.save_util.load_from_zip_file
        _, weights, variables = load(io.BytesIO(arrays["sb3_zip"].tobytes()), load_data=False, device="cpu")
        self.model.set_parameters(weights, exact_match=True, device="cpu")
        for name, value in (variables or {}).items():
            getattr(self.model, name).data = value.data
        self.model.num_timesteps = state["num_timesteps"]
        for name, part, owner in self._scales():
            setattr(owner, part, arrays[f"{name}_{part}"])

    def _scales(self) -> list[tuple[str, str, Any]]:
        """Return name, part and owner of each number that observations and rewards are scaled with."""
        if self._normaliser is None:
            return []
        owners = {"observation": self._normaliser.obs_rms, "return": self._normaliser.ret_rms}
        return [(name, part, owner) for name, owner in owners.items() for part in ("mean", "var", "count")]


class A2C(SB3Agent):
    """Advantage actor-critic (Mnih et al. 2016)."""

    default_name, algorithm = "a2c", "A2C"


class PPO(SB3Agent):
    """Proximal policy optimisation (Schulman et al. 2017)."""

    default_name, algorithm = "ppo", "PPO"

    @classmethod
    def remark(cls, steps: int, settings: Mapping[str, Any]) -> str | None:
        """Say that runs shorter than a rollout see no learning."""
        if steps >= _PPO_ROLLOUT or "n_steps" in settings:
            return None
        return f"ppo with SB3's defaults learns after every {_PPO_ROLLOUT} steps: in {steps} steps it never does."


class _OffPolicy(SB3Agent):
    """An algorithm that begins with random actions (`learning_starts`)."""

    @classmethod
    def remark(cls, steps: int, settings: Mapping[str, Any]) -> str | None:
        """Say how many steps are random actions."""
        if "learning_starts" in settings:
            return None
        return (
            f"td3 and sac with SB3's defaults draw random actions for their first {_LEARNING_STARTS} steps "
            f"(learning_starts): {min(steps, _LEARNING_STARTS)} of the {steps} steps shown are warm-up, not learning."
        )


class SAC(_OffPolicy):
    """Soft actor-critic (Haarnoja et al. 2018); random actions for its first 100 steps by default."""

    default_name, algorithm = "sac", "SAC"


class TD3(_OffPolicy):
    """Twin delayed deterministic policy gradient (Fujimoto et al. 2018); 100 random steps by default."""

    default_name, algorithm = "td3", "TD3"


class _Tap(gym.Wrapper[Any, Any, Any, Any]):
    """Keep the last step in our own form, and keep SB3's seeds from the environment."""

    last: Step

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.timestep = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:  # noqa: ARG002
        self._observation, info = self.env.reset(options=options)
        return self._observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        before = self._observation
        self._observation, reward, terminated, truncated, info = self.env.step(action)
        self.timestep += 1
        self.last = Step(self.timestep, before, action, float(reward), self._observation, terminated, truncated, info)
        return self._observation, reward, terminated, truncated, info


@contextmanager
def old_gym_hidden() -> Iterator[None]:
    """Hide old gym, which the Siemens package installs: SB3 imports it when it can, and it prints a warning."""
    hide = "gym" not in sys.modules
    if hide:
        sys.modules["gym"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if hide:
            del sys.modules["gym"]


def import_sb3() -> Any:
    """Return Stable-Baselines3 with the modules that agents use."""
    with old_gym_hidden():
        import stable_baselines3
        import stable_baselines3.common.monitor
        import stable_baselines3.common.noise
        import stable_baselines3.common.save_util
        import stable_baselines3.common.vec_env
    return stable_baselines3
