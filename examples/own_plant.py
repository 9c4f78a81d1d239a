"""A plant of your own: a heated tank that the agent has never seen, described in a few lines.

The temperature follows the heater late, cold water comes in at a rate that nobody controls, and the wanted temperature
is 50 degrees. The description names the loss, the heater's motion and the inflow; everything else is learned online.
"""

import argparse

import gymnasium as gym
import numpy as np

import agents
from habnn_control.control.plant import Actuators, Plant

INFLOW, HEATER, TEMPERATURE = 0, 1, 2
WANTED = 50.0


def distance(_: np.ndarray, observations: np.ndarray) -> np.ndarray:
    """Return losses (...,) of actions (..., 1) and the observations (..., 3) after them."""
    return np.abs(observations[..., TEMPERATURE] - WANTED)


class HeatedTank(gym.Env):
    """Temperature of a tank with a heater, a delay of three steps and an inflow of cold water."""

    observation_space = gym.spaces.Box(np.array([0.5, 0.0, 0.0]), np.array([1.5, 100.0, 100.0]), dtype=np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,))
    plant = Plant(
        distance,
        actuators=Actuators(entries=[HEATER], steps=[5.0]),  # the heater moves by 5 % per unit of the action
        exogenous=[INFLOW],
        columns={"temperature": TEMPERATURE, "heater": HEATER, "inflow": INFLOW},
    )

    def reset(self, *, seed=None, options=None):
        """Start cold, with half of the heating power."""
        super().reset(seed=seed, options=options)
        self._inflow, self._heater, self._temperature = 1.0, [50.0] * 4, 25.0
        return self._observation(), {}

    def step(self, action):
        """Move the heater and mix the water."""
        self._inflow = float(np.clip(self._inflow + 0.03 * self.np_random.standard_normal(), 0.5, 1.5))
        self._heater = [*self._heater[1:], float(np.clip(self._heater[-1] + 5.0 * action[0], 0.0, 100.0))]
        change = 0.07 * self._heater[0] - 0.1 * self._inflow * (self._temperature - 10.0)
        self._temperature = float(np.clip(self._temperature + change, 0.0, 100.0))
        observation = self._observation()
        loss = float(distance(np.asarray(action), observation))
        return observation, -loss, False, False, {"loss": loss}

    def _observation(self):
        measured = self._temperature + 0.3 * self.np_random.standard_normal()
        return np.array([self._inflow, self._heater[-1], np.clip(measured, 0.0, 100.0)])


def main() -> None:
    """Control the tank with and without learning, and print the losses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="length of the episode (default: 200)")
    steps = parser.parse_args().steps
    gym.register("HeatedTank-v0", HeatedTank)
    env = gym.make("HeatedTank-v0")
    for name in ("habnn", "noop"):
        losses: list[float] = []
        env.reset(seed=0)
        agents.make(name, env, seed=0).learn(steps, callback=lambda s, kept=losses: kept.append(s.info["loss"]))
        last = min(steps, 100)
        print(
            f"{name:5} mean distance from {WANTED:g} degrees over the last {last} steps: {np.mean(losses[-last:]):.2f}"
        )


if __name__ == "__main__":
    main()
