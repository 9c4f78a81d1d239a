"""Transitions from tables: what each row means, what is refused, and that an agent learns from them."""

import numpy as np
import pandas as pd
import pytest

from habnn_control.control.model import Transitions
from tiny_agents import habnn, plant

OBSERVED, ACTED = ["level", "flow"], ["valve"]
FRAME = pd.DataFrame(
    {
        "time": range(5),
        "level": [1.0, 2.0, 3.0, 7.0, 8.0],
        "flow": [10, 20, 30, 70, 80],
        "valve": [0.1, 0.2, np.nan, 0.7, np.nan],
        "batch": ["a", "a", "a", "b", "b"],
    }
)


def test_from_frame_pairs_each_row_with_the_next_of_its_episode():
    log = Transitions.from_frame(FRAME, OBSERVED, ACTED, episode="batch")
    np.testing.assert_array_equal(log.observations, [[1, 10], [2, 20], [7, 70]])
    np.testing.assert_array_equal(log.next_observations, [[2, 20], [3, 30], [8, 80]])
    np.testing.assert_array_equal(log.actions, [[0.1], [0.2], [0.7]])
    assert log.starts.tolist() == [True, False, True]


def test_from_frame_takes_columns_of_next_observations():
    frame = FRAME.assign(valve=0.5, level2=FRAME["level"] + 1, flow2=FRAME["flow"] + 10)
    log = Transitions.from_frame(frame, OBSERVED, ACTED, next_observations=["level2", "flow2"], episode="batch")
    np.testing.assert_array_equal(log.next_observations[:, 0], FRAME["level"] + 1)
    assert log.starts.tolist() == [True, False, False, True, False]


def test_from_csv_is_from_frame_of_the_file(tmp_path):
    FRAME.to_csv(tmp_path / "log.csv", index=False)
    ours = Transitions.from_csv(tmp_path / "log.csv", OBSERVED, ACTED, episode="batch")
    for one, other in zip(ours, Transitions.from_frame(FRAME, OBSERVED, ACTED, episode="batch"), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"observations": "level"}, "observations must be a list of distinct column names, got 'level'"),
        ({"actions": []}, r"actions must be a list of distinct column names, got \[\]"),
        (
            {"observations": ["level", "flo"]},
            "observations must be columns of the table .*got 'flo'; did you mean 'flow'",
        ),
        ({"observations": ["level", "batch"]}, "observations must be columns of numbers, got could not convert"),
        ({"episode": None}, r"actions must be finite, got nan in column 'valve', row 2; leave such rows out"),
        ({"episode": "time"}, r"at least one step, got 5 row\(s\) of as many episodes"),
        ({"episode": "bach"}, "episode must be columns of the table .*did you mean 'batch'"),
        ({"next_observations": ["level"]}, "next_observations must be as many columns as observations, 2, got 1"),
    ],
)
def test_from_frame_raises_on_wrong_columns(changes, message):
    arguments = {"observations": OBSERVED, "actions": ACTED, "episode": "batch", **changes}
    with pytest.raises(ValueError, match=f"Transitions: .*{message}"):
        Transitions.from_frame(FRAME, **arguments)


def test_from_frame_raises_on_missing_readings_and_episodes():
    with pytest.raises(ValueError, match="observations must be finite, got inf in column 'flow', row 4"):
        Transitions.from_frame(FRAME.assign(flow=[1, 2, 3, 4, np.inf]), OBSERVED, ACTED, episode="batch")
    with pytest.raises(ValueError, match="batch must name the episode of every row, got none in row 3"):
        Transitions.from_frame(FRAME.assign(batch=["a", "a", "a", None, "b"]), OBSERVED, ACTED, episode="batch")
    with pytest.raises(TypeError, match="frame must be a pandas DataFrame, got dict"):
        Transitions.from_frame({}, OBSERVED, ACTED)


def test_from_csv_raises_on_files_that_are_no_tables(tmp_path):
    (tmp_path / "empty.csv").touch()
    with pytest.raises(ValueError, match=r"empty\.csv must be a CSV file with a line of column names"):
        Transitions.from_csv(tmp_path / "empty.csv", OBSERVED, ACTED)
    with pytest.raises(
        FileNotFoundError, match=r"Transitions: path must be an existing CSV file, got '.*missing\.csv'"
    ):
        Transitions.from_csv(tmp_path / "missing.csv", OBSERVED, ACTED)
    with pytest.raises(IsADirectoryError, match="Transitions: path must be an existing CSV file, got "):
        Transitions.from_csv(tmp_path, OBSERVED, ACTED)


def test_pretrain_raises_on_anything_but_transitions():
    with pytest.raises(TypeError, match=r"model: transitions must be Transitions, got DataFrame; make them with"):
        habnn(plant()).pretrain(pd.DataFrame({"v": [1.0, 2.0]}))


def test_agent_pretrains_from_a_csv_of_its_plant_as_from_its_steps(tmp_path):
    """A log of random actions as a plant's historian writes it, in a file and back."""
    env, rng = plant(), np.random.default_rng(0)
    observation, _ = env.reset()
    names = [f"sensor {k}" for k in range(6)]
    moved = ["dv", "dg", "dh"]
    rows = []
    for _ in range(30):
        action = rng.uniform(-1, 1, 3).astype(np.float32)
        rows.append({**dict(zip(names, observation, strict=True)), **dict(zip(moved, action, strict=True))})
        observation = env.step(action)[0]
    pd.DataFrame(rows).to_csv(tmp_path / "log.csv", index=False)
    log = Transitions.from_csv(tmp_path / "log.csv", names, moved)
    assert np.asarray(log.actions).shape == (29, 3)
    ours, theirs = habnn(plant()), habnn(plant())
    untrained = habnn(plant()).model.network.weight_loc[0].copy()
    ours.pretrain(log)
    table = pd.DataFrame(rows).to_numpy(dtype=float)
    theirs.pretrain(Transitions(table[:-1, :6], table[:-1, 6:], table[1:, :6], [True] + [False] * 28))
    np.testing.assert_allclose(ours.model.network.weight_loc[0], theirs.model.network.weight_loc[0], rtol=1e-6)
    assert not np.array_equal(ours.model.network.weight_loc[0], untrained)
    assert ours.learn(3) is ours
