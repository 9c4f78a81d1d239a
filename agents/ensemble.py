"""An ensemble of probabilistic networks as a dynamics model, in the style of PETS (Chua et al., 2018); needs torch."""

from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch.nn.functional import silu, softplus

from habnn_control.control.encoded_model import EncodedModel
from habnn_control.control.encoder import Encoder
from habnn_control.control.model import FactorCovariance, Forecast, Memory, Snapshot, StepPrediction
from habnn_control.control.plant import Bounds, Plant
from habnn_control.control.rollout import roll_out
from habnn_control.support.names import check_choice

Array = NDArray[np.float64]

_LOG_VARIANCES = (-10.0, 0.5)  # soft bounds, where PETS starts them
_TRAINING = {"every": 5, "gradient_steps": 20, "learning_rate": 1e-3, "weight_decay": 1e-4}
_NETWORKS = "networks_"  # prefix of the networks' arrays in a snapshot
_BATCH = 64  # samples per gradient step
_QUANTILE = 1.6448536269514722  # of the normal distribution: ends of the central 90 %


class ProbabilisticNetworks:
    """Independent networks in one batch: swish layers, then a mean and a bounded log-variance per output; float32.

    Parameters
    ----------
    n_members : int
    widths : sequence of int
        Inputs, hidden layers, outputs.
    learning_rate, weight_decay : float
        Of Adam (AdamW).
    seed : int
        Draws the initial weights and the bootstrap samples.
    """

    def __init__(
        self, n_members: int, widths: tuple[int, ...], learning_rate: float, weight_decay: float, seed: int
    ) -> None:
        self.n_members, self._n_outputs = n_members, widths[-1]
        self._generator = torch.Generator().manual_seed(seed)
        self._weights, self._biases = [], []
        for n_in, n_out in pairwise((*widths[:-1], 2 * widths[-1])):
            drawn = torch.randn((n_members, n_out, n_in), generator=self._generator) / (2 * n_in**0.5)
            self._weights.append(drawn.transpose(1, 2).requires_grad_())  # BLAS prefers a unit's inputs side by side
            self._biases.append(torch.zeros((n_members, 1, n_out), requires_grad=True))
        self._optimiser = torch.optim.AdamW(self.parameters(), lr=learning_rate, weight_decay=weight_decay)

    def parameters(self) -> list[torch.Tensor]:
        """Return all weights and biases."""
        return [*self._weights, *self._biases]

    def distribution(self, inputs: torch.Tensor, members: slice = slice(None)) -> tuple[torch.Tensor, torch.Tensor]:
        """Return means and log-variances (n_members, n, n_outputs) for inputs (n_members, n, n_inputs)."""
        z = inputs
        for weight, bias in zip(self._weights[:-1], self._biases[:-1], strict=True):
            z = silu(torch.baddbmm(bias[members], z, weight[members]))
        mean, log_variance = torch.baddbmm(self._biases[-1][members], z, self._weights[-1][members]).chunk(2, dim=-1)
        least, most = _LOG_VARIANCES
        log_variance = most - softplus(most - log_variance)
        return mean, least + softplus(log_variance - least)

    def train(self, inputs: Array, targets: Array, n_steps: int) -> None:
        """Take gradient steps on the Gaussian likelihood; every member draws its own samples with replacement."""
        x, y = torch.from_numpy(inputs.astype(np.float32)), torch.from_numpy(targets.astype(np.float32))
        for _ in range(n_steps):
            chosen = torch.randint(len(x), (self.n_members, min(_BATCH, len(x))), generator=self._generator)
            mean, log_variance = self.distribution(x[chosen])
            loss = (torch.exp(-log_variance) * (mean - y[chosen]) ** 2 + log_variance).mean(dim=(1, 2)).sum()
            self._optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimiser.step()

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return weights, the optimiser's moments and the random generator as arrays."""
        state = {"generator": self._generator.get_state().numpy().copy()}
        for k, parameter in enumerate(self.parameters()):
            state[f"parameter_{k}"] = parameter.detach().numpy().copy()
            for name, value in self._optimiser.state.get(parameter, {}).items():
                state[f"adam_{k}_{name}"] = value.numpy().copy()
        return state

    def set_state(self, state: Snapshot) -> None:
        """Go back to a state of `get_state`."""
        self._generator.set_state(torch.from_numpy(np.array(state["generator"])))
        for k, parameter in enumerate(self.parameters()):
            parameter.data.copy_(torch.from_numpy(np.array(state[f"parameter_{k}"])))
            prefix = f"adam_{k}_"
            moments = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
            if moments:
                self._optimiser.state[parameter] = {n: _laid_out(v, parameter) for n, v in moments.items()}
            else:
                self._optimiser.state.pop(parameter, None)


def _laid_out(values: NDArray[Any], parameter: torch.Tensor) -> torch.Tensor:
    """Return values as a tensor in the memory layout of their parameter: another layout would round differently."""
    tensor = torch.from_numpy(np.array(values))
    return torch.empty_like(parameter).copy_(tensor) if tensor.shape == parameter.shape else tensor


class EnsembleModel(EncodedModel):
    """A `DynamicsModel` with an ensemble of probabilistic networks behind an `Encoder`.

    Every member follows its own expected path over the whole plan, as in PETS's TS-infinity; the spread of the members
    is the epistemic covariance. Differs from PETS: no noise is drawn along the path, which leaves one path per member;
    members train every few steps on all samples so far, not between episodes, because a plant has no episodes.

    Parameters
    ----------
    plant : Plant
    bounds : Bounds
    history : int
        See `Encoder`.
    past_outputs : int
        See `Encoder`.
    target : {"log", "absolute", "delta"}
        See `Encoder`.
    hidden : sequence of int
        Widths of the hidden layers.
    n_members : int
        Size of the ensemble.
    training : dict, optional
        every (steps between trainings), gradient_steps (per training), learning_rate, weight_decay.
    seed : int
    """

    def __init__(
        self,
        plant: Plant,
        bounds: Bounds,
        *,
        history: int = 10,
        past_outputs: int | None = None,
        target: str = "log",
        hidden: tuple[int, ...] = (200, 200, 200),
        n_members: int = 5,
        training: dict[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(Encoder(plant, bounds, history, past_outputs, target))
        if not (isinstance(n_members, int) and n_members >= 2):
            raise ValueError(f"ensemble: n_members must be a whole number of at least 2, got {n_members!r}; raise it.")
        torch.set_num_threads(1)  # the same sums in the same order in any number of processes
        settings = _TRAINING | (training or {})
        for name in settings:
            check_choice("ensemble", "training", name, _TRAINING)
        if not all(0 < value < inf for value in settings.values()):
            raise ValueError(
                f"ensemble: training must have positive, finite numbers, got {settings}; see the defaults."
            )
        self._every, self._gradient_steps = int(settings.pop("every")), int(settings.pop("gradient_steps"))
        widths = (self.encoder.n_inputs, *hidden, self.encoder.n_outputs)
        self.networks = ProbabilisticNetworks(n_members, widths, seed=seed, **settings)
        self._inputs, self._targets = np.empty((0, widths[0])), np.empty((0, widths[-1]))

    def _learn(self, action: ArrayLike, target: Array) -> None:
        """Keep the sample, and train every few samples."""
        self._inputs = np.concatenate([self._inputs, self.encoder.next_inputs(self._memory, action)])
        self._targets = np.concatenate([self._targets, target[None]])
        if len(self._targets) % self._every == 0:
            self.networks.train(self._inputs, self._targets, self._gradient_steps)

    # ------------------------------------------------------------------ prediction

    def predict(self, action: ArrayLike) -> StepPrediction:
        """Predict the observation after `action`: the mean of the members, and their mixture's 90 % interval."""
        forecast = self.forecast(self._memory, np.asarray(action, dtype=np.float64)[None, None])
        entries = forecast.entries
        mean = forecast.observations[0, 0, entries]
        deviation = np.sqrt(forecast.deviations[0, 0] ** 2 + forecast.noise[0, 0] ** 2)
        return StepPrediction(entries, mean, mean - _QUANTILE * deviation, mean + _QUANTILE * deviation)

    def forecast(self, memory: Memory, sequences: Array) -> Forecast:
        """Return the forecast for action sequences (n, horizon, n_actions) that start from `memory`."""
        return self._forecast(memory, sequences, slice(None))

    def draw(self, rng: np.random.Generator) -> "MemberForecaster":
        """Return a forecaster that follows one member of the ensemble."""
        return MemberForecaster(self, int(rng.integers(self.networks.n_members)))

    def _forecast(self, memory: Memory, sequences: Array, members: slice) -> Forecast:
        encoder, n_members = self.encoder, len(range(self.networks.n_members)[members])
        actuation, variances = encoder.actuation(memory, sequences), []

        def step(inputs: Array) -> Array:
            with torch.inference_mode():
                rows = torch.from_numpy(inputs.astype(np.float32)).view(n_members, -1, inputs.shape[1])
                mean, log_variance = self.networks.distribution(rows, members)
                variances.append(torch.exp(log_variance).double().mean(dim=(0, 1)).numpy())
                return mean.reshape(len(inputs), -1).numpy().astype(np.float64)

        paths = roll_out(encoder, memory, np.tile(actuation, (n_members, 1, 1)), step)
        paths = paths.reshape(n_members, *actuation.shape[:2], encoder.n_outputs)
        noise = np.asarray(np.mean(variances, axis=0))
        values = encoder.values(memory, paths, noise)
        slopes = encoder.slopes(memory, paths.mean(axis=0))
        apart = (values - values.mean(axis=0)) / slopes / np.sqrt(n_members)
        return Forecast(
            encoder.observations(memory, actuation, values.mean(axis=0)),
            encoder.outputs,
            slopes,
            noise,
            FactorCovariance(apart.transpose(1, 3, 2, 0)),
        )

    # ------------------------------------------------------------------ state

    def is_sound(self) -> bool:
        """Tell whether all weights are finite."""
        return all(bool(torch.isfinite(parameter).all()) for parameter in self.networks.parameters())

    def _learned(self) -> dict[str, NDArray[Any]]:
        networks = {f"{_NETWORKS}{name}": value for name, value in self.networks.get_state().items()}
        return {**networks, "inputs": self._inputs.copy(), "targets": self._targets.copy()}

    def _set_learned(self, snapshot: Snapshot) -> None:
        self.networks.set_state({k.removeprefix(_NETWORKS): v for k, v in snapshot.items() if k.startswith(_NETWORKS)})
        self._inputs, self._targets = np.array(snapshot["inputs"]), np.array(snapshot["targets"])


class MemberForecaster:
    """Forecasts along one member of an ensemble, without epistemic covariance."""

    def __init__(self, model: EnsembleModel, member: int) -> None:
        self._model, self._member = model, member

    def forecast(self, memory: Memory, sequences: Array) -> Forecast:
        """Return the forecast for action sequences (n, horizon, n_actions) that start from `memory`."""
        return self._model._forecast(memory, sequences, slice(self._member, self._member + 1))
