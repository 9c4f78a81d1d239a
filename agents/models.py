"""Dynamics models that agents know by a name."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from agents.base import keyword_names
from habnn_control.control.model import DynamicsModel
from habnn_control.control.plant import Bounds, Plant
from habnn_control.support.names import check_choice

ModelFactory = Callable[..., DynamicsModel]  # called with plant, bounds and seed=

MODELS = {  # imported when the first one is built
    "habnn": ("habnn_control.control.model_choice", "make_model"),
    "ensemble": ("agents.ensemble", "EnsembleModel"),
    "gp": ("agents.gaussian_process", "GaussianProcessModel"),
    "linear": ("agents.linear", "LinearModel"),
}


def model_factory(settings: Mapping[str, Any]) -> ModelFactory:
    """Return a function that builds the model which `settings` describe."""
    parameters = dict(settings)
    kind = parameters.pop("kind", "habnn")
    check_choice("model", "kind", kind, MODELS)
    module, attribute = MODELS[kind]
    factory = getattr(import_module(module), attribute)
    for name in parameters:
        check_choice(f"model {kind}", "setting", name, keyword_names(factory))

    def build(plant: Plant, bounds: Bounds, seed: int) -> DynamicsModel:
        model: DynamicsModel = factory(plant, bounds, **{"seed": seed, **parameters})
        return model

    return build
