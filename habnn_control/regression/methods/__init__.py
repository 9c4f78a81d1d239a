"""The methods of the study, by name; NAME:SETTING=VALUE,... makes a variant of a HABNN."""

from collections.abc import Callable
from typing import Any, NamedTuple

from habnn_control.regression.methods import closed_form
from habnn_control.regression.methods.base import Method
from habnn_control.regression.methods.gradient import Dropout, Laplace
from habnn_control.regression.methods.pbp import PBP
from habnn_control.regression.methods.sampling import NUTS, SVI
from habnn_control.support.extras import check_extra
from habnn_control.support.names import nearest

VARIABLE = ("scale", "dof", "layers")  # settings that a variant may change


class Entry(NamedTuple):
    """A method: its builder, observation noise and package, whether settings may vary, and whether it samples."""

    build: Callable[..., Method]
    noise: str
    package: str = "numpy"
    variable: bool = False
    sampling: bool = False


_CHOSEN = "fixed; of 7 parts of the targets' variance the most likely one on a tenth of the training data"
METHODS = {
    "constant": Entry(closed_form.Constant, "variance of the training targets"),
    "habnn": Entry(closed_form.paper, "fixed, variance 1 (the paper gives none)", variable=True),
    "habnn-recommended": Entry(closed_form.recommended, "learned online with the weights", variable=True),
    "tagi": Entry(closed_form.tagi, _CHOSEN, variable=True),
    "kbnn": Entry(closed_form.kbnn, _CHOSEN, variable=True),
    "pytagi": Entry(closed_form.Pytagi, _CHOSEN, "pytagi"),
    "pbp": Entry(PBP, "learned; its prior mean is chosen as TAGI's noise is"),
    "dropout": Entry(Dropout, _CHOSEN, "torch"),
    "laplace": Entry(Laplace, "the one of highest marginal likelihood", "laplace"),
    "svi": Entry(SVI, "learned, or fixed and chosen as TAGI's is, whichever is more likely there", "numpyro"),
    "nuts": Entry(NUTS, "sampled; its prior expects a tenth of the targets' variance", "numpyro", sampling=True),
}


def check(name: str) -> None:
    """Raise unless a method has that name and its package is installed."""
    base, changes = split(name)
    if base not in METHODS:
        raise ValueError(f"uci: method must be one of {', '.join(METHODS)}, got {base!r}; {nearest(base, METHODS)}")
    for setting in changes:
        if setting not in VARIABLE or not METHODS[base].variable:
            raise ValueError(
                f"uci: a variant must change {', '.join(VARIABLE)} of a HABNN, got {name!r}; "
                f"{nearest(setting, VARIABLE)}"
            )
    check_extra(f"uci: method {base}", METHODS[base].package, "regression")


def split(name: str) -> tuple[str, dict[str, float]]:
    """Return the method and the settings that a name such as habnn:scale=0.1,layers=2 stands for."""
    base, _, text = name.partition(":")
    changes = {}
    for part in filter(None, text.split(",")):
        setting, _, value = part.partition("=")
        try:
            changes[setting] = float(value)
        except ValueError:
            raise ValueError(f"uci: method must read NAME:SETTING=NUMBER,..., got {name!r}; fix {part!r}.") from None
    return base, changes


def build(name: str, n_inputs: int, seed: int) -> Method:
    """Make a method by its name."""
    base, changes = split(name)
    settings: dict[str, Any] = changes
    return METHODS[base].build(n_inputs, seed, **settings)
