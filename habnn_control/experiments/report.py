"""Everything people look at after a study: tables, figures and one self-contained page, remade from results folders."""

import base64
import json
import re
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from habnn_control.experiments.engine import read_study, read_tables, write_csv
from habnn_control.experiments.plotting import (
    NARROW,
    WIDE,
    figure_bytes,
    losses_figure,
    paper_is_shown,
    save_figure,
    steerings_figure,
)
from habnn_control.experiments.summary import ALL_SETPOINTS, headline, headline_setpoint, summarise
from habnn_control.support.files import atomic_write

_STYLE = """
:root { color-scheme: light dark; --line: #8885; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 72rem; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin-top: 2rem; }
figure { margin: 1rem 0; } figure img { width: 100%; height: auto; background: #fff; border-radius: 4px; }
figcaption, .caption { font-size: .9rem; margin: 1.5rem 0 .3rem; } figcaption { margin-top: .3rem; }
.scroll { overflow-x: auto; background:  /* a shadow at the right edge while there is more to see behind it */
  linear-gradient(to left, Canvas 50%, transparent) right / 3rem 100% no-repeat local,
  linear-gradient(to left, #8887, transparent) right / 1rem 100% no-repeat; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; }
thead th { vertical-align: bottom; } th:first-child, td:first-child { text-align: left; white-space: nowrap;
  position: sticky; left: 0; background: Canvas; }
@media (max-width: 600px) { th, td { padding: .25rem .4rem; } }
pre { background: var(--soft); padding: .7rem; white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem; }
"""


def write_report(folders: Sequence[str | Path], out: str | Path | None = None) -> tuple[pd.DataFrame, Path]:
    """Write summary.csv, comparisons.csv, the figures (PNG and SVG) and report.html from results folders.

    Parameters
    ----------
    folders : sequence of paths
        Results folders; several are laid over each other, their agents told apart by the folder's name.
    out : path, optional
        Where to write; the first folder unless told otherwise.

    Returns
    -------
    summary : DataFrame
    page : Path
        The report.
    """
    target = Path(folders[0] if out is None else out)
    losses, timings = _combined(folders)
    summary, comparisons = summarise(losses, timings)
    for name, table in (("summary", summary), ("comparisons", comparisons)):
        write_csv(table, target / f"{name}.csv")
    pictures = {}
    for name, draw in _figures(losses).items():
        wide, narrow = draw(WIDE), draw(NARROW)
        for suffix in (".png", ".svg"):
            save_figure(wide, target / f"{name}{suffix}")
        pictures[name] = ((target / f"{name}.svg").read_bytes(), figure_bytes(narrow, "svg"))
    page = target / "report.html"
    with atomic_write(page) as file:
        file.write(_page(folders, losses, summary, comparisons, pictures).encode())
    return summary, page


def _combined(folders: Sequence[str | Path]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the tables of all folders; an agent that several folders hold gets the folder's name behind its own."""
    tables = [read_tables(folder) for folder in folders]
    owners: dict[str, int] = {}
    for losses, _ in tables:
        for agent in losses["agent"].unique():
            owners[agent] = owners.get(agent, 0) + 1
    for folder, pair in zip(folders, tables, strict=True):
        for table in pair:
            suffix = f" ({Path(folder).resolve().name})"
            table["agent"] = [agent + suffix if owners[agent] > 1 else agent for agent in table["agent"]]
    losses, timings = (pd.concat(parts, ignore_index=True) for parts in zip(*tables, strict=True))
    return losses, timings


def _figures(losses: pd.DataFrame) -> dict[str, Callable[[float], Figure]]:
    """Return the figures by file name, each a function of its width."""
    figures: dict[str, Callable[[float], Figure]] = {"losses": lambda width: losses_figure(losses, width)}
    for setpoint in losses["setpoint"].unique():

        def draw(width: float, setpoint: float = setpoint) -> Figure:
            return steerings_figure(losses, setpoint, width)

        figures[f"steerings-{setpoint:g}"] = draw
    return figures


def _page(
    folders: Sequence[str | Path],
    losses: pd.DataFrame,
    summary: pd.DataFrame,
    comparisons: pd.DataFrame,
    pictures: dict[str, tuple[bytes, bytes]],
) -> str:
    studies = [(Path(folder), read_study(folder)) for folder in folders]
    steps = max(study.steps for _, study in studies)
    last = str(summary["window"].iloc[-1])
    setpoint = headline_setpoint(summary)
    whose = "over all setpoints" if setpoint == ALL_SETPOINTS else f"at setpoint {setpoint}"
    notes = "".join(f"<li>{escape(note)}</li>" for note in _notes(losses, steps))
    steering = "".join(
        _figure(*svgs, f"Mean velocity, gain and shift with 95 % intervals at setpoint {name.partition('-')[2]}.")
        for name, svgs in pictures.items()
        if name != "losses"
    )
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Agents on the Industrial Benchmark</title><style>{_STYLE}</style></head>
<body><main>
<h1>Agents on the Industrial Benchmark</h1>
<p>Every agent starts cold and learns while it runs the plant. Loss = consumption + 3 fatigue at each step; lower is
better. Run r of every agent met the same environment seed.</p>
{_figure(*pictures["losses"], "Mean loss over timesteps with 95 % bootstrap intervals, one line an agent.")}
<h2>Who wins</h2>
{_table(headline(summary), f"Mean loss of a run {whose} with 95 % stratified-bootstrap intervals.")}
{_table(_matrix(comparisons, last), f"Probability that a run of the row beats one of the column, steps {last}.")}
<h2>How to read it</h2><ul>{notes}</ul>
<h2>Steerings</h2>
{steering}
<h2>All windows and setpoints</h2>
<details><summary>Show the table</summary>{_table(_rounded(summary), "As in summary.csv.")}</details>
<h2>Settings</h2>
{"".join(_settings(folder) for folder, _ in studies)}
</main></body></html>
"""


def _notes(losses: pd.DataFrame, steps: int) -> list[str]:
    """Return what a reader must know to judge the figure, as far as it concerns this study."""
    agents = {str(agent).split(" ")[0] for agent in losses["agent"].unique()}
    notes = []
    if "noop" in agents:
        notes.append(
            "noop never touches the steerings: an agent above its line does worse than leaving the plant alone."
        )
    if "oracle" in agents:
        notes.append("oracle plans on the true simulator from the hidden state: about what can be reached at all.")
    if agents & {"td3", "sac"}:
        notes.append(
            f"td3 and sac with SB3's defaults draw random actions for their first 100 steps (learning_starts): "
            f"{min(steps, 100)} of the {steps} steps shown are warm-up, not learning."
        )
    if "ppo" in agents and steps < 2048:
        notes.append(f"ppo with SB3's defaults learns after every 2048 steps: in {steps} steps it never does.")
    if any(paper_is_shown(setpoint, steps) for setpoint in losses["setpoint"].unique()):
        notes.append("Hollow markers are the values printed in the HABNN paper, not measured here.")
    runs = int(losses.groupby(["agent", "setpoint"])["run"].nunique().min())
    notes.append(f"At least {runs} run(s) stand behind each line; intervals from fewer than 10 are rough.")
    return notes


def _figure(wide: bytes, narrow: bytes, text: str) -> str:
    """Return a figure that shows its narrow form on a narrow screen, where the wide one could not be read."""
    return (
        f'<figure><picture><source media="(max-width: 600px)" srcset="{_data_uri(narrow)}">'
        f'<img src="{_data_uri(wide)}" alt="{escape(text)}"></picture><figcaption>{escape(text)}</figcaption></figure>'
    )


def _data_uri(svg: bytes) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()


def _table(table: pd.DataFrame, caption: str) -> str:
    head = "".join(f'<th scope="col">{_breakable(str(name))}</th>' for name in table.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_breakable(str(value))}</td>" for value in row) + "</tr>"
        for row in table.itertuples(index=False)
    )
    return (
        f'<p class="caption">{escape(caption)}</p><div class="scroll" tabindex="0"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _breakable(text: str) -> str:
    """Escape the text of a cell so that a narrow column breaks it after _ and /, but within no interval or window."""
    text = escape(text).replace("_", "_<wbr>").replace("/", "/<wbr>").replace(", ", ",&nbsp;")
    return re.sub(r"(\d-)(?=\d)", r"\1&NoBreak;", text)


def _matrix(comparisons: pd.DataFrame, window: str) -> pd.DataFrame:
    if comparisons.empty:
        return pd.DataFrame({"agent": []})
    of_setpoint = comparisons["setpoint"] == headline_setpoint(comparisons)
    chosen = comparisons[of_setpoint & (comparisons["window"] == window)]
    agents = list(chosen["agent"].unique())
    wins = {(row["agent"], row["other"]): f"{row['p_better']:.2f}" for _, row in chosen.iterrows()}
    rows = [{"agent": agent, **{other: wins.get((agent, other), "") for other in agents}} for agent in agents]
    return pd.DataFrame.from_records(rows)


def _rounded(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with four digits a number, and nothing where there is none."""
    return table.map(lambda value: f"{value:z.4g}" if isinstance(value, float) else value).replace("nan", "")


def _settings(folder: Path) -> str:
    config = (folder / "config.json").read_text()
    meta: dict[str, Any] = json.loads(path.read_text()) if (path := folder / "meta.json").exists() else {}
    call = f"<p>Command</p><pre>{escape(meta['command'])}</pre>" if meta else ""
    return (
        f"<h3>{escape(str(folder))}</h3>{call}<details><summary>Study, versions and machine</summary>"
        f"<pre>{escape(config)}</pre><pre>{escape(json.dumps(meta, indent=2))}</pre></details>"
    )
