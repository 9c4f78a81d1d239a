"""Agents that control an environment: MPC on learned models, Stable-Baselines3 baselines, reference policies.

`make` builds an agent by name, `register` adds a name, `load` brings a saved agent back. An agent's module is imported
when it is first built, so `import agents` stays light.
"""

from agents.base import Agent, Callback, Step
from agents.registry import load, make, names, register

__all__ = ["Agent", "Callback", "Step", "load", "make", "names", "register"]
