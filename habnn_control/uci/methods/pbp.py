"""Probabilistic backpropagation (Hernandez-Lobato and Adams, 2015): one pass of assumed-density filtering."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from habnn_control.student_t import StudentT
from habnn_control.uci.methods.base import Method, gaussian

Array = NDArray[np.float64]
HIDDEN = 50
PRIOR_SHAPE = PRIOR_RATE = 6.0  # Gamma prior of the noise precision, as in the PBP paper
WEIGHT_VARIANCE = 1.2  # mean of 1 / precision under its Gamma(6, 6) prior


class PBP(Method):
    """PBP with Gaussian weights and a learned Gamma distribution of the noise precision; gradients by torch.

    Differs from the original: the refinement of the weights' prior by expectation propagation, which follows each
    epoch, is left out (there is only one).
    """

    def __init__(self, n_inputs: int, seed: int) -> None:
        super().__init__(n_inputs, seed)
        rng = np.random.default_rng(seed)
        widths = (n_inputs, HIDDEN, 1)
        self._means, self._variances = [], []
        for n_in, n_out in pairwise(widths):
            self._means.append(rng.standard_normal((n_out, n_in + 1)) / np.sqrt(n_in + 1))
            self._variances.append(np.full((n_out, n_in + 1), WEIGHT_VARIANCE))
        self._shape, self._rate = PRIOR_SHAPE, PRIOR_RATE

    def fit(self, x: Array, y: Array) -> None:
        """Learn in one pass, sample by sample."""
        import torch

        means = [torch.tensor(value, requires_grad=True) for value in self._means]
        variances = [torch.tensor(value, requires_grad=True) for value in self._variances]
        parameters = [*means, *variances]
        inputs = torch.tensor(x)[:, None]  # (n, 1, n_inputs)
        for row, target in zip(inputs, y.tolist(), strict=True):
            loc, var = _forward(torch, row, means, variances)
            noise = self._rate / (self._shape - 1)
            log_z = -0.5 * (torch.log(var + noise) + (target - loc) ** 2 / (var + noise)).sum()
            gradients = torch.autograd.grad(log_z, parameters)
            with torch.no_grad():
                for mean, variance, d_mean, d_var in zip(
                    means, variances, gradients[: len(means)], gradients[len(means) :], strict=True
                ):
                    new = variance - variance**2 * (d_mean**2 - 2 * d_var)
                    good = (new > 0) & torch.isfinite(new) & torch.isfinite(d_mean)
                    mean += torch.where(good, variance * d_mean, 0.0)
                    variance.copy_(torch.where(good, new, variance))
            self._learn_noise((target - loc.item()) ** 2, var.item())
        self._means = [value.detach().numpy() for value in means]
        self._variances = [value.detach().numpy() for value in variances]

    def _learn_noise(self, square: float, variance: float) -> None:
        """Match the moments of the Gamma posterior of the noise precision (Eqs. 13 and 14 of the PBP paper)."""
        shape, rate = self._shape, self._rate

        def log_z(alpha: float) -> float:
            total = variance + rate / (alpha - 1)
            return -0.5 * (float(np.log(total)) + square / total)

        first, second = log_z(shape + 1) - log_z(shape), log_z(shape + 2) - log_z(shape + 1)
        ratio = np.exp(np.clip(second - first, -50, 50)) * (shape + 1) / shape
        inverse_rate = (np.exp(second) * (shape + 1) - np.exp(first) * shape) / rate
        if ratio > 1 and np.isfinite(inverse_rate) and inverse_rate > 0:
            new_shape = 1 / (ratio - 1)
            if new_shape > 1:  # the mean of the noise variance must exist
                self._shape, self._rate = float(new_shape), float(1 / inverse_rate)

    def predict(self, x: Array) -> StudentT:
        """Predict with the expected noise variance."""
        import torch

        with torch.no_grad():
            means, variances = [torch.tensor(m) for m in self._means], [torch.tensor(v) for v in self._variances]
            loc, var = _forward(torch, torch.tensor(x), means, variances)
        noise = self._rate / (self._shape - 1)
        return gaussian(loc[:, 0].numpy(), np.maximum(var[:, 0].numpy(), 0.0) + noise)


def _forward(torch: Any, z_mean: Any, means: list[Any], variances: list[Any]) -> tuple[Any, Any]:
    """Return mean and variance of the output for rows of inputs, each (n, 1)."""
    z_var = torch.zeros_like(z_mean)
    for layer, (weight, spread) in enumerate(zip(means, variances, strict=True)):
        if layer > 0:
            z_mean, z_var = _rectified(torch, z_mean, z_var)
        ones = torch.ones_like(z_mean[:, :1])
        z_mean, z_var = torch.cat([z_mean, ones], dim=1), torch.cat([z_var, 0 * ones], dim=1)
        fan = weight.shape[1]
        z_mean, z_var = (
            z_mean @ weight.T / fan**0.5,
            (z_var @ (weight**2).T + (z_mean**2 + z_var) @ spread.T) / fan,
        )
    return z_mean, z_var


def _rectified(torch: Any, mean: Any, variance: Any) -> tuple[Any, Any]:
    """Return mean and variance of max(0, a) for Gaussian a."""
    deviation = torch.sqrt(variance)
    standard = mean / deviation
    below = torch.special.ndtr(standard)
    density = torch.exp(-0.5 * standard**2) / (2 * torch.pi) ** 0.5
    z_mean = mean * below + deviation * density
    square = (mean**2 + variance) * below + mean * deviation * density
    return z_mean, torch.clamp(square - z_mean**2, min=1e-12)
