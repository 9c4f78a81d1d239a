"""The parameters of a network: flat arrays that the kernels update in place, and views on single layers."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from habnn_control._network.settings import NetworkSettings, whole

Array = NDArray[np.float64]

LARGEST_SCALE = 1e6  # bound on every squared scale, relative to its prior; repeated outliers would grow it without end

STATE_ARRAYS = ("loc", "scale", "per_output", "prior_loc")


class Parameters:
    """Locations, squared scales and noise estimates of all layers, in the layout of `kernels`.

    The views returned by the methods share memory with the flat arrays. None of them is stored, so that a deep copy or
    a pickle of this object stays consistent.

    Parameters
    ----------
    settings : NetworkSettings
        Architecture and prior; the prior locations are drawn from `settings.seed`.

    Attributes
    ----------
    shapes : array of int, shape (n_layers, 4)
        Per layer: n_in + 1, n_out, first index in `loc`, first index in `scale`.
    loc, scale : array, shape (n_weights,) and (n_scales,)
        Locations and squared scales of all weights.
    prior_loc : array, shape (n_weights,)
        The locations before the first sample.
    per_layer : array, shape (3, n_layers)
        Rows: gain 1 / sqrt(fan), random-walk increment per sample, largest squared scale allowed.
    per_output : array, shape (2, n_outputs)
        Rows: variance of the observation noise, number of samples this variance is worth.
    dof : float
        Degrees of freedom nu of all weights.
    n_samples : int
        Number of samples learned from.
    """

    def __init__(self, settings: NetworkSettings) -> None:
        self.full = settings.covariance == "full"
        self.shapes = _shapes([settings.n_inputs, *settings.hidden, settings.n_outputs], self.full)
        n_in, n_out, first_loc, first_scale = self.shapes[-1].tolist()
        self.loc = np.zeros(first_loc + n_in * n_out)
        self.scale = np.zeros(first_scale + n_in * n_out * (n_in if self.full else 1))
        prior = np.array(settings.scales)
        gains = 1 / np.sqrt(self.shapes[:, 0] if settings.fan == "in" else self.shapes[:, 1])
        self.per_layer = np.stack([gains, settings.drift * prior, LARGEST_SCALE * prior])
        self.per_output = np.array([settings.noise_variance, [settings.noise_weight] * settings.n_outputs])
        self.dof, self.n_samples = settings.dof, 0
        rng = np.random.default_rng(settings.seed)
        for layer, (std, scale_sq) in enumerate(zip(settings.prior_stds, settings.scales, strict=True)):
            loc = self.loc_matrix(layer).T
            loc[:] = std * rng.standard_normal(loc.shape)
            self.scale_diagonal(layer)[:] = scale_sq
        self.prior_loc = self.loc.copy()

    @property
    def n_layers(self) -> int:
        """Number of layers of weights, the output layer included."""
        return len(self.shapes)

    @property
    def gains(self) -> Array:
        """Factors 1 / sqrt(fan) of the pre-activations, shape (n_layers,); a view."""
        return np.asarray(self.per_layer[0])

    @property
    def noise_scale(self) -> Array:
        """Squared scale of the observation noise as a Student-t with the dof of the weights, shape (n_outputs,)."""
        return np.asarray(self.per_output[0] * (1 - 2 / self.dof))

    def loc_matrix(self, layer: int) -> Array:
        """Return the locations of a layer in storage order, shape (n_in + 1, n_out), bias last; a view."""
        n_in, n_out, start, _ = self.shapes[layer]
        return self.loc[start : start + n_in * n_out].reshape(n_in, n_out)

    def scale_sq(self, layer: int, scale: Array | None = None) -> Array:
        """Return the squared scales of a layer, or those in another array of the same layout; a view.

        The shape is (n_out, n_in + 1) for diagonal and (n_out, n_in + 1, n_in + 1) for full covariance.
        """
        n_in, n_out, _, start = self.shapes[layer]
        scale = self.scale if scale is None else scale
        flat = scale[start : start + n_in * n_out * (n_in if self.full else 1)]
        return flat.reshape(n_out, n_in, n_in) if self.full else flat.reshape(n_in, n_out).T

    def scale_diagonal(self, layer: int, scale: Array | None = None) -> Array:
        """Return the squared scale of each single weight of a layer, shape (n_out, n_in + 1); a writable view."""
        scale = self.scale_sq(layer, scale)
        return np.asarray(np.einsum("ijj->ij", scale)) if self.full else scale

    def copy(self) -> dict[str, Any]:
        """Return copies of all that is learned, in the form that `restore` accepts."""
        arrays = {name: getattr(self, name).copy() for name in STATE_ARRAYS}
        return {**arrays, "dof": self.dof, "n_samples": self.n_samples}

    def keep_prior(self) -> None:
        """Before the first sample, take the present locations as those of the prior."""
        if self.n_samples == 0:
            self.prior_loc[:] = self.loc

    def restore(self, state: dict[str, Any]) -> None:
        """Replace all that is learned by a state of `copy`, of parameters with the same settings; or raise."""
        checked = {name: self._checked(name, state[name]) for name in STATE_ARRAYS}
        dof, n_samples = float(state["dof"]), int(state["n_samples"])
        if not (dof > 2 and n_samples >= 0 and n_samples == state["n_samples"]):
            raise ValueError(
                f"HABNN: state must have dof above 2 and a number of samples, got {dof} and {state['n_samples']}; use "
                "the state of a network."
            )
        for name, array in checked.items():
            getattr(self, name)[:] = array
        self.dof, self.n_samples = dof, n_samples

    def _checked(self, name: str, value: Any) -> Array:
        """Return an array of a state, or raise unless a network can have it."""
        array, shape = np.asarray(value), getattr(self, name).shape
        if array.shape != shape:
            raise ValueError(
                f"HABNN: state {name} must have shape {shape}, got {array.shape}; use a network with the same settings."
            )
        fits = array.dtype == np.float64
        if name == "per_output":  # noise variances, and the number of samples that each is worth
            fits = fits and bool(np.isfinite(array[0]).all() and (array > 0).all())
        else:
            fits = fits and bool(np.isfinite(array).all())
        if name == "scale" and fits:
            fits = all((self.scale_diagonal(layer, array) >= 0).all() for layer in range(self.n_layers))
        if not fits:
            raise ValueError(
                f"HABNN: state {name} must be finite numbers, scales not negative and noise positive, got others; use "
                "the state of a network."
            )
        return array

    def sample_weights(self, layer: int, rng: np.random.Generator) -> Array:
        """Draw the weights of a layer from their multivariate t, multiplied by the gain; shape (n_in + 1, n_out)."""
        loc = self.loc_matrix(layer)
        normal = rng.standard_normal(loc.T.shape)  # (n_out, n_in + 1)
        if self.full:
            value, vector = np.linalg.eigh(self.scale_sq(layer))
            deviation = np.einsum("ijk,ik->ij", vector, np.sqrt(np.maximum(value, 0)) * normal)
        else:
            deviation = np.sqrt(self.scale_diagonal(layer)) * normal
        if self.dof < np.inf:
            deviation *= np.sqrt(self.dof / rng.chisquare(self.dof, size=(len(deviation), 1)))
        return np.ascontiguousarray(self.gains[layer] * (loc + deviation.T))


def check_sizes(settings: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Raise unless the arrays of a file have the sizes of a network with these settings.

    The settings come from a file and are not checked yet: nothing here takes more memory than the file did.
    """
    n_outputs = whole("n_outputs", settings["n_outputs"], 1)
    widths = [settings["n_inputs"], *settings["hidden"], n_outputs]
    layers = list(pairwise(whole("width", width, 1) for width in widths))
    full = settings["covariance"] == "full"
    shapes = {
        "loc": (sum((n_in + 1) * n_out for n_in, n_out in layers),),
        "scale": (sum((n_in + 1) * n_out * (n_in + 1 if full else 1) for n_in, n_out in layers),),
        "per_output": (2, n_outputs),
    }
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ValueError(
                f"HABNN: state {name} must have shape {shape}, got {arrays[name].shape}; use a network with the same "
                "settings."
            )


def _shapes(widths: list[int], full: bool) -> NDArray[np.int64]:
    """Return the rows of `Parameters.shapes` for layers between the given widths."""
    shapes = np.zeros((len(widths) - 1, 4), dtype=np.int64)
    first_loc = first_scale = 0
    for layer, (n_in, n_out) in enumerate(pairwise(widths)):
        shapes[layer] = n_in + 1, n_out, first_loc, first_scale
        first_loc += (n_in + 1) * n_out
        first_scale += (n_in + 1) * n_out * (n_in + 1 if full else 1)
    return shapes
