"""Runs as monitor.csv files of Stable-Baselines3, which its own tools read, and such files as results of ours.

A file begins with a line of JSON after #, then has one row per episode: r, the return; l, the length; t, the seconds
since the beginning.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from habnn_control.experiments.engine import write_csv
from habnn_control.support.files import atomic_write, read_json

SUFFIX = "monitor.csv"
IMPORTED = "imported_from"  # entry of config.json in a folder that `import_monitors` wrote


class EpisodeRow(NamedTuple):
    """One row of a monitor file."""

    r: float
    l: int  # noqa: E741  # SB3's name
    t: float


def write_monitor(path: str | Path, env: str, start: float, episodes: list[EpisodeRow]) -> None:
    """Write a monitor file.

    Parameters
    ----------
    path : str or Path
        Its name must end in monitor.csv.
    env : str
        Id of the environment.
    start : float
        Time of the beginning, as `time.time` gives it.
    episodes : list of EpisodeRow
        A run that ends in the middle of an episode has this episode as its last row; Monitor of SB3 leaves it out.
    """
    head = json.dumps({"t_start": start, "env_id": env})
    rows = [f"{round(row.r, 6)},{row.l},{round(row.t, 6)}" for row in episodes]
    with atomic_write(path) as file:
        file.write("\n".join([f"#{head}", "r,l,t", *rows, ""]).encode())


def has_monitors(folder: str | Path) -> bool:
    """Return whether a folder holds monitor files, and no results of `habnn compare`."""
    folder = Path(folder)
    return not (folder / "losses.csv").exists() and any(folder.rglob(f"*{SUFFIX}"))


def import_monitors(folder: str | Path, out: str | Path) -> None:
    """Write losses.csv, timings.csv and config.json of the monitor files of a folder, as a report needs them.

    Every folder with such files is an agent, named after it, and every file is a run. The loss of an episode is minus
    its return, and a timestep is one episode. All runs are cut to the number of episodes of the shortest one. No two
    runs have the same seed here: nothing in the files says that they met the same environment.
    """
    folder, out = Path(folder), Path(out)
    if (out / "config.json").exists() and IMPORTED not in read_json(out / "config.json"):
        raise ValueError(f"monitor: out must be empty or hold an earlier import, got {out}; choose another folder.")
    files = sorted(folder.rglob(f"*{SUFFIX}"))
    runs = [(path, *_read(path)) for path in files]
    length = min(len(table) for _, _, table in runs)
    if length == 0:
        empty = next(path for path, _, table in runs if table.empty)
        raise ValueError(f"monitor: {empty} must hold at least one episode, got none; remove it.")
    losses, timings, counts = [], [], dict[str, int]()
    for seed, (path, _, table) in enumerate(runs):
        agent = folder.resolve().name if path.parent == folder else path.parent.relative_to(folder).as_posix()
        run = counts[agent] = counts.get(agent, -1) + 1
        index = {"agent": agent, "run": run, "seed": seed}
        episodes = np.arange(1, length + 1)
        losses.append(pd.DataFrame({**index, "timestep": episodes, "loss": -table["r"].to_numpy(dtype=float)[:length]}))
        wall = float(table["t"].iloc[-1])
        timings.append({**index, "steps": int(table["l"].sum()), "wall_seconds": wall, "decision_seconds": np.nan})
    write_csv(pd.concat(losses, ignore_index=True), out / "losses.csv")
    write_csv(pd.DataFrame(timings), out / "timings.csv")
    env = str(runs[0][1].get("env_id"))
    config = {"env": env, "agents": list(counts), "episodes": length, IMPORTED: str(folder)}
    with atomic_write(out / "config.json") as file:
        file.write((json.dumps(config, indent=2) + "\n").encode())


def _read(path: Path) -> tuple[dict[str, Any], pd.DataFrame]:
    """Return the first line and the rows of a monitor file."""
    wish = f"monitor: {path} must be a monitor.csv of Stable-Baselines3"
    try:
        with path.open() as file:
            first = file.readline()
            header = json.loads(first.removeprefix("#"))
            table = pd.read_csv(file)
        if not (first.startswith("#") and isinstance(header, dict) and {"r", "l", "t"} <= set(table.columns)):
            raise ValueError("other columns")
        table[["r", "l", "t"]].to_numpy(dtype=float)
    except (ValueError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ValueError(f"{wish}, got {error}; remove it, or write it again.") from error
    return header, table
