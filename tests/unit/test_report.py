"""The report: remade from a folder, complete, self-contained, and whole in a real browser."""

import base64
import html
import json
import re

import numpy as np
import pandas as pd
import pytest

from agents.reporting import write_report
from agents.study import ControlStudy
from control_studies import COLUMNS, outcome_of, study_of
from habnn_control.experiments import report
from habnn_control.experiments.engine import run_study
from habnn_control.experiments.provenance import write_meta

COMMAND = "python scripts/compare.py --agents noop '<b>' --out x"


def play(task):
    rng = np.random.default_rng((task["agent_seed"], int(task["setpoint"])))
    return outcome_of({name: 250 + 30 * rng.normal(size=task["steps"]) for name in COLUMNS})


def make_folder(folder, agents=("noop", "td3", "ppo", "oracle"), setpoints=(100.0, 20.0), runs=3):
    run_study(study_of(agents, setpoints, runs, 40, 0), play, folder)
    write_meta(folder, COMMAND, 12.0, jobs=2)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = make_folder(tmp_path_factory.mktemp("results"))
    write_report([folder])
    return folder


def prose(page):
    """Return the text of a report without its scripts, data and style."""
    return re.sub(r"<(script|style)\b.*?</\1>", "", page.read_text(), flags=re.DOTALL)


def test_report_is_self_contained(folder):
    page = prose(folder / "report.html")
    assert not re.search(r"https?://", page)
    sources = re.findall(r'(?:src|srcset|href)="([^"]{0,40})', page)
    assert len(sources) == 3  # pictures for browsers without scripts
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    assert "default-src 'none'" in page  # the browser would refuse to load anything


def test_report_of_the_main_comparison_stays_small(tmp_path):
    """Ten agents, ten runs, 300 steps: at most 6 MB."""
    names = ("habnn", "habnn-scripted", "habnn-paper", "noop", "random", "hold", "oracle", "a2c", "td3", "sac")
    run_study(study_of(names, (100.0,), 10, 300, 0), play, tmp_path)
    assert write_report([tmp_path])[1].stat().st_size < 4.5e6


def test_report_holds_command_tables_and_settings(folder):
    page = prose(folder / "report.html")
    assert html.escape(COMMAND) in page
    assert "<b>" not in page
    summary = pd.read_csv(folder / "summary.csv")
    for setpoint in ("100", "20"):
        row = summary[(summary["agent"] == "td3") & (summary["setpoint"] == setpoint)].iloc[-1]
        assert f"{row['mean']:.1f} [{row['mean_low']:.1f},&nbsp;{row['mean_high']:.1f}]" in page
    together = summary[(summary["agent"] == "td3") & (summary["setpoint"] == "all")].iloc[-1]
    assert f"{together['p_better_than_noop']:.2f}" in page
    # The mean over setpoints is no number to begin with: it stands in the table of all rows only.
    first = page.partition("All windows and conditions")[0]
    assert f"{together['mean']:.1f} [{together['mean_low']:.1f}" not in first
    assert html.escape((folder / "config.json").read_text()) in page


def test_report_says_what_the_figure_does_not_show(folder, tmp_path):
    page = prose(folder / "report.html")
    assert "IQM is the interquartile mean: the mean of the middle half of the runs" in page
    assert "0 is as good as doing nothing (noop), 1 as good as the oracle" in page
    assert "have no common scale and are never averaged here" in page
    assert "40 of the 40 steps shown are warm-up, not learning" in page
    assert "ppo with SB3&#x27;s defaults learns after every 2048 steps: in 40 steps it never does" in page
    assert "oracle plans on the true simulator" in page
    plain = prose(write_report([make_folder(tmp_path / "plain", agents=("hold", "random"), setpoints=(50.0,))])[1])
    assert "The score is" not in plain
    assert "warm-up" not in plain
    assert "oracle" not in plain
    assert "printed in the HABNN paper" not in plain
    assert ">nan<" not in page
    assert "-0.00" not in page  # the score of doing nothing is zero


def test_report_shows_printed_values_of_its_own_agents_only(tmp_path):
    for agents, remark in ((("noop", "hold"), False), (("noop", "sac"), True)):
        page = write_report([make_folder(tmp_path / agents[1], agents=agents, setpoints=(100.0,))])[1]
        assert ("printed in the HABNN paper" in prose(page)) == remark
        data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(), flags=re.DOTALL).group(1))
        assert {point[0] for point in data["reference"]["points"]} == ({1} if remark else set())
        assert ("hollow: printed in the paper" in (tmp_path / agents[1] / "losses.svg").read_text()) == remark


def test_report_data_are_those_of_the_study(folder):
    text = (folder / "report.html").read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, flags=re.DOTALL).group(1))
    losses = pd.read_csv(folder / "losses.csv")
    codes = np.frombuffer(base64.b64decode(data["values"]["gain"]["data"]), dtype="<u2") / 65534
    low, high = data["values"]["gain"]["low"], data["values"]["gain"]["high"]
    order = losses.groupby(["agent", "setpoint"], sort=False)["gain"].apply(list)
    np.testing.assert_allclose(low + (high - low) * codes, np.concatenate(order.to_list()), atol=(high - low) / 65534)
    assert [item["name"] for item in data["agents"]] == ["noop", "td3", "ppo", "oracle"]
    assert data["conditions"] == ["setpoint 100", "setpoint 20"]
    assert len(data["runs"]) == 4 * 2 * 3
    band = data["bands"]["loss"][0]
    mean = losses[(losses["agent"] == "noop") & (losses["setpoint"] == 100)].groupby("timestep")["loss"].mean()
    np.testing.assert_allclose(band["mean"], mean, rtol=1e-4)


def test_write_report_is_deterministic_and_complete(folder):
    names = ["summary.csv", "comparisons.csv", "losses.png", "losses.svg", "steerings-100.png", "steerings-20.svg"]
    before = {name: (folder / name).read_bytes() for name in [*names, "report.html"]}
    write_report([folder])
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_write_report_overlays_folders_and_tells_agents_apart(folder, tmp_path):
    other = make_folder(tmp_path / "pretrained", agents=("td3", "sac"), setpoints=(100.0,))
    summary, page = write_report([folder, other], tmp_path / "both")
    assert page.parent == tmp_path / "both"
    assert list(summary["agent"].unique()) == [
        "noop", f"td3 ({folder.name})", "ppo", "oracle", "td3 (pretrained)", "sac",
    ]  # fmt: skip


def test_write_report_of_one_agent(tmp_path):
    _, page = write_report([make_folder(tmp_path / "one", agents=("noop",), setpoints=(100.0,), runs=1)])
    assert "noop" in prose(page)


def test_write_report_raises_on_folder_without_results(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"losses\.csv"):
        write_report([tmp_path])


def test_write_report_raises_on_study_without_a_finished_run(tmp_path):
    def fail(task):
        raise RuntimeError("no luck")

    run_study(study_of(("noop",), runs=2, steps=5), fail, tmp_path)
    with pytest.raises(ValueError, match="must hold at least one finished run, got none"):
        write_report([tmp_path])


def test_report_has_what_the_readme_quotes(folder):
    summary, comparisons = (pd.read_csv(folder / f"{name}.csv") for name in ("summary", "comparisons"))
    assert summary["runs_above_250"].between(0, summary["runs"]).all()
    both = comparisons.merge(
        comparisons, left_on=["agent", "other", "setpoint"], right_on=["other", "agent", "setpoint"]
    )
    assert (both["runs_better_x"] + both["runs_better_y"] == both["runs_paired_x"]).all()


def test_report_leaves_out_remarks_about_defaults_that_were_changed(tmp_path):
    settings = {"sac": {"learning_starts": 5}}
    run_study(study_of(("sac", "ppo-tuned"), steps=40, agent_settings=settings), play, tmp_path)
    assert "warm-up" not in (page := prose(write_report([tmp_path])[1]))
    assert "2048" not in page


def test_report_of_another_environment_names_it_and_draws_its_columns(tmp_path):
    def swing(task):
        return outcome_of({name: np.ones(task["steps"]) for name in ("loss", "entry_0", "entry_1", "entry_2")})

    run_study(ControlStudy(["random"], {"g": [9.81, 3.7]}, 2, 5, env="Pendulum-v1"), swing, tmp_path)
    summary, page = write_report([tmp_path])
    assert "Agents on Pendulum-v1" in prose(page)
    assert "Industrial" not in prose(page)
    assert "Mean entry_0, entry_1 and entry_2 with 95 % intervals at g 9.81." in prose(page)
    assert (tmp_path / "observations-3.7.svg").exists()
    assert "runs_above_250" not in summary


def test_report_shows_results_of_an_environment_that_is_not_installed(tmp_path):
    run_study(study_of(("stranger",), env="Elsewhere-v0", plugins=["no_such_module"]), play, tmp_path)
    assert "Agents on Elsewhere-v0" in write_report([tmp_path])[1].read_text()


def test_report_reads_folders_of_the_release_before(folder, tmp_path):
    for name in ("losses.csv", "timings.csv"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    old = {"agents": ["noop", "td3", "ppo", "oracle"], "setpoints": [100.0, 20.0], "runs": 3, "steps": 40, "seed": 0}
    (tmp_path / "config.json").write_text(json.dumps(old | {"pretrain_steps": 0, "wandering": False}))
    write_report([tmp_path])
    assert (tmp_path / "summary.csv").read_bytes() == (folder / "summary.csv").read_bytes()
    assert (tmp_path / "losses.svg").read_bytes() == (folder / "losses.svg").read_bytes()


def test_write_report_takes_any_presentation(folder, tmp_path):
    shown = report.Presentation(
        "Loaves", "Every flour rises.", panels=("gain",), panels_name="loaf", remarks=("Rye is slow.",)
    )
    _, page = report.write_report([folder], lambda _: shown, tmp_path)
    for text in (
        "<h1>Loaves</h1>",
        "Every flour rises.",
        "Rye is slow.",
        "Mean gain with 95 % intervals at setpoint 20.",
    ):
        assert text in page.read_text()
    assert sorted(path.name for path in tmp_path.glob("*.svg")) == ["loaf-100.svg", "loaf-20.svg", "losses.svg"]


def test_report_says_what_agents_have_seen_before(folder, tmp_path):
    assert "Every agent starts cold" in prose(folder / "report.html")
    study = study_of(("noop", "td3"), pretrain_steps=70)
    run_study(study, play, tmp_path)
    write_report([tmp_path])
    page = prose(tmp_path / "report.html")
    assert "agents of Stable-Baselines3 were trained for 70 steps" in page
    assert "Every agent starts cold" not in page
