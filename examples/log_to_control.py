"""From a log in a CSV file to control: learn offline first, then go on online.

The log is made here, by a policy that wanders about, because a plant is not at hand. Yours needs one row per time: the
observation, and the action that was taken from it.
"""

import argparse
import tempfile
from pathlib import Path

import gymnasium as gym
import numpy as np
import pandas as pd

import agents
import envs  # noqa: F401  # registers IndustrialBenchmark-v0
from habnn_control.control.model import Transitions

OBSERVED = ["setpoint", "velocity", "gain", "shift", "fatigue", "consumption"]
MOVED = ["change_velocity", "change_gain", "change_shift"]


def write_log(path: Path, steps: int) -> None:
    """Write the log of a wandering policy."""
    env = gym.make("IndustrialBenchmark-v0", setpoint=100)
    env.reset(seed=1)
    rows: list[list[float]] = []
    agents.make("wander", env, seed=1).learn(
        steps, callback=lambda step: rows.append([*step.observation, *step.action])
    )
    pd.DataFrame(rows, columns=[*OBSERVED, *MOVED]).to_csv(path, index=False)


def main() -> None:
    """Compare a cold start with one from a log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log-steps", type=int, default=600, help="length of the log (default: 600)")
    parser.add_argument("--steps", type=int, default=100, help="length of the episodes (default: 100)")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        write_log(path, flags.log_steps)
        log = Transitions.from_csv(path, observations=OBSERVED, actions=MOVED)

    env = gym.make("IndustrialBenchmark-v0", setpoint=100)
    for start in ("cold", "warm"):
        env.reset(seed=0)
        agent = agents.make("habnn", env, seed=0)
        if start == "warm":
            agent.pretrain(log)
        losses: list[float] = []
        agent.learn(flags.steps, callback=lambda step, kept=losses: kept.append(step.info["loss"]))
        print(f"{start} start: mean loss over {flags.steps} steps {np.mean(losses):.1f}")


if __name__ == "__main__":
    main()
