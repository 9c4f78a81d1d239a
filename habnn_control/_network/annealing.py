"""Annealed passes: blocks of samples, a noise variance that falls from pass to pass, and forgetting of earlier passes.

Each pass but the first begins with forgetting: the scale matrix is divided by `MEMORY`. Then all samples are learned
with the noise variance divided by 1 - `MEMORY`. After t passes each sample counts 1 - MEMORY^t in all. As in tempered
passes no sample counts twice; what was learned around bad weights is forgotten, and most of the prior scale with it.
"""

from collections.abc import Iterator
from math import ceil, inf, log
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from habnn_control._network.jit import Floats, kernel
from habnn_control._network.joint_kernels import TINY, _hidden, _linearise

Array = NDArray[np.float64]

MEMORY = 0.6  # share of what was learned that is kept from pass to pass
WIDEST = 10.0  # squared scale of a weight after forgetting, relative to the prior one
START, FALL = 0.1, 4.0  # noise variance of the first pass, and how many times it falls at most from pass to pass
UPDATES, FEWEST, MOST = 4000, 2, 10  # with the final noise variance, and bounds on the number of passes with it
SMALLEST_BLOCK, LARGEST_BLOCK, BLOCKS = 16, 64, 12  # observations that are linearised together; blocks per pass
LARGEST_SINGLE = 1e3  # data above it are learned in double precision


def falling_levels(noise: Array, passes: int) -> Iterator[Array]:
    """Yield the noise variances of each pass, (n_outputs,): from `START`, or given larger ones, down to given ones."""
    fall = np.maximum((START / noise) ** (1 / max(passes - 1, 1)), FALL)
    for number in range(passes):
        yield np.maximum(noise, START / fall**number)


def recommended_passes(n: int, noise: float) -> int:
    """Return the number of annealed passes over n samples that end with a noise variance."""
    return max(ceil(log(START / noise) / log(FALL)), 0) + min(max(UPDATES // n, FEWEST), MOST)


class Annealing:
    """Weights that learn samples in annealed passes, in single precision unless that fails.

    Parameters
    ----------
    loc : array, shape (n_weights,)
        Prior locations.
    scale : array, shape (n_weights, n_weights)
        Prior scale matrix; its lower triangle counts.
    n_hidden : int
    x : array, shape (n, n_inputs)
    y : array, shape (n, n_outputs)
    gaussian : float
        Squared scale of noise of variance 1: 1 - 2 / dof.
    outlier_threshold : float
        Standardised residual at which the weight of an observation is one half.

    Attributes
    ----------
    loc, scale : array
        After the passes so far.
    """

    def __init__(
        self, loc: Array, scale: Array, n_hidden: int, x: Array, y: Array, gaussian: float, outlier_threshold: float
    ) -> None:
        self._prior, self._n_hidden, self._y = (loc, scale), n_hidden, y
        self._x = np.column_stack([x, np.ones(len(x))])
        self._gaussian, self._outlier_threshold = gaussian, outlier_threshold
        self._passes: list[tuple[Array, NDArray[np.int64]]] = []
        rows = min(max(y.size // BLOCKS, SMALLEST_BLOCK), LARGEST_BLOCK)
        self._block = max(rows // y.shape[1], 1)  # samples
        single = max(np.abs(x).max(initial=0), np.abs(y).max(initial=0)) < LARGEST_SINGLE
        self._begin(np.float32 if single else np.float64)

    def _begin(self, precision: type[np.floating[Any]]) -> None:
        """Return to the prior, in a precision."""
        loc, scale = self._prior
        self.loc = loc.copy()
        self.scale: NDArray[Any] = scale.astype(precision)
        self._inputs: NDArray[Any] = self._x.astype(precision)

    def learn(self, noise: Array, order: NDArray[np.int64]) -> bool:
        """Make one more pass in the given order with noise variances (n_outputs,); return whether that was possible.

        If single precision fails, all passes are made again in double precision.
        """
        self._passes.append((noise, order))
        if self._one_pass(noise, order, first=len(self._passes) == 1):
            return True
        if self.scale.dtype == np.float64:
            return False
        self._begin(np.float64)
        return all(self._one_pass(*one, first=number == 0) for number, one in enumerate(self._passes))

    def _one_pass(self, noise: Array, order: NDArray[np.int64], first: bool) -> bool:
        if not first:
            _forget(self.scale, WIDEST * np.diag(self._prior[1]))
        n_outputs = self._y.shape[1]
        work = np.empty(self._n_hidden + 1), np.empty(self._n_hidden)
        jacobian = np.empty((self._block * n_outputs, len(self.loc)), dtype=self.scale.dtype)
        mean = np.empty(len(jacobian))
        for at in range(0, len(order), self._block):
            chosen = order[at : at + self._block]
            rows, means = jacobian[: len(chosen) * n_outputs], mean[: len(chosen) * n_outputs]
            _linearise_block(
                self.loc, self.scale, self._n_hidden, self._gaussian, self._inputs[chosen], work, rows, means
            )
            if not self._condition(rows, self._y[chosen].ravel() - means, np.tile(noise, len(chosen))):
                return False
        return bool(np.isfinite(self.loc).all())

    def _condition(self, jacobian: NDArray[Any], error: Array, noise: Array) -> bool:
        """Condition the weights on a block of linear observations; return whether that was possible."""
        single = self.scale.dtype == np.float32
        cross = (blas.ssymm if single else blas.dsymm)(1.0, self.scale.T, jacobian.T, lower=0)  # (n_weights, n)
        total = (blas.sgemm if single else blas.dgemm)(1.0, jacobian.T, cross, trans_a=1)
        diagonal = np.arange(len(error))
        total[diagonal, diagonal] += self._noise(total[diagonal, diagonal].astype(np.float64), error, noise)
        factor, failed = (lapack.spotrf if single else lapack.dpotrf)(total, lower=1, overwrite_a=1)
        if failed or not np.isfinite(error).all():
            return False
        solve = blas.strsm if single else blas.dtrsm
        cross = solve(1.0, factor, cross, side=1, lower=1, trans_a=1, overwrite_b=1)
        self.loc += cross @ solve(1.0, factor, error[:, None].astype(self.scale.dtype), lower=1)[:, 0]
        (blas.ssyrk if single else blas.dsyrk)(-1.0, cross, beta=1.0, c=self.scale.T, lower=0, overwrite_c=1)
        return True

    def _noise(self, prior: Array, error: Array, noise: Array) -> Array:
        """Return the squared scale of the noise of each observation in a pass; that of an outlier is larger."""
        own, prior = self._gaussian * noise, np.maximum(prior, 0.0)
        if self._outlier_threshold == inf:
            return own / (1 - MEMORY)
        trust = 1 / (1 + error**2 / ((prior + own) * self._outlier_threshold**2))
        return np.asarray((own / (1 - MEMORY) + (1 - trust) * prior) / trust)


def _forget(scale: NDArray[Any], widest: Array) -> None:
    """Divide a scale matrix by `MEMORY`, in place; weights with more than the widest squared scales are scaled down."""
    wanted = np.minimum(np.diag(scale) / MEMORY, widest)
    factor = np.sqrt(wanted / np.maximum(np.diag(scale), TINY)).astype(scale.dtype)
    scale *= factor
    scale *= factor[:, None]


@kernel
def _linearise_block(
    loc: Floats,
    scale: Floats,
    n_hidden: int,
    gaussian: float,
    inputs: Floats,
    work: tuple[Floats, Floats],
    jacobian: Floats,
    mean: Floats,
) -> None:
    """Write means and derivatives of all outputs at some inputs with their bias entries: one row per observation."""
    z, slope = work
    n_outputs = len(jacobian) // len(inputs)
    for n in range(len(inputs)):
        _hidden(loc, scale, n_hidden, inputs[n], gaussian, z, slope)
        for i in range(n_outputs):
            row = n * n_outputs + i
            mean[row] = _linearise(loc, n_hidden, i, inputs[n], z, slope, jacobian[row])
