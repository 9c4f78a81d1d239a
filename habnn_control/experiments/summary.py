"""The one place that turns tidy results into tables: means per window with intervals, and all pairs of agents.

A tidy table has one row per step. Its columns are agent, one column per argument (what runs were varied in, such as a
setpoint; there may be none), run, seed, timestep, and one column per quantity. Lower values are better.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from habnn_control.experiments.statistics import (
    Estimate,
    improvement_estimate,
    iqm_estimate,
    mean_estimate,
    score_estimate,
)

WINDOWS = ((1, 60), (61, 100), (101, 200), (201, 300), (901, 1000))
ALL = "all"  # value of the argument columns in rows about all combinations of arguments together
NOOP, ORACLE = "noop", "oracle"  # the agents with score 0 and score 1
NOTHING = Estimate(np.nan, np.nan, np.nan)

Array = NDArray[np.float64]
Condition = tuple[Any, ...]  # values of the argument columns


class Curves(NamedTuple):
    """One quantity of one agent under one condition: `values` (runs, steps) and the environment `seeds` (runs,)."""

    seeds: NDArray[np.int64]
    values: Array


CurvesOf = dict[tuple[str, Condition], Curves]  # by agent and condition, both in the order of the study


def argument_columns(table: pd.DataFrame) -> list[str]:
    """Return the names of the argument columns of a tidy table, of a summary or of comparisons."""
    names = list(table.columns)
    end = min(names.index(name) for name in ("run", "window", "timestep") if name in names)
    return [name for name in names[:end] if name != "agent"]


def conditions_of(losses: pd.DataFrame) -> list[Condition]:
    """Return the combinations of arguments in a tidy table, in order."""
    arguments = argument_columns(losses)
    rows = losses[arguments].drop_duplicates().itertuples(index=False, name=None) if arguments else [()]
    return [tuple(row) for row in rows]


def value_text(value: Any) -> str:
    """Return the value of an argument as text, no digit lost: 100 for 100.0."""
    whole = isinstance(value, float) and float(f"{value:g}") == value
    return f"{value:g}" if whole else str(value)


def curves_of(losses: pd.DataFrame, column: str = "loss") -> CurvesOf:
    """Return the curves of every agent under every condition from a tidy table in canonical order."""
    arguments, curves = argument_columns(losses), {}
    for _, rows in losses.groupby(["agent", *arguments], sort=False):
        seeds = rows["seed"].unique()
        agent, *condition = rows[["agent", *arguments]].iloc[0]
        curves[str(agent), tuple(condition)] = Curves(seeds, rows[column].to_numpy().reshape(len(seeds), -1))
    return curves


def windows_within(steps: int) -> list[tuple[int, int]]:
    """Return the windows of timesteps (both ends included) that a run of `steps` fills, the whole run among them.

    Of a run longer than the last window, the last tenth is one too.
    """
    inside = [window for window in WINDOWS if window[1] <= steps]
    if steps > WINDOWS[-1][1]:
        inside.append((steps - steps // 10 + 1, steps))
    whole = (1, steps)
    return inside if whole in inside else [*inside, whole]


def summarise(
    losses: pd.DataFrame,
    timings: pd.DataFrame,
    column: str = "loss",
    thresholds: Sequence[float] = (),
    returns: Mapping[str, Array] | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Summarise one study, or several put together.

    Parameters
    ----------
    losses, timings : DataFrame
        As in losses.csv and timings.csv.
    column : str
        The quantity to summarise; lower is better.
    thresholds : sequence of float
        Each adds a column `runs_above_THRESHOLD`: the number of runs whose mean over the window is above it.
    returns : mapping of str to array, optional
        Each adds a column with the mean over runs of the sum of the first values with these weights, one per step;
        empty for runs with fewer steps.

    Returns
    -------
    summary : DataFrame
        One row per agent, condition ("all" together too) and window: number of runs, mean and interquartile mean of the
        mean of a run with 95 % intervals, score between "noop" and "oracle" if both were played, probability of a lower
        value than each other agent, and the times.
    comparisons : DataFrame
        One row per ordered pair of agents, condition and window: probability of improvement, and the mean difference of
        the runs that met the same environment seed, both with intervals; `runs_paired` is the number of these runs,
        `runs_better` the number in which `agent` has the lower value.
    """
    rng = np.random.default_rng(0)
    curves = curves_of(losses, column)
    agents = list(dict.fromkeys(agent for agent, _ in curves))
    conditions = list(dict.fromkeys(condition for _, condition in curves))
    rows: list[dict[str, Any]] = []
    pairs: list[dict[str, Any]] = []
    for group in [[condition] for condition in conditions] + ([conditions] if len(conditions) > 1 else []):
        for first, last in windows_within(max(item.values.shape[1] for item in curves.values())):
            label = _label(argument_columns(losses), group) | {"window": f"{first}-{last}"}
            means = {agent: _window_means(curves, agent, group, first, last) for agent in agents}
            present = {agent: strata for agent, strata in means.items() if strata}
            compared = list(_compare(present, rng))
            pairs += [{"agent": pair["agent"]} | label | pair for pair in compared]
            for agent in present:
                better = {
                    f"p_better_than_{pair['other']}": pair["p_better"] for pair in compared if pair["agent"] == agent
                }
                described = _describe(present, agent, thresholds, rng)
                totals = {name: _mean_sum(curves, agent, group, weights) for name, weights in (returns or {}).items()}
                rows.append({"agent": agent} | label | described | totals | better | _times(timings, agent, group))
    return _by_agent(rows, agents), _by_agent(pairs, agents)


def _mean_sum(curves: CurvesOf, agent: str, group: list[Condition], weights: Array) -> float:
    """Return the mean over runs and conditions of the weighted sum of the first values; NaN if runs are shorter."""
    parts = [curves[agent, condition].values[:, : len(weights)] for condition in group if (agent, condition) in curves]
    if any(part.shape[1] < len(weights) for part in parts):
        return np.nan
    return float(np.mean([(part @ weights).mean() for part in parts]))


def _label(arguments: list[str], group: list[Condition]) -> dict[str, str]:
    values = [value_text(value) for value in group[0]] if len(group) == 1 else [ALL] * len(arguments)
    return dict(zip(arguments, values, strict=True))


def headline(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the short table that people look at first, as text: means per window with 95 % intervals.

    It has one row per condition and agent: losses under several conditions, such as setpoints, have no common scale. An
    argument is a column if it has several values.
    """
    arguments = argument_columns(summary)
    conditions = list(dict.fromkeys(summary[arguments].astype(str).itertuples(index=False, name=None)))
    single = [dict(zip(arguments, one, strict=True)) for one in conditions if ALL not in one]
    shown = [name for name in arguments if len({one[name] for one in single}) > 1]
    rows = []
    for condition in single or [{}]:
        for _, windows in rows_of(summary, condition).groupby("agent", sort=False):
            last = windows.iloc[-1]
            row = {"agent": last["agent"], **{name: condition[name] for name in shown}, "runs": str(last["runs"])}
            for _, window in windows.iterrows():
                row[f"steps {window['window']}"] = _with_interval(window, "mean", 1)
            row[f"IQM {last['window']}"] = _with_interval(last, "iqm", 1)
            if "score" in windows:
                row[f"score {last['window']}"] = _with_interval(last, "score", 2)
            rows.append(row | {"ms/decision": "" if np.isnan(last["decision_ms"]) else f"{last['decision_ms']:.2f}"})
    return pd.DataFrame.from_records(rows).fillna("")


def headline_condition(table: pd.DataFrame) -> dict[str, str]:
    """Return the condition of the first matrix of probabilities: all together where there are several."""
    arguments = argument_columns(table)
    together = dict.fromkeys(arguments, ALL)
    if table.empty or not rows_of(table, together).empty:
        return together
    return {name: str(table[name].iloc[0]) for name in arguments}


def rows_of(table: pd.DataFrame, condition: dict[str, str]) -> pd.DataFrame:
    """Return the rows of a summary or of comparisons that are about one condition."""
    for name, value in condition.items():
        table = table[table[name].astype(str) == value]
    return table


def _with_interval(row: "pd.Series[Any]", name: str, digits: int) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    interval = "" if np.isnan(low) else f" [{low:z.{digits}f}, {high:z.{digits}f}]"  # z: no minus before zero
    return f"{row[name]:z.{digits}f}{interval}"


def _window_means(curves: CurvesOf, agent: str, group: list[Condition], first: int, last: int) -> list[Curves]:
    """Return the mean of each run over a window, one stratum per condition; nothing if some runs are missing."""
    mine = [curves.get((agent, condition)) for condition in group]
    if any(item is None or item.values.shape[1] < last for item in mine):
        return []
    return [Curves(item.seeds, item.values[:, first - 1 : last].mean(axis=1)) for item in mine if item is not None]


def _describe(
    present: dict[str, list[Curves]], agent: str, thresholds: Sequence[float], rng: np.random.Generator
) -> dict[str, Any]:
    strata = [stratum.values for stratum in present[agent]]
    row: dict[str, Any] = {"runs": sum(map(len, strata))}
    for threshold in thresholds:
        row[f"runs_above_{value_text(float(threshold))}"] = sum(int((values > threshold).sum()) for values in strata)
    row |= _columns("mean", mean_estimate(strata, rng)) | _columns("iqm", iqm_estimate(strata, rng))
    if NOOP in present and ORACLE in present:
        score = NOTHING
        if paired := _paired([present[name] for name in (agent, NOOP, ORACLE)]):
            mine, noop, oracle = paired
            score = score_estimate(mine, noop, oracle, rng)
        row |= _columns("score", score)
    return row


def _compare(present: dict[str, list[Curves]], rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    for agent, mine in present.items():
        for other, theirs in present.items():
            if agent != other:
                improvement = improvement_estimate([s.values for s in mine], [s.values for s in theirs], rng)
                paired = _paired([mine, theirs])
                differences = [a - b for a, b in zip(*paired, strict=True)]
                difference = mean_estimate(differences, rng) if paired else NOTHING
                columns = _columns("p_better", improvement) | _columns("difference", difference)
                better = {"runs_better": sum(int((part < 0).sum()) for part in differences)}
                counts = better | {"runs_paired": sum(map(len, differences))}
                yield {"agent": agent, "other": other} | columns | counts


def _paired(agents: Sequence[list[Curves]]) -> list[list[Array]]:
    """Return the strata of several agents, restricted to the seeds that all of them met; nothing if there are none."""
    common = [reduce(np.intersect1d, [item.seeds for item in stratum]) for stratum in zip(*agents, strict=True)]
    if any(seeds.size == 0 for seeds in common):
        return []
    return [
        [item.values[np.isin(item.seeds, seeds)] for item, seeds in zip(strata, common, strict=True)]
        for strata in agents
    ]


def _columns(name: str, estimate: Estimate) -> dict[str, float]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def _times(timings: pd.DataFrame, agent: str, group: list[Condition]) -> dict[str, float]:
    """Return the mean wall time per run and the median decision time per step: the first run of a worker compiles."""
    arguments = argument_columns(timings)
    inside = [tuple(row) in group for row in zip(*(timings[name] for name in arguments), strict=True)]
    mine = timings[(timings["agent"] == agent) & (np.array(inside, dtype=bool) if arguments else True)]
    decision_ms = 1e3 * mine["decision_seconds"] / mine["steps"]
    return {"wall_seconds": float(mine["wall_seconds"].mean()), "decision_ms": float(decision_ms.median())}


def _by_agent(rows: list[dict[str, Any]], agents: list[str]) -> pd.DataFrame:
    return pd.DataFrame.from_records(sorted(rows, key=lambda row: agents.index(row["agent"])))
