"""Agents that control an environment: HABNN-MPC, Stable-Baselines3 baselines, reference policies.

`make` builds an agent by name, `load` brings a saved one back; an agent's module is imported when it is first built,
so `import agents` stays light.
"""

from agents.base import Agent, Callback, Step
from agents.registry import BASELINES, NAMES, load, make, names

__all__ = ["BASELINES", "NAMES", "Agent", "Callback", "Step", "load", "make", "names"]
