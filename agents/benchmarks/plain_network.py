"""The paper's equations in plain NumPy and SciPy: what the benchmark of the network compares with."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import beta, betainc, gammaln

from habnn_control import HABNN

Array = NDArray[np.float64]


def relu_moments(mu: Array, tau2: Array, nu: float) -> tuple[Array, Array, Array]:
    """Return mean, variance and Cov(a, z) of z = max(a, 0), with the incomplete beta function as printed.

    The cumulative distribution is scipy.stats.t.cdf, the name people look for; scipy.special.stdtr in its place would
    make an update of PlainNetwork a third faster.
    """
    gammas = np.exp(gammaln((nu + 1) / 2) - gammaln(nu / 2))
    above = stats.t.cdf(mu / np.sqrt(tau2), nu)
    peak = gammas / np.sqrt(np.pi * nu * tau2) * nu * tau2 / (nu - 1) * (1 + mu**2 / (nu * tau2)) ** ((1 - nu) / 2)
    mean = peak + mu * above
    incomplete = betainc(1.5, (nu - 2) / 2, mu**2 / (nu * tau2 + mu**2)) * beta(1.5, (nu - 2) / 2)
    square = nu * tau2 / (2 * (nu - 2)) + np.sign(mu) * nu * tau2 / (2 * np.sqrt(np.pi)) * gammas * incomplete
    square += 2 * mu * peak + mu**2 * above
    return mean, square - mean**2, square - mu * mean


class PlainNetwork:
    """A ReLU network with diagonal scales and fixed noise, started from the state of `network`.

    Reads the paper as HABNN does (its Notes), but for the far tails of the rectifier, where the printed form cancels.
    """

    def __init__(self, network: HABNN) -> None:
        self.loc = [loc.copy() for loc in network.weight_loc]
        self.scale = [scale.copy() for scale in network.weight_scale_sq]
        self.nu = network.dof
        self.noise = network.noise_variance
        by_inputs = network.settings.fan == "in"
        self.gain = [1 / np.sqrt(loc.shape[1] if by_inputs else loc.shape[0]) for loc in self.loc]

    def update(self, x: Array, y: Array) -> None:
        """Learn from one sample."""
        layers = self._forward(x)
        nu, last = self.nu, layers[-1]
        total = last["a_scale"] + self.noise * (nu - 2) / nu
        error = y - last["a_mean"]
        a_step = last["a_scale"] / total * error
        factor = (nu + error**2 / total) / (nu + 1)
        a_post = factor * (last["a_scale"] - last["a_scale"] ** 2 / total)
        for layer in reversed(range(len(layers))):
            here = layers[layer]
            distance = (a_step**2 + a_post) / here["a_scale"]
            if layer > 0:
                z_step, z_post = self._inputs(layer, here, a_step, a_post, distance)
            self._update_weights(layer, here, a_step, a_post, (nu + distance) / (nu + 1))
            if layer > 0:
                a_step, a_post = self._pre_activations(layers[layer - 1], here["z_scale"], z_step, z_post)
        self.nu += 1

    def _forward(self, x: Array) -> list[dict[str, Any]]:
        """Return the moments of every layer's inputs z, with the bias, and pre-activations a."""
        z_mean, z_var, layers = x, np.zeros_like(x), []
        for layer in range(len(self.loc)):
            z_one, z_scale = np.append(z_mean, 1.0), np.append(z_var, 0.0) * (self.nu - 2) / self.nu
            a_mean = self.gain[layer] * (self.loc[layer] @ z_one)
            a_scale = self.gain[layer] ** 2 * self._spread(layer, z_one, np.append(z_var, 0.0), z_scale)
            layers.append({"z_mean": z_one, "z_scale": z_scale[:-1], "a_mean": a_mean, "a_scale": a_scale})
            if layer + 1 < len(self.loc):
                z_mean, z_var, cross = relu_moments(a_mean, a_scale, self.nu)
                layers[-1]["slope"] = cross / z_var
        return layers

    def _spread(self, layer: int, z_mean: Array, z_var: Array, z_scale: Array) -> Array:
        """Return the squared scales of the pre-activations before the fan rule."""
        return np.asarray(self.loc[layer] ** 2 @ z_scale + self.scale[layer] @ (z_mean**2 + z_var))

    def _inputs(
        self, layer: int, here: dict[str, Any], a_step: Array, a_post: Array, distance: Array
    ) -> tuple[Array, Array]:
        """Condition a layer's inputs on its pre-activations: changes of location, new squared scales."""
        prior = here["z_scale"]
        share = self.gain[layer] * self.loc[layer][:, :-1] * prior / here["a_scale"][:, None]  # (n_out, n_in)
        factor = (self.nu + distance.sum()) / (self.nu + len(distance))
        return share.T @ a_step, factor * (prior - (share**2).T @ here["a_scale"]) + (share**2).T @ a_post

    def _pre_activations(self, below: dict[str, Any], prior: Array, step: Array, post: Array) -> tuple[Array, Array]:
        """Condition pre-activations on what became of them behind the rectifier."""
        factor = (self.nu + (step**2 + post) / prior) / (self.nu + 1)
        slope = below["slope"]
        return slope * step, factor * (below["a_scale"] - slope**2 * prior) + slope**2 * post

    def _update_weights(self, layer: int, here: dict[str, Any], step: Array, post: Array, factor: Array) -> None:
        """Condition each neuron's weights on its pre-activation."""
        prior, scale = here["a_scale"][:, None], self.scale[layer]
        share = self.gain[layer] * scale * here["z_mean"] / prior  # (n_out, n_in + 1)
        self.loc[layer] = self.loc[layer] + share * step[:, None]
        self.scale[layer] = factor[:, None] * (scale - share**2 * prior) + share**2 * post[:, None]


class PlainFullNetwork(PlainNetwork):
    """The same with one scale matrix a neuron, its sums over weights by einsum."""

    def _spread(self, layer: int, z_mean: Array, z_var: Array, z_scale: Array) -> Array:
        scale = self.scale[layer]
        quadratic = np.einsum("j,ijk,k->i", z_mean, scale, z_mean, optimize=True)
        return np.asarray(quadratic + np.einsum("ijj,j->i", scale, z_var) + self.loc[layer] ** 2 @ z_scale)

    def _update_weights(self, layer: int, here: dict[str, Any], step: Array, post: Array, factor: Array) -> None:
        prior, scale = here["a_scale"], self.scale[layer]
        share = self.gain[layer] * np.einsum("ijk,k->ij", scale, here["z_mean"]) / prior[:, None]  # (n_out, n_in + 1)
        change = post - factor * prior
        self.loc[layer] = self.loc[layer] + share * step[:, None]
        self.scale[layer] = factor[:, None, None] * scale + np.einsum("i,ij,ik->ijk", change, share, share)
