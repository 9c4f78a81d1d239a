"""The forward pass for batches: matrix products with BLAS, activations with the compiled kernels."""

import numpy as np
from numpy.typing import NDArray

from habnn_control._network import kernels
from habnn_control._network.parameters import Parameters
from habnn_control.moments import rectified

Array = NDArray[np.float64]

_CHUNK = 4096  # rows propagated together; bounds the memory of the pair products
_FEW_NEURONS = 8  # a layer with fewer neurons is faster with one product per neuron than with all pairs of inputs


class BatchForwardPass:
    """Propagate means and variances of many inputs through a network (lines 2 to 5 of the paper's Algorithm 1).

    Parameters
    ----------
    parameters : Parameters
        Read at each call; after a change of its scales, call `clear_cache`.
    slope : float
        Slope of the activation below zero.
    """

    def __init__(self, parameters: Parameters, slope: float) -> None:
        self._parameters, self._slope = parameters, slope
        self._pair_scales: dict[int, Array] = {}  # per layer: coefficients of the pair products in `_quadratic_form`

    def clear_cache(self) -> None:
        """Discard the coefficients computed from the scales before an update."""
        self._pair_scales.clear()

    def predict(self, x: Array, x_var: Array | None) -> tuple[Array, Array]:
        """Return location and squared scale of the outputs without observation noise, each (n, n_outputs).

        Parameters
        ----------
        x : array, shape (n, n_inputs)
        x_var : array, shape (n, n_inputs), or None
            Variances of the inputs; None for inputs known exactly.
        """
        loc, scale_sq = np.empty((2, len(x), int(self._parameters.shapes[-1, 1])))
        for start in range(0, len(x), _CHUNK):
            rows = slice(start, start + _CHUNK)
            loc[rows], scale_sq[rows] = self._propagate(x[rows], None if x_var is None else x_var[rows])
        return loc, scale_sq

    def _propagate(self, x: Array, x_var: Array | None) -> tuple[Array, Array]:
        """Return location and squared scale of the outputs for one chunk, each (n, n_outputs)."""
        z_mean, z_var = x, x_var
        last = self._parameters.n_layers - 1
        for layer in range(last + 1):
            a_mean, a_scale = self._pre_activation(layer, z_mean, z_var)
            if layer < last:
                z_mean, z_var, _ = rectified(a_mean, a_scale, self._parameters.dof, self._slope)
        return a_mean, a_scale

    def _pre_activation(self, layer: int, z_mean: Array, z_var: Array | None) -> tuple[Array, Array]:
        """Return location and squared scale of the pre-activations of a layer, each (n, n_out).

        Implements the mean and covariance of a, Eqs. (6) and (7) of the HABNN paper; differs: scales, not variances.
        """
        parameters = self._parameters
        loc, gain = parameters.loc_matrix(layer), parameters.gains[layer]
        z_one = np.column_stack([z_mean, np.ones(len(z_mean))])  # (n, n_in + 1)
        scale = parameters.scale_diagonal(layer).T  # (n_in + 1, n_out)
        a_scale = self._quadratic_form(layer, z_one) if parameters.full else z_one**2 @ scale
        if z_var is not None:
            a_scale += z_var @ (scale[:-1] + (1 - 2 / parameters.dof) * loc[:-1] ** 2)
        return gain * (z_one @ loc), gain**2 * a_scale

    def _quadratic_form(self, layer: int, z: Array) -> Array:
        """Return z' S z for each row of z and the scale matrix S of each neuron, shape (n, n_out)."""
        scale = self._parameters.scale_sq(layer)
        if len(scale) < _FEW_NEURONS:
            form = np.stack([((z @ s) * z).sum(axis=1) for s in scale], axis=1)
        else:
            if layer not in self._pair_scales:
                left, right = np.triu_indices(z.shape[1])
                self._pair_scales[layer] = scale[:, left, right] * np.where(left == right, 1.0, 2.0)  # (n_out, pairs)
            form = (self._pair_scales[layer] @ kernels.pair_products(np.ascontiguousarray(z.T))).T
        return np.asarray(np.maximum(form, 0.0))
