"""Plants for Gymnasium; importing registers IndustrialBenchmark-v0, TwoTanks-v0 and PCGym/CSTR-v0 and its like."""

from gymnasium.envs.registration import register

from envs._kernels.benchmark import ACTUATOR_STEPS, MARKOV_NAMES, N_NOISE
from envs.description import find_plant, runs_on
from envs.industrial_benchmark import IndustrialBenchmarkEnv
from envs.mirror import IMAGES, Mirror, mirror_of
from envs.processes import PROCESSES
from envs.simulator import draw_noise, simulate
from envs.two_tanks import TwoTanksEnv
from envs.variant import newest_frame
from envs.vector import IndustrialBenchmarkVectorEnv

__all__ = [
    "ACTUATOR_STEPS",
    "IMAGES",
    "MARKOV_NAMES",
    "N_NOISE",
    "IndustrialBenchmarkEnv",
    "IndustrialBenchmarkVectorEnv",
    "Mirror",
    "TwoTanksEnv",
    "draw_noise",
    "find_plant",
    "mirror_of",
    "newest_frame",
    "runs_on",
    "simulate",
]

register(
    id="IndustrialBenchmark-v0",
    entry_point="envs.industrial_benchmark:IndustrialBenchmarkEnv",
    vector_entry_point="envs.vector:IndustrialBenchmarkVectorEnv",
    max_episode_steps=1000,
)
register(id="TwoTanks-v0", entry_point="envs.two_tanks:TwoTanksEnv", max_episode_steps=500)
for _process in PROCESSES:
    register(
        id=f"PCGym/{_process}-v0",
        entry_point="envs.pcgym:ProcessEnv",
        kwargs={"process": _process},
        max_episode_steps=1000,
    )
