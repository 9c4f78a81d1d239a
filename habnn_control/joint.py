"""JointHABNN: a network with one Student-t distribution over all of its weights."""

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr
from tqdm import tqdm

from habnn_control._network import annealing, joint_kernels, noise_kernels
from habnn_control._network.checks import check_finite_inputs, check_matrix, check_samples
from habnn_control._network.learning import raise_at
from habnn_control._network.settings import NetworkSettings, whole
from habnn_control._storage import Storable, Tree, array_of, counts_of
from habnn_control.student_t import StudentT

Array = NDArray[np.float64]

Shares = tuple[float, float, float]

# Prior squared scales of the log noise: of its weights, and of its level, which is its bias.
NOISE_SCALE, NOISE_LEVEL_SCALE = 1.0, 1.0
_LARGEST = 1e100  # values that can be squared, and their squares summed
_ROWS = 500  # predicted at a time: the derivatives with respect to all weights are large


class JointHABNN(Storable):
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
    heteroscedastic : bool
        Whether the variance of the noise depends on the input: `noise_variance` times the exponential of a second
        output of the network, which learns from the residuals in closed form (see docs/network.md). An update then
        costs twice as much. In a tempered pass residuals are those of leave-one-out.
    annealed : bool
        Whether several passes are annealed: the noise variance falls from pass to pass, each pass forgets a part of
        what earlier ones learned, and samples are learned in blocks of up to 64, in single precision, two to three
        times faster. Samples after the first call are learned in tempered passes.
    """

    _kind = "JointHABNN"

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
        heteroscedastic: bool = False,
        annealed: bool = False,
    ) -> None:
        self._given = {name: value for name, value in locals().items() if name != "self"}
        given = {name: value for name, value in self._given.items() if name not in ("heteroscedastic", "annealed")}
        if not isinstance(heteroscedastic, (bool, np.bool_)):
            raise TypeError(
                f"JointHABNN: heteroscedastic must be True or False, got {heteroscedastic!r}; True lets the noise "
                "depend on the input."
            )
        if annealed and heteroscedastic:
            raise ValueError("JointHABNN: annealed must be False if heteroscedastic is True, got True; choose one.")
        self.heteroscedastic, self.annealed = bool(heteroscedastic), bool(annealed)
        fixed = {"activation": "relu", "slope": 0.0, "fan": "in", "drift": 0.0, "output_distance": "observation"}
        self.settings = s = NetworkSettings.checked(covariance="full", noise_weight=inf, **fixed, **given)
        if len(s.hidden) != 1:
            raise ValueError(
                f"JointHABNN: hidden must have one width, got {s.hidden}; use HABNN for other numbers of layers."
            )
        width, rng = s.hidden[0], np.random.default_rng(s.seed)
        sizes = width * (s.n_inputs + 1), s.n_outputs * (width + 1)
        parts = [std * rng.standard_normal(size) for std, size in zip(s.prior_stds, sizes, strict=True)]
        scales = [np.repeat(s.scales, sizes)]
        if self.heteroscedastic:
            row = np.append(np.full(width, NOISE_SCALE), NOISE_LEVEL_SCALE * (width + 1))
            parts, scales = [*parts, np.zeros(sizes[1])], [*scales, np.tile(row, s.n_outputs)]
        self._loc, self._scale = np.concatenate(parts), np.diag(np.concatenate(scales))
        self._noise = np.array(s.noise_variance)
        self._dof, self._n_samples = s.dof, 0

    @property
    def dof(self) -> float:
        """Present degrees of freedom nu of the weights."""
        return self._dof

    @property
    def noise_variance(self) -> Array:
        """Given variance of the observation noise per output, shape (n_outputs,); `heteroscedastic` varies it."""
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
        if self.annealed and k > 1 and self._n_samples == 0:
            return self._learn_annealed(x, y, k, seed, progress_bar)
        temperature = self.settings.temperature if k > 1 else 1.0
        noise = temperature * k * self._noise
        n_samples = self._n_samples + len(x)
        # The kernel leaves one sample that it cannot learn from alone: no copy of the large matrix per update.
        before = complete = self._state() if y.size > 1 else None
        try:
            for number in tqdm(range(k), desc="HABNN passes", disable=not progress_bar):
                order = rng.permutation(len(x)) if k > 1 else np.arange(len(x))
                trace = first if number == 0 else np.empty_like(first)
                self._one_pass(x[order], y[order], order, noise, _shares(number, k), trace)
                self._n_samples = n_samples
                complete = self._state() if k > 1 else before
        except ValueError:
            self._restore(before)
            raise
        except KeyboardInterrupt:
            self._restore(complete)
            raise
        return first[:, 0], first[:, 1]

    def _learn_annealed(self, x: Array, y: Array, k: int, seed: int, progress_bar: bool) -> tuple[Array, Array]:
        """Learn in k annealed passes; return empty arrays, because no pass predicts samples before it learns them."""
        levels = annealing.falling_levels(self._noise, k)
        before = self._state()
        try:
            for _ in self.anneal(x, y, tqdm(levels, "HABNN passes", total=k, disable=not progress_bar), seed):
                pass
        except ValueError:
            self._restore(before)
            raise
        return np.empty((0, y.shape[1])), np.empty((0, y.shape[1]))

    def anneal(
        self, inputs: ArrayLike, targets: ArrayLike, levels: Iterable[ArrayLike], seed: int = 0
    ) -> Iterator[Array]:
        """Learn samples in annealed passes with falling noise variances; yield those of each pass, (n_outputs,).

        After each pass the network has learned each sample once, with these noise variances, which it takes over. An
        error or Ctrl-C leaves the last complete pass.

        Parameters
        ----------
        inputs : array_like, shape (n, n_inputs)
        targets : array_like, shape (n, n_outputs), or (n,) for one output
        levels : iterable of float or of array, shape (n_outputs,)
            Noise variances of the passes.
        seed : int
            Seed of the orders of the samples.
        """
        s, rng = self.settings, np.random.default_rng(whole("seed", seed, 0))
        x, y = check_samples(inputs, targets, s.n_inputs, s.n_outputs)
        for n in np.flatnonzero(~((np.abs(x) < _LARGEST).all(axis=1) & (np.abs(y) < _LARGEST).all(axis=1))):
            raise_at(int(n), x[n], y[n])
        dof, n_samples = min(self._dof + len(x), s.max_dof), self._n_samples + len(x)
        learner = annealing.Annealing(
            self._loc.copy(), self._scale.copy(), s.hidden[0], x, y, 1 - 2 / dof, s.outlier_threshold
        )
        for level in levels:
            noise = np.broadcast_to(np.asarray(level, dtype=np.float64), s.n_outputs).copy()
            if not learner.learn(noise, rng.permutation(len(x))):
                raise ValueError(
                    "JointHABNN: samples must be of order one for annealed passes, got others; scale them."
                )
            self._loc[:], self._scale[:], self._noise = learner.loc, learner.scale, noise
            np.fill_diagonal(self._scale, np.maximum(np.diag(self._scale), joint_kernels.TINY))
            self._dof, self._n_samples = dof, n_samples
            yield noise

    def _one_pass(
        self, x: Array, y: Array, order: NDArray[np.int64], noise: Array, shares: Shares, trace: Array
    ) -> None:
        """Learn from samples with the given noise variances and `_shares`; `order` are their numbers, for errors."""
        s = self.settings
        network = self._loc, self._scale, s.hidden[0], np.stack([noise, self._noise])
        limit, inputs = joint_kernels.GROWTH * max(s.scales), np.column_stack([x, np.ones(len(x))])
        samples = s.outlier_threshold, inputs, y, trace
        if self.heteroscedastic:
            dofs = self._dof, s.max_dof
            learned, self._dof = noise_kernels.learn(*network, limit, dofs, shares, *samples)
        else:
            learned, self._dof = joint_kernels.learn(*network, limit, self._dof, s.max_dof, shares[0], *samples)
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
        n, noise, gaussian = self.settings.n_outputs, self._noise, 1 - 2 / self._dof
        if self.heteroscedastic:
            log_noise = loc[:, n:] + 0.5 * scale_sq[:, n:] / gaussian
            noise = noise * np.exp(np.clip(log_noise, -noise_kernels.LARGEST_LOG, noise_kernels.LARGEST_LOG))
        return StudentT(loc[:, :n], scale_sq[:, :n] + (gaussian * noise if include_noise else 0.0), self._dof)

    def locate(self, inputs: ArrayLike) -> Array:
        """Return the locations of `predict` alone, (n, n_outputs), in much less time."""
        x = check_finite_inputs(check_matrix("inputs", inputs, self.settings.n_inputs))
        _, z = self._hidden(np.column_stack([x, np.ones(len(x))]), self.weight_scale_sq)
        cut = self.settings.hidden[0] * (x.shape[1] + 1)
        second = self._loc[cut:].reshape(-1, z.shape[1])[: self.settings.n_outputs]
        return np.asarray(1 / np.sqrt(z.shape[1]) * z @ second.T)

    def _hidden(self, x: Array, full: Array) -> tuple[Array, Array]:
        """Return slopes (n, width) and means (n, width + 1) of the hidden layer, bias last, at inputs with ones."""
        width, n_in = self.settings.hidden[0], x.shape[1]
        cut = width * n_in
        first = self._loc[:cut].reshape(width, n_in)
        own = full[:cut, :cut].reshape(width, n_in, width, n_in)[np.arange(width), :, np.arange(width)]
        spread = np.einsum("nj,ijk,nk->ni", x, own, x, optimize=True) / n_in / (1 - 2 / self._dof)
        a, s = x @ first.T / np.sqrt(n_in), np.sqrt(np.maximum(spread, joint_kernels.TINY))
        below = ndtr(a / s)
        z = np.maximum(a * below + s * np.exp(-0.5 * (a / s) ** 2) / np.sqrt(2 * np.pi), 0.0)
        return below, np.column_stack([z, np.ones(len(x))])

    def _moments(self, x: Array, full: Array) -> tuple[Array, Array]:
        """Return locations and squared scales of the outputs at inputs x (n, n_inputs), each (n, outputs).

        With input-dependent noise there are twice as many outputs: behind the others, the logs of the noise.
        """
        width, n_in = self.settings.hidden[0], x.shape[1] + 1
        x = np.column_stack([x, np.ones(len(x))])
        cut = width * n_in
        second = self._loc[cut:].reshape(-1, width + 1)
        below, z = self._hidden(x, full)
        gain, squares = 1 / np.sqrt(width + 1), []
        for k, row in enumerate(second):
            jacobian = np.zeros((len(x), len(self._loc)))
            back = gain / np.sqrt(n_in) * row[:-1] * below  # (n, width)
            jacobian[:, :cut] = (back[:, :, None] * x[:, None, :]).reshape(len(x), cut)
            jacobian[:, cut + k * (width + 1) : cut + (k + 1) * (width + 1)] = gain * z
            squares.append(np.maximum(np.einsum("np,np->n", jacobian @ full, jacobian), 0.0))
        return gain * z @ second.T, np.stack(squares, axis=1)

    def _state(self) -> tuple[Any, ...]:
        return self._loc.copy(), self._scale.copy(), self._noise.copy(), self._dof, self._n_samples

    def _restore(self, state: tuple[Any, ...] | None) -> None:
        if state is None:
            return
        self._loc[:], self._scale[:], self._noise[:], self._dof, self._n_samples = state

    def _tree(self) -> Tree:
        lower = self._scale[np.tril_indices(len(self._loc))]  # the kernels use nothing else
        return {
            "settings": self._given,
            "loc": self._loc,
            "scale": lower,
            "noise": self._noise,
            "dof": self._dof,
            "n_samples": self._n_samples,
        }

    @classmethod
    def _from_tree(cls, tree: Tree) -> Self:
        settings = tree["settings"]
        (width,), n_outputs = settings["hidden"], whole("n_outputs", settings["n_outputs"], 1)
        rows = n_outputs * (2 if settings["heteroscedastic"] else 1)
        n = whole("hidden", width, 1) * (whole("n_inputs", settings["n_inputs"], 1) + 1) + rows * (width + 1)
        # Arrays first: nothing larger than the file is made from settings that nobody has checked.
        loc, lower = array_of(tree, "loc", (n,)), array_of(tree, "scale", (n * (n + 1) // 2,))
        noise, (dof, n_samples) = array_of(tree, "noise", (n_outputs,), least=np.nextafter(0, 1)), counts_of(tree)
        network = cls(**settings)
        network._scale[:] = 0.0
        network._scale[np.tril_indices(n)] = lower
        if not (np.diag(network._scale) >= 0).all():
            raise ValueError("state scale must have no negative squared scale, got some")
        network._loc, network._noise, network._dof, network._n_samples = loc, noise, dof, n_samples
        return network


def _shares(number: int, k: int) -> Shares:
    """Return the weight of a sample in a pass of k, what earlier passes learned of it, and its weight for the noise."""
    first = k // 2  # before, residuals are mostly what the mean has not learned yet
    return 1 / k, number / k, 1 / (k - first) if number >= first else 0.0
