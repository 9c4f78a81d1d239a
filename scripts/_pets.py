"""A planner in the style of PETS (Chua et al., 2018) in torch: what the benchmark of a decision compares with.

It differs from PETS where the comparison wants the same on both sides: the search, the horizon, the known motion of the
actuators and the inputs are those of HABNN-MPC. What is left is the model and how its uncertainty travels.
"""

from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import silu, softplus

from agents.habnn import HABNNAgent, plant_loss
from habnn_control.control.planning import Plan

Array = NDArray[np.float64]

N_MEMBERS = 5
LOG_VARIANCES = (-10.0, 0.5)  # soft bounds, where PETS starts them


class Ensemble:
    """Probabilistic MLPs: swish layers, then a mean and a bounded log-variance for each output; float32.

    Untrained, with weights as wide as PETS draws them: a forward pass takes as long whatever was learned. The members
    are multiplied in one batch; one after another took up to a fifth less time with four layers of 200 units, and half
    as much again with two of 80.
    """

    def __init__(self, n_inputs: int, hidden: tuple[int, ...], n_outputs: int, seed: int = 0) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self.weights, self.biases = [], []
        for n_in, n_out in pairwise((n_inputs, *hidden, 2 * n_outputs)):
            weight = torch.randn((N_MEMBERS, n_out, n_in), generator=self._generator) / (2 * n_in**0.5)
            self.weights.append(weight.transpose(1, 2))  # BLAS likes the inputs of a unit side by side
            self.biases.append(torch.zeros((N_MEMBERS, 1, n_out)))

    def distribution(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return means and log-variances (N_MEMBERS, n, n_outputs) for inputs (N_MEMBERS, n, n_inputs)."""
        z = inputs
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            z = silu(torch.baddbmm(bias, z, weight), inplace=True)
        mean, log_variance = torch.baddbmm(self.biases[-1], z, self.weights[-1]).chunk(2, dim=-1)
        least, most = LOG_VARIANCES
        log_variance = most - softplus(most - log_variance)
        return mean, least + softplus(log_variance - least)

    def sample(self, inputs: torch.Tensor) -> torch.Tensor:
        """Draw outputs (N_MEMBERS, n, n_outputs), one for each row of inputs."""
        mean, log_variance = self.distribution(inputs)
        return torch.addcmul(mean, torch.exp(0.5 * log_variance), torch.randn(mean.shape, generator=self._generator))


class TrajectorySampler:
    """Plans for a HABNN agent with an ensemble in the place of its model.

    Every candidate is followed by `n_particles` particles. Each keeps its member of the ensemble over the whole plan
    (PETS's TS-infinity) and feeds its own draws back; a candidate costs the mean of their losses.

    Parameters
    ----------
    agent : HABNNAgent
        Gives the search, the horizon, the situation to plan from, and sizes of inputs and outputs.
    hidden : tuple of int
        Widths of the hidden layers.
    n_particles : int
        A multiple of N_MEMBERS.
    """

    def __init__(self, agent: HABNNAgent, hidden: tuple[int, ...], n_particles: int) -> None:
        network = agent.model.network.settings
        self.agent = agent
        self.ensemble = Ensemble(network.n_inputs, hidden, network.n_outputs)
        self.n_particles = n_particles

    def plan(self, rng: np.random.Generator) -> Plan:
        """Decide what to do where the agent is."""
        agent = self.agent
        return agent._planner.plan(self.costs, agent._low, agent._high, agent._horizon, rng)

    def costs(self, sequences: Array) -> Array:
        """Return the cost (n,) of candidate sequences (n, horizon, n_actions)."""
        agent, model = self.agent, self.agent.model
        rest = np.broadcast_to(agent._rest_action, (len(sequences), agent._hold, sequences.shape[2]))
        actions = np.concatenate([sequences, rest], axis=1)
        with torch.inference_mode():
            targets = self._roll_out(model._scaled_setting(model._settings_ahead(actions))).numpy()
        # Particles have the noise in them already: nothing is added for it on the way back from targets to values.
        values = model._transform.inverse(targets + model.memory.origin.astype(np.float32))
        observations = np.zeros((*values.shape[:-1], len(model.low)))
        observations[..., model.outputs] = values  # all that the plant's loss looks at
        losses = plant_loss(actions, observations)  # (N_MEMBERS, particles of a member, n, horizon)
        return np.asarray((losses @ agent._weights).mean(axis=(0, 1)))

    def _roll_out(self, ahead: Array) -> torch.Tensor:
        """Return sampled targets (N_MEMBERS, particles of a member, n, horizon, n_outputs) for settings ahead."""
        model, memory = self.agent.model, self.agent.model.memory
        n, horizon, n_set = ahead.shape
        batch = (N_MEMBERS, self.n_particles // N_MEMBERS, n)
        settings = torch.cat([_tensor(memory.settings).expand(n, -1, -1), _tensor(ahead)], dim=1).flatten(1)
        length = memory.settings.size
        recent = _tensor(memory.past[len(memory.past) - model._n_past :]).flatten().expand(*batch, -1)
        slow = _tensor(memory.slow).expand(*batch, -1, -1)
        held, rates = _tensor(model._held()).expand(*batch, -1), _tensor(model._rates)[:, None]
        low, high = (_tensor(model._targets(bound)) for bound in (model.low, model.high))
        sampled = []
        for k in range(horizon):
            start = (k + 1) * n_set
            window = settings[:, start : start + length].expand(*batch, -1)
            inputs = torch.cat([window, recent, slow.flatten(-2), held], dim=-1).flatten(1, 2)
            target = self.ensemble.sample(inputs).clamp(low, high).view(*batch, -1)
            recent = torch.cat([recent, target], dim=-1)[..., target.shape[-1] :]
            slow = torch.lerp(slow, target.unsqueeze(-2), rates)
            sampled.append(target)
        return torch.stack(sampled, dim=-2)


def _tensor(values: Array) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.float32))
