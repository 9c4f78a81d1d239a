"""Chemical processes of PC-Gym (Bloor et al., 2024): their equations, with operating ranges of our own around them."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
from numpy.typing import NDArray

from habnn_control.support.extras import check_extra

Array = NDArray[np.float64]
Law = Callable[[Array, Array], Array]

OWNER = "PCGym"
_MODULE = "_pcgym_model_classes"
_SETTLING = 60  # steps from the guess before a steady state is solved for


@dataclass(frozen=True)
class Quantity:
    """A state or an input: its name in PC-Gym's equations, and the range that is scaled to [-1, 1]."""

    name: str
    low: float
    high: float


@dataclass(frozen=True)
class Process:
    """How a model of PC-Gym is run.

    Attributes
    ----------
    model : str
        Name of the class in pcgym.model_classes.
    inputs : sequence of Quantity
        What actions move: the first inputs of the model.
    fixed : sequence of float
        The other inputs of the model.
    measured : sequence of Quantity
        States that are observed.
    tracked : sequence of str
        Measured states that have a setpoint.
    operating_points : sequence of sequence of float
        Scaled inputs whose steady states are the setpoints, in turn; the process starts in the first one.
    guess : sequence of float
        A state near the steady states.
    time_step : float
        Duration of a step, in the unit of time of the model.
    substeps : int
        Runge-Kutta steps per step.
    """

    model: str
    inputs: Sequence[Quantity]
    fixed: Sequence[float]
    measured: Sequence[Quantity]
    tracked: Sequence[str]
    operating_points: Sequence[Sequence[float]]
    guess: Sequence[float]
    time_step: float
    substeps: int


_POINTS = ((0.0, 0.0), (0.5, 0.3), (-0.4, 0.2), (0.3, -0.4))

PROCESSES = {
    "CSTR": Process(
        "cstr",
        inputs=[Quantity("Tc", 294.0, 302.0)],
        fixed=[350.0, 1.0],
        measured=[Quantity("Ca", 0.8, 0.95), Quantity("T", 312.0, 332.0)],
        tracked=["Ca"],
        operating_points=[(0.0,), (0.6,), (-0.5,), (0.8,)],
        guess=[0.9, 321.0],
        time_step=0.25,
        substeps=5,
    ),
    "FourTank": Process(
        "four_tank",
        inputs=[Quantity("v1", 1.0, 9.0), Quantity("v2", 1.0, 9.0)],
        fixed=[],
        measured=[Quantity(f"h{k}", 0.0, top) for k, top in ((1, 0.3), (2, 0.36), (3, 0.6), (4, 0.32))],
        tracked=["h1", "h2"],
        operating_points=_POINTS,
        guess=[0.1, 0.1, 0.2, 0.1],
        time_step=15.0,
        substeps=5,
    ),
    "MultistageExtraction": Process(
        "multistage_extraction",
        inputs=[Quantity("L", 5.0, 40.0), Quantity("G", 5.0, 40.0)],
        fixed=[0.6, 0.05],
        measured=[Quantity(name, 0.0, 0.8) for name in ("Y1", "X3", "X5", "Y5")],
        tracked=["Y1", "X5"],
        operating_points=_POINTS,
        guess=[0.46, 0.6, 0.32, 0.46, 0.2, 0.32, 0.11, 0.19, 0.055, 0.1],
        time_step=0.5,
        substeps=10,
    ),
    "DistillationColumn": Process(
        "distillation_column",
        inputs=[Quantity("R", 1.0, 6.0), Quantity("F", 400.0, 650.0)],
        fixed=[],
        measured=[
            Quantity("X0", 0.75, 1.0),
            Quantity("X2", 0.0, 1.0),
            Quantity("Xf", 0.0, 0.5),
            Quantity("Xb", 0.0, 0.1),
        ],
        tracked=["X0", "Xb"],
        operating_points=_POINTS,
        guess=[0.98, 0.91, 0.71, 0.41, 0.2, 0.11, 0.05, 0.02, 0.007],
        time_step=10.0,
        substeps=20,
    ),
    "CSTRSeriesRecycle": Process(
        "cstr_series_recycle",
        inputs=[
            Quantity("F", 1e-4, 5e-4),
            Quantity("L", 1e-4, 1e-3),
            Quantity("Tc1", 310.0, 360.0),
            Quantity("Tc2", 310.0, 360.0),
        ],
        fixed=[],
        measured=[
            Quantity("C1", 50.0, 100.0),
            Quantity("T1", 298.0, 345.0),
            Quantity("C2", 50.0, 100.0),
            Quantity("T2", 298.0, 350.0),
        ],
        tracked=["C2", "T1"],
        operating_points=[(0.0, 0.0, 0.0, 0.0), (-0.5, 0.0, 0.5, 0.5), (-0.5, 0.0, -0.4, 0.0), (0.5, 0.0, 0.6, 0.0)],
        guess=[85.0, 315.0, 80.0, 320.0],
        time_step=2.0,
        substeps=10,
    ),
    "HeatExchanger": Process(
        "heat_exchanger",
        inputs=[Quantity("Ft", 2.0, 12.0), Quantity("Fs", 2.0, 12.0)],
        fixed=[360.0, 290.0],
        measured=[Quantity("Tt8", 290.0, 350.0), Quantity("Ts1", 300.0, 360.0), Quantity("Tm4", 290.0, 360.0)],
        tracked=["Tt8", "Ts1"],
        operating_points=_POINTS,
        guess=[325.0] * 24,
        time_step=2.0,
        substeps=8,
    ),
    "PolymerisationReactor": Process(
        "polymerisation_reactor",
        inputs=[Quantity("F", 1.5, 4.5), Quantity("Tf", 295.0, 315.0)],
        fixed=[9.0, 1.0],
        measured=[Quantity("T", 294.0, 324.0), Quantity("M", 8.4, 9.0), Quantity("I", 0.8, 1.0)],
        tracked=["T", "M"],
        operating_points=_POINTS,
        guess=[310.0, 8.8, 0.95],
        time_step=0.1,
        substeps=4,
    ),
}


@dataclass(frozen=True)
class Dynamics:
    """The law of motion of a process, for batches of states (n_states, n).

    Attributes
    ----------
    process : Process
    law : callable
        Derivatives (n_states, n) of states (n_states, n) under all inputs (n_inputs, n) of the model.
    states : tuple of str
        Names of the states.
    """

    process: Process
    law: Law
    states: tuple[str, ...]

    def advanced(self, states: Array, positions: Array) -> Array:
        """Return the states one step later, under scaled inputs (n_actions, n); classical Runge-Kutta steps."""
        inputs, step = self._inputs(positions), self.process.time_step / self.process.substeps
        for _ in range(self.process.substeps):
            first = self._slope(states, inputs)
            second = self._slope(states + step / 2 * first, inputs)
            third = self._slope(states + step / 2 * second, inputs)
            last = self._slope(states + step * third, inputs)
            states = np.maximum(states + step / 6 * (first + 2 * second + 2 * third + last), 0.0)
        return states

    def steady_state(self, position: Sequence[float]) -> Array:
        """Return the state (n_states,) in which the process rests under scaled inputs."""
        from scipy.optimize import root  # slow to import

        positions = np.array(position, dtype=np.float64)[:, None]
        state = np.array(self.process.guess, dtype=np.float64)[:, None]
        for _ in range(_SETTLING):
            state = self.advanced(state, positions)
        inputs = self._inputs(positions)

        def slope(x: Array) -> Array:
            return self._slope(x[:, None], inputs)[:, 0]

        solved: Any = root(slope, state[:, 0], tol=1e-12)
        return np.asarray(solved.x, dtype=np.float64)

    def scaled(self, states: Array, names: Sequence[str]) -> Array:
        """Return the named measured states (len(names), n), scaled so that their ranges become [-1, 1]."""
        ranges = {one.name: one for one in self.process.measured}
        rows = [(2 * states[self.states.index(k)] - ranges[k].low - ranges[k].high) / _width(ranges[k]) for k in names]
        return np.array(rows)

    def _inputs(self, positions: Array) -> Array:
        moved = [one.low + (row + 1) / 2 * _width(one) for one, row in zip(self.process.inputs, positions, strict=True)]
        return np.array([*moved, *(np.full(positions.shape[1], value) for value in self.process.fixed)])

    def _slope(self, states: Array, inputs: Array) -> Array:
        return np.array(self.law(np.maximum(states, 0.0), inputs))


@cache
def dynamics_of(name: str) -> Dynamics:
    """Return the law of motion of a process of PROCESSES; needs the extra `plants`."""
    process = PROCESSES[name]
    kind = getattr(_model_classes(), process.model)
    try:
        law = kind(int_method="casadi")  # formulas in NumPy, not in JAX
    except TypeError:
        law = kind()  # a model without the choice
    return Dynamics(process, law, tuple(law.info()["states"]))


@cache
def _model_classes() -> ModuleType:
    """Return PC-Gym's module of equations, without the package around it, whose import takes ten seconds and warns."""
    check_extra(f"{OWNER}: the environment", "pcgym", "plants")
    package = find_spec("pcgym")
    assert package is not None
    assert package.submodule_search_locations is not None
    path = Path(package.submodule_search_locations[0]) / "model_classes.py"
    spec = spec_from_file_location(_MODULE, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[_MODULE] = module_from_spec(spec)
    with catch_warnings():
        simplefilter("ignore")
        spec.loader.exec_module(module)
    return module


def _width(quantity: Quantity) -> float:
    return quantity.high - quantity.low
