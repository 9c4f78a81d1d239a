"""Speed of the VecEnv of all plants for Stable-Baselines3, as a ratio to SB3's own over single environments."""

import gymnasium as gym
import numpy as np

from agents.benchmarks.timing import Result, best_times
from agents.sb3 import import_sb3
from agents.sb3_vector import SB3VectorEnv

ID, SETPOINT, N_PLANTS, N_SINGLE, N_STEPS = "IndustrialBenchmark-v0", 100.0, 1024, 16, 60
BAR = 20.0


def measure(repeats: int) -> list[Result]:
    """Time one plant-step through SB3's DummyVecEnv over single environments and through our adapter."""
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (N_STEPS, N_PLANTS, 3)).astype(np.float32)
    dummy = import_sb3().common.vec_env.DummyVecEnv([lambda: gym.make(ID, setpoint=SETPOINT)] * N_SINGLE)
    adapter = SB3VectorEnv(N_PLANTS, seed=0, setpoint=SETPOINT)

    def step_dummy() -> int:
        for action in actions[:, :N_SINGLE]:
            dummy.step(action)
        return N_STEPS * N_SINGLE

    def step_adapter() -> int:
        for action in actions:
            adapter.step(action)
        return N_STEPS * N_PLANTS

    dummy.reset()
    adapter.reset()
    times = best_times({"dummy": step_dummy, "adapter": step_adapter}, repeats)
    ratio = times["dummy"] / times["adapter"]
    return [
        Result(f"SB3's DummyVecEnv of {N_SINGLE}, a plant", times["dummy"]),
        Result(f"SB3VectorEnv of {N_PLANTS}, a plant", times["adapter"], ratio, BAR),
    ]
