"""The control study: its grid of tasks, its tables, and how its flags are read."""

import json

import numpy as np
import pandas as pd
import pytest

from agents.study import ControlStudy, check_env, check_setpoint, read_agent_settings, read_arguments
from control_studies import COLUMNS, outcome_of, study_of
from habnn_control.experiments.engine import claim, read_study, run_path, run_study

BENCHMARK = "IndustrialBenchmark-v0"
STUDY = study_of(("b", "a"), (100.0, 20.0), runs=3, steps=4, seed=7)


def play(task):
    rng = np.random.default_rng((task["agent_seed"], task.seed))
    return outcome_of({name: rng.normal(size=task["steps"]) for name in COLUMNS})


def test_control_study_losses_have_the_contract_columns_in_canonical_order(tmp_path):
    assert run_study(STUDY, play, tmp_path) == []
    losses = pd.read_csv(tmp_path / "losses.csv")
    header = "agent,setpoint,run,seed,timestep,loss,consumption,fatigue,velocity,gain,shift"
    assert (tmp_path / "losses.csv").read_text().splitlines()[0] == header
    assert losses.agent.tolist() == ["b"] * 24 + ["a"] * 24
    assert losses.setpoint.tolist() == ([100] * 12 + [20] * 12) * 2
    assert losses.timestep.tolist() == [1, 2, 3, 4] * 12
    timings = (tmp_path / "timings.csv").read_text().splitlines()
    assert timings[:2] == ["agent,setpoint,run,seed,steps,wall_seconds,decision_seconds", "b,100,0,7,4,1.0,0.1"]
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "losses.parquet"), losses)


def test_control_study_pairs_agents_and_seeds_each_on_its_own():
    tasks = STUDY.tasks()
    assert {task["agent"]: task.seed for task in tasks if task.run == 1} == {"a": 8, "b": 8}
    assert len({task["agent_seed"] for task in tasks}) == 2 * 3  # whatever the setpoint


@pytest.mark.parametrize(
    ("env", "arguments", "columns"),
    [
        (BENCHMARK, {"setpoint": [100.0], "wandering": [True]}, ["agent", "setpoint"]),
        (BENCHMARK, {"setpoint": [1.0], "wandering": [True, False]}, ["agent", "setpoint", "wandering"]),
        ("Pendulum-v1", {}, ["agent"]),
        ("Pendulum-v1", {"g": [9.81]}, ["agent", "g"]),
        ("Pendulum-v1", {"g": [9.81, 3.7], "x": ["a"]}, ["agent", "g", "x"]),
    ],
)
def test_control_study_has_a_column_per_argument_of_the_grid(env, arguments, columns):
    study = ControlStudy(["noop"], arguments, 1, 5, env=env)
    assert list(study.factors) == columns
    tasks = study.tasks()
    assert len(tasks) == np.prod([len(values) for values in arguments.values()])
    for task in tasks:
        assert {**task["env_arguments"], **task.factors}.keys() == {"agent", *arguments}
    losses = study.tables([(task, outcome_of({"loss": np.zeros(5)})) for task in tasks])["losses"]
    assert list(losses.columns) == [*columns, "run", "seed", "timestep", "loss"]


def test_control_study_fills_columns_that_some_runs_do_not_have():
    study = ControlStudy(["noop"], {"size": [1, 2]}, 1, 2, env="Toy-v0")
    small, large = study.tasks()
    stored = [
        (small, outcome_of({"loss": np.ones(2), "entry_0": np.ones(2)})),
        (large, outcome_of({"loss": np.ones(2), "entry_0": np.ones(2), "entry_1": np.ones(2)})),
    ]
    losses = study.tables(stored)["losses"]
    assert list(losses.columns)[-3:] == ["loss", "entry_0", "entry_1"]
    assert losses["entry_1"].isna().tolist() == [True, True, False, False]


def test_control_study_is_read_back_as_it_was(tmp_path):
    settings = {"b": {"planner": {"kind": "mppi"}, "sweep": (0.1, 0.2)}}
    study = ControlStudy(("b",), {"mirror": [("velocity", "gain")]}, 2, 5, agent_settings=settings, plugins=["json"])
    claim(tmp_path, study)
    assert read_study(tmp_path, ControlStudy) == study
    assert [task["agent_settings"] for task in study.tasks()] == [
        {"planner": {"kind": "mppi"}, "sweep": [0.1, 0.2]}
    ] * 2


def test_control_study_with_other_agent_settings_is_another_study(tmp_path):
    claim(tmp_path, study_of(["habnn"], agent_settings={"habnn": {"horizon": 3}}))
    with pytest.raises(ValueError, match=r"agent_settings \{'habnn': \{'horizon': 3\}\} instead of \{\}"):
        claim(tmp_path, study_of(["habnn"]))


def test_control_study_paths_carry_all_digits_of_a_setpoint(tmp_path):
    study = study_of(["noop"], (33.33333, 33.333331))
    assert len({run_path(tmp_path, task) for task in study.tasks()}) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"agents": ("a", "a")}, "agents must be distinct"),
        ({"arguments": {"setpoint": [1, 1.0]}}, "setpoint must be distinct"),
        ({"arguments": {"setpoint": []}}, "setpoint must be distinct and at least one"),
        ({"arguments": {"seed": [1]}}, "arguments must not be called agent, run, seed.*got 'seed'"),
        ({"arguments": {"x": [{1, 2}]}}, "arguments must be numbers, texts, lists and mappings"),
        ({"steps": 0}, "steps must be an integer of at least 1, got 0"),
        ({"pretrain_steps": -1}, "pretrain_steps must be an integer of at least 0, got -1"),
        ({"agent_settings": {"habn": {}}}, "agent_settings must be of habnn, got 'habn'; did you mean 'habnn'"),
    ],
)
def test_control_study_raises_on_bad_values(change, message):
    fields = {"agents": ("habnn",), "arguments": {}, "runs": 1, "steps": 1} | change
    with pytest.raises(ValueError, match=f"ControlStudy: {message}"):
        ControlStudy(**fields)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("g=9.81", [9.81]),
        ("g=1,2,3", [1, 2, 3]),
        ("wandering=True,False", [True, False]),
        ("mode=fast,slow", ["fast", "slow"]),
        ("mirror=('velocity','gain')", [("velocity", "gain")]),
        ("mirror=['a','b'],['c']", [["a", "b"], ["c"]]),
        ("name='a,b',c", ["a,b", "c"]),
        ("name=x=1", ["x=1"]),
        ("limit=None", [None]),
    ],
)
def test_read_arguments_takes_literals_and_text(text, values):
    assert read_arguments([text], env="Pendulum-v1") == {text.partition("=")[0]: values}


def test_read_arguments_knows_short_forms_and_the_default_setpoint():
    assert read_arguments([], env=BENCHMARK) == {"setpoint": [100.0]}
    assert read_arguments([], env="Pendulum-v1", setpoint=(), wandering=()) == {}
    long, short = read_arguments(["setpoint=100,40"], BENCHMARK), read_arguments([], BENCHMARK, setpoint=(100.0, 40.0))
    assert long == short == {"setpoint": [100.0, 40.0]}
    assert list(read_arguments(["wandering=True"], BENCHMARK)) == ["setpoint", "wandering"]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["g"], "must be written name=value, got 'g'"),
        (["g="], "must be written name=value"),
        (["9=1"], "must be written name=value"),
        (["setpoint=1"], "must be given once, got 'setpoint' twice"),
    ],
)
def test_read_arguments_raises_on_bad_text(texts, message):
    with pytest.raises(ValueError, match=message):
        read_arguments(texts, BENCHMARK, setpoint=(100.0,))


def test_read_agent_settings_reads_json():
    assert read_agent_settings("") == {}
    assert read_agent_settings(json.dumps({"sac": {"gamma": 0.9}})) == {"sac": {"gamma": 0.9}}


@pytest.mark.parametrize("text", ["{", "3", '{"sac": 1}', "[]"])
def test_read_agent_settings_raises_on_anything_else(text):
    with pytest.raises(ValueError, match="agent-settings: JSON must be an object of objects, got"):
        read_agent_settings(text)


def test_check_env_names_the_nearest_id():
    check_env("Pendulum-v1")
    check_env("envs:IndustrialBenchmark-v0")
    with pytest.raises(ValueError, match="got 'Pendulun-v1'; did you mean 'Pendulum-v1'"):
        check_env("Pendulun-v1")


def test_control_study_check_raises_on_arguments_the_environment_does_not_have():
    with pytest.raises(ValueError, match=r"Pendulum-v1: env-arg must be arguments that the environment accepts.*'gg'"):
        ControlStudy(["noop"], {"gg": [1]}, 1, 1, env="Pendulum-v1").check()


@pytest.mark.parametrize(("bad", "nearest"), [(-3.0, "0"), (120.0, "100"), (float("nan"), "0"), ("x", "100")])
def test_check_setpoint_raises_on_values_out_of_range(bad, nearest):
    with pytest.raises(ValueError, match=rf"setpoint must be in 0..100, got .*; the nearest is {nearest}"):
        check_setpoint(bad)
