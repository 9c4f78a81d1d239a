"""Methods without a gradient: the constant predictor, HABNN and its limits, and pytagi as a cross-check of TAGI."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from habnn_control.autoscaled import AutoscaledHABNN
from habnn_control.committee import HABNNCommittee
from habnn_control.network import HABNN
from habnn_control.regression.methods.base import Method, NoiseChosen, column, gaussian
from habnn_control.student_t import StudentT

Array = NDArray[np.float64]
HIDDEN = 50

# The best of 20 priors for each of the Gaussian limits (scale 0.01 to 1, prior_std 0.5 or 1, output_prior_std 0 or the
# same), and of 10 for pytagi (gain 0.1 to 2, He or Xavier): mean NLL against the constant predictor's, at most 3 a
# cell, over the six sets and both blocks on splits 0 to 2 (TAGI), or 0 and 1 of at most 3000 (KBNN) and 1500 (pytagi)
# rows.
TAGI_PRIOR = {"scale": 0.3, "prior_std": 0.5, "output_prior_std": 0.0}
KBNN_PRIOR = {"scale": 0.3}
PYTAGI_GAIN, PYTAGI_INIT = 0.5, "Xavier"


class Constant(Method):
    """Mean and variance of the training targets, whatever the input."""

    def fit(self, x: Array, y: Array) -> None:  # noqa: ARG002
        """Take mean and variance."""
        self._mean, self._variance = float(y.mean()), float(y.var()) or 1e-12

    def predict(self, x: Array) -> StudentT:
        """Return the same Gaussian everywhere."""
        return gaussian(np.full(len(x), self._mean), np.full(len(x), self._variance))


class Network(Method):
    """A HABNN that `make` builds; `settings` change what it is made with, `layers` says how many hidden ones."""

    def __init__(self, n_inputs: int, seed: int, make: Callable[..., Any], layers: float = 1, **settings: Any) -> None:
        super().__init__(n_inputs, seed)
        self._make = make
        self._settings: dict[str, Any] = {"hidden": (HIDDEN,) * int(layers), "seed": seed, **settings}

    def fit(self, x: Array, y: Array) -> None:
        """Learn in one pass."""
        self._model = self._make(self.n_inputs, **self._settings).fit(x, y)

    def predict(self, x: Array) -> StudentT:
        """Predict with the observation noise."""
        return column(self._model.predict(x))


class GaussianNetwork(NoiseChosen, Network):
    """TAGI or KBNN, the limits of HABNN, with a noise variance chosen on validation data."""

    def fit(self, x: Array, y: Array) -> None:
        """Learn in one pass with the noise variance that was chosen."""
        self._settings["noise_variance"] = self.noise_variance
        super().fit(x, y)


class PaperTable(Network):
    """The reading that comes nearest to the paper's printed table of HABNN.

    Inputs are divided by the maximum of their training column, and the noise variance is 50: nearly a constant
    predictor. Both contradict the text of the paper; see docs/paper.md.
    """

    def __init__(self, n_inputs: int, seed: int) -> None:
        super().__init__(n_inputs, seed, HABNN.paper, noise_variance=50.0)

    def fit(self, x: Array, y: Array) -> None:
        """Learn in one pass."""
        largest = x.max(axis=0)
        self._divisor = np.where(largest == 0, 1.0, largest)
        super().fit(x / self._divisor, y)

    def predict(self, x: Array) -> StudentT:
        """Predict with the observation noise."""
        return super().predict(x / self._divisor)


def paper(n_inputs: int, seed: int, **settings: Any) -> Method:
    """Make HABNN with the paper's settings; the noise, which the paper does not give, has variance 1."""
    return Network(n_inputs, seed, HABNN.paper, **settings)


def recommended(n_inputs: int, seed: int, **settings: Any) -> Method:
    """Make the HABNN we recommend for regression."""
    return Network(n_inputs, seed, AutoscaledHABNN, **settings)


def joint(n_inputs: int, seed: int, **settings: Any) -> Method:
    """Make the HABNN we recommend for a stream that may cost more: all weights correlated, noise by evidence."""
    return Network(n_inputs, seed, AutoscaledHABNN, covariance="joint", **_switched(settings))


def committee(n_inputs: int, seed: int, **settings: Any) -> Method:
    """Make the HABNN we recommend for a data set that is all there."""
    return Network(n_inputs, seed, HABNNCommittee, **_switched(settings))


def _switched(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings of a variant, whose values are numbers, with those that are switches or counts as such."""
    kinds = {"heteroscedastic": bool, "folds": int}
    return {name: kinds.get(name, float)(value) for name, value in settings.items()}


def tagi(n_inputs: int, seed: int, **settings: Any) -> Method:
    """Make the Gaussian, diagonal limit."""
    return GaussianNetwork(n_inputs, seed, make=HABNN.tagi, **{**TAGI_PRIOR, **settings})


def kbnn(n_inputs: int, seed: int, **settings: Any) -> Method:
    """Make the Gaussian limit with full covariance."""
    return GaussianNetwork(n_inputs, seed, make=HABNN.kbnn, **{**KBNN_PRIOR, **settings})


class Pytagi(NoiseChosen):
    """TAGI by its authors' library (single precision, one sample at a time)."""

    def fit(self, x: Array, y: Array) -> None:
        """Learn in one pass."""
        from pytagi import manual_seed
        from pytagi.nn import Linear, MixtureReLU, OutputUpdater, Sequential

        manual_seed(self.seed % 2**31)  # theirs is a C int
        prior = {"gain_weight": PYTAGI_GAIN, "gain_bias": PYTAGI_GAIN, "init_method": PYTAGI_INIT}
        self._net = Sequential(Linear(self.n_inputs, HIDDEN, **prior), MixtureReLU(), Linear(HIDDEN, 1, **prior))
        self._net.set_threads(1)
        updater = OutputUpdater(self._net.device)
        noise = np.array([self.noise_variance], dtype=np.float32)
        for row, target in zip(x.astype(np.float32), y.astype(np.float32)[:, None], strict=True):
            self._net(row)
            updater.update(
                output_states=self._net.output_z_buffer,
                mu_obs=target,
                var_obs=noise,
                delta_states=self._net.input_delta_z_buffer,
            )
            self._net.backward()
            self._net.step()

    def predict(self, x: Array) -> StudentT:
        """Predict with the observation noise."""
        moments = np.array([self._net(row) for row in x.astype(np.float32)], dtype=np.float64)  # (n, 2, 1)
        return gaussian(moments[:, 0, 0], np.maximum(moments[:, 1, 0], 0) + self.noise_variance)
