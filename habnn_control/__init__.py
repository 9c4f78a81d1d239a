"""Closed-form Bayesian neural networks and model-based control."""

from typing import TYPE_CHECKING, Any

from habnn_control.autoscaled import AutoscaledHABNN
from habnn_control.network import HABNN
from habnn_control.student_t import StudentT

if TYPE_CHECKING:
    from habnn_control.regressor import HABNNRegressor

__all__ = ["HABNN", "AutoscaledHABNN", "HABNNRegressor", "StudentT"]


def __getattr__(name: str) -> Any:
    """Import scikit-learn only when its estimator is asked for: it takes longer than everything else together."""
    if name == "HABNNRegressor":
        from habnn_control.regressor import HABNNRegressor

        return HABNNRegressor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
