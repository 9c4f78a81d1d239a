"""Closed-form Bayesian neural networks and model-based control."""
