"""What everybody can use: Bayesian linear regression and a Gaussian process, by scikit-learn."""

from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
from numpy.typing import NDArray

from habnn_control.regression.methods.base import Method, gaussian
from habnn_control.student_t import StudentT

Array = NDArray[np.float64]


class _Standardised(Method):
    """A scikit-learn regressor with `predict(return_std=True)` on standardised inputs and targets."""

    max_rows = 1000  # of the Gaussian process, whose cost is cubic

    def fit(self, x: Array, y: Array) -> None:
        """Standardise and fit."""
        spread = x.std(axis=0)
        self._loc, self._scale = x.mean(axis=0), np.where(spread > 0, spread, 1.0)
        self._target = float(y.mean()), float(y.std()) or 1.0
        rows = slice(int(min(self.max_rows, len(x))))
        with catch_warnings():
            simplefilter("ignore")  # of optimisers at the bounds of a hyperparameter
            self._model = self._make()
            self._model.fit((x[rows] - self._loc) / self._scale, (y[rows] - self._target[0]) / self._target[1])

    def predict(self, x: Array) -> StudentT:
        """Predict with the observation noise."""
        mean, std = self._model.predict((x - self._loc) / self._scale, return_std=True)
        loc, unit = self._target
        return gaussian(loc + unit * mean, (unit * std) ** 2)

    def _make(self) -> Any:
        raise NotImplementedError


class BayesianRidge(_Standardised):
    """Bayesian linear regression; precision of weights and noise of highest evidence."""

    max_rows = 10**9

    def _make(self) -> Any:
        from sklearn.linear_model import BayesianRidge as Model

        return Model()


class GaussianProcess(_Standardised):
    """A Gaussian process with a squared-exponential kernel and learned noise, on 1000 training rows at most.

    `relevance=1` gives each input its own length scale.
    """

    def __init__(self, n_inputs: int, seed: int, relevance: float = 0) -> None:
        super().__init__(n_inputs, seed)
        self._lengths = np.ones(n_inputs) if relevance else 1.0

    def _make(self) -> Any:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

        return GaussianProcessRegressor(ConstantKernel() * RBF(self._lengths) + WhiteKernel(), normalize_y=True)
