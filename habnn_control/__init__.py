"""Closed-form Bayesian neural networks and model-based control."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from habnn_control.autoscaled import AutoscaledHABNN
    from habnn_control.committee import HABNNCommittee
    from habnn_control.joint import JointHABNN
    from habnn_control.network import HABNN
    from habnn_control.noise_bank import NoiseBank
    from habnn_control.regressor import HABNNRegressor
    from habnn_control.replay import ReplayHABNN
    from habnn_control.student_t import StudentT

__all__ = [
    "HABNN",
    "AutoscaledHABNN",
    "HABNNCommittee",
    "HABNNRegressor",
    "JointHABNN",
    "NoiseBank",
    "ReplayHABNN",
    "StudentT",
]

_MODULES = {
    "HABNN": "network",
    "AutoscaledHABNN": "autoscaled",
    "HABNNCommittee": "committee",
    "HABNNRegressor": "regressor",
    "JointHABNN": "joint",
    "NoiseBank": "noise_bank",
    "ReplayHABNN": "replay",
    "StudentT": "student_t",
}


def __getattr__(name: str) -> Any:
    """Import a public class when it is first asked for: SciPy, numba and scikit-learn take a while to import."""
    if name in _MODULES:
        return getattr(import_module(f"habnn_control.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
