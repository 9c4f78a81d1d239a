"""The interface of the methods of the study, and the choice of fixed noise levels."""

from abc import ABC, abstractmethod
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from habnn_control.regression.predictive import GaussianMixture, Predictive
from habnn_control.student_t import StudentT

Array = NDArray[np.float64]

# Candidates for a fixed noise variance, as parts of the variance of the training targets.
NOISE_SHARES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)


class Method(ABC):
    """A regression method: tune (not timed), fit (timed), predict.

    Parameters
    ----------
    n_inputs : int
        Size of x.
    seed : int
        Seeds the random numbers of the method.
    """

    max_rows: float = inf  # number of training rows a slow method is limited to

    def __init__(self, n_inputs: int, seed: int) -> None:
        self.n_inputs, self.seed = n_inputs, seed

    def tune(self, x: Array, y: Array) -> None:  # noqa: B027  (most methods have nothing to choose)
        """Choose what the method chooses on a validation part of the training data."""

    @abstractmethod
    def fit(self, x: Array, y: Array) -> None:
        """Learn from x of shape (n, n_inputs) and y of shape (n,)."""

    @abstractmethod
    def predict(self, x: Array) -> Predictive:
        """Return the distribution of the target at each row of x, observation noise included."""


def validation_start(x: Array) -> int:
    """Return where the last tenth of the training data begins, which chooses noise levels."""
    return len(x) - max(1, len(x) // 10)


def likeliest_noise(loc: Array, y: Array, unit: float) -> float:
    """Return the noise variance, of NOISE_SHARES of `unit`, under which drawn networks with outputs `loc` explain y."""
    candidates = [share * unit or share for share in NOISE_SHARES]
    scores = [float(GaussianMixture(loc, np.array(value)).logpdf(y).mean()) for value in candidates]
    return candidates[int(np.argmax(scores))]


class NoiseChosen(Method):
    """A method with a fixed noise variance, chosen on the last tenth of the training data by its likelihood."""

    noise_variance = 1.0

    def tune(self, x: Array, y: Array) -> None:
        """Choose the noise variance."""
        cut = validation_start(x)
        scores = {}
        for share in NOISE_SHARES:
            self.noise_variance = share * float(y[:cut].var()) or share
            self.fit(x[:cut], y[:cut])
            with np.errstate(all="ignore"):
                score = float(np.mean(self.predict(x[cut:]).logpdf(y[cut:])))
            scores[self.noise_variance] = score if np.isfinite(score) else -np.inf
        self.noise_variance = max(scores, key=scores.__getitem__)


def column(prediction: StudentT) -> StudentT:
    """Return a prediction over (n, 1) as one over (n,)."""
    return StudentT(prediction.loc[:, 0], prediction.scale_sq[:, 0], prediction.dof)


def gaussian(loc: Any, variance: Any) -> StudentT:
    """Return a Gaussian as the limit of Student's t."""
    return StudentT(np.asarray(loc, dtype=np.float64), np.asarray(variance, dtype=np.float64), float("inf"))
