"""An episode of the default agent on the Industrial Benchmark, and how often its predictions were right.

Run it from anywhere after `pip install`: python examples/quickstart.py
"""

import argparse

import gymnasium as gym
import numpy as np

import agents
import envs  # noqa: F401  # registers IndustrialBenchmark-v0


def main() -> None:
    """Play one episode of the agent and one of doing nothing, and print their losses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300, help="length of the episode (default: 300)")
    steps = parser.parse_args().steps

    env = gym.make("IndustrialBenchmark-v0", setpoint=100)
    losses, covered = {"habnn": [], "noop": []}, []

    env.reset(seed=0)
    agent = agents.make("habnn", env, seed=0)

    def after_each_step(step: agents.Step) -> None:
        losses["habnn"].append(step.info["loss"])
        prediction = agent.prediction  # made before the step: entries of the observation, and their 90 % intervals
        measured = step.next_observation[prediction.indices]
        covered.append((prediction.low <= measured) & (measured <= prediction.high))

    agent.learn(total_timesteps=steps, callback=after_each_step)

    env.reset(seed=0)  # the same plant with the same random numbers
    agents.make("noop", env).learn(steps, callback=lambda step: losses["noop"].append(step.info["loss"]))

    last = min(steps, 100)
    for name, values in losses.items():
        print(f"{name:6} mean loss over the last {last} steps: {np.mean(values[-last:]):.1f}")
    fatigue, consumption = 100 * np.mean(covered, axis=0)
    print(f"inside their 90 % intervals: fatigue {fatigue:.0f} %, consumption {consumption:.0f} %")


if __name__ == "__main__":
    main()
