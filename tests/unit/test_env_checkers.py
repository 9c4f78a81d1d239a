"""The environment checkers of Gymnasium and Stable-Baselines3, with warnings as errors, on every variant."""

from itertools import product

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium
from stable_baselines3.common.env_checker import check_env as check_stable_baselines

import envs

NAMES = ("reward_type", "action_type", "observation_type", "backend", "render_mode", "wandering")
CHOICES = (("classic", "delta"), ("continuous", "discrete"), ("classic", "include_past"), ("numba", "siemens"))
DISPLAYS = ((None, False), (None, True), ("rgb_array", False), ("human", True))  # render mode and wandering setpoint
VARIANTS = [dict(zip(NAMES, (*chosen, *display), strict=True)) for *chosen, display in product(*CHOICES, DISPLAYS)]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: "-".join(str(value) for value in variant.values()))
def test_checkers_accept_variant(variant):
    env = gym.make("IndustrialBenchmark-v0", setpoint=100, **variant)
    # Render modes are variants here; the render check would draw all modes for each variant, which takes minutes.
    check_gymnasium(env.unwrapped, skip_render_check=variant["render_mode"] is None)
    check_stable_baselines(env.unwrapped, warn=True, skip_render_check=False)
    assert env.spec.id in gym.registry
    assert envs.IndustrialBenchmarkEnv is type(env.unwrapped)
