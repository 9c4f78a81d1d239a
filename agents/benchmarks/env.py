"""Speed of the environments, as ratios to the Siemens code measured in the same run."""

import gymnasium as gym
import numpy as np

import envs  # noqa: F401 (registers IndustrialBenchmark-v0)
from agents.benchmarks.timing import Result, best_times
from envs.siemens import load_ids

ID, SETPOINT, N_PLANTS, N_STEPS = "IndustrialBenchmark-v0", 100.0, 1024, 300
BARS = {"single": 5.0, "vector": 300.0}


def measure(repeats: int) -> list[Result]:
    """Time one plant-step of the Siemens class, of gym.make's environment and of gym.make_vec's, random actions."""
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1.0, 1.0, (N_STEPS, N_PLANTS, 3)).astype(np.float32)
    # IDS.step alone, without observation, info or Gymnasium around it; only np.float is mended.
    siemens = load_ids(np.random.RandomState(0))(p=SETPOINT)
    single = gym.make(ID, setpoint=SETPOINT)
    vector = gym.make_vec(ID, num_envs=N_PLANTS, vectorization_mode="vector_entry_point", setpoint=SETPOINT)

    def step_siemens() -> int:
        for action in actions[:, 0]:
            siemens.step(action)
        return N_STEPS

    def step_single() -> int:
        single.reset(seed=0)
        for action in actions[:, 0]:
            single.step(action)
        return N_STEPS

    def step_vector() -> int:
        for action in actions:
            vector.step(action)
        return N_STEPS * N_PLANTS

    vector.reset(seed=0)
    times = best_times({"siemens": step_siemens, "single": step_single, "vector": step_vector}, repeats)
    names = {
        "siemens": "Siemens IDS.step",
        "single": "gym.make, step",
        "vector": f"gym.make_vec of {N_PLANTS}, a plant",
    }
    return [
        Result(names[key], times[key], times["siemens"] / times[key], BARS.get(key))
        for key in ("siemens", "single", "vector")
    ]
