"""HABNN as a scikit-learn estimator."""

from math import inf
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from habnn_control.network import HABNN
from habnn_control.student_t import StudentT

Array = NDArray[np.float64]


class HABNNRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regression with a Hierarchical Approximate Bayesian Neural Network, in closed form.

    The estimator works in a Pipeline and in GridSearchCV. Scale inputs and targets to order one (StandardScaler and
    TransformedTargetRegressor), or adapt `scale` and `noise_variance` to the scale of the data.

    Parameters
    ----------
    hidden, dof, scale, covariance, noise_variance, prior_std, output_prior_std, output_scale, activation, slope, fan, \
    drift, max_dof, noise_weight, temperature, outlier_threshold, output_distance
        Parameters of `HABNN`. The defaults differ: full covariance, noise variance learned online, and a prior that
        predicts 0.
    passes : int
        Number of passes over the samples of each call: one in the given order, or tempered passes as in `HABNN.fit`.
        `HABNNRegressor(passes=100, **OFFLINE)`, with `OFFLINE` of `habnn_control.network`, is the recommended model
        for standardised data.
    random_state : int
        Seed of the prior locations and of the orders of tempered passes.

    Attributes
    ----------
    network_ : HABNN
        The fitted network.
    n_features_in_, feature_names_in_
        Number and names of the features seen by `fit`, as in every scikit-learn estimator.
    """

    def __init__(
        self,
        hidden: tuple[int, ...] = (50,),
        dof: float = 12.0,
        scale: float = 0.01,
        covariance: str = "full",
        noise_variance: float = 0.1,
        *,
        prior_std: float = 1.0,
        output_prior_std: float | None = 0.0,
        output_scale: float | None = 1.0,
        activation: str = "relu",
        slope: float = 0.01,
        fan: str = "in",
        drift: float = 0.0,
        max_dof: float = inf,
        noise_weight: float = 10.0,
        temperature: float = 1.0,
        outlier_threshold: float = inf,
        output_distance: str = "pre_activation",
        passes: int = 1,
        random_state: int = 0,
    ) -> None:
        self.hidden = hidden
        self.dof = dof
        self.scale = scale
        self.covariance = covariance
        self.noise_variance = noise_variance
        self.prior_std = prior_std
        self.output_prior_std = output_prior_std
        self.output_scale = output_scale
        self.activation = activation
        self.slope = slope
        self.fan = fan
        self.drift = drift
        self.max_dof = max_dof
        self.noise_weight = noise_weight
        self.temperature = temperature
        self.outlier_threshold = outlier_threshold
        self.output_distance = output_distance
        self.passes = passes
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Make a new network, learn from the samples in `passes` passes, and return the estimator."""
        return self._learn(X, y, reset=True)

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Continue learning from the samples, in `passes` passes, and return the estimator.

        The first call makes the network.
        """
        return self._learn(X, y, reset=not hasattr(self, "network_"))

    def _learn(self, X: ArrayLike, y: ArrayLike, reset: bool) -> Self:
        """Validate the samples and learn from them, with a new network if `reset`."""
        inputs: Array
        targets: Array
        inputs, targets = validate_data(self, X, y, reset=reset, dtype=np.float64, multi_output=True, y_numeric=True)
        flat, targets = targets.ndim == 1, targets.reshape(len(targets), -1)
        if reset:
            settings = self.get_params(deep=False)
            del settings["passes"]
            self.network_ = HABNN(inputs.shape[1], targets.shape[1], seed=settings.pop("random_state"), **settings)
            self._flat = flat
        self.network_.fit(inputs, targets, self.passes, self.random_state)
        return self

    def predict_dist(self, X: ArrayLike, include_noise: bool = True) -> StudentT:
        """Return the predictive distribution at each row of X.

        It is a StudentT over (n,) if the targets of `fit` had one dimension, over (n, n_outputs) otherwise. With
        `include_noise=False` its variance is the epistemic variance.
        """
        check_is_fitted(self)
        inputs = validate_data(self, X, reset=False, dtype=np.float64)
        prediction = self.network_.predict(inputs, include_noise=include_noise)
        if self._flat:
            return StudentT(prediction.loc[:, 0], prediction.scale_sq[:, 0], prediction.dof)
        return prediction

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """Return the predictive means, and with `return_std` also the standard deviations, observation noise included.

        Each has shape (n,) or (n, n_outputs), as the targets of `fit`.
        """
        prediction = self.predict_dist(X)
        return (prediction.mean, prediction.std) if return_std else prediction.mean
