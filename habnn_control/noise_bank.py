"""NoiseBank: joint networks with several noise variances that learn one stream, weighted by evidence."""

from collections.abc import Sequence
from math import inf
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from habnn_control._network.checks import check_samples
from habnn_control._network.learning import raise_at
from habnn_control._storage import Storable, Tree, array_of
from habnn_control.joint import JointHABNN
from habnn_control.student_t import StudentT

Array = NDArray[np.float64]

NOISE_LEVELS = (3e-4, 3e-3, 3e-2, 3e-1)  # of a `NoiseBank`, relative to the variance of the targets
OUTLIER_RATE, _BROAD = 0.05, 5.0  # prior probability of an outlier, and half width of the Cauchy density of outliers
_LARGEST = 1e100  # values whose squares and their sums are finite
_PRIOR_RATIO_WEIGHT = 50.0  # weight of the prior ratio 1 in the calibration of a member, in samples of a stream


class NoiseBank(Storable):
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

    _kind = "NoiseBank"

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

    def _tree(self) -> Tree:
        state = {"squares": self._squares, "total": self._total, "evidence": self._evidence}
        return {"networks": [network._tree() for network in self.networks], **state}

    @classmethod
    def _from_tree(cls, tree: Tree) -> Self:
        networks = [JointHABNN._from_tree(part) for part in tree["networks"]]
        first = networks[0]
        shape = len(networks), first.settings.n_outputs
        if any(network.weight_loc.shape != first.weight_loc.shape for network in networks):
            raise ValueError("networks must have one shape, got several")
        bank = cls.__new__(cls)
        bank.networks, bank.settings = networks, first.settings
        bank._squares, bank._total = (array_of(tree, name, shape, least=1e-300) for name in ("squares", "total"))
        bank._evidence = array_of(tree, "evidence", shape[:1])
        return bank
