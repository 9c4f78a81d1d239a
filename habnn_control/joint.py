"""JointHABNN: a network with one Student-t distribution over all of its weights; NoiseBank: its noise from evidence."""

from collections.abc import Sequence
from math import inf
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr
from tqdm import tqdm

from habnn_control._network import joint_kernels
from habnn_control._network.checks import check_finite_inputs, check_matrix, check_samples
from habnn_control._network.learning import raise_at
from habnn_control._network.settings import NetworkSettings, whole
from habnn_control.student_t import StudentT

Array = NDArray[np.float64]

NOISE_LEVELS = (3e-4, 3e-3, 3e-2, 3e-1)  # of a `NoiseBank`, relative to the variance of the targets
OUTLIER_RATE, _BROAD = 0.05, 5.0  # prior probability of an outlier, and half width of the Cauchy density of outliers
_LARGEST = 1e100  # values whose squares and their sums are finite
_ROWS = 500  # predicted at a time: the derivatives with respect to all weights are large
_PRIOR_RATIO_WEIGHT = 50.0  # weight of the prior ratio 1 in the calibration of a member, in samples of a stream


class JointHABNN:
    """HABNN with one hidden layer and one scale matrix for all weights, not one per neuron.

    The weights are jointly multivariate t. The network is linearised around its present weights, with the rectifier
    averaged over the uncertain pre-activations, and conditioned on each target exactly, Eqs. (12) to (14) of the paper:
    the update of a linear model with these derivatives as inputs. Correlations between neurons and layers are kept,
    so that one pass learns about as much as ten to a hundred passes of `HABNN`, and a cold posterior is not needed.

    The cost is quadratic in the number of weights: 60 us per sample with 8 inputs and 50 hidden units.

    Differs from `HABNN`: one hidden layer of rectifiers, whose pre-activations are taken as Gaussian in the moments of
    the rectifier (exact for infinite dof). The noise variance is given: `NoiseBank` finds that of a stream,
    `HABNNCommittee` that of a data set.

    Parameters
    ----------
    n_inputs, n_outputs : int
        Number of entries of x and of y. Outputs share the hidden layer.
    hidden : sequence of one int
        Width of the hidden layer.
    noise_variance, dof, scale, output_scale, prior_std, output_prior_std, max_dof, temperature,
    outlier_threshold, seed
        As in `HABNN`, for inputs and targets of order one.
    """

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int = 1,
        hidden: Sequence[int] = (50,),
        noise_variance: float | Sequence[float] = 0.01,
        seed: int = 0,
        *,
        dof: float = 150.0,
        scale: float = 0.2,
        output_scale: float = 0.4,
        prior_std: float = 1.0,
        output_prior_std: float = 0.0,
        max_dof: float = inf,
        temperature: float = 1.0,
        outlier_threshold: float = inf,
    ) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        fixed = {"activation": "relu", "slope": 0.0, "fan": "in", "drift": 0.0, "output_distance": "observation"}
        self.settings = s = NetworkSettings.checked(covariance="full", noise_weight=inf, **fixed, **given)
        if len(s.hidden) != 1:
            raise ValueError(
                f"JointHABNN: hidden must have one width, got {s.hidden}; use HABNN for other numbers of layers."
            )
        shapes = (s.hidden[0], s.n_inputs + 1), (s.n_outputs, s.hidden[0] + 1)
        rng = np.random.default_rng(s.seed)
        stds, scales = s.prior_stds, s.scales
        self._loc = np.concatenate([std * rng.standard_normal(a * b) for std, (a, b) in zip(stds, shapes, strict=True)])
        self._scale = np.diag(np.repeat(scales, [a * b for a, b in shapes]))
        self._noise = np.array(s.noise_variance)
        self._dof, self._n_samples = s.dof, 0

    @property
    def dof(self) -> float:
        """Present degrees of freedom nu of the weights."""
        return self._dof

    @property
    def noise_variance(self) -> Array:
        """Variance of the observation noise per output; shape (n_outputs,)."""
        return self._noise.copy()

    @property
    def n_samples(self) -> int:
        """Number of samples that the network has learned from."""
        return self._n_samples

    @property
    def weight_loc(self) -> Array:
        """Locations of all weights, (n_weights,): rows of the hidden layer, bias last, then of the output layer."""
        return self._loc.copy()

    @property
    def weight_scale_sq(self) -> Array:
        """Scale matrix of all weights, shape (n_weights, n_weights)."""
        return np.tril(self._scale) + np.tril(self._scale, -1).T

    def update(self, x: ArrayLike, y: ArrayLike) -> Self:
        """Learn from one sample, x of shape (n_inputs,) and y of shape (n_outputs,), and return the network."""
        return self.fit(np.reshape(np.asarray(x, dtype=np.float64), (1, -1)), np.reshape(y, (1, -1)))

    def fit(
        self, inputs: ArrayLike, targets: ArrayLike, passes: int = 1, seed: int = 0, progress_bar: bool = False
    ) -> Self:
        """Learn from samples and return the network: in one pass in the given order, or in tempered passes.

        The parameters, and what an error or Ctrl-C leaves, are those of `HABNN.fit`.
        """
        self.learn(inputs, targets, passes, seed, progress_bar)
        return self

    def learn(
        self, inputs: ArrayLike, targets: ArrayLike, passes: int = 1, seed: int = 0, progress_bar: bool = False
    ) -> tuple[Array, Array]:
        """Learn as `fit` does; return errors and squared scales of predictions before each update, (n, n_outputs).

        They are those of the first pass, in the order in which it learned.
        """
        k, rng = whole("passes", passes, 1), np.random.default_rng(whole("seed", seed, 0))
        x, y = check_samples(inputs, targets, self.settings.n_inputs, self.settings.n_outputs)
        first = np.zeros((len(x), 2, self.settings.n_outputs))
        if len(x) == 0:
            return first[:, 0], first[:, 1]
        temperature = self.settings.temperature if k > 1 else 1.0
        noise = temperature * k * self._noise
        n_samples = self._n_samples + len(x)
        # The kernel leaves one sample that it cannot learn from alone: no copy of the large matrix per update.
        before = complete = self._state() if y.size > 1 else None
        try:
            for number in tqdm(range(k), desc="HABNN passes", disable=not progress_bar):
                order = rng.permutation(len(x)) if k > 1 else np.arange(len(x))
                trace = first if number == 0 else np.empty_like(first)
                self._one_pass(x[order], y[order], order, noise, 1 / k, trace)
                self._n_samples = n_samples
                complete = self._state() if k > 1 else before
        except ValueError:
            self._restore(before)
            raise
        except KeyboardInterrupt:
            self._restore(complete)
            raise
        return first[:, 0], first[:, 1]

    def _one_pass(
        self, x: Array, y: Array, order: NDArray[np.int64], noise: Array, weight: float, trace: Array
    ) -> None:
        """Learn from samples of the given weight and noise variances; `order` are their numbers, for errors."""
        s = self.settings
        learned, self._dof = joint_kernels.learn(
            self._loc,
            self._scale,
            s.hidden[0],
            np.stack([noise, self._noise]),
            joint_kernels.GROWTH * max(s.scales),
            self._dof,
            s.max_dof,
            weight,
            s.outlier_threshold,
            np.column_stack([x, np.ones(len(x))]),
            y,
            trace,
        )
        if learned < len(x):
            raise_at(int(order[learned]), x[learned], y[learned])

    def predict(self, inputs: ArrayLike, include_noise: bool = True) -> StudentT:
        """Return the predictive distribution at each row of `inputs`, a StudentT over (n, n_outputs).

        The observation noise is included unless `include_noise` is False.
        """
        x = check_finite_inputs(check_matrix("inputs", inputs, self.settings.n_inputs))
        full = self.weight_scale_sq
        parts = [self._moments(x[at : at + _ROWS], full) for at in range(0, max(len(x), 1), _ROWS)]
        loc, scale_sq = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
        noise = (1 - 2 / self._dof) * self._noise if include_noise else 0.0
        return StudentT(loc, scale_sq + noise, self._dof)

    def _moments(self, x: Array, full: Array) -> tuple[Array, Array]:
        """Return locations and squared scales of the outputs at inputs x (n, n_inputs), each (n, n_outputs)."""
        width, n_in = self.settings.hidden[0], x.shape[1] + 1
        x = np.column_stack([x, np.ones(len(x))])
        cut = width * n_in
        first, second = self._loc[:cut].reshape(width, n_in), self._loc[cut:].reshape(-1, width + 1)
        own = full[:cut, :cut].reshape(width, n_in, width, n_in)[np.arange(width), :, np.arange(width)]
        spread = np.einsum("nj,ijk,nk->ni", x, own, x, optimize=True) / n_in / (1 - 2 / self._dof)
        a, s = x @ first.T / np.sqrt(n_in), np.sqrt(np.maximum(spread, joint_kernels.TINY))
        below = ndtr(a / s)
        z = np.maximum(a * below + s * np.exp(-0.5 * (a / s) ** 2) / np.sqrt(2 * np.pi), 0.0)
        z = np.column_stack([z, np.ones(len(x))])
        gain, squares = 1 / np.sqrt(width + 1), []
        for k, row in enumerate(second):
            jacobian = np.zeros((len(x), len(self._loc)))
            back = gain / np.sqrt(n_in) * row[:-1] * below  # (n, width)
            jacobian[:, :cut] = (back[:, :, None] * x[:, None, :]).reshape(len(x), cut)
            jacobian[:, cut + k * (width + 1) : cut + (k + 1) * (width + 1)] = gain * z
            squares.append(np.maximum(np.einsum("np,np->n", jacobian @ full, jacobian), 0.0))
        return gain * z @ second.T, np.stack(squares, axis=1)

    def _state(self) -> tuple[Any, ...]:
        return self._loc.copy(), self._scale.copy(), self._dof, self._n_samples

    def _restore(self, state: tuple[Any, ...] | None) -> None:
        if state is None:
            return
        self._loc[:], self._scale[:], self._dof, self._n_samples = state


class NoiseBank:
    """Networks that learn one stream with different noise variances, weighted by how well they predicted it.

    Multiple-model estimation (Magill, 1965): a filter that learned with a wrong noise variance has lost information
    that a later estimate does not bring back, so several learn side by side. Each prediction is scored before its
    update. The ratio of squared errors to predicted squared scales calibrates the variance of each network; the
    likelihood of the calibrated predictions weights them. Sample n has a weight proportional to n, so that the
    errors of the first samples are forgotten. Data must be of order one.

    Parameters
    ----------
    n_inputs, n_outputs : int
    levels : sequence of float
        Noise variances, one network each.
    **settings
        Parameters of `JointHABNN`. With a finite `outlier_threshold` the likelihood is that of a mixture with outliers
        (one in twenty, Cauchy), and calibration counts each sample by its probability of being none.
    """

    def __init__(
        self, n_inputs: int, n_outputs: int = 1, *, levels: Sequence[float] = NOISE_LEVELS, **settings: Any
    ) -> None:
        if len(levels) == 0:
            raise ValueError("NoiseBank: levels must have at least one noise variance, got none; pass some.")
        self.networks = [JointHABNN(n_inputs, n_outputs, noise_variance=level, **settings) for level in levels]
        self.settings = self.networks[0].settings
        self._squares = np.full((len(levels), n_outputs), _PRIOR_RATIO_WEIGHT)
        self._total = np.full((len(levels), n_outputs), _PRIOR_RATIO_WEIGHT)
        self._evidence = np.zeros(len(levels))

    @property
    def n_samples(self) -> int:
        """Number of samples that the networks have learned from."""
        return self.networks[0].n_samples

    @property
    def ratios(self) -> Array:
        """Squared errors over predicted squared scales per network and output, (n_networks, n_outputs)."""
        return np.asarray(self._squares / self._total)

    @property
    def weights(self) -> Array:
        """Weight of each network in the prediction, (n_networks,)."""
        n = self.n_samples
        mean = self._evidence / max(n * (n + 1) / 2, 1.0)
        weights = np.exp(n * (mean - mean.max()))
        return np.asarray(weights / weights.sum())

    def fit(
        self, inputs: ArrayLike, targets: ArrayLike, passes: int = 1, seed: int = 0, progress_bar: bool = False
    ) -> Self:
        """Learn from samples in their order, in one pass, and return the model."""
        if passes != 1:
            raise ValueError(f"NoiseBank: passes must be 1, got {passes}; give noise_variance, or use HABNNCommittee.")
        x, y = check_samples(inputs, targets, self.settings.n_inputs, self.settings.n_outputs)
        for n in np.flatnonzero(~((np.abs(x) < _LARGEST).all(axis=1) & (np.abs(y) < _LARGEST).all(axis=1))):
            raise_at(int(n), x[n], y[n])
        before = [network._state() if len(x) > 1 else None for network in self.networks]
        start = self.n_samples
        try:
            bar = tqdm(self.networks, desc="HABNN noise levels", disable=not progress_bar)
            traces = [network.learn(x, y, 1, seed) for network in bar]
        except (ValueError, KeyboardInterrupt):
            for network, state in zip(self.networks, before, strict=True):
                network._restore(state)
            raise
        for k, (error, scale_sq) in enumerate(traces):
            self._score(k, error**2 / scale_sq, scale_sq, start)
        return self

    def update(self, x: ArrayLike, y: ArrayLike) -> Self:
        """Learn from one sample, x of shape (n_inputs,) and y of shape (n_outputs,), and return the model."""
        return self.fit(np.reshape(np.asarray(x, dtype=np.float64), (1, -1)), np.reshape(y, (1, -1)))

    def _score(self, k: int, square: Array, scale_sq: Array, start: int) -> None:
        """Score predictions of network k by standardised squared errors and squared scales, each (n, n_outputs)."""
        robust = self.settings.outlier_threshold < inf
        for n, (q, s2) in enumerate(zip(square, scale_sq, strict=True)):
            weight, ratio = start + n + 1.0, self._squares[k] / self._total[k]
            log_density = -0.5 * (q / ratio + np.log(2 * np.pi * ratio * s2))
            usual = np.ones_like(q)  # probability that the target is no outlier
            if robust:
                log_usual = np.log(1 - OUTLIER_RATE) + log_density
                log_density = np.logaddexp(log_usual, np.log(OUTLIER_RATE * _BROAD / np.pi / (_BROAD**2 + q * s2)))
                usual = np.exp(log_usual - log_density)
            self._evidence[k] += weight * log_density.sum()
            self._squares[k] += weight * usual * q
            self._total[k] += weight * usual

    def predict(self, inputs: ArrayLike, include_noise: bool = True) -> StudentT:
        """Return the predictive distribution at each row of `inputs`, a StudentT over (n, n_outputs).

        The networks' mixture has its mean and variance. With `include_noise=False` the noise variances are left out.
        """
        predictions = [network.predict(inputs, include_noise) for network in self.networks]
        dof, weights = predictions[0].dof, self.weights
        locs = np.stack([p.loc for p in predictions])
        scales = np.stack([ratio * p.scale_sq for ratio, p in zip(self.ratios, predictions, strict=True)])
        loc = np.tensordot(weights, locs, axes=1)
        between = np.tensordot(weights, (locs - loc) ** 2, axes=1)
        return StudentT(loc, np.tensordot(weights, scales, axes=1) + (1 - 2 / dof) * between, dof)
