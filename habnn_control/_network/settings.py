"""The constructor arguments of a network, validated."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf, pi, sqrt
from typing import Any, Self

import numpy as np
from scipy.special import erfcx

from habnn_control.support.names import nearest

COVARIANCES = ("diagonal", "full")
FANS = ("in", "out")
ACTIVATIONS = ("relu", "leaky_relu", "identity")
_LARGE = 1e4  # of a squared outlier threshold: beyond it the closed form cancels, and its series is exact to 1e-6
DISTANCES = ("pre_activation", "observation")
_NUMBERS = (
    "dof",
    "scale",
    "prior_std",
    "slope",
    "drift",
    "max_dof",
    "noise_weight",
    "temperature",
    "outlier_threshold",
)


def _require(condition: bool, name: str, constraint: str, value: object, remedy: str) -> None:
    """Raise a ValueError in the format of the package unless the condition holds."""
    if not condition:
        raise ValueError(f"HABNN: {name} must be {constraint}, got {value!r}; {remedy}.")


def whole(name: str, value: object, least: int) -> int:
    """Return an integer of at least `least`, or raise."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"HABNN: {name} must be a whole number, got {value!r}; pass an int.")
    _require(bool(value >= least), name, f"at least {least}", value, "pass a larger number")
    return int(value)


def _number(name: str, value: object) -> float:
    """Return a real number as float, or raise."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"HABNN: {name} must be a number, got {value!r}; pass a float.")
    return float(value)


def _choice(name: str, value: object, valid: Sequence[str]) -> str:
    """Return one of the valid names, or raise."""
    if value not in valid:
        raise ValueError(
            f"HABNN: {name} must be one of {', '.join(valid)}, got {value!r}; {nearest(str(value), valid)}"
        )
    return str(value)


@dataclass(frozen=True)
class NetworkSettings:
    """The constructor arguments of a `HABNN`; its docstring explains each."""

    n_inputs: int
    n_outputs: int
    hidden: tuple[int, ...]
    dof: float
    scale: float
    covariance: str
    noise_variance: tuple[float, ...]
    seed: int
    prior_std: float
    output_prior_std: float
    output_scale: float
    activation: str
    slope: float
    fan: str
    drift: float
    max_dof: float
    noise_weight: float
    temperature: float
    outlier_threshold: float
    output_distance: str

    @classmethod
    def checked(cls, **given: Any) -> Self:
        """Return the settings of the given arguments, or raise; None is replaced by the value it stands for."""
        n_outputs = whole("n_outputs", given["n_outputs"], 1)
        numbers = {name: _number(name, given[name]) for name in _NUMBERS}
        output_scale, output_prior_std = given["output_scale"], given["output_prior_std"]
        noise = np.atleast_1d(np.asarray(given["noise_variance"], dtype=np.float64))
        _require(
            noise.shape in ((1,), (n_outputs,)),
            "noise_variance",
            "a number or one per output",
            noise.tolist(),
            "pass one variance per output",
        )
        settings = cls(
            n_inputs=whole("n_inputs", given["n_inputs"], 1),
            n_outputs=n_outputs,
            hidden=tuple(whole("hidden", width, 1) for width in given["hidden"]),
            covariance=_choice("covariance", given["covariance"], COVARIANCES),
            noise_variance=tuple(np.broadcast_to(noise, n_outputs).tolist()),
            seed=whole("seed", given["seed"], 0),
            output_prior_std=numbers["prior_std"]
            if output_prior_std is None
            else _number("output_prior_std", output_prior_std),
            output_scale=numbers["scale"] if output_scale is None else _number("output_scale", output_scale),
            activation=_choice("activation", given["activation"], ACTIVATIONS),
            fan=_choice("fan", given["fan"], FANS),
            output_distance=_choice("output_distance", given["output_distance"], DISTANCES),
            **numbers,
        )
        settings._check_ranges()
        return settings

    def _check_ranges(self) -> None:
        """Raise unless every number lies in its range; comparisons are written so that NaN fails them."""
        _require(self.dof > 2, "dof", "above 2", self.dof, "the variance is infinite at 2 and below")
        for name in ("scale", "output_scale"):
            value = getattr(self, name)
            _require(0 < value < inf, name, "positive and finite", value, "a weight of zero scale never learns")
        for name in ("prior_std", "output_prior_std", "drift"):
            value = getattr(self, name)
            _require(0 <= value < inf, name, "finite and not negative", value, "pass 0 to switch it off")
        for value in self.noise_variance:
            _require(
                0 < value < inf,
                "noise_variance",
                "positive and finite",
                value,
                "pass a small number for noise-free data",
            )
        _require(0 <= self.slope <= 1, "slope", "in [0, 1]", self.slope, "0 is ReLU, 1 the identity")
        _require(self.max_dof >= self.dof, "max_dof", f"at least dof = {self.dof:g}", self.max_dof, "raise the cap")
        _require(self.noise_weight > 0, "noise_weight", "positive", self.noise_weight, "pass math.inf for fixed noise")
        _require(0 < self.temperature < inf, "temperature", "positive and finite", self.temperature, "1 is Bayes' rule")
        _require(
            self.outlier_threshold > 0,
            "outlier_threshold",
            "positive",
            self.outlier_threshold,
            "pass math.inf to weight all observations equally",
        )

    @property
    def prior_stds(self) -> list[float]:
        """Standard deviation of the prior locations per layer."""
        return [self.prior_std] * len(self.hidden) + [self.output_prior_std]

    @property
    def scales(self) -> list[float]:
        """Prior squared scale of the weights per layer."""
        return [self.scale] * len(self.hidden) + [self.output_scale]

    @property
    def negative_slope(self) -> float:
        """Slope of the activation function below zero."""
        return {"relu": 0.0, "leaky_relu": self.slope, "identity": 1.0}[self.activation]

    @property
    def outlier(self) -> tuple[float, float]:
        """The outlier threshold c, and the mean of r^2 / (1 + r^2 / c^2)^2 for a standard normal r."""
        a = self.outlier_threshold**2
        if a > _LARGE:
            return self.outlier_threshold, 1 - 6 / a
        inverse = sqrt(pi / (2 * a)) * float(erfcx(sqrt(a / 2)))  # the mean of 1 / (a + r^2)
        return self.outlier_threshold, a * a / 2 * ((1 + a) * inverse - 1)

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as a dict of plain types, the keyword arguments of `HABNN`."""
        return asdict(self)
