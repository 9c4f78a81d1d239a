"""Checks of the arrays that a network is called with."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

_CLIP = 6.0  # bound of values that count, relative to their spread


def check_matrix(name: str, values: ArrayLike, columns: int) -> Array:
    """Return values as a contiguous float array of shape (n, columns), or raise."""
    matrix = np.ascontiguousarray(values, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] != columns:
        raise ValueError(f"HABNN: {name} must have shape (n, {columns}), got {matrix.shape}; reshape the array.")
    return matrix


def check_samples(inputs: ArrayLike, targets: ArrayLike, n_inputs: int, n_outputs: int) -> tuple[Array, Array]:
    """Return inputs (n, n_inputs) and targets (n, n_outputs), or (n,) for one output, as float arrays; or raise."""
    y = np.asarray(targets, dtype=np.float64)
    y = y[:, None] if y.ndim == 1 and n_outputs == 1 else y
    x, y = check_matrix("inputs", inputs, n_inputs), check_matrix("targets", y, n_outputs)
    if len(x) != len(y):
        raise ValueError(
            f"HABNN: targets must have one row per sample, got {len(y)} for {len(x)} inputs; pass equal lengths."
        )
    return x, y


def check_input_variance(values: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return input variances as a float array of the given shape, or raise."""
    variances = np.asarray(values, dtype=np.float64)
    if variances.shape != shape or not ((variances >= 0) & (variances < np.inf)).all():
        raise ValueError(
            f"HABNN: input_variance must have the shape {shape} of the inputs and be finite and not negative, got "
            f"shape {variances.shape}; pass one variance per input."
        )
    return variances


def check_finite_inputs(inputs: Array) -> Array:
    """Return the inputs (n, n_inputs), or raise if one of them is NaN or infinite."""
    if not np.isfinite(inputs).all():
        row = int(np.flatnonzero(~np.isfinite(inputs).all(axis=1))[0])
        raise ValueError(f"HABNN: inputs must be finite, got {inputs[row]} in row {row}; remove NaN and infinity.")
    return inputs


def check_gains(gains: Sequence[float] | None, n_inputs: int) -> Array:
    """Return the factors of the inputs of an `AutoscaledHABNN`, (n_inputs,), or raise; None is 1 for each."""
    checked = np.ones(n_inputs) if gains is None else np.array(gains, dtype=np.float64)
    if checked.shape != (n_inputs,) or not ((checked > 0) & (checked < np.inf)).all():
        raise ValueError(
            f"AutoscaledHABNN: gains must be {n_inputs} positive numbers, got {gains!r}; pass one per input."
        )
    return checked


def clipped_spread(deviations: Array, rounds: int = 10) -> Array:
    """Return the spread of each column of deviations (n, columns) from medians, without those that are far outside.

    Deviations above six times the present spread are left out, at first six times that of a Gaussian with the median
    deviation, for some rounds: skewed values keep their spread, and gross errors do not count.
    """
    size = np.abs(deviations)
    spread: Array = 1.4826 * np.median(size, axis=0)
    for _ in range(rounds):
        inside = size <= _CLIP * spread
        spread = np.sqrt((inside * size**2).sum(axis=0) / inside.sum(axis=0))
    return spread
