"""The pictures of docs/network.md: one pass, tempered passes, outliers, noise that varies, many weights."""

from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats

from habnn_control import HABNN, AutoscaledHABNN, HABNNCommittee, JointHABNN
from habnn_control.support.files import atomic_write

Array = NDArray[np.float64]
_BLUE, _ORANGE, _GREEN = "#0072B2", "#D55E00", "#009E73"
_GRID = np.linspace(-3, 3, 300)[:, None]


def truth(x: Array) -> Array:
    """Return the function behind the samples."""
    return np.sin(2 * x) + 0.5 * x


def samples(n: int, seed: int) -> tuple[Array, Array]:
    """Return n noisy samples of the function, x of shape (n, 1) and y of shape (n,)."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2.5, 2.5, n)
    return x[:, None], truth(x) + 0.15 * rng.standard_normal(n)


def one_pass(figure: Figure, seed: int) -> None:
    """Draw what one pass knows after 20, 100 and 500 samples."""
    x, y = samples(500, seed)
    for axes, n in zip(_row(figure, 3), (20, 100, 500), strict=True):
        model = AutoscaledHABNN(1, covariance="joint").fit(x[:n], y[:n])
        _draw(axes, model, x[:n], y[:n], f"one pass over {n} samples")


def passes(figure: Figure, seed: int) -> None:
    """Draw one pass with each covariance, and the committee, on the same 100 samples."""
    x, y = samples(100, seed)
    models: list[AutoscaledHABNN | HABNNCommittee] = [AutoscaledHABNN(1), AutoscaledHABNN(1, covariance="joint")]
    models.append(HABNNCommittee(1))
    titles = ("one pass, one scale matrix per neuron", "one pass, joint", "HABNNCommittee = HABNNRegressor()")
    for axes, model, title in zip(_row(figure, 3), models, titles, strict=True):
        _draw(axes, model.fit(x, y), x, y, title)


def outliers(figure: Figure, seed: int) -> None:
    """Draw a fit to samples of which a tenth is replaced, with and without a bounded influence of outliers."""
    x, y = samples(300, seed)
    rng = np.random.default_rng(seed + 1)
    spoilt = np.where(rng.random(300) < 0.1, rng.uniform(-50, 50, 300), y)
    for axes, threshold in zip(_row(figure, 2), (np.inf, 5.0), strict=True):
        model = HABNNCommittee(1, outlier_threshold=threshold).fit(x, spoilt)
        _draw(axes, model, x, spoilt, f"outlier_threshold={threshold:g}")


def noise(figure: Figure, seed: int) -> None:
    """Draw a fit to samples whose noise depends on the input, without and with `heteroscedastic`, beside the truth."""
    x, y = _fanned(400, seed)
    test, target = _fanned(5000, seed + 1)
    best = -float(np.mean(stats.norm.logpdf(target, truth(test[:, 0]), _deviation(test[:, 0]))))
    for axes, switch in zip(_row(figure, 2), (False, True), strict=True):
        model = HABNNCommittee(1, heteroscedastic=switch).fit(x, y)
        nll = -model.predict(test).logpdf(target[:, None]).mean()
        _draw(axes, model, x, y, f"heteroscedastic={switch}: NLL {nll:.2f} (that of the truth: {best:.2f})")
        inside = _GRID[np.abs(_GRID[:, 0]) < 2.5, 0]
        for side in (-1.645, 1.645):
            axes.plot(inside, truth(inside) + side * _deviation(inside), ":", color="black", linewidth=1)


def _deviation(x: Array) -> Array:
    return np.asarray(np.exp(0.7 * x - 1.8))


def _fanned(n: int, seed: int) -> tuple[Array, Array]:
    """Return n samples as `samples` does, with noise of the standard deviation `_deviation`."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2.5, 2.5, n)
    return x[:, None], truth(x) + _deviation(x) * rng.standard_normal(n)


def many_weights(figure: Figure, seed: int) -> None:
    """Draw processor time per sample and error against the width of the hidden layer, for each covariance."""
    x, y = samples(400, seed)
    widths = (25, 50, 100, 200, 400)
    time_axes, error_axes = _row(figure, 2)
    for covariance, colour in (("joint", _GREEN), ("full", _BLUE), ("diagonal", _ORANGE)):
        results = [_timed(covariance, width, x, y) for width in widths]
        for axes, values in zip((time_axes, error_axes), zip(*results, strict=True), strict=True):
            axes.plot(widths, values, "o-", color=colour, label=covariance)
    time_axes.set(title="microseconds per sample", xlabel="hidden units", yscale="log")
    error_axes.set(title="RMSE after one pass over 400 samples", xlabel="hidden units", ylim=(0, None))
    time_axes.legend(frameon=False)


def _timed(covariance: str, width: int, x: Array, y: Array) -> tuple[float, float]:
    settings: dict[str, Any] = {"noise_variance": 0.02, "scale": 0.3, "output_prior_std": 0.0, "output_scale": 1.0}
    if covariance == "joint":
        network: HABNN | JointHABNN = JointHABNN(1, 1, (width,), **settings)
    else:
        network = HABNN(1, 1, (width,), covariance=covariance, **settings)
    network.fit(x[:2], y[:2])  # compiled
    start = process_time()
    network.fit(x[2:], y[2:])
    seconds = process_time() - start
    error = network.predict(_GRID).mean[:, 0] - truth(_GRID[:, 0])
    inside = np.abs(_GRID[:, 0]) < 2.5
    return 1e6 * seconds / (len(x) - 2), float(np.sqrt(np.mean(error[inside] ** 2)))


def _row(figure: Figure, n: int) -> Sequence[Axes]:
    return list(np.ravel(figure.subplots(1, n)))


def _draw(axes: Axes, model: AutoscaledHABNN | HABNNCommittee, x: Array, y: Array, title: str) -> None:
    prediction = model.predict(_GRID)
    low, high = prediction.interval(0.9)
    axes.fill_between(_GRID[:, 0], low[:, 0], high[:, 0], color=_BLUE, alpha=0.25, linewidth=0)
    axes.plot(_GRID[:, 0], prediction.mean[:, 0], color=_BLUE, label="prediction, 90 % band")
    axes.plot(_GRID[:, 0], truth(_GRID[:, 0]), "--", color="black", linewidth=1, label="truth")
    axes.plot(x[:, 0], y, "o", color=_ORANGE, markersize=2, label="samples")
    axes.set(title=title, ylim=(-4, 4), xlabel="x")


PICTURES: dict[str, Callable[[Figure, int], None]] = {
    "network-one-pass": one_pass,
    "network-passes": passes,
    "network-outliers": outliers,
    "network-noise": noise,
    "network-many-weights": many_weights,
}


def write(name: str, path: Path, seed: int) -> None:
    """Draw one of PICTURES and write it as PNG."""
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    PICTURES[name](figure, seed)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set_fontsize(10)
    figure.axes[0].legend(frameon=False, fontsize=8, loc="upper left")
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=110)
