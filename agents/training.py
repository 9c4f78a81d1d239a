"""Long training of Stable-Baselines3's algorithms on many plants at once, with checkpoints that resume exactly."""

import io
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.sb3 import import_sb3, old_gym_hidden
from habnn_control.support.files import load_arrays, save_arrays

Array = NDArray[np.float64]

PAST = "-past"  # suffix of an algorithm that observes the last frames
N_FRAMES = 30
_KIND = "training"
_DISCOUNT = 0.95
# SB3's networks of 256 x 256 would take hours, its buffer of a million samples gigabytes with the past.
_OFF_POLICY = {"gamma": _DISCOUNT, "policy_kwargs": {"net_arch": [64, 64]}, "buffer_size": 100_000}
_SCALES = ("mean", "var", "count")
_BUFFER = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


class Recipe(NamedTuple):
    """How an algorithm is trained: SB3's defaults but for these settings, on `n_envs` plants at once."""

    algorithm: str
    on_policy: bool
    n_envs: int
    settings: Mapping[str, Any]


RECIPES = {
    "ppo": Recipe("PPO", True, 256, {"n_steps": 16, "batch_size": 1024, "n_epochs": 4, "gamma": _DISCOUNT}),
    "a2c": Recipe("A2C", True, 256, {"gamma": _DISCOUNT}),
    "sac": Recipe("SAC", False, 1, _OFF_POLICY),
    "td3": Recipe("TD3", False, 1, _OFF_POLICY),
}
TRAINED = tuple(f"{name}{suffix}" for name in RECIPES for suffix in ("", PAST))


def recipe_of(name: str) -> Recipe:
    """Return the recipe of a name of TRAINED."""
    return RECIPES[name.removesuffix(PAST)]


class Trainer:
    """One algorithm in training; observations and rewards are scaled by their running moments (SB3's VecNormalize).

    Parameters
    ----------
    name : str
        One of TRAINED.
    seed : int
        Seeds the algorithm, and the plants from `seed` on.
    n_envs : int, optional
        Number of plants; that of the recipe if left out.
    **variant
        Parameters of `IndustrialBenchmarkEnv`.
    """

    def __init__(self, name: str, seed: int, n_envs: int | None = None, **variant: Any) -> None:
        import torch

        from agents.sb3_vector import SB3VectorEnv

        torch.set_num_threads(1)
        recipe, sb3 = recipe_of(name), import_sb3()
        past = {"observation_type": "include_past", "n_past_timesteps": N_FRAMES} if name.endswith(PAST) else {}
        self._variant = {**variant, **past}
        self.name, self._recipe = name, recipe
        self._plants = SB3VectorEnv(n_envs or recipe.n_envs, seed=seed, **self._variant)
        settings = deepcopy(dict(recipe.settings))  # SB3 writes into it
        if "batch_size" in settings:
            settings["batch_size"] = min(settings["batch_size"], settings["n_steps"] * self._plants.num_envs)
        self._scaled: Any = sb3.common.vec_env.VecNormalize(self._plants, gamma=_DISCOUNT)
        self.model: Any = getattr(sb3, recipe.algorithm)("MlpPolicy", self._scaled, seed=seed, device="cpu", **settings)
        self.model.set_logger(sb3.common.logger.Logger(folder=None, output_formats=[]))

    @property
    def n_steps(self) -> int:
        """Plant-steps so far."""
        return int(self.model.num_timesteps)

    def learn(self, n_steps: int) -> None:
        """Train until at least `n_steps` plant-steps were made: algorithms go on to the end of their rollout."""
        if n_steps > self.n_steps:
            self.model.learn(n_steps - self.n_steps, reset_num_timesteps=False, log_interval=None)

    def evaluate(self, n_plants: int, n_steps: int, seed: int) -> Array:
        """Return the losses (n_steps,), averaged over fresh plants, of the policy without exploration."""
        from agents.sb3_vector import SB3VectorEnv

        plants = SB3VectorEnv(n_plants, n_steps + 1, seed, **self._variant)
        observations, losses = plants.reset(), np.empty(n_steps)
        for k in range(n_steps):
            actions, _ = self.model.predict(self._scaled.normalize_obs(observations), deterministic=True)
            plants.step_async(actions)
            observations, rewards, _, _ = plants.step_wait()
            losses[k] = -rewards.mean()
        return losses

    # ------------------------------------------------------------------ files

    def save_policy(self, path: str | Path) -> None:
        """Save weights and scaling: all that acting needs."""
        save_arrays(path, {"kind": _KIND, "agent": self.name, "steps": self.n_steps}, self._policy())

    def load_policy(self, path: str | Path) -> None:
        """Take over weights and scaling from a file of `save_policy` or `save`."""
        header, arrays = load_arrays(path, _KIND)
        self._check(path, header)
        self._set_policy(arrays)

    def save(self, path: str | Path, rows: Array) -> None:
        """Save everything that going on exactly needs, and rows of results beside it."""
        import torch

        name, keys, *numbers = np.random.get_state()  # noqa: NPY002  # SB3 draws from NumPy's global generator
        assert name == "MT19937"
        plants = self._plants.get_state() if self.n_steps else {}
        header = {
            "kind": _KIND,
            "agent": self.name,
            "steps": self.n_steps,
            "updates": int(self.model._n_updates),
            "random": [float(part) for part in numbers],
            "plants": {key: value for key, value in plants.items() if not isinstance(value, np.ndarray)},
        }
        arrays = {"rows": rows, "torch": torch.get_rng_state().numpy(), "numpy": np.asarray(keys), **self._policy()}
        arrays |= {f"plants_{key}": value for key, value in plants.items() if isinstance(value, np.ndarray)}
        save_arrays(path, header, arrays | self._progress())

    def load(self, path: str | Path) -> Array:
        """Go on from a file of `save`; return the rows in it."""
        import torch

        header, arrays = load_arrays(path, _KIND)
        self._check(path, header)
        self._scaled.reset()  # before the scaling is taken over: a reset changes it
        self._set_policy(arrays)
        self.model.num_timesteps, self.model._n_updates = header["steps"], header["updates"]
        if header["plants"]:
            parts = {key.removeprefix("plants_"): value for key, value in arrays.items() if key.startswith("plants_")}
            self._plants.set_state({**header["plants"], **parts})
            self._set_progress(arrays)
        torch.set_rng_state(torch.from_numpy(np.array(arrays["torch"])))
        place, has_normal, normal = header["random"]
        state = ("MT19937", np.array(arrays["numpy"]), int(place), int(has_normal), normal)
        np.random.set_state(state)  # noqa: NPY002  # SB3 draws from NumPy's global generator
        return np.array(arrays["rows"])

    def _check(self, path: str | Path, header: Mapping[str, Any]) -> None:
        if header.get("agent") != self.name:
            raise ValueError(
                f"Trainer: {path} must be a checkpoint of {self.name}, got one of {header.get('agent')}; choose "
                "another file."
            )

    def _policy(self) -> dict[str, NDArray[Any]]:
        buffer = io.BytesIO()
        with old_gym_hidden():
            self.model.save(buffer)
        arrays: dict[str, NDArray[Any]] = {"sb3_zip": np.frombuffer(buffer.getvalue(), dtype=np.uint8)}
        for name in ("obs_rms", "ret_rms"):
            arrays |= {f"{name}_{part}": np.asarray(getattr(getattr(self._scaled, name), part)) for part in _SCALES}
        return arrays

    def _set_policy(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over weights and optimisers; only tensors are read from SB3's zip, never pickles."""
        load = import_sb3().common.save_util.load_from_zip_file
        _, weights, variables = load(io.BytesIO(arrays["sb3_zip"].tobytes()), load_data=False, device="cpu")
        self.model.set_parameters(weights, exact_match=True, device="cpu")
        for name, value in (variables or {}).items():
            getattr(self.model, name).data = value.data
        for name in ("obs_rms", "ret_rms"):
            for part in _SCALES:
                value = arrays[f"{name}_{part}"]
                setattr(getattr(self._scaled, name), part, value if part != "count" else float(value))

    def _progress(self) -> dict[str, NDArray[Any]]:
        """Return where the rollout stands, and the replay buffer of an off-policy algorithm."""
        if not self.n_steps:
            return {}
        model = self.model
        arrays = {"returns": self._scaled.returns, "last_obs": model._last_obs, "starts": model._last_episode_starts}
        if not self._recipe.on_policy:
            buffer = model.replay_buffer
            arrays |= {"original": model._last_original_obs, "place": np.array([buffer.pos, buffer.full])}
            arrays |= {f"buffer_{part}": getattr(buffer, part)[: buffer.size()] for part in _BUFFER}
        return {name: np.array(value) for name, value in arrays.items()}

    def _set_progress(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        model, self._scaled.returns = self.model, np.array(arrays["returns"])
        model._last_obs, model._last_episode_starts = np.array(arrays["last_obs"]), np.array(arrays["starts"])
        if not self._recipe.on_policy:
            buffer = model.replay_buffer
            model._last_original_obs = np.array(arrays["original"])
            buffer.pos, buffer.full = int(arrays["place"][0]), bool(arrays["place"][1])
            for part in _BUFFER:
                getattr(buffer, part)[: buffer.size()] = arrays[f"buffer_{part}"]
