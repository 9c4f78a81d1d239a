"""Adapter to the Siemens code, isolated from NumPy's global state.

`industrial_benchmark_python.IDS` calls `np.float`, which NumPy has removed, and seeds and draws from the global random
generator of NumPy. Each simulator here executes the source of the module in a private namespace whose `np` has a
`float` and a random source of its own. NumPy, the installed package and its other users are not modified. Simulators
may therefore interleave, also in several threads with one thread per simulator. Only IBGym imports old gym, and this
module does not import IBGym.
"""

from collections.abc import Sequence
from importlib.util import find_spec, module_from_spec
from types import SimpleNamespace
from typing import Any

import numpy as np

from envs._kernels.benchmark import (
    DIRECTION,
    DOMAIN,
    HIDDEN_GAIN,
    HIDDEN_VELOCITY,
    N_STATE,
    NEWEST_COST,
    OLDEST_COST,
    RESPONSE,
    SEQUENCE_LENGTH,
    SEQUENCE_STEP,
    SLOPE,
    FloatArray,
)

_COLUMNS = {
    **dict(zip("pvghfc", range(6), strict=True)),
    "gs_domain": DOMAIN,
    "gs_sys_response": RESPONSE,
    "gs_phi_idx": DIRECTION,
    "hv": HIDDEN_VELOCITY,
    "hg": HIDDEN_GAIN,
}
_COSTS = slice(OLDEST_COST, NEWEST_COST + 1)
_SEQUENCE = {"_p_ch": SLOPE, "_p_step": SEQUENCE_STEP, "_p_steps": SEQUENCE_LENGTH}


def load_ids(random: Any) -> Any:
    """Return the Siemens class IDS, with the object `random` in place of `numpy.random`."""
    spec = find_spec("industrial_benchmark_python.IDS")
    if spec is None or spec.loader is None:
        raise ImportError("load_ids: package industrial-benchmark-python must be installed, got none; pip install it.")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.np = SimpleNamespace(**{**vars(np), "float": float, "random": random})  # type: ignore[attr-defined]
    return module.IDS


def read_ids(ids: Any) -> FloatArray:
    """Return the state of an IDS object, shape (N_STATE,)."""
    state = np.empty(N_STATE)
    for key, index in _COLUMNS.items():
        state[index] = ids.state[key]
    state[_COSTS] = ids.state["o"]
    for name, index in _SEQUENCE.items():
        state[index] = getattr(ids, name)
    return state


def write_ids(ids: Any, state: FloatArray) -> None:
    """Set the state of an IDS object to a state (N_STATE,); IDS recomputes its other variables at each step."""
    for key, index in _COLUMNS.items():
        ids.state[key] = float(state[index])
    ids.state["o"] = state[_COSTS].copy()
    ids.init = bool(state[NEWEST_COST] == 0.0)  # the first step of a plant fills its cost buffer
    for name, index in _SEQUENCE.items():
        setattr(ids, name, float(state[index]))


def _legacy_functions(generator: np.random.Generator) -> dict[str, Any]:
    """Return the functions of `numpy.random` that IDS calls, by name; they draw from `generator` and ignore seeds."""
    return {
        "seed": lambda _: None,
        "rand": generator.random,
        "randn": generator.standard_normal,
        "randint": generator.integers,
        "exponential": generator.exponential,
        "normal": generator.normal,
        "binomial": generator.binomial,
    }


class SiemensSimulator:
    """Plants that the Siemens code steps one by one.

    The interface is that of `NumbaSimulator`. The random draws differ; their probability distribution does not.

    Parameters
    ----------
    n : int
        Number of plants.
    wandering : bool
        Whether the setpoint follows random ramps.
    """

    def __init__(self, n: int, wandering: bool) -> None:
        self.states = np.zeros((n, N_STATE))
        self._wandering = wandering
        self._generators: list[np.random.Generator] = []
        self._load()

    def _load(self) -> None:
        """Make the object of the Siemens code; `step` writes the state of a plant to it before each use."""
        # A fixed generator, because the constructor of IDS draws numbers that no plant uses.
        self._random = SimpleNamespace(**_legacy_functions(np.random.default_rng(0)))
        self._ids = load_ids(self._random)(stationary_p=not self._wandering)

    def __getstate__(self) -> dict[str, Any]:
        """Return all but the Siemens code, which belongs to one simulator and cannot be pickled."""
        return {name: value for name, value in vars(self).items() if name not in ("_random", "_ids")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take up a state of `__getstate__`: a copy is independent of the original."""
        vars(self).update(state)
        self._load()

    def reseed(self, generators: Sequence[np.random.Generator]) -> None:
        """Replace the random generators, one per plant."""
        self._generators = list(generators)

    def step(self, actions: FloatArray) -> None:
        """Step all plants with actions (n, 3); the first action of a plant must be zero."""
        following = np.empty_like(self.states)
        for plant, generator in enumerate(self._generators):
            vars(self._random).update(_legacy_functions(generator))
            write_ids(self._ids, self.states[plant])
            self._ids.step(actions[plant])
            following[plant] = read_ids(self._ids)
        self.states = following

    def synchronised_generators(self) -> list[np.random.Generator]:
        """Return the random generators, one per plant, in the state from which the next step will draw."""
        return self._generators
