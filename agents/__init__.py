"""Agents that control an environment: HABNN-MPC, Stable-Baselines3 baselines, reference policies."""
