"""Files of models: a tree of plain values and arrays, without pickle, checked before anything large is made from it."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from habnn_control._network.parameters import check_sizes
from habnn_control._network.settings import whole
from habnn_control.network import HABNN
from habnn_control.support.files import LARGEST_FILE, load_arrays, save_arrays

Array = NDArray[np.float64]
Tree = dict[str, Any]

_ARRAY = "@array"  # key of the number of an array in the tree of a header
_STATE = ("dof", "n_samples")  # numbers among the arrays of the state of a HABNN


class Storable:
    """A model that `save` writes to one file and `load` reads back; a subclass says what it consists of."""

    _kind: ClassVar[str]

    def save(self, path: str | Path) -> None:
        """Write settings and learned parameters to one file, atomically; a loaded model continues bit for bit."""
        arrays: dict[str, Array] = {}
        save_arrays(path, {"kind": self._kind, "model": _plain(self._tree(), arrays)}, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the model that `save` wrote to `path`."""
        header, arrays = load_arrays(path, cls._kind)
        try:
            return cls._from_tree(_filled(header["model"], arrays))
        except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{cls._kind}: {path} must hold the settings and the state of a model, got others ({error}); save it "
                "again."
            ) from error

    def _tree(self) -> Tree:
        """Return settings and state as nested dicts and lists of plain values and arrays."""
        raise NotImplementedError

    @classmethod
    def _from_tree(cls, tree: Tree) -> Self:
        """Return the model of a tree that may come from anybody, or raise."""
        raise NotImplementedError


def _plain(value: Any, arrays: dict[str, Array]) -> Any:
    """Return a tree as JSON holds it; its arrays go to `arrays`, and their numbers take their places."""
    if isinstance(value, np.ndarray):
        arrays[str(len(arrays))] = value
        return {_ARRAY: str(len(arrays) - 1)}
    if isinstance(value, Mapping):
        return {str(name): _plain(part, arrays) for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(part, arrays) for part in value]
    return value.item() if isinstance(value, np.generic) else value


def _filled(value: Any, arrays: Mapping[str, Array]) -> Any:
    """Return a tree of JSON with its arrays in their places."""
    if isinstance(value, dict):
        if _ARRAY in value:
            return arrays[value[_ARRAY]]
        return {name: _filled(part, arrays) for name, part in value.items()}
    return [_filled(part, arrays) for part in value] if isinstance(value, list) else value


def array_of(tree: Tree, name: str, shape: tuple[int, ...], least: float = -inf, finite: bool = True) -> Array:
    """Return a copy of an array of a tree, or raise unless its shape and all of its values can be right."""
    array = np.asarray(tree[name])
    if array.shape != shape or array.dtype != np.float64:
        raise ValueError(f"state {name} must have shape {shape}, got {array.shape} of {array.dtype}")
    if not (np.isfinite(array).all() if finite else not np.isnan(array).any()) or not (array >= least).all():
        raise ValueError(f"state {name} must be numbers of at least {least}, got others")
    return array.copy()


def includes(given: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Return whether arguments have all of some settings; files hold tuples as lists."""
    ours, theirs = _plain(given, {}), _plain(settings, {})
    return all(name in ours and ours[name] == value for name, value in theirs.items())


def counts_of(tree: Tree) -> tuple[float, int]:
    """Return dof and number of samples of a tree, or raise unless a network can have them."""
    dof = float(tree["dof"])
    if not dof > 2:
        raise ValueError(f"state dof must be above 2, got {dof}")
    return dof, whole("n_samples", tree["n_samples"], 0)


def tree_of_habnn(network: HABNN) -> Tree:
    """Return settings and state of a `HABNN`."""
    return {"settings": network.settings.as_dict(), **network.get_state()}


def habnn_of_tree(tree: Tree) -> HABNN:
    """Return the `HABNN` of a tree, or raise before more memory is taken than its arrays have."""
    state = {name: value for name, value in tree.items() if name != "settings"}
    check_sizes(tree["settings"], {name: np.asarray(value) for name, value in state.items() if name not in _STATE})
    network = HABNN(**tree["settings"])
    network.set_state(state)
    return network


def check_memory(settings: Mapping[str, Any]) -> None:
    """Raise if networks of these settings, which may come from anybody, would be larger than a file can be."""
    widths = [settings["n_inputs"], *settings.get("hidden", (50,)), settings["n_outputs"]]
    layers = list(pairwise(whole("width", width, 1) for width in widths))
    covariance, n_networks = settings.get("covariance", "full"), len(settings.get("levels", range(4)))
    size = sum((n_in + 1) * n_out * (n_in + 1 if covariance == "full" else 1) for n_in, n_out in layers)
    if covariance == "joint":
        size = n_networks * (2 * size) ** 2
    if 8 * size > LARGEST_FILE:
        raise ValueError(f"settings must need at most {LARGEST_FILE} bytes, got {8 * size}")
