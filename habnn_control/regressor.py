"""HABNN as a scikit-learn estimator."""

from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from habnn_control._network.settings import whole
from habnn_control._storage import Storable, Tree
from habnn_control.autoscaled import AutoscaledHABNN
from habnn_control.committee import HABNNCommittee, can_be_joint
from habnn_control.student_t import StudentT

Array = NDArray[np.float64]


class HABNNRegressor(Storable, MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regression with Hierarchical Approximate Bayesian Neural Networks, in closed form; raw data, nothing to scale.

    `fit` learns a data set with a `HABNNCommittee`: a linear model and networks with several noise variances, weighted
    and calibrated by held-out samples. `partial_fit` without `fit` learns a stream in one pass, with an
    `AutoscaledHABNN` (joint covariance of all weights up to 2000 of them, else one scale matrix per neuron); after
    `fit` it continues with all networks of the committee.

    Parameters
    ----------
    hidden : sequence of int
        Widths of the hidden layers.
    candidates : sequence of dict, optional
        Settings to choose from, with the parameters of `HABNN`; for example `[{"temperature": 0.1}]` for one setting.
        None: the recommended ones, `habnn_control.committee.ANNEALED`.
    folds : int
        Number of folds, and of networks per setting.
    passes : int, optional
        Number of tempered passes of `fit`. None: 2 to 16 (100 for wide networks), fewer for more samples.
    outlier_threshold : float
        Residual, in predictive standard deviations, at which a target has half its weight. Infinity trusts all targets
        equally; 5 is recommended for `fit` if some targets are gross errors, 10 for streams.
    heteroscedastic : bool
        Whether the variance of the noise depends on the features; `fit` then takes about twenty times as long.
    random_state : int
        Seed of the folds, the prior locations and the orders of the passes.
    progress_bar : bool
        Whether `fit` shows a bar that counts the folds.

    Attributes
    ----------
    model_ : HABNNCommittee or AutoscaledHABNN
        The fitted model.
    n_features_in_, feature_names_in_
        Number and names of the features seen by `fit`, as in every scikit-learn estimator.
    """

    _kind = "HABNNRegressor"

    def __init__(
        self,
        hidden: Sequence[int] = (50,),
        candidates: Sequence[Mapping[str, Any]] | None = None,
        folds: int = 5,
        passes: int | None = None,
        outlier_threshold: float = inf,
        heteroscedastic: bool = False,
        random_state: int = 0,
        progress_bar: bool = False,
    ) -> None:
        self.hidden = hidden
        self.candidates = candidates
        self.folds = folds
        self.passes = passes
        self.outlier_threshold = outlier_threshold
        self.heteroscedastic = heteroscedastic
        self.random_state = random_state
        self.progress_bar = progress_bar

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Forget all earlier samples, learn from the given ones, at least two, and return the estimator."""
        inputs, targets = self._validated(X, y, reset=True, ensure_min_samples=2)
        self.model_: HABNNCommittee | AutoscaledHABNN = HABNNCommittee(
            inputs.shape[1],
            targets.shape[1],
            hidden=self.hidden,
            candidates=self.candidates,
            folds=self.folds,
            passes=self.passes,
            outlier_threshold=self.outlier_threshold,
            heteroscedastic=self.heteroscedastic,
            seed=self.random_state,
        ).fit(inputs, targets, self.progress_bar)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Continue with the given samples and return the estimator; without `fit`, learn a stream in one pass."""
        first = not hasattr(self, "model_")
        inputs, targets = self._validated(X, y, reset=first)
        if first:
            shape = inputs.shape[1], targets.shape[1]
            options: dict[str, Any] = {"heteroscedastic": True} if self.heteroscedastic else {}
            covariance = "joint" if can_be_joint(*shape, tuple(self.hidden)) else "full"
            self.model_ = AutoscaledHABNN(
                *shape,
                hidden=self.hidden,
                covariance=covariance,
                outlier_threshold=self.outlier_threshold,
                seed=self.random_state,
                **options,
            )
        self.model_.partial_fit(inputs, targets)
        return self

    def _validated(self, X: ArrayLike, y: ArrayLike, reset: bool, **options: Any) -> tuple[Array, Array]:
        """Return inputs (n, n_inputs) and targets (n, n_outputs), or raise."""
        inputs: Array
        targets: Array
        inputs, targets = validate_data(
            self, X, y, reset=reset, dtype=np.float64, multi_output=True, y_numeric=True, **options
        )
        if reset:
            self._flat = targets.ndim == 1
        return inputs, targets.reshape(len(targets), -1)

    def predict_dist(self, X: ArrayLike, include_noise: bool = True) -> StudentT:
        """Return the predictive distribution at each row of X.

        It is a StudentT over (n,) if the targets of `fit` had one dimension, over (n, n_outputs) otherwise. With
        `include_noise=False` its variance is the epistemic variance.
        """
        check_is_fitted(self)
        inputs = validate_data(self, X, reset=False, dtype=np.float64)
        prediction = self.model_.predict(inputs, include_noise)
        if self._flat:
            return StudentT(prediction.loc[:, 0], prediction.scale_sq[:, 0], prediction.dof)
        return prediction

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """Return the predictive means, and with `return_std` also the standard deviations, observation noise included.

        Each has shape (n,) or (n, n_outputs), as the targets of `fit`.
        """
        prediction = self.predict_dist(X)
        return (prediction.mean, prediction.std) if return_std else prediction.mean

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to one file, atomically and without pickle; a loaded one goes on bit for bit."""
        check_is_fitted(self)
        super().save(path)

    def _tree(self) -> Tree:
        names = getattr(self, "feature_names_in_", None)
        return {
            "parameters": self.get_params(),
            "features": None if names is None else names.tolist(),
            "flat": self._flat,
            "kind": self.model_._kind,
            "model": self.model_._tree(),
        }

    @classmethod
    def _from_tree(cls, tree: Tree) -> Self:
        estimator, names = cls(**tree["parameters"]), tree["features"]
        kind: type[HABNNCommittee | AutoscaledHABNN] = {one._kind: one for one in (HABNNCommittee, AutoscaledHABNN)}[
            tree["kind"]
        ]
        estimator.model_ = kind._from_tree(tree["model"])
        given = estimator.model_._given
        estimator.n_features_in_, estimator._flat = whole("n_inputs", given["n_inputs"], 1), bool(tree["flat"])
        if names is not None:
            if len(names) != given["n_inputs"] or not all(isinstance(name, str) for name in names):
                raise ValueError("features must be one name per input, got others")
            estimator.feature_names_in_ = np.array(names, dtype=object)
        if estimator._flat and given["n_outputs"] != 1:
            raise ValueError("flat must be False with several outputs, got True")
        return estimator
