"""Logged steps from tables: a data frame or a CSV file becomes `Transitions` that an agent can learn from."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from habnn_control.support.names import nearest

if TYPE_CHECKING:  # pandas takes longer to import than the rest of the library
    import pandas as pd

Columns = Sequence[str]
Parts = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]


def parts_of_csv(
    path: str | Path,
    observations: Columns,
    actions: Columns,
    next_observations: Columns | None = None,
    episode: str | None = None,
) -> Parts:
    """Return the parts of `Transitions` from a CSV file; see `parts_of_frame`."""
    import pandas as pd

    try:
        table = pd.read_csv(path)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise type(error)(
            f"Transitions: path must be an existing CSV file, got {str(path)!r} in {Path.cwd()}; check its spelling."
        ) from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ValueError(
            f"Transitions: {path} must be a CSV file with a line of column names, got {error}; export it again."
        ) from error
    return parts_of_frame(table, observations, actions, next_observations, episode)


def parts_of_frame(
    frame: "pd.DataFrame",
    observations: Columns,
    actions: Columns,
    next_observations: Columns | None = None,
    episode: str | None = None,
) -> Parts:
    """Return the parts of `Transitions` from a table with one row per time; see `Transitions.from_frame`."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"Transitions: frame must be a pandas DataFrame, got {type(frame).__name__}; make it one.")
    groups = {"observations": observations, "actions": actions}
    if next_observations is not None:
        groups["next_observations"] = next_observations
        if len(next_observations) != len(observations):
            raise ValueError(
                f"Transitions: next_observations must be as many columns as observations, {len(observations)}, got "
                f"{len(next_observations)}; name them in the same order."
            )
    for name, columns in groups.items():
        _check_columns(frame, name, columns)
    starts = _starts(frame, episode)
    last = np.append(starts[1:], True) if next_observations is None else np.zeros(len(frame), dtype=bool)
    values = {name: _numbers(frame, name, columns, last) for name, columns in groups.items()}
    used = ~last
    if not used.any():
        raise ValueError(
            f"Transitions: frame must hold at least one step, got {len(frame)} row(s) of as many episodes; a step "
            "needs the row after it, or columns of next observations."
        )
    if next_observations is None:
        values["next_observations"] = np.roll(values["observations"], -1, axis=0)
    return values["observations"][used], values["actions"][used], values["next_observations"][used], starts[used]


def _check_columns(frame: "pd.DataFrame", name: str, columns: Columns) -> None:
    """Raise unless `columns` are names of columns, at least one and none twice."""
    if isinstance(columns, str) or not columns or len(set(columns)) < len(columns):
        raise ValueError(
            f"Transitions: {name} must be a list of distinct column names, got {columns!r}; pass all of them, in the "
            "order of the space of the environment."
        )
    known = [str(column) for column in frame.columns]
    for column in columns:
        if column not in frame.columns:
            raise ValueError(
                f"Transitions: {name} must be columns of the table ({', '.join(known)}), got {column!r}; "
                f"{nearest(column, known)}"
            )


def _starts(frame: "pd.DataFrame", episode: str | None) -> NDArray[np.bool_]:
    """Return whether each row begins an episode: wherever the column `episode` changes."""
    starts = np.zeros(len(frame), dtype=bool)
    if episode is not None:
        _check_columns(frame, "episode", [episode])
        column = frame[episode]
        if column.isna().any():
            row = int(np.flatnonzero(column.isna())[0])
            raise ValueError(
                f"Transitions: {episode} must name the episode of every row, got none in row {row}; fill it."
            )
        starts = (column != column.shift()).to_numpy(dtype=bool, copy=True)
    starts[:1] = True
    return starts


def _numbers(frame: "pd.DataFrame", name: str, columns: Columns, last: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return columns as float64; raise unless all are finite, but for actions after the last step of an episode."""
    try:
        values = frame[list(columns)].to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Transitions: {name} must be columns of numbers, got {error}; convert or encode them."
        ) from None
    wrong = ~np.isfinite(values)
    if name == "actions":
        wrong &= ~last[:, None]
    if wrong.any():
        row, place = (int(index[0]) for index in np.nonzero(wrong))
        raise ValueError(
            f"Transitions: {name} must be finite, got {values[row, place]} in column {columns[place]!r}, row {row}; "
            "leave such rows out and give the pieces before and after them different values of an episode column."
        )
    return values
