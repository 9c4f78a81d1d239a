"""Stochastic variational inference and the No-U-Turn sampler, both by numpyro, with one model."""

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from habnn_control.uci.data import cache_folder
from habnn_control.uci.methods.base import Method
from habnn_control.uci.predictive import GaussianMixture

Array = NDArray[np.float64]
HIDDEN = 50
DRAWS = 100  # of the posterior, for both methods
# Of SVI: each epoch is one step on the whole training set. The step of 0.01, 0.02, 0.05 with the best NLL on raw data.
EPOCHS, STEP_SIZE = 250, 0.05
WARMUP, TREE_DEPTH = 100, 7  # of NUTS: its cost grows with 2 ** depth


def network_model(x: Any, y: Any = None) -> None:
    """Describe a ReLU network with N(0, 1 / fan-in) weights and a Gamma(3, 1) noise precision."""
    import jax.numpy as jnp
    import numpyro
    from numpyro import distributions as dist

    n_inputs = x.shape[1]
    first = numpyro.sample("first", dist.Normal(0.0, 1.0).expand([n_inputs + 1, HIDDEN]).to_event(2))
    second = numpyro.sample("second", dist.Normal(0.0, 1.0).expand([HIDDEN + 1]).to_event(1))
    hidden = jnp.maximum(x @ first[:-1] + first[-1], 0.0) / jnp.sqrt(n_inputs + 1)
    mean = numpyro.deterministic("mean", (hidden @ second[:-1] + second[-1]) / jnp.sqrt(HIDDEN + 1))
    precision = numpyro.sample("precision", dist.Gamma(3.0, 1.0))
    numpyro.sample("y", dist.Normal(mean, 1 / jnp.sqrt(precision)), obs=y)


def _jax() -> Any:
    """Return jax, told to keep compiled programs: the same program serves every run of a data set."""
    jax: Any = import_module("jax")

    jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "jax"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    return jax


class _Drawn(Method):
    """A method that ends with draws of all weights."""

    _draws: dict[str, Array]

    def _keep(self, draws: dict[str, Any]) -> None:
        """Keep the draws as NumPy arrays and let go of what jax compiled: hundreds of programs exhaust a process."""
        self._draws = {name: np.asarray(values, dtype=np.float64) for name, values in draws.items()}
        _jax().clear_caches()

    def predict(self, x: Array) -> GaussianMixture:
        """Predict with each draw's network and noise."""
        first, second = self._draws["first"], self._draws["second"]
        hidden = np.maximum(x @ first[:, :-1] + first[:, -1:], 0.0) / np.sqrt(self.n_inputs + 1)  # (draws, n, hidden)
        loc = ((hidden @ second[:, :-1, None])[:, :, 0] + second[:, -1:]) / np.sqrt(HIDDEN + 1)
        return GaussianMixture(loc, 1 / self._draws["precision"][:, None])


class SVI(_Drawn):
    """Mean-field variational inference: 250 full-batch steps of Adam."""

    def fit(self, x: Array, y: Array) -> None:
        """Fit the guide, then draw from it."""
        from numpyro import infer, optim

        jax = _jax()
        with jax.enable_x64(True):
            guide = infer.autoguide.AutoNormal(network_model, init_loc_fn=infer.init_to_feasible, init_scale=0.01)
            svi = infer.SVI(network_model, guide, optim.Adam(STEP_SIZE), infer.Trace_ELBO())
            key, draw = jax.random.split(jax.random.PRNGKey(self.seed))
            result = svi.run(key, EPOCHS, x, y, progress_bar=False)
            self._keep(guide.sample_posterior(draw, result.params, sample_shape=(DRAWS,)))


class NUTS(_Drawn):
    """The No-U-Turn sampler: 100 draws after 100 steps of warm-up, on 1000 training rows at most."""

    max_rows = 1000

    def fit(self, x: Array, y: Array) -> None:
        """Draw from the posterior."""
        from numpyro import infer

        jax = _jax()
        with jax.enable_x64(True):
            kernel = infer.NUTS(network_model, max_tree_depth=TREE_DEPTH)
            sampler = infer.MCMC(kernel, num_warmup=WARMUP, num_samples=DRAWS, progress_bar=False)
            sampler.run(jax.random.PRNGKey(self.seed), x[: self.max_rows], y[: self.max_rows])
            self._keep(sampler.get_samples())
