"""HABNN: a Bayesian neural network with Student-t weights that learns in closed form, one sample at a time."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from habnn_control._network import kernels
from habnn_control._network.settings import NetworkSettings
from habnn_control.moments import rectified
from habnn_control.student_t import StudentT
from habnn_control.support.files import load_arrays, save_arrays

Array = NDArray[np.float64]
FunctionSample = Callable[[ArrayLike], Array]

_CHUNK = 4096  # rows predicted at once, to bound the memory of quadratic features
_FILE_KIND = "HABNN"
_WIDEST = 1e6  # times its prior: surprises never make a squared scale larger than that


class HABNN:
    """Hierarchical Approximate Bayesian Neural Network (the HABNN paper, its Algorithm 1).

    Every weight is Student-t distributed. A prediction propagates means and variances analytically; an update runs the
    same moments backwards. No gradient, no learning rate, no epochs. `dof=math.inf` makes the weights Gaussian:
    with `covariance="diagonal"` the network is TAGI, with `covariance="full"` KBNN.

    Parameters
    ----------
    n_inputs, n_outputs : int
        Sizes of x and y.
    hidden : sequence of int
        Widths of the hidden layers; empty for a linear model.
    dof : float
        Degrees of freedom nu of all weights, above 2. Grows by one a sample.
    scale : float
        Prior squared scale tau^2 of every weight (the paper's scale matrix is this times the identity).
    covariance : {"diagonal", "full"}
        One squared scale a weight (the paper; linear cost), or one scale matrix a neuron (quadratic cost, learns from
        about ten times fewer samples).
    noise_variance : float or sequence of float
        Variance of the observation noise, for all outputs or for each.
    seed : int
        Draws the prior locations.
    prior_std, output_prior_std : float
        Standard deviation of the prior locations in the hidden layers and in the output layer. Zero in the output layer
        makes the prior predict 0 everywhere. The output layer takes the hidden layers' value when None.
    output_scale : float, optional
        Prior squared scale in the output layer; `scale` when None.
    activation : {"relu", "leaky_relu", "identity"}
        Of the hidden layers.
    slope : float
        Of the leaky ReLU below zero.
    fan : {"in", "out"}
        Pre-activations are divided by the square root of the number of weights a neuron has ("in"), or of the neurons
        in the layer ("out", as the paper's text).
    drift : float
        Random walk of the weights: after each sample, every squared scale grows by this part of its prior value.
    max_dof : float
        Cap on the growing dof; with `drift`, keeps the network adaptive.
    noise_weight : float
        How many samples the given `noise_variance` is worth; from there it is learned online. Infinite: fixed.

    Notes
    -----
    Differs from the paper's text where that is ambiguous: the factor (nu + D) / (nu + d) of the scale update uses each
    neuron's own D with d = 1 for its weights, and the sum over the layer with d = n_out for the layer's inputs.
    Differs also where the equations would run away: an observation so far off that it would widen the scales more than
    a hundredfold (35 predictive scales at dof 12, no limit for Gaussian weights) counts as just that far, and no
    squared scale grows beyond a million times its prior.
    Symbols: z is after and a before the nonlinearity, as in the paper (cuTAGI uses the letters the other way round).
    """

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int = 1,
        hidden: Sequence[int] = (50,),
        dof: float = 12.0,
        scale: float = 0.01,
        covariance: str = "diagonal",
        noise_variance: float | Sequence[float] = 1.0,
        seed: int = 0,
        *,
        prior_std: float = 1.0,
        output_prior_std: float | None = None,
        output_scale: float | None = None,
        activation: str = "relu",
        slope: float = 0.01,
        fan: str = "in",
        drift: float = 0.0,
        max_dof: float = inf,
        noise_weight: float = inf,
    ) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        self.settings = settings = NetworkSettings.checked(**given)
        self._lay_out()
        self._dof = settings.dof
        self._n_samples = 0
        self._per_output[:] = settings.noise_variance, [settings.noise_weight] * settings.n_outputs
        rng = np.random.default_rng(settings.seed)
        for layer, (loc, std) in enumerate(zip(self.weight_loc, settings.prior_stds, strict=True)):
            loc[:] = std * rng.standard_normal(loc.shape)
            self._scale_diagonal(layer)[:] = settings.scales[layer]

    # ------------------------------------------------------------------ presets

    @classmethod
    def paper(cls, n_inputs: int, n_outputs: int = 1, **changes: Any) -> Self:
        """Make the network of the paper's experiments: 50 hidden units, scale 0.01, dof 12, N(0, 1) locations."""
        return cls(n_inputs, n_outputs, **{"fan": "out", **changes})

    @classmethod
    def tagi(cls, n_inputs: int, n_outputs: int = 1, **changes: Any) -> Self:
        """Make the Gaussian, diagonal limit (TAGI)."""
        return cls(n_inputs, n_outputs, **{"dof": inf, "covariance": "diagonal", **changes})

    @classmethod
    def kbnn(cls, n_inputs: int, n_outputs: int = 1, **changes: Any) -> Self:
        """Make the Gaussian limit with full covariance (KBNN)."""
        return cls(n_inputs, n_outputs, **{"dof": inf, "covariance": "full", **changes})

    @classmethod
    def control(cls, n_inputs: int, n_outputs: int = 1, **changes: Any) -> Self:
        """Make the network recommended for control: learns from tens of samples, starts by predicting 0.

        Full scale matrices, a zero-mean output prior of unit scale, noise learned online. Wants inputs and targets of
        order one.
        """
        settings = {
            "hidden": (80,),
            "covariance": "full",
            "output_prior_std": 0.0,
            "output_scale": 1.0,
            "noise_variance": 0.01,
            "noise_weight": 10.0,
        }
        return cls(n_inputs, n_outputs, **{**settings, **changes})

    # ------------------------------------------------------------------ state

    def _lay_out(self) -> None:
        """Allocate the flat parameter arrays and the views on them."""
        settings = self.settings
        full = settings.covariance == "full"
        shapes = np.zeros((len(settings.hidden) + 1, 4), dtype=np.int64)
        widths = [settings.n_inputs, *settings.hidden, settings.n_outputs]
        at_loc = at_scale = 0
        for layer, (n_in, n_out) in enumerate(pairwise(widths)):
            shapes[layer] = n_in + 1, n_out, at_loc, at_scale
            at_loc += (n_in + 1) * n_out
            at_scale += (n_in + 1) * n_out * (n_in + 1 if full else 1)
        self._shapes = shapes
        self._loc, self._scale = np.zeros(at_loc), np.zeros(at_scale)
        gains = 1 / np.sqrt(shapes[:, 0] if settings.fan == "in" else shapes[:, 1])
        prior = np.array(settings.scales)
        self._per_layer = np.stack([gains, settings.drift * prior, _WIDEST * prior])
        self._per_output = np.empty((2, settings.n_outputs))  # noise variance, and how many samples it is worth
        self._max_dof, self._slope = settings.max_dof, settings.negative_slope
        self._x_shape, self._y_shape = (settings.n_inputs,), (settings.n_outputs,)
        self._quadratic: dict[int, Array] = {}  # coefficients of `_quadratic_form`, until the next update

    def _loc_matrix(self, layer: int) -> Array:
        """Return a layer's locations as stored, (n_in + 1, n_out), a view."""
        n_in, n_out, start, _ = self._shapes[layer]
        return self._loc[start : start + n_in * n_out].reshape(n_in, n_out)

    def _scale_diagonal(self, layer: int) -> Array:
        """Return a layer's squared scales, (n_out, n_in + 1), a writable view."""
        scale = self.weight_scale_sq[layer]
        return np.asarray(np.einsum("ijj->ij", scale)) if scale.ndim == 3 else scale

    @property
    def weight_loc(self) -> list[Array]:
        """Locations of each layer's weights, (n_out, n_in + 1) with the bias last; views on the network's state."""
        return [self._loc_matrix(layer).T for layer in range(len(self._shapes))]

    @property
    def weight_scale_sq(self) -> list[Array]:
        """Squared scales of each layer's weights: (n_out, n_in + 1), or (n_out, n_in + 1, n_in + 1) if full; views."""
        full, views = self.settings.covariance == "full", []
        for n_in, n_out, _, start in self._shapes:
            flat = self._scale[start : start + n_in * n_out * (n_in if full else 1)]
            views.append(flat.reshape(n_out, n_in, n_in) if full else flat.reshape(n_in, n_out).T)
        return views

    @property
    def dof(self) -> float:
        """Degrees of freedom of the weights now."""
        return self._dof

    @property
    def noise_variance(self) -> Array:
        """Variance of the observation noise of each output, as given or as learned so far."""
        return np.array(self._per_output[0])

    @property
    def n_samples(self) -> int:
        """How many samples the network has learned from."""
        return self._n_samples

    def __repr__(self) -> str:
        s = self.settings
        widths = "-".join(str(n) for n in (s.n_inputs, *s.hidden, s.n_outputs))
        return f"HABNN({widths}, {s.covariance}, dof={self._dof:g}, n_samples={self._n_samples})"

    # ------------------------------------------------------------------ learning

    def update(self, x: ArrayLike, y: ArrayLike) -> Self:
        """Learn from one sample: x of shape (n_inputs,), y of shape (n_outputs,) or a number for one output."""
        row, target = np.ascontiguousarray(x, dtype=np.float64), np.ascontiguousarray(y, dtype=np.float64)
        if row.shape != self._x_shape:
            raise ValueError(f"HABNN: x must have shape {self._x_shape}, got {row.shape}; reshape it.")
        if target.shape != self._y_shape:
            raise ValueError(f"HABNN: y must have shape {self._y_shape}, got {target.shape}; reshape it.")
        self._learn(row[None], target[None])
        return self

    def fit(self, inputs: ArrayLike, targets: ArrayLike) -> Self:
        """Learn from samples in the given order, in one pass.

        Parameters
        ----------
        inputs : array_like, shape (n, n_inputs)
        targets : array_like, shape (n, n_outputs), or (n,) for one output
        """
        y = np.asarray(targets, dtype=np.float64)
        y = y[:, None] if y.ndim == 1 and self.settings.n_outputs == 1 else y
        x, y = _matrix("inputs", inputs, self.settings.n_inputs), _matrix("targets", y, self.settings.n_outputs)
        if len(x) != len(y):
            raise ValueError(
                f"HABNN: targets must have one row a sample, got {len(y)} for {len(x)} inputs; align them."
            )
        before = self.get_state()
        try:
            self._learn(x, y)
        except ValueError:
            self.set_state(before)
            raise
        return self

    def add_bias_noise(self, variances: ArrayLike) -> None:
        """Let the offset of each output wander: add to the variance, in units of y, of what is known of its bias.

        Called between samples, it makes the biases random walks, which follow what no input shows.

        Parameters
        ----------
        variances : array_like, shape (n_outputs,)
        """
        added = np.asarray(variances, dtype=np.float64)
        if added.shape != self._y_shape or not (np.isfinite(added) & (added >= 0)).all():
            raise ValueError(
                f"HABNN: variances must be finite, not negative and of shape {self._y_shape}, got {added}; "
                "give one for each output."
            )
        self._quadratic.clear()
        bias = self._scale_diagonal(len(self._shapes) - 1)[:, -1]
        bias += added * (1 - 2 / self._dof) / self._per_layer[0, -1] ** 2

    def inflate_output_scale(self, factor: float) -> None:
        """Multiply the squared scales of the output layer: what was learned counts for that many times less.

        For samples that are not independent, and so say less than their number.
        """
        if not 1 <= factor < inf:
            raise ValueError(f"HABNN: factor must be at least 1 and finite, got {factor}; 1 changes nothing.")
        self._quadratic.clear()
        self.weight_scale_sq[-1][...] *= factor

    def _learn(self, x: Array, y: Array) -> None:
        """Run the kernel; it stops before a sample it cannot take, which is then the error's subject."""
        self._quadratic.clear()
        taken, self._dof = kernels.learn(
            self._loc,
            self._scale,
            self._shapes,
            self._per_layer,
            self._per_output,
            self._dof,
            self._max_dof,
            self._slope,
            x,
            y,
        )
        self._n_samples += taken
        if taken < len(x):
            raise ValueError(
                f"HABNN: sample {taken} must be finite and small enough to square, got x = {x[taken]}, y = {y[taken]}; "
                "remove NaN and infinity, rescale what is larger than 1e100."
            )

    # ------------------------------------------------------------------ prediction

    def predict(
        self, inputs: ArrayLike, include_noise: bool = True, input_variance: ArrayLike | None = None
    ) -> StudentT:
        """Return the predictive distribution at each row of `inputs`, a StudentT over (n, n_outputs).

        With `include_noise=False` it is the distribution of the network's function alone (the epistemic part); the
        variances then differ by `noise_variance`. With `input_variance`, of the shape of `inputs`, these are the means
        of uncertain, independent inputs.
        """
        x = _finite(_matrix("inputs", inputs, self.settings.n_inputs))
        x_var = None if input_variance is None else _variances(input_variance, x.shape)
        loc, scale_sq = np.empty((2, len(x), self.settings.n_outputs))
        for start in range(0, len(x), _CHUNK):
            rows = slice(start, start + _CHUNK)
            loc[rows], scale_sq[rows] = self._forward(x[rows], None if x_var is None else x_var[rows])
        if include_noise:
            scale_sq += self._per_output[0] * (1 - 2 / self._dof)
        return StudentT(loc, scale_sq, self._dof)

    def _forward(self, x: Array, x_var: Array | None) -> tuple[Array, Array]:
        """Return location and squared scale of the outputs without noise, each (n, n_outputs)."""
        z_mean, z_var = x, x_var
        last = len(self._shapes) - 1
        for layer in range(last + 1):
            a_mean, a_scale = self._pre_activation(layer, z_mean, z_var)
            if layer < last:
                z_mean, z_var, _ = rectified(a_mean, a_scale, self._dof, self._slope)
        return a_mean, a_scale

    def _pre_activation(self, layer: int, z_mean: Array, z_var: Array | None) -> tuple[Array, Array]:
        """Return location and squared scale of a layer's pre-activations, (n, n_out): the paper's Eqs. (4), (5)."""
        loc, gain = self._loc_matrix(layer), self._per_layer[0, layer]
        z_one = np.column_stack([z_mean, np.ones(len(z_mean))])  # (n, n_in + 1)
        scale = self._scale_diagonal(layer).T  # (n_in + 1, n_out)
        full = self.settings.covariance == "full"
        a_scale = self._quadratic_form(layer, z_one) if full else z_one**2 @ scale
        if z_var is not None:
            a_scale += z_var @ (scale[:-1] + (1 - 2 / self._dof) * loc[:-1] ** 2)
        return gain * (z_one @ loc), gain**2 * a_scale

    def _quadratic_form(self, layer: int, z: Array) -> Array:
        """Return z' S z for each row of z and each neuron's scale matrix S, shape (n, n_out)."""
        scale = self.weight_scale_sq[layer]
        if len(scale) < 8:
            form = np.stack([((z @ s) * z).sum(axis=1) for s in scale], axis=1)
        else:  # one matrix product over all pairs of inputs; the pairs' coefficients stay until the next update
            if layer not in self._quadratic:
                left, right = np.triu_indices(z.shape[1])
                self._quadratic[layer] = scale[:, left, right] * np.where(left == right, 1.0, 2.0)  # (n_out, pairs)
            form = (self._quadratic[layer] @ kernels.pair_products(np.ascontiguousarray(z.T))).T
        return np.asarray(np.maximum(form, 0.0))

    def point_weights(self) -> list[Array]:
        """Return the locations of each layer's weights with the fan rule multiplied in, (n_in + 1, n_out)."""
        return [gain * self._loc_matrix(layer) for layer, gain in enumerate(self._per_layer[0])]

    def output_covariances(self) -> Array:
        """Return the covariance of each output's weights, fan rule multiplied in, (n_out, n_in + 1, n_in + 1)."""
        scale = self.weight_scale_sq[-1]
        matrices = scale if scale.ndim == 3 else np.stack([np.diag(row) for row in scale])
        return np.asarray(self._per_layer[0, -1] ** 2 / (1 - 2 / self._dof) * matrices)

    def sample_function(self, rng: np.random.Generator) -> FunctionSample:
        """Draw all weights once and return the function they make: (n, n_inputs) -> (n, n_outputs), without noise.

        Each neuron's weights are drawn from their multivariate t: the basis of Thompson sampling.
        """
        weights = [self._sample_layer(layer, rng) for layer in range(len(self._shapes))]

        def function(inputs: ArrayLike) -> Array:
            z = _matrix("inputs", inputs, self.settings.n_inputs)
            for layer, weight in enumerate(weights):
                a = z @ weight[:-1] + weight[-1]
                z = np.maximum(a, self._slope * a) if layer + 1 < len(weights) else a
            return z

        return function

    def _sample_layer(self, layer: int, rng: np.random.Generator) -> Array:
        """Draw a layer's weights with the gain multiplied in, (n_in + 1, n_out)."""
        loc = self._loc_matrix(layer)
        normal = rng.standard_normal(loc.T.shape)  # (n_out, n_in + 1)
        if self.settings.covariance == "full":
            value, vector = np.linalg.eigh(self.weight_scale_sq[layer])
            deviation = np.einsum("ijk,ik->ij", vector, np.sqrt(np.maximum(value, 0)) * normal)
        else:
            deviation = np.sqrt(self._scale_diagonal(layer)) * normal
        if self._dof < inf:
            deviation *= np.sqrt(self._dof / rng.chisquare(self._dof, size=(len(deviation), 1)))
        return np.ascontiguousarray(self._per_layer[0, layer] * (loc + deviation.T))

    # ------------------------------------------------------------------ files

    def get_state(self) -> dict[str, Any]:
        """Return copies of everything learned, as `set_state` takes it."""
        return {
            "loc": self._loc.copy(),
            "scale": self._scale.copy(),
            "per_output": self._per_output.copy(),
            "dof": self._dof,
            "n_samples": self._n_samples,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what another network of the same settings learned."""
        for name in ("loc", "scale", "per_output"):
            shape = getattr(self, f"_{name}").shape
            if np.shape(state[name]) != shape:
                raise ValueError(
                    f"HABNN: state {name} must have shape {shape}, got {np.shape(state[name])}; "
                    "use a network with the same settings."
                )
        self._quadratic.clear()
        for name in ("loc", "scale", "per_output"):
            getattr(self, f"_{name}")[:] = state[name]
        self._dof, self._n_samples = float(state["dof"]), int(state["n_samples"])

    def save(self, path: str | Path) -> None:
        """Write settings and state to one file, whole or not at all; `HABNN.load` continues bit for bit."""
        state = self.get_state()
        header = {
            "kind": _FILE_KIND,
            "settings": self.settings.as_dict(),
            "dof": state.pop("dof"),
            "n_samples": state.pop("n_samples"),
        }
        save_arrays(path, header, state)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a network that `save` wrote."""
        header, arrays = load_arrays(path, _FILE_KIND)
        network = cls(**header["settings"])
        network.set_state({**arrays, "dof": header["dof"], "n_samples": header["n_samples"]})
        return network


def _matrix(name: str, values: ArrayLike, columns: int) -> Array:
    """Return values of shape (n, columns), contiguous, or raise."""
    matrix = np.ascontiguousarray(values, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] != columns:
        raise ValueError(f"HABNN: {name} must have shape (n, {columns}), got {matrix.shape}; reshape them.")
    return matrix


def _variances(values: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return input variances of the given shape, finite and not negative, or raise."""
    variances = np.asarray(values, dtype=np.float64)
    if variances.shape != shape or not ((variances >= 0) & (variances < inf)).all():
        raise ValueError(
            f"HABNN: input_variance must have the shape {shape} of the inputs and be finite and not negative, got "
            f"shape {variances.shape}; pass one variance an input."
        )
    return variances


def _finite(inputs: Array) -> Array:
    """Return the inputs if all are finite, or raise."""
    if not np.isfinite(inputs).all():
        row = int(np.flatnonzero(~np.isfinite(inputs).all(axis=1))[0])
        raise ValueError(f"HABNN: inputs must be finite, got {inputs[row]} in row {row}; remove NaN and infinity.")
    return inputs
