"""Regression with uncertainty: an estimator for a data set that is all there, and a network for a stream.

The data are generated (Friedman's first function), so that nothing has to be downloaded.
"""

import argparse

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.model_selection import train_test_split

from habnn_control import AutoscaledHABNN, HABNNRegressor


def report(name: str, y: np.ndarray, mean: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """Print error and coverage on test data."""
    rmse = np.sqrt(np.mean((y - mean) ** 2))
    inside = 100 * np.mean((low <= y) & (y <= high))
    print(f"{name}: RMSE {rmse:.2f} (noise 1.00), {inside:.0f} % inside the 90 % intervals")


def main() -> None:
    """Fit both models and print how good their predictions are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=400, help="number of samples (default: 400)")
    parser.add_argument("--passes", type=int, default=30, help="tempered passes of the estimator (default: 30)")
    flags = parser.parse_args()
    X, y = make_friedman1(flags.samples, noise=1.0, random_state=0)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=0)

    stream = AutoscaledHABNN(n_inputs=X.shape[1])
    for row, target in zip(X, y, strict=True):
        stream.update(row, [target])  # each sample is seen once
    prediction = stream.predict(X_test)
    low, high = prediction.interval(0.9)
    report("stream, one pass ", y_test, prediction.mean[:, 0], low[:, 0], high[:, 0])

    model = HABNNRegressor(passes=flags.passes, random_state=0).fit(X, y)  # scikit-learn: pipelines, grid search, ...
    distribution = model.predict_dist(X_test)
    low, high = distribution.interval(0.9)
    report("estimator, offline", y_test, model.predict(X_test), np.ravel(low), np.ravel(high))


if __name__ == "__main__":
    main()
