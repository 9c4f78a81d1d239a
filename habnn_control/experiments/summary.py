"""The one place that turns losses into tables: means per window with intervals, and every agent against every other."""

from collections.abc import Iterator, Sequence
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
ALL_SETPOINTS = "all"
NOOP, ORACLE = "noop", "oracle"  # the ends of the score
NOTHING = Estimate(np.nan, np.nan, np.nan)

Array = NDArray[np.float64]


class Curves(NamedTuple):
    """One quantity of one agent at one setpoint: `values` has shape (runs, steps), `seeds` those of the environment."""

    seeds: NDArray[np.int64]
    values: Array


CurvesOf = dict[tuple[str, float], Curves]  # by agent and setpoint, both in the order of the study


def curves_of(losses: pd.DataFrame, column: str = "loss") -> CurvesOf:
    """Return the curves of every agent at every setpoint from tidy losses in canonical order."""
    curves = {}
    for _, rows in losses.groupby(["agent", "setpoint"], sort=False):
        seeds = rows["seed"].unique()
        key = str(rows["agent"].iloc[0]), float(rows["setpoint"].iloc[0])
        curves[key] = Curves(seeds, rows[column].to_numpy().reshape(len(seeds), -1))
    return curves


def windows_within(steps: int) -> list[tuple[int, int]]:
    """Return the windows of timesteps (both ends included) that a run of `steps` fills, the whole run among them."""
    inside = [window for window in WINDOWS if window[1] <= steps]
    whole = (1, steps)
    return inside if whole in inside else [*inside, whole]


def summarise(losses: pd.DataFrame, timings: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Summarise a study, or several put together.

    Parameters
    ----------
    losses, timings : DataFrame
        As in losses.csv and timings.csv.

    Returns
    -------
    summary : DataFrame
        A row for each agent, setpoint ("all" together too) and window: number of runs, mean and IQM of the mean loss of
        a run with 95 % intervals, score between doing nothing and the oracle where both were played, probability of a
        lower loss than each other agent, and the times.
    comparisons : DataFrame
        A row for each pair of agents, setpoint and window: probability of improvement, and mean difference of the runs
        that met the same environment seed, both with intervals.
    """
    rng = np.random.default_rng(0)
    curves = curves_of(losses)
    agents = list(dict.fromkeys(agent for agent, _ in curves))
    setpoints = list(dict.fromkeys(setpoint for _, setpoint in curves))
    rows: list[dict[str, Any]] = []
    pairs: list[dict[str, Any]] = []
    for group in [[setpoint] for setpoint in setpoints] + ([setpoints] if len(setpoints) > 1 else []):
        for first, last in windows_within(max(item.values.shape[1] for item in curves.values())):
            label = {"setpoint": f"{group[0]:g}" if len(group) == 1 else ALL_SETPOINTS, "window": f"{first}-{last}"}
            means = {agent: _window_means(curves, agent, group, first, last) for agent in agents}
            present = {agent: strata for agent, strata in means.items() if strata}
            compared = list(_compare(present, rng))
            pairs += [{"agent": pair["agent"]} | label | pair for pair in compared]
            for agent in present:
                better = {
                    f"p_better_than_{pair['other']}": pair["p_better"] for pair in compared if pair["agent"] == agent
                }
                rows.append(
                    {"agent": agent} | label | _describe(present, agent, rng) | better | _times(timings, agent, group)
                )
    return _by_agent(rows, agents), _by_agent(pairs, agents)


def headline(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the short table people look at first, as text: mean loss per window with its 95 % interval.

    It is about the setpoint that `headline_setpoint` names.
    """
    chosen = summary[summary["setpoint"] == headline_setpoint(summary)]
    rows = []
    for _, windows in chosen.groupby("agent", sort=False):
        last = windows.iloc[-1]
        row = {"agent": last["agent"], "runs": str(last["runs"])}
        for _, window in windows.iterrows():
            row[f"steps {window['window']}"] = _with_interval(window, "mean", 1)
        row[f"IQM {last['window']}"] = _with_interval(last, "iqm", 1)
        if "score" in chosen:
            row[f"score {last['window']}"] = _with_interval(last, "score", 2)
        rows.append(row | {"ms/decision": f"{last['decision_ms']:.2f}"})
    return pd.DataFrame.from_records(rows).fillna("")


def headline_setpoint(table: pd.DataFrame) -> str:
    """Return the setpoint to look at first in a summary or in comparisons: all together where there are several."""
    setpoints = table["setpoint"].unique()
    return ALL_SETPOINTS if ALL_SETPOINTS in setpoints else str(setpoints[0])


def _with_interval(row: "pd.Series[Any]", name: str, digits: int) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    interval = "" if np.isnan(low) else f" [{low:z.{digits}f}, {high:z.{digits}f}]"  # z: no minus before zero
    return f"{row[name]:z.{digits}f}{interval}"


def _window_means(curves: CurvesOf, agent: str, group: list[float], first: int, last: int) -> list[Curves]:
    """Return each run's mean over a window, one stratum a setpoint; nothing if the agent did not play all of it."""
    mine = [curves.get((agent, setpoint)) for setpoint in group]
    if any(item is None or item.values.shape[1] < last for item in mine):
        return []
    return [Curves(item.seeds, item.values[:, first - 1 : last].mean(axis=1)) for item in mine if item is not None]


def _describe(present: dict[str, list[Curves]], agent: str, rng: np.random.Generator) -> dict[str, Any]:
    strata = [stratum.values for stratum in present[agent]]
    row: dict[str, Any] = {"runs": sum(map(len, strata))}
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
                yield {"agent": agent, "other": other} | columns


def _paired(agents: Sequence[list[Curves]]) -> list[list[Array]]:
    """Return the strata of several agents, cut down to the seeds that all of them met; nothing if there are none."""
    common = [reduce(np.intersect1d, [item.seeds for item in stratum]) for stratum in zip(*agents, strict=True)]
    if any(seeds.size == 0 for seeds in common):
        return []
    return [
        [item.values[np.isin(item.seeds, seeds)] for item, seeds in zip(strata, common, strict=True)]
        for strata in agents
    ]


def _columns(name: str, estimate: Estimate) -> dict[str, float]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def _times(timings: pd.DataFrame, agent: str, group: list[float]) -> dict[str, float]:
    """Return the mean wall time of a run and the median decision time of a step: the first run of a worker compiles."""
    mine = timings[(timings["agent"] == agent) & timings["setpoint"].isin(group)]
    decision_ms = 1e3 * mine["decision_seconds"] / mine["steps"]
    return {"wall_seconds": float(mine["wall_seconds"].mean()), "decision_ms": float(decision_ms.median())}


def _by_agent(rows: list[dict[str, Any]], agents: list[str]) -> pd.DataFrame:
    return pd.DataFrame.from_records(sorted(rows, key=lambda row: agents.index(row["agent"])))
