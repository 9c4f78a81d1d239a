"""HABNN: a Bayesian neural network with Student-t weights that learns in closed form, one sample at a time."""

from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from habnn_control._network.checks import check_finite_inputs, check_input_variance, check_matrix, check_samples
from habnn_control._network.forward import BatchForwardPass
from habnn_control._network.learning import Learner
from habnn_control._network.parameters import Parameters, check_sizes
from habnn_control._network.settings import NetworkSettings, whole
from habnn_control.student_t import StudentT
from habnn_control.support.files import load_arrays, save_arrays

Array = NDArray[np.float64]
FunctionSample = Callable[[ArrayLike], Array]

_FILE_KIND = "HABNN"

# Chosen on splits 0 to 4 of the six UCI sets together, with 100 passes over standardised data.
OFFLINE: dict[str, Any] = {
    "covariance": "full",
    "dof": 150.0,
    "scale": 3.0,
    "output_prior_std": 0.0,
    "output_scale": 1.0,
    "noise_variance": 1.0,
    "noise_weight": 0.3,
    "temperature": 0.03,
}


class HABNN:
    """Hierarchical Approximate Bayesian Neural Network (Algorithm 1 of the HABNN paper).

    Every weight is Student-t distributed. A prediction propagates means and variances through the layers analytically.
    An update conditions pre-activations, weights and layer inputs on the observed output, layer by layer from the
    last to the first. There is no gradient, no learning rate and no epoch. `dof=math.inf` makes the weights Gaussian:
    with `covariance="diagonal"` the network is TAGI, with `covariance="full"` it is KBNN.

    Parameters
    ----------
    n_inputs, n_outputs : int
        Number of entries of x and of y.
    hidden : sequence of int
        Widths of the hidden layers; empty for a linear model.
    dof : float
        Prior degrees of freedom nu of all weights, above 2. They grow by one per sample (Eq. 14 of the paper).
    scale : float
        Prior squared scale tau^2 per weight (the paper's scale matrix is tau^2 times the identity).
    covariance : {"diagonal", "full"}
        One squared scale per weight (the paper; cost linear in the number of weights), or one scale matrix per neuron
        (cost quadratic in the number of inputs of the neuron; needs about ten times fewer samples).
    noise_variance : float or sequence of float
        Variance of the observation noise, one for all outputs or one per output.
    seed : int
        Seed of the prior locations.
    prior_std, output_prior_std : float
        Standard deviation of the prior locations in the hidden layers and in the output layer. Zero in the output layer
        makes the prior predict 0 everywhere. None: the output layer uses `prior_std`.
    output_scale : float, optional
        Prior squared scale per weight of the output layer. None: the output layer uses `scale`.
    activation : {"relu", "leaky_relu", "identity"}
        Activation of the hidden layers.
    slope : float
        Slope of the leaky ReLU below zero.
    fan : {"in", "out"}
        Pre-activations are divided by the square root of the number of weights per neuron ("in"), or of the number of
        neurons in the layer ("out", Eq. 1 of the paper).
    drift : float
        Process noise of the weights: after each sample, every squared scale grows by `drift` times its prior value.
    max_dof : float
        Upper bound of the growing dof. Together with `drift` it keeps the network adaptive.
    noise_weight : float
        Number of samples that the given `noise_variance` is worth as a prior; the noise variance is then learned
        online. Infinity keeps it fixed.
    temperature : float
        Tempered passes (`fit` with passes > 1) learn with `temperature` times the noise variance; 1 is Bayes' rule.
        The layers are treated as independent, so the posterior of a network with hidden layers is too wide and learns
        too little from much data. A cold posterior (below 1) corrects this; predictions keep the inferred noise.
    outlier_threshold : float
        Residual c, in predictive standard deviations, at which an observation has half the weight. The predictive
        variance at a standardised residual r is multiplied by 1 + r^2 / c^2 (weighted-likelihood filter, WoLF), so
        that an outlier hardly moves the weights. Infinity weights all observations equally; 5 is recommended.
    output_distance : {"pre_activation", "observation"}
        The D in the scale update of the output layer, Eq. (13): that of the pre-activation, averaged over its
        posterior, or that of the observation, as in the paper. See the notes.

    Notes
    -----
    Differs from the text of the paper where the text is ambiguous: the factor (nu + D) / (nu + d) of the scale update,
    Eq. (13), uses the D of the neuron itself with d = 1 for the weights of a neuron, and the sum of D over the layer
    with d = n_out for the inputs of the layer. In the output layer, D of the observation gives exactly the
    multivariate-t posterior of a linear model; D of the pre-activation keeps closer to the prior scale in the
    directions that the sample does not determine. Both have the same locations after one sample.

    Differs also where the equations diverge. An outlier that would multiply the scales by more than 100 (35 predictive
    scales from the location at dof 12; 1000 for Gaussian weights) is clipped to that distance. No squared scale
    exceeds a million times its prior. Where the update of a scale matrix would cancel, it goes through the Cholesky
    factor of the matrix.

    Recovery: after a sample that is more than 25 predictive scales off, or has an entry above 1000, a second network
    learns beside this one, from the prior. If it is clearly better after 100 to 3200 samples, its parameters replace
    those of this network, with a logged warning. `update` and `fit` with one pass take twice the time meanwhile.

    Symbols: a is the pre-activation and z the post-activation, as in the paper. cuTAGI swaps the two letters.
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
        temperature: float = 1.0,
        outlier_threshold: float = inf,
        output_distance: str = "pre_activation",
    ) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        self.settings = settings = NetworkSettings.checked(**given)
        self._parameters = Parameters(settings)
        self._slope = settings.negative_slope
        self._batch = BatchForwardPass(self._parameters, self._slope)
        self._learner = Learner(self._parameters, settings)
        self._x_shape, self._y_shape = (settings.n_inputs,), (settings.n_outputs,)

    # ------------------------------------------------------------------ presets

    @classmethod
    def paper(cls, n_inputs: int, n_outputs: int = 1, **changes: Any) -> Self:
        """Return the network of the paper's experiments: 50 hidden units, scale 0.01, dof 12, N(0, 1) locations."""
        return cls(n_inputs, n_outputs, **{"fan": "out", **changes})

    @classmethod
    def tagi(cls, n_inputs: int, n_outputs: int = 1, **changes: Any) -> Self:
        """Return the Gaussian limit with diagonal covariance (TAGI)."""
        return cls(n_inputs, n_outputs, **{"dof": inf, "covariance": "diagonal", **changes})

    @classmethod
    def kbnn(cls, n_inputs: int, n_outputs: int = 1, **changes: Any) -> Self:
        """Return the Gaussian limit with full covariance per neuron (KBNN)."""
        return cls(n_inputs, n_outputs, **{"dof": inf, "covariance": "full", **changes})

    @classmethod
    def control(cls, n_inputs: int, n_outputs: int = 1, **changes: Any) -> Self:
        """Return the network recommended for control, which learns from tens of samples.

        It has one scale matrix per neuron, an output layer with zero prior locations and unit squared scale, and a
        noise variance learned online. Before the first sample it predicts 0. Scale inputs and targets to order one.
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

    @classmethod
    def offline(cls, n_inputs: int, n_outputs: int = 1, **changes: Any) -> Self:
        """Return the network recommended for a given data set: `HABNN.offline(8).fit(X, Y, passes=100)`.

        It has full covariance, wide priors, inferred noise and a cold posterior. Standardise inputs and targets. With
        few and noisy samples (hundreds, noise half of the variance) `temperature=0.3, scale=0.3` overfits less.
        """
        return cls(n_inputs, n_outputs, **{**OFFLINE, **changes})

    # ------------------------------------------------------------------ state

    @property
    def weight_loc(self) -> list[Array]:
        """Locations of the weights per layer, each (n_out, n_in + 1) with the bias last; views on the state."""
        return [self._parameters.loc_matrix(layer).T for layer in range(self._parameters.n_layers)]

    @property
    def weight_scale_sq(self) -> list[Array]:
        """Squared scales of the weights per layer; views on the state.

        Each has shape (n_out, n_in + 1) with diagonal, (n_out, n_in + 1, n_in + 1) with full covariance.
        """
        return [self._parameters.scale_sq(layer) for layer in range(self._parameters.n_layers)]

    @property
    def dof(self) -> float:
        """Present degrees of freedom nu of the weights."""
        return self._parameters.dof

    @property
    def noise_variance(self) -> Array:
        """Variance of the observation noise per output, as given or as learned so far; shape (n_outputs,)."""
        return np.array(self._parameters.per_output[0])

    @property
    def n_samples(self) -> int:
        """Number of samples that the network has learned from."""
        return self._parameters.n_samples

    def __repr__(self) -> str:
        s = self.settings
        widths = "-".join(str(n) for n in (s.n_inputs, *s.hidden, s.n_outputs))
        return f"HABNN({widths}, {s.covariance}, dof={self.dof:g}, n_samples={self.n_samples})"

    # ------------------------------------------------------------------ learning

    def update(self, x: ArrayLike, y: ArrayLike) -> Self:
        """Learn from one sample and return the network.

        Parameters
        ----------
        x : array_like, shape (n_inputs,)
        y : array_like, shape (n_outputs,)
        """
        row, target = np.ascontiguousarray(x, dtype=np.float64), np.ascontiguousarray(y, dtype=np.float64)
        if row.shape != self._x_shape:
            raise ValueError(f"HABNN: x must have shape {self._x_shape}, got {row.shape}; reshape it.")
        if target.shape != self._y_shape:
            raise ValueError(f"HABNN: y must have shape {self._y_shape}, got {target.shape}; reshape it.")
        self._batch.clear_cache()
        self._learner.one_pass(row[None], target[None])
        return self

    def fit(
        self, inputs: ArrayLike, targets: ArrayLike, passes: int = 1, seed: int = 0, progress_bar: bool = False
    ) -> Self:
        """Learn from samples and return the network: in one pass in the given order, or in tempered passes.

        Of k tempered passes, each has its own random order and k times the noise variance, so that every sample counts
        once in all. For a linear model with Gaussian weights the posterior is that of one pass; a network with hidden
        layers learns more, because later passes linearise it around better weights. The dof grow by n in all. With a
        finite `noise_weight` the noise variance is inferred from the residuals of each pass.

        A sample that cannot be learned from raises, and the network keeps the state it had before the call. Ctrl-C
        raises KeyboardInterrupt, and the network keeps the state after the last complete pass.

        Parameters
        ----------
        inputs : array_like, shape (n, n_inputs)
        targets : array_like, shape (n, n_outputs), or (n,) for one output
        passes, seed : int
            Number of passes k, to which the cost is proportional, and seed of their random orders.
        progress_bar : bool
            Whether to show a bar that counts the passes.
        """
        n_passes, rng = whole("passes", passes, 1), np.random.default_rng(whole("seed", seed, 0))
        x, y = check_samples(inputs, targets, self.settings.n_inputs, self.settings.n_outputs)
        before = self.get_state()
        self._batch.clear_cache()
        try:
            if n_passes == 1 or len(x) == 0:
                self._learner.one_pass(x, y)
            else:
                self._learner.tempered_passes(x, y, n_passes, rng, progress_bar)
        except ValueError:
            self.set_state(before)
            raise
        return self

    def add_bias_noise(self, variances: ArrayLike) -> None:
        """Add process noise to the output biases, as the prediction step of a random-walk Kalman filter.

        Called between samples, it lets the bias of each output follow slow changes that no input explains. The
        predictive variance of each output grows by the given amount at every input; the mean does not change.

        Parameters
        ----------
        variances : array_like, shape (n_outputs,)
            Variance of the process noise per output, on the scale of y squared.
        """
        added = np.asarray(variances, dtype=np.float64)
        if added.shape != self._y_shape or not (np.isfinite(added) & (added >= 0)).all():
            raise ValueError(
                f"HABNN: variances must be finite, not negative and of shape {self._y_shape}, got {added}; "
                "pass one variance per output."
            )
        self._batch.clear_cache()
        for state in self._learner.networks():
            bias = state.scale_diagonal(state.n_layers - 1)[:, -1]
            bias += added * (1 - 2 / state.dof) / state.gains[-1] ** 2

    def inflate_output_scale(self, factor: float) -> None:
        """Multiply the squared scales of the output layer by `factor` (covariance inflation).

        Samples that depend on each other carry less information than their number suggests. Inflation by k gives all
        samples so far the weight of one k-th of them. The predictive mean does not change.

        Parameters
        ----------
        factor : float
            At least 1; 1 changes nothing.
        """
        if not 1 <= factor < inf:
            raise ValueError(f"HABNN: factor must be at least 1 and finite, got {factor}; 1 changes nothing.")
        self._batch.clear_cache()
        for state in self._learner.networks():
            state.scale_sq(state.n_layers - 1)[...] *= factor

    # ------------------------------------------------------------------ prediction

    def predict(
        self, inputs: ArrayLike, include_noise: bool = True, input_variance: ArrayLike | None = None
    ) -> StudentT:
        """Return the predictive distribution at each row of `inputs`, a StudentT over (n, n_outputs).

        Parameters
        ----------
        inputs : array_like, shape (n, n_inputs)
        include_noise : bool
            Whether the observation noise is part of the distribution. Without, it is the distribution of the function
            value, whose variance is the epistemic variance; the two variances differ by `noise_variance`.
        input_variance : array_like, shape (n, n_inputs), optional
            Variances of uncertain, independent inputs; `inputs` are then their means.
        """
        x = check_finite_inputs(check_matrix("inputs", inputs, self.settings.n_inputs))
        x_var = None if input_variance is None else check_input_variance(input_variance, x.shape)
        loc, scale_sq = self._batch.predict(x, x_var)
        if include_noise:
            scale_sq += self._parameters.noise_scale
        return StudentT(loc, scale_sq, self.dof)

    def point_weights(self) -> list[Array]:
        """Return the locations of the weights per layer, gain 1 / sqrt(fan) included; each (n_in + 1, n_out)."""
        return [gain * self._parameters.loc_matrix(layer) for layer, gain in enumerate(self._parameters.gains)]

    def output_covariances(self) -> Array:
        """Return the epistemic covariance of the weights per output, gain included; (n_outputs, n_in + 1, n_in + 1)."""
        scale = self.weight_scale_sq[-1]
        matrices = scale if scale.ndim == 3 else np.stack([np.diag(row) for row in scale])
        return np.asarray(self._parameters.gains[-1] ** 2 / (1 - 2 / self.dof) * matrices)

    def sample_function(self, rng: np.random.Generator) -> FunctionSample:
        """Draw all weights once and return the resulting function, (n, n_inputs) -> (n, n_outputs), without noise.

        The weights of each neuron are drawn from their multivariate t. Thompson sampling plans on such a function.
        """
        weights = [self._parameters.sample_weights(layer, rng) for layer in range(self._parameters.n_layers)]

        def function(inputs: ArrayLike) -> Array:
            z = check_matrix("inputs", inputs, self.settings.n_inputs)
            for layer, weight in enumerate(weights):
                a = z @ weight[:-1] + weight[-1]
                z = np.maximum(a, self._slope * a) if layer + 1 < len(weights) else a
            return z

        return function

    # ------------------------------------------------------------------ files

    def get_state(self) -> dict[str, Any]:
        """Return copies of the learned parameters as a dict, in the form that `set_state` accepts."""
        return self._learner.copy()

    def set_state(self, state: dict[str, Any]) -> None:
        """Replace the parameters by those of `get_state` of a network with the same settings.

        A state that no such network can have (NaN, a negative scale) raises ValueError and changes nothing.
        """
        self._learner.restore(state)
        self._batch.clear_cache()

    def save(self, path: str | Path) -> None:
        """Write settings and parameters to one file, atomically; a loaded network continues bit for bit."""
        state = self.get_state()
        numbers = {name: state.pop(name) for name in ("dof", "n_samples")}
        save_arrays(path, {"kind": _FILE_KIND, "settings": self.settings.as_dict(), **numbers}, state)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the network that `save` wrote to `path`."""
        header, arrays = load_arrays(path, _FILE_KIND)
        try:
            check_sizes(header["settings"], arrays)
            network = cls(**header["settings"])
            network.set_state({**arrays, "dof": header["dof"], "n_samples": header["n_samples"]})
        except (ArithmeticError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"HABNN: {path} must hold the settings and the state of a network, got others ({error}); save it again."
            ) from error
        return network
