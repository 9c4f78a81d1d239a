"""Extremum seeking: the classical model-free answer to a plant that nobody has a model of."""

from math import isfinite
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agents.base import Action, Agent, Step
from agents.motion import Motion

Array = NDArray[np.float64]

_GOLDEN = 1.618033988749895  # periods in this ratio have no common multiple: no dither looks like another one


class ExtremumSeeking(Agent):
    """Sinusoidal dither on every actuator, demodulation of the loss, and an integrator (Krstić and Wang, 2000).

    Actuator i is moved to centre_i + amplitude sin(2 pi t / period_i). The loss, freed of its mean and divided by its
    standard deviation, both over about one longest period, times the same sine `delay` steps ago estimates the slope of
    the loss; the centre moves against it. Where the Plant does not describe actuators, the actions are the positions.

    Parameters
    ----------
    env : gymnasium.Env
        An environment with a flat, bounded Box of actions.
    seed : int
        Draws the phases of the dither.
    amplitude : float
        Of the dither, in parts of the range of each actuator.
    period : float
        Of the fastest dither, in steps. The others are spread up to the golden ratio times this period.
    rate : float
        Move of a centre per step, in parts of the range, at a correlation of one between loss and dither.
    delay : float
        Steps from a move to its effect on the loss.
    """

    default_name = "extremum-seeking"

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        seed: int = 0,
        amplitude: float = 0.03,
        period: float = 25.0,
        rate: float = 0.003,
        delay: float = 8.0,
    ) -> None:
        super().__init__(env, seed=seed)
        if not (0 < amplitude <= 0.5 and period > 2 and isfinite(period) and 0 <= rate <= 1 and 0 <= delay < period):
            raise ValueError(
                "extremum-seeking: amplitude must be in (0, 0.5], period above 2, rate in [0, 1] and delay from 0 to "
                f"the period, got {amplitude}, {period}, {rate} and {delay}; 0.03, 25, 0.003 and 8 are the defaults."
            )
        self._motion = Motion(self.default_name, env)
        n, self._range = self._motion.n_actions, self._motion.high - self._motion.low
        self._periods = period * _GOLDEN ** (np.arange(n) / max(n, 2))
        self._phases = np.random.default_rng(seed).uniform(0.0, 2.0 * np.pi, n)
        self._amplitude, self._rate, self._delay = amplitude, rate, delay
        self._forgetting = 1.0 / self._periods.max()
        self._centre = np.full(n, np.nan)  # not known before the first observation
        self._mean, self._variance, self._clock = 0.0, 0.0, 0

    def _begin(self, observation: NDArray[Any], info: dict[str, Any]) -> None:  # noqa: ARG002
        if np.isnan(self._centre).any():
            self._centre = np.array(self._motion.positions(observation, self._motion.rest))

    def _dither(self, clock: float) -> Array:
        return np.asarray(np.sin(2.0 * np.pi * clock / self._periods + self._phases))

    def _act(self, observation: NDArray[Any], *, deterministic: bool) -> Action:
        if np.isnan(self._centre).any():
            return self._motion.towards(*2 * (self._motion.positions(observation, self._motion.rest),))[0]
        wanted = self._centre + (0.0 if deterministic else self._amplitude) * self._range * self._dither(self._clock)
        return self._motion.towards(self._motion.positions(observation, self._centre), wanted)[0]

    def _observe(self, step: Step) -> None:
        loss = float(step.info.get("loss", -step.reward))
        if isfinite(loss):
            self._learn(loss)
        self._clock += 1

    def _learn(self, loss: float) -> None:
        """Move the centres against the correlation between the loss and the dither that caused it."""
        weight = max(self._forgetting, 1.0 / (self._clock + 1))
        apart = loss - self._mean
        self._mean += weight * apart
        self._variance += weight * ((1.0 - weight) * apart**2 - self._variance)
        if self._clock > self._delay and self._variance > 0:
            slope = apart / np.sqrt(self._variance) * self._dither(self._clock - self._delay)
            inside = self._amplitude * self._range
            moved = self._centre - self._rate * self._range * slope
            self._centre = np.clip(moved, self._motion.low + inside, self._motion.high - inside)

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        numbers = {"mean": self._mean, "variance": self._variance, "clock": self._clock}
        return numbers, {} if np.isnan(self._centre).any() else {"centre": self._centre}

    def _restore(self, state: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._mean, self._variance, self._clock = state["mean"], state["variance"], state["clock"]
        if "centre" in arrays:
            self._centre = arrays["centre"]
