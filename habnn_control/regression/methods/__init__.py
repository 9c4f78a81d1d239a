"""The methods of the study, by name; NAME:SETTING=VALUE,... makes a variant."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from habnn_control.regression.methods import closed_form
from habnn_control.regression.methods.base import Method
from habnn_control.regression.methods.gradient import Dropout, Ensemble, Laplace
from habnn_control.regression.methods.pbp import PBP
from habnn_control.regression.methods.reference import BayesianRidge, GaussianProcess
from habnn_control.regression.methods.sampling import NUTS, SVI
from habnn_control.support.extras import check_extra
from habnn_control.support.names import nearest

VARIABLE = ("scale", "dof", "layers", "outlier_threshold")  # settings that a variant of a HABNN may change

JOINT_VARIABLE = ("scale", "dof", "outlier_threshold", "heteroscedastic")


class Entry(NamedTuple):
    """A method: its builder, observation noise and package, settings that may vary, and whether it samples."""

    build: Callable[..., Method]
    noise: str
    package: str = "numpy"
    variable: tuple[str, ...] = ()
    sampling: bool = False


_CHOSEN = "fixed; of 7 parts of the targets' variance the most likely one on a tenth of the training data"
METHODS = {
    "constant": Entry(closed_form.Constant, "variance of the training targets"),
    "habnn": Entry(closed_form.paper, "fixed, variance 1 (the paper gives none)", variable=VARIABLE),
    "habnn-recommended": Entry(closed_form.recommended, "learned online with the weights", variable=VARIABLE),
    "tagi": Entry(closed_form.tagi, _CHOSEN, variable=VARIABLE),
    "kbnn": Entry(closed_form.kbnn, _CHOSEN, variable=VARIABLE),
    "pytagi": Entry(closed_form.Pytagi, _CHOSEN, "pytagi"),
    "pbp": Entry(PBP, "learned; its prior mean is chosen as TAGI's noise is", variable=("epochs",)),
    "dropout": Entry(Dropout, _CHOSEN, "torch", ("epochs", "rate", "dropout")),
    "laplace": Entry(Laplace, "the one of highest marginal likelihood", "laplace"),
    "svi": Entry(
        SVI, "learned, or fixed and chosen as TAGI's is, whichever is more likely there", "numpyro", ("epochs", "rate")
    ),
    "nuts": Entry(
        NUTS,
        "sampled; its prior expects a tenth of the targets' variance",
        "numpyro",
        ("rows", "warmup", "draws", "depth"),
        True,
    ),
}
# Not part of the paper's study.
OTHERS = {
    "habnn-joint": Entry(closed_form.joint, "several fixed ones, weighted by evidence", variable=JOINT_VARIABLE),
    "habnn-committee": Entry(
        closed_form.committee,
        "several fixed ones, weighted and calibrated by held-out samples",
        variable=("outlier_threshold", "heteroscedastic", "folds"),
    ),
    "nuts-long": Entry(
        partial(NUTS, rows=1e9, warmup=1000, draws=1000, depth=10), "sampled, as that of nuts", "numpyro", (), True
    ),
    "paper-table": Entry(closed_form.PaperTable, "fixed, variance 50"),
    "bayesian-ridge": Entry(BayesianRidge, "that of highest evidence"),
    "gp": Entry(GaussianProcess, "that of highest marginal likelihood", variable=("relevance",)),
    "ensemble": Entry(Ensemble, "learned, depends on the input", "torch", ("epochs", "rate")),
}
PAPER = tuple(METHODS)
METHODS |= OTHERS


def check(name: str) -> None:
    """Raise unless a method has that name and its package is installed."""
    base, changes = split(name)
    if base not in METHODS:
        raise ValueError(f"uci: method must be one of {', '.join(METHODS)}, got {base!r}; {nearest(base, METHODS)}")
    for setting in changes:
        valid = METHODS[base].variable
        if setting not in valid:
            raise ValueError(
                f"uci: a variant of {base} must change {', '.join(valid) or 'nothing'}, got {name!r}; "
                f"{nearest(setting, valid)}"
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
