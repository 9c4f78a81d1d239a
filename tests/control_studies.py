"""Control studies whose outcomes are made up: tables, figures and reports without an agent."""

from agents.study import ControlStudy
from habnn_control.experiments.engine import Outcome

COLUMNS = ("loss", "consumption", "fatigue", "velocity", "gain", "shift")


def study_of(agents, setpoints=(100.0,), runs=1, steps=12, seed=3, **changes):
    return ControlStudy(agents, {"setpoint": setpoints}, runs, steps, seed, **changes)


def task_of(agent, steps=12, wandering=False, **changes):
    """Return the only task of one agent at setpoint 100."""
    arguments = {"setpoint": [100.0], **({"wandering": [True]} if wandering else {})}
    (task,) = ControlStudy((agent,), arguments, 1, steps, 3, **changes).tasks()
    return task


def outcome_of(columns, wall_seconds=1.0, decision_seconds=0.1):
    return Outcome(columns, {"wall_seconds": wall_seconds, "decision_seconds": decision_seconds})
