"""Closed-form Bayesian neural networks and model-based control."""

from habnn_control.network import HABNN
from habnn_control.student_t import StudentT

__all__ = ["HABNN", "StudentT"]
