"""Stochastic variational inference and the No-U-Turn sampler, both by numpyro, with one model."""

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from habnn_control.regression.data import cache_folder
from habnn_control.regression.methods.base import Method, likeliest_noise, validation_start
from habnn_control.regression.predictive import GaussianMixture

Array = NDArray[np.float64]
HIDDEN = 50
DRAWS = 100  # of the posterior, for both methods
# Of SVI: each epoch is one step on the whole training set. The best of 15 settings (steps 0.01 to 0.1, two
# initial scales, three expected noises), judged as in closed_form.py on splits 0 and 1 of at most 1200 rows.
EPOCHS, STEP_SIZE, INIT_SCALE = 250, 0.01, 0.01
NOISE_SHARE = 0.1  # of the targets' variance, which the prior expects to be noise
WARMUP, TREE_DEPTH = 100, 6  # of NUTS, untuned: its cost grows with 2 ** depth


def network_model(x: Any, y: Any, noise: Any) -> None:
    """Describe a ReLU network with N(0, 1 / fan-in) weights; the prior expects the noise variance `noise`."""
    import jax.numpy as jnp
    import numpyro
    from numpyro import distributions as dist

    n_inputs = x.shape[1]
    first = numpyro.sample("first", dist.Normal(0.0, 1.0).expand([n_inputs + 1, HIDDEN]).to_event(2))
    second = numpyro.sample("second", dist.Normal(0.0, 1.0).expand([HIDDEN + 1]).to_event(1))
    hidden = jnp.maximum(x @ first[:-1] + first[-1], 0.0) / jnp.sqrt(n_inputs + 1)
    mean = numpyro.deterministic("mean", (hidden @ second[:-1] + second[-1]) / jnp.sqrt(HIDDEN + 1))
    precision = numpyro.sample("precision", dist.Gamma(3.0, 2.0 * noise))
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
        self._draws = {name: np.asarray(values, dtype=np.float64) for name, values in draws.items()}

    def predict(self, x: Array) -> GaussianMixture:
        """Predict with each draw's network and noise."""
        return GaussianMixture(self._outputs(x), 1 / self._draws["precision"][:, None])

    def _outputs(self, x: Array) -> Array:
        """Return the output of each draw's network, (draws, n)."""
        first, second = self._draws["first"], self._draws["second"]
        hidden = np.maximum(x @ first[:, :-1] + first[:, -1:], 0.0) / np.sqrt(self.n_inputs + 1)  # (draws, n, hidden)
        return np.asarray(((hidden @ second[:, :-1, None])[:, :, 0] + second[:, -1:]) / np.sqrt(HIDDEN + 1))


class SVI(_Drawn):
    """Mean-field variational inference: 250 full-batch steps of Adam.

    250 steps do not reach raw units, and the noise that was learned on the way is then far too small. On validation
    data it competes with the fixed noise variances that other methods choose from.
    """

    _noise: float | None = None  # None: as learned

    def __init__(self, n_inputs: int, seed: int, epochs: float = EPOCHS, rate: float = STEP_SIZE) -> None:
        super().__init__(n_inputs, seed)
        self._epochs, self._rate = int(epochs), rate

    def tune(self, x: Array, y: Array) -> None:
        """Choose between the learned noise and the most likely fixed one."""
        cut = validation_start(x)
        self.fit(x[:cut], y[:cut])
        learned, loc = self.predict(x[cut:]), self._outputs(x[cut:])
        fixed = likeliest_noise(loc, y[cut:], float(y[:cut].var()))
        if GaussianMixture(loc, np.array(fixed)).logpdf(y[cut:]).mean() > learned.logpdf(y[cut:]).mean():
            self._noise = fixed

    def fit(self, x: Array, y: Array) -> None:
        """Fit the guide, then draw from it."""
        jax = _jax()
        with jax.enable_x64(True):
            draws = _variational_draws(self._epochs, self._rate)
            self._keep(draws(jax.random.PRNGKey(self.seed), x, y, _expected_noise(y)))

    def predict(self, x: Array) -> GaussianMixture:
        """Predict with each draw's network and the noise that was chosen."""
        return super().predict(x) if self._noise is None else GaussianMixture(self._outputs(x), np.array(self._noise))


class NUTS(_Drawn):
    """The No-U-Turn sampler: 100 draws after 100 steps of warm-up, on 1000 training rows, if nothing else is said.

    Its users take 1000 draws after as many steps, and trees of depth 10.
    """

    def __init__(
        self,
        n_inputs: int,
        seed: int,
        rows: float = 1000,
        warmup: float = WARMUP,
        draws: float = DRAWS,
        depth: float = TREE_DEPTH,
    ) -> None:
        super().__init__(n_inputs, seed)
        self.max_rows = int(rows)
        self._lengths = int(warmup), int(draws), int(depth)

    def fit(self, x: Array, y: Array) -> None:
        """Draw from the posterior."""
        jax = _jax()
        x, y = x[: self.max_rows], y[: self.max_rows]
        with jax.enable_x64(True):
            draws = _sampled_draws(*self._lengths)
            self._keep(draws(jax.random.PRNGKey(self.seed), x, y, _expected_noise(y)))


def _expected_noise(y: Array) -> float:
    """Return the noise variance that the prior expects."""
    return NOISE_SHARE * float(y.var()) or NOISE_SHARE


@cache
def _variational_draws(epochs: int, rate: float) -> Any:
    """Return the whole of SVI as one function of key, x and y, which jax compiles once for each shape of the data."""
    from numpyro import infer, optim

    jax = _jax()

    def draws(key: Any, x: Any, y: Any, noise: Any) -> Any:
        guide = infer.autoguide.AutoNormal(network_model, init_loc_fn=infer.init_to_feasible, init_scale=INIT_SCALE)
        svi = infer.SVI(network_model, guide, optim.Adam(rate), infer.Trace_ELBO())
        key, draw = jax.random.split(key)
        result = svi.run(key, epochs, x, y, noise, progress_bar=False)
        return guide.sample_posterior(draw, result.params, sample_shape=(DRAWS,))

    return jax.jit(draws)


@cache
def _sampled_draws(warmup: int, n_draws: int, depth: int) -> Any:
    """Return the whole of NUTS as one such function; numpyro's MCMC compiles anew for each run, which exhausts jax."""
    from numpyro import infer

    jax = _jax()

    def draws(key: Any, *data: Any) -> Any:
        kernel = infer.NUTS(network_model, max_tree_depth=depth)

        def step(state: Any, _: None) -> tuple[Any, Any]:
            state = kernel.sample(state, data, {})
            return state, state.z

        start = kernel.init(key, warmup, None, data, {})
        _, chain = jax.lax.scan(step, start, None, warmup + n_draws)
        return jax.vmap(kernel.postprocess_fn(data, {}))({name: values[warmup:] for name, values in chain.items()})

    return jax.jit(draws)
