"""AutoscaledHABNN: a HABNN for raw data, which standardises its inputs and targets online."""

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from habnn_control._network.checks import check_gains, clipped_spread
from habnn_control._network.settings import whole
from habnn_control._storage import Storable, Tree, array_of, check_memory, habnn_of_tree, tree_of_habnn
from habnn_control.joint import JointHABNN
from habnn_control.network import HABNN, OFFLINE
from habnn_control.noise_bank import NoiseBank
from habnn_control.student_t import StudentT

Array = NDArray[np.float64]
Network = HABNN | JointHABNN | NoiseBank

# Chosen among about 380 settings on splits 0 to 49 of the six UCI sets together; see habnn_control/regression.
RECOMMENDED: dict[str, Any] = {
    "hidden": (50,),
    "covariance": "full",
    "dof": 150.0,
    "scale": 0.2,
    "output_prior_std": 0.0,
    "output_scale": 0.4,
    "noise_variance": 0.002,
    "noise_weight": 300.0,
}

_FAR = 100.0  # distance from the others, relative to their spread, beyond which a value is a fault
_LARGEST = 1e100  # values that can be squared, and their squares summed


# What is saved beside the network, and the least value of each.
_PER_INPUT = {"gain": 0.0, "low": -np.inf, "high": -np.inf, "loc": -np.inf, "scale": 0.0}
_PER_TARGET = {"mean": -np.inf, "square": 0.0, "target_loc": -np.inf, "target_scale": 1e-300}
_EFFECT_ROWS = 300  # samples over which the effect of an input is averaged
_SMALLEST_EFFECT = 0.03  # so that an input that seems not to matter can still be found to matter


def relative_effects(network: Network, x: Array, step: float = 0.1) -> Array:
    """Return the effect of each input on the predicted means, relative to the quadratic mean over the inputs.

    The effect is the quadratic mean over samples and outputs of a central difference; shape (n_inputs,).
    """
    effects = np.empty(x.shape[1])
    locate = network.locate if isinstance(network, JointHABNN) else lambda rows: network.predict(rows).loc
    for column, shift in enumerate(step * np.eye(x.shape[1])):
        difference = locate(x + shift) - locate(x - shift)
        effects[column] = np.sqrt(np.mean(difference**2))
    size = np.sqrt(np.mean(effects**2))
    return np.maximum(effects / size, _SMALLEST_EFFECT) if size > 0 else np.ones_like(effects)


class AutoscaledHABNN(Storable):
    """Regression on raw data with a HABNN, in closed form, without a separate scaling step.

    `fit` starts anew, `partial_fit` and `update` continue. The first `warmup` samples are stored. Their means and
    standard deviations, without gross outliers, become the scaling of the network, which then learns from the stored
    and from all later samples. The scaling never changes afterwards: with full covariance a change of scaling is
    equivalent to an exact change of the first layer's weights, so later statistics would only change the prior.

    Extrapolation. The range of each input is recorded. Where x leaves the box of these ranges, by a distance e measured
    in standard deviations, the prediction returns to the distribution of all targets seen, as a Gaussian process with a
    stationary kernel does: with w = exp(-e^2 / 2) and the mean m and variance v of the targets,

        mean = m + w (mean of the network - m),    variance = w^2 (variance of the network) + (1 - w^2) v.

    Inside the box w is 1 and the prediction is that of the network.

    Parameters
    ----------
    n_inputs, n_outputs : int
        Number of entries of x and of y.
    warmup : int
        Number of samples that determine the scaling.
    passes : int
        Number of passes over the samples of each call: one in the given order, or tempered passes as in `HABNN.fit`.
        With several passes, all samples of the call that ends the warm-up determine the scaling; 100 are recommended.
    relevance : int
        Number of refits after the first tempered passes. Before each, every standardised input is multiplied by its
        relative effect on the prediction, so that the prior lets the network depend less on inputs that do not matter.
    gains : sequence of float, optional
        Factor of each standardised input, where it is known how much the inputs matter. None: 1.
    **settings
        Parameters of `HABNN`, for standardised inputs and targets. They override the recommended ones: full
        covariance, nearly Gaussian weights, a learned noise variance, and a prior that predicts the mean; with several
        passes those of `HABNN.offline`. `seed` also determines the orders of the passes. `covariance="joint"` takes a
        `JointHABNN`, which learns far more from one pass at a cost quadratic in the number of weights: with the given
        `noise_variance`, or as a `NoiseBank`, which finds the noise of a stream; `heteroscedastic=True` then lets the
        noise depend on the input.
    """

    _kind = "AutoscaledHABNN"

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int = 1,
        warmup: int = 100,
        passes: int = 1,
        relevance: int = 0,
        gains: Sequence[float] | None = None,
        **settings: Any,
    ) -> None:
        if not (isinstance(warmup, int) and warmup >= 2):
            raise ValueError(
                f"AutoscaledHABNN: warmup must be an integer of at least 2, got {warmup!r}; "
                "a standard deviation needs two samples."
            )
        shape = {"n_inputs": n_inputs, "n_outputs": n_outputs}
        self._given = {**shape, "warmup": warmup, "passes": passes, "relevance": relevance, **settings}
        if gains is not None:
            self._given["gains"] = gains
        self.warmup, self.passes, self.relevance = warmup, whole("passes", passes, 1), whole("relevance", relevance, 0)
        self._settings = {**shape, **settings}
        self.network = self._untrained()
        self._kept: tuple[Array, Array] | None = np.empty((0, n_inputs)), np.empty((0, n_outputs))
        self._gain = check_gains(gains, n_inputs)  # of the standardised inputs
        self._low, self._high = np.full(n_inputs, np.inf), np.full(n_inputs, -np.inf)
        self._loc, self._scale = np.zeros(n_inputs), np.zeros(n_inputs)
        self._target_loc, self._target_scale = np.zeros(n_outputs), np.ones(n_outputs)
        self._count, self._mean, self._square = 0, np.zeros(n_outputs), np.zeros(n_outputs)  # of the targets

    def _untrained(self) -> Network:
        """Return a network of the given settings that has not learned from any sample."""
        settings = dict(self._settings)
        if settings.get("covariance") != "joint":
            if settings.pop("heteroscedastic", False):
                raise ValueError(
                    "AutoscaledHABNN: heteroscedastic must be False without covariance='joint', got True; add it."
                )
            return HABNN(**{**(RECOMMENDED if self.passes == 1 else OFFLINE), **settings})
        del settings["covariance"]
        return JointHABNN(**settings) if "noise_variance" in settings else NoiseBank(**settings)

    @property
    def n_samples(self) -> int:
        """Number of samples that the model was given, stored ones included."""
        return self._count if self._kept is None else len(self._kept[0])

    def update(self, x: ArrayLike, y: ArrayLike) -> Self:
        """Learn from one sample, x of shape (n_inputs,) and y of shape (n_outputs,) or a number; return the model."""
        return self.partial_fit(np.reshape(np.asarray(x, dtype=np.float64), (1, -1)), np.reshape(y, (1, -1)))

    def fit(self, inputs: ArrayLike, targets: ArrayLike, progress_bar: bool = False) -> Self:
        """Forget all earlier samples, learn from the given ones, and return the model.

        If the samples cannot be learned from, the model keeps the state it had before the call. Ctrl-C in tempered
        passes raises KeyboardInterrupt, and the model keeps the state after the last complete pass.

        Parameters
        ----------
        inputs : array_like, shape (n, n_inputs)
        targets : array_like, shape (n, n_outputs), or (n,) for one output
        progress_bar : bool
            Whether to show a bar that counts the passes.
        """
        if len(np.atleast_1d(np.asarray(inputs))) == 0:
            raise ValueError(
                "AutoscaledHABNN: inputs must have at least one row, got none; pass samples to learn from."
            )
        anew = type(self)(**self._given)
        try:
            anew.partial_fit(inputs, targets, progress_bar)
        except KeyboardInterrupt:
            if anew.network.n_samples > 0:
                self.__dict__.update(anew.__dict__)
            raise
        self.__dict__.update(anew.__dict__)
        return self

    def partial_fit(self, inputs: ArrayLike, targets: ArrayLike, progress_bar: bool = False) -> Self:
        """Continue learning from samples and return the model; the parameters are those of `fit`."""
        x, y = self._checked(inputs, targets)
        if self._kept is not None:
            x, y = np.concatenate([self._kept[0], x]), np.concatenate([self._kept[1], y])
            if len(x) < self.warmup:
                self._kept = x, y
                return self
            n_scaling = self.warmup if self.passes == 1 else len(x)
            self._set_scaling(x[:n_scaling], y[:n_scaling])
        self._complete_scaling(x)
        before = self.network.n_samples
        try:
            self._learn(x, (y - self._target_loc) / self._target_scale, progress_bar)
        except KeyboardInterrupt:
            if self.network.n_samples > before:
                self._finish(x, y)
            raise
        self._finish(x, y)
        return self

    def anneal(self, inputs: ArrayLike, targets: ArrayLike, levels: Iterable[ArrayLike]) -> Iterator[Self]:
        """Learn as `fit` does, a joint network in annealed passes; yield the model after each pass.

        Parameters
        ----------
        inputs, targets : array_like
            As in `fit`.
        levels : iterable of float or of array, shape (n_outputs,)
            Noise variances of the passes for standardised targets, in falling order.
        """
        x, y = self._checked(inputs, targets)
        if self._kept is None or len(self._kept[0]) > 0 or not isinstance(self.network, JointHABNN):
            raise ValueError(
                "AutoscaledHABNN: anneal must be called on a new model with covariance='joint' and a noise_variance, "
                "got another; make one."
            )
        self._set_scaling(x, y)
        self._complete_scaling(x)
        self._finish(x, y)
        standard = self._standardised(x), (y - self._target_loc) / self._target_scale
        for _ in self.network.anneal(*standard, levels, self.network.settings.seed):
            yield self

    def _learn(self, x: Array, targets: Array, progress_bar: bool) -> None:
        """Fit the network to raw inputs and standardised targets; at first, refit it with relevance gains."""
        passes, seed, first = self.passes, self.network.settings.seed, self.network.n_samples == 0
        self.network.fit(self._standardised(x), targets, passes, seed, progress_bar)
        for _ in range(self.relevance if first and passes > 1 and len(x) > 0 else 0):
            self._refit(x, targets, progress_bar)

    def _refit(self, x: Array, targets: Array, progress_bar: bool) -> None:
        """Learn anew with inputs scaled by their effects on the present prediction."""
        gain = self._gain * relative_effects(self.network, self._standardised(x[:_EFFECT_ROWS]))
        gain /= np.sqrt(np.mean(gain**2))
        network = self._untrained()
        seed = self.network.settings.seed
        network.fit(self._standardised(x) / self._gain * gain, targets, self.passes, seed, progress_bar)
        self.network, self._gain = network, gain

    def effects(self, inputs: ArrayLike) -> Array:
        """Return the effects of the inputs on the prediction around some samples, relative to their quadratic mean.

        An effect is that of a change by a standard deviation; shape (n_inputs,).
        """
        x = np.asarray(inputs, dtype=np.float64)[:_EFFECT_ROWS]
        return relative_effects(self.network, self._standardised(x))

    def with_relevance(self, inputs: ArrayLike, targets: ArrayLike) -> Self:
        """Return the model that one more refit (`relevance`) on the samples of `fit` gives; this model stays."""
        x, y = self._checked(inputs, targets)
        if self._kept is not None or self.passes == 1:
            raise ValueError(
                "AutoscaledHABNN: with_relevance must follow a fit with several passes, got none; call fit first."
            )
        refit = deepcopy(self, {id(self.network): self.network})
        refit.relevance += 1
        refit._given["relevance"] = refit.relevance
        refit._refit(x, (y - self._target_loc) / self._target_scale, progress_bar=False)
        return refit

    def predict(self, inputs: ArrayLike, include_noise: bool = True) -> StudentT:
        """Return the predictive distribution at each row of `inputs`, a StudentT over (n, n_outputs).

        The observation noise is included unless `include_noise` is False. During the warm-up the prediction is that of
        a model whose warm-up ends with the samples stored so far.
        """
        if self._kept is not None:
            return self._finish_warmup_early().predict(inputs, include_noise)
        x = np.asarray(inputs, dtype=np.float64)
        inside = self.network.predict(self._standardised(x), include_noise)
        weight = self._network_weight(x)
        mean, variance = self._mean, self._square / self._count
        loc = self._target_loc + self._target_scale * inside.loc
        mixed = weight**2 * self._target_scale**2 * inside.variance + (1 - weight**2) * variance
        return StudentT(mean + weight * (loc - mean), (1 - 2 / inside.dof) * mixed, inside.dof)

    # ------------------------------------------------------------------ scaling

    def _set_scaling(self, x: Array, y: Array) -> None:
        """Take means and standard deviations of the warm-up samples as scaling; a constant input has none yet.

        Samples with a value that is far outside the bulk of the others are faults and do not count.
        """
        usual = _in_bulk(x) & _in_bulk(y)
        x, y = x[usual], y[usual]
        constant = x.min(axis=0) == x.max(axis=0)
        self._loc = np.where(constant, x[0], x.mean(axis=0))
        self._scale = np.where(constant, 0.0, x.std(axis=0))  # 0: unknown
        self._target_loc, spread = y.mean(axis=0), y.std(axis=0)
        if self.network.settings.outlier_threshold < np.inf:  # outliers must not set the scale
            self._target_loc = np.median(y, axis=0)
            rounds = 10 if self.passes > 1 else 0  # the first samples of a stream are too few
            spread = clipped_spread(y - self._target_loc, rounds)
        self._target_scale = np.where(spread > 0, spread, np.maximum(np.abs(self._target_loc), 1e-12))

    def _complete_scaling(self, x: Array) -> None:
        """Scale an input that has been constant so far by the size of its first change.

        Its standardised value was 0 until then, so no learned weight depends on its scale.
        """
        for column in np.flatnonzero(self._scale == 0):
            change = np.abs(x[:, column] - self._loc[column])
            if change.any():
                self._scale[column] = change[change > 0][0]

    def _standardised(self, x: Array) -> Array:
        """Return the standardised inputs (n, n_inputs) times their gains; an input of unknown scale is 0."""
        known = self._scale > 0
        return self._gain * (np.where(known, x - self._loc, 0.0) / np.where(known, self._scale, 1.0))

    def _network_weight(self, x: Array) -> Array:
        """Return the weight w of the network in the prediction (see the class) for each row, shape (n, 1)."""
        # An input that never changed has no standard deviation; its magnitude is the nearest substitute.
        scale = np.where(self._scale > 0, self._scale, np.maximum(np.abs(self._loc), 1e-12))
        excess = (x - np.clip(x, self._low, self._high)) / scale
        return np.asarray(np.exp(-0.5 * np.sum(excess**2, axis=1, keepdims=True)))

    def _finish(self, x: Array, y: Array) -> None:
        """End the warm-up; update the input ranges, and mean and variance of the targets, without faulty targets.

        The sums are updated in Chan's parallel form of Welford's method.
        """
        self._kept = None
        usual = (np.abs(y - self._target_loc) <= _FAR * self._target_scale).all(axis=1)
        x, y = x[usual], y[usual]
        if len(x) == 0:
            return
        self._low, self._high = np.minimum(self._low, x.min(axis=0)), np.maximum(self._high, x.max(axis=0))
        total = self._count + len(y)
        step = y.mean(axis=0) - self._mean
        self._square += ((y - y.mean(axis=0)) ** 2).sum(axis=0) + step**2 * self._count * len(y) / total
        self._mean += step * len(y) / total
        self._count = total

    # ------------------------------------------------------------------ files

    def _tree(self) -> Tree:
        state = {name: getattr(self, f"_{name}") for name in (*_PER_INPUT, *_PER_TARGET)}
        kept = None if self._kept is None else {"x": self._kept[0], "y": self._kept[1]}
        network = tree_of_habnn(self.network) if isinstance(self.network, HABNN) else self.network._tree()
        return {"given": self._given, "network": network, "kept": kept, "count": self._count, **state}

    @classmethod
    def _from_tree(cls, tree: Tree) -> Self:
        given = tree["given"]
        check_memory(given)
        model, kept = cls(**given), tree["kept"]
        own, n_inputs, n_outputs = model.network, given["n_inputs"], given["n_outputs"]
        part = tree["network"]
        network = habnn_of_tree(part) if isinstance(own, HABNN) else type(own)._from_tree(part)
        if _layout(network) != _layout(own):
            raise ValueError("state network must have the settings of the model, got others")
        model.network, model._count = network, whole("count", tree["count"], 0)
        for names, width in ((_PER_INPUT, n_inputs), (_PER_TARGET, n_outputs)):
            for name, least in names.items():
                setattr(model, f"_{name}", array_of(tree, name, (width,), least, finite=name not in ("low", "high")))
        if kept is None and model._count == 0:
            raise ValueError("state count must be positive after the warm-up, got 0")
        shapes = {"x": n_inputs, "y": n_outputs}
        model._kept = None
        if kept is not None:
            x, y = (array_of(kept, name, (len(kept["x"]), width)) for name, width in shapes.items())
            model._kept = x, y
        return model

    # ------------------------------------------------------------------ checks

    def _finish_warmup_early(self) -> Self:
        """Return a copy of the model whose warm-up ends with the samples stored so far."""
        if self.n_samples == 0:
            raise ValueError("AutoscaledHABNN: predict must follow at least one sample, got none; call fit or update.")
        early = deepcopy(self)
        early.warmup = self.n_samples
        return early.partial_fit(np.empty((0, self._low.size)), np.empty((0, self._mean.size)))

    def _checked(self, inputs: ArrayLike, targets: ArrayLike) -> tuple[Array, Array]:
        """Return inputs (n, n_inputs) and targets (n, n_outputs) as float arrays, or raise."""
        x, y = np.asarray(inputs, dtype=np.float64), np.asarray(targets, dtype=np.float64)
        y = y[:, None] if y.ndim == 1 else y
        for name, value, width in (("inputs", x, self._low.size), ("targets", y, self._mean.size)):
            if value.shape != (len(x), width):
                raise ValueError(
                    f"AutoscaledHABNN: {name} must have shape ({len(x)}, {width}), got {value.shape}; reshape it."
                )
            if not (np.abs(value) < _LARGEST).all():
                raise ValueError(
                    f"AutoscaledHABNN: {name} must be finite and below {_LARGEST:g}, got NaN, infinity or more; remove "
                    "their rows."
                )
        return x, y


def _layout(network: Network) -> list[Any]:
    """Return the settings of a network, or of the networks of a bank."""
    networks = network.networks if isinstance(network, NoiseBank) else [network]
    return [(one.settings, getattr(one, "heteroscedastic", None)) for one in networks]


def _in_bulk(values: Array) -> NDArray[np.bool_]:
    """Return which rows (n, columns) lie within 100 times the central 80 % of every column that varies there."""
    low, middle, high = np.quantile(values, (0.1, 0.5, 0.9), axis=0)
    width = np.where(high > low, high - low, np.inf)
    usual: NDArray[np.bool_] = (np.abs(values - middle) <= _FAR * width).all(axis=1)
    return usual if usual.any() else ~usual
