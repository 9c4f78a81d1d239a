"""Methods that descend a gradient with torch: Monte-Carlo dropout and the Laplace approximation."""

from importlib import import_module
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from habnn_control.regression.methods.base import Method, gaussian, likeliest_noise, validation_start
from habnn_control.regression.predictive import GaussianMixture
from habnn_control.student_t import StudentT

Array = NDArray[np.float64]
HIDDEN = 50
# Dropout: the best of 12 settings (rates of Adam 1e-3 to 3e-2, of dropout 0.01 to 0.1), judged as in closed_form.py on
# splits 0 and 1 of at most 1000 rows. Laplace: of 10 (rates 1e-3 to 0.1; tanh, which the paper took, or ReLU). At this
# rate ReLU is the stronger rival on every set of both blocks but raw Naval, where both are worse than a constant.
LEARNING_RATE = 3e-3
DROPOUT_RATE, DROPOUT_DRAWS = 0.01, 100
BATCH = 32  # samples per step where there is more than one epoch
MEMBERS, ENSEMBLE_RATE = 5, 0.01  # untuned
SMALLEST_VARIANCE = 1e-6  # of an ensemble's network, relative to that of the targets


class Dropout(Method):
    """Monte-Carlo dropout (Gal and Ghahramani, 2016): a ReLU network, one epoch of Adam, 100 passes with dropout.

    The noise variance is chosen on the last tenth of the training data by its likelihood, after training on the rest.
    """

    def __init__(
        self, n_inputs: int, seed: int, epochs: float = 1, rate: float = LEARNING_RATE, dropout: float = DROPOUT_RATE
    ) -> None:
        super().__init__(n_inputs, seed)
        self._epochs, self._rate, self._dropout = int(epochs), rate, dropout

    def tune(self, x: Array, y: Array) -> None:
        """Choose the noise variance."""
        cut = validation_start(x)
        self.fit(x[:cut], y[:cut])
        self._noise = np.array(likeliest_noise(self._passes(x[cut:]), y[cut:], float(y[:cut].var())))

    def fit(self, x: Array, y: Array) -> None:
        """Train for one epoch, sample by sample; for several in batches."""
        import torch

        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            self._net = torch.nn.Sequential(
                torch.nn.Linear(self.n_inputs, HIDDEN),
                torch.nn.ReLU(),
                torch.nn.Dropout(self._dropout),
                torch.nn.Linear(HIDDEN, 1),
            ).double()
            _train(torch, self._net, x, y, self._epochs, self._rate)

    def predict(self, x: Array) -> GaussianMixture:
        """Predict with the observation noise."""
        return GaussianMixture(self._passes(x), self._noise)

    def _passes(self, x: Array) -> Array:
        import torch

        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(self.seed)
            inputs = torch.tensor(x)
            return np.stack([self._net(inputs)[:, 0].numpy() for _ in range(DROPOUT_DRAWS)])


class Ensemble(Method):
    """Deep ensemble (Lakshminarayanan et al., 2017): five ReLU networks with an input-dependent variance.

    Each network minimises the Gaussian negative log likelihood with Adam, in batches of 32; no adversarial training.
    Inputs and targets are standardised inside, as in the authors' experiments.
    """

    def __init__(self, n_inputs: int, seed: int, epochs: float = 40, rate: float = ENSEMBLE_RATE) -> None:
        super().__init__(n_inputs, seed)
        self._epochs, self._rate = int(epochs), rate

    def fit(self, x: Array, y: Array) -> None:
        """Train the networks one after the other."""
        import torch

        spread = x.std(axis=0)
        self._loc, self._scale = x.mean(axis=0), np.where(spread > 0, spread, 1.0)
        self._target = float(y.mean()), float(y.std()) or 1.0
        inputs = torch.tensor((x - self._loc) / self._scale)
        targets = torch.tensor((y - self._target[0]) / self._target[1])
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            self._nets = [self._trained(torch, inputs, targets) for _ in range(MEMBERS)]

    def _trained(self, torch: Any, inputs: Any, targets: Any) -> Any:
        net = torch.nn.Sequential(
            torch.nn.Linear(self.n_inputs, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 2)
        ).double()

        def loss(rows: Any) -> Any:
            mean, variance = _moments(torch, net(inputs[rows]))
            return (0.5 * torch.log(variance) + 0.5 * (targets[rows] - mean) ** 2 / variance).mean()

        _minimise(torch, net, loss, len(inputs), self._epochs, self._rate)
        return net

    def predict(self, x: Array) -> GaussianMixture:
        """Return the mixture of the networks' Gaussians."""
        import torch

        with torch.no_grad():
            inputs = torch.tensor((x - self._loc) / self._scale)
            pairs = [_moments(torch, net(inputs)) for net in self._nets]
        loc, unit = self._target
        means, variances = (np.stack([pair[k].numpy() for pair in pairs]) for k in (0, 1))
        return GaussianMixture(loc + unit * means, unit**2 * variances)


class Laplace(Method):
    """Laplace approximation by laplace-torch: a ReLU network, one epoch of Adam, Kronecker factors.

    Prior precision and noise level are those of the highest marginal likelihood.
    """

    def fit(self, x: Array, y: Array) -> None:
        """Train for one epoch, then fit the Gaussian and its two hyperparameters."""
        import torch
        from torch.utils.data import DataLoader, TensorDataset

        laplace = _laplace()
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            net = torch.nn.Sequential(
                torch.nn.Linear(self.n_inputs, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 1)
            ).double()
            _train(torch, net, x, y)
            self._laplace: Any = laplace.Laplace(net, "regression", subset_of_weights="all", hessian_structure="kron")
            loader: Any = DataLoader(TensorDataset(torch.tensor(x), torch.tensor(y)[:, None]), batch_size=500)
            self._laplace.fit(loader)
        self._maximise_marginal_likelihood(float(y.std()) or 1.0)

    def _maximise_marginal_likelihood(self, unit: float) -> None:
        """Set prior precision and noise level; without gradients, which laplace-torch loses for Kronecker factors."""
        import torch

        def loss(logs: Array) -> float:
            precision, noise = torch.tensor(np.exp(np.clip(logs, -30, 30)))
            with torch.no_grad():
                value = -float(self._laplace.log_marginal_likelihood(precision, noise))
            return value if np.isfinite(value) else np.inf

        best = minimize(loss, np.array([0.0, np.log(0.5 * unit)]), method="Nelder-Mead", options={"maxfev": 150})
        loss(best.x)  # leaves the best values in place

    def predict(self, x: Array) -> StudentT:
        """Predict with the linearised network and the observation noise."""
        import torch

        batches = [torch.tensor(x[start : start + 50]) for start in range(0, len(x), 50)]
        with torch.no_grad():  # by batches, because the Jacobian costs the square of their size
            moments = [torch.hstack([mean, var[:, :, 0]]) for mean, var in map(self._laplace, batches)]
        mean, variance = torch.cat(moments).T.numpy()
        return gaussian(mean, variance + float(self._laplace.sigma_noise) ** 2)


def _laplace() -> Any:
    """Return laplace-torch."""
    try:
        with catch_warnings():
            simplefilter("ignore", DeprecationWarning)  # of parts of torch that its dependencies still use
            return import_module("laplace")
    except (ImportError, RuntimeError) as error:
        raise ImportError(
            f"uci: laplace-torch must be importable, got {error}; a torchvision of another build than torch breaks it, "
            "and laplace-torch works without: pip uninstall torchvision."
        ) from error


def _moments(torch: Any, outputs: Any) -> tuple[Any, Any]:
    """Return mean and variance of the two outputs of a network, each (n,)."""
    return outputs[:, 0], torch.nn.functional.softplus(outputs[:, 1]) + SMALLEST_VARIANCE


def _minimise(torch: Any, net: Any, loss: Any, n: int, epochs: int, rate: float) -> None:
    """Minimise loss(rows) with Adam over batches of a new random order in each epoch."""
    optimiser = torch.optim.Adam(net.parameters(), lr=rate, fused=True)
    for _ in range(epochs):
        for rows in torch.randperm(n).split(BATCH):
            optimiser.zero_grad()
            loss(rows).backward()
            optimiser.step()


def _train(torch: Any, net: Any, x: Array, y: Array, epochs: int = 1, rate: float = LEARNING_RATE) -> None:
    """Minimise the squared error with Adam: one epoch of one sample a step, or several epochs of batches."""
    if epochs > 1:
        inputs, targets = torch.tensor(x), torch.tensor(y)[:, None]

        def error(rows: Any) -> Any:
            return ((net(inputs[rows]) - targets[rows]) ** 2).mean()

        _minimise(torch, net, error, len(x), epochs, rate)
        return
    optimiser = torch.optim.Adam(net.parameters(), lr=rate, fused=True)
    for row, target in zip(torch.tensor(x), torch.tensor(y)[:, None], strict=True):
        optimiser.zero_grad()
        ((net(row) - target) ** 2).sum().backward()
        optimiser.step()
