"""The report: remade from a folder, complete, self-contained, and whole in a real browser."""

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from agents.reporting import write_report
from agents.study import ControlStudy
from control_studies import COLUMNS, outcome_of, study_of
from habnn_control.experiments import report
from habnn_control.experiments.engine import run_study
from habnn_control.experiments.provenance import write_meta

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine (apt-get install chromium)")
COMMAND = "python scripts/compare.py --agents noop '<b>' --out x"
# The page reports to a frame around it: a headless browser makes no window of less than 500 pixels, a frame can be.
MEASURE = """<script>addEventListener("load", () => setTimeout(() => {
  const box = element => { const b = element.getBoundingClientRect(); return [b.width, b.height, b.right]; };
  const words = [...document.querySelectorAll("p, td, th, li, pre, figcaption")];
  parent.postMessage(JSON.stringify({
    window: innerWidth, page: document.documentElement.scrollWidth,
    images: [...document.images].map(i => [...box(i), i.complete && i.naturalWidth > 0 ? 1 : 0, i.currentSrc.length]),
    smallest: Math.min(...words.map(e => parseFloat(getComputedStyle(e).fontSize))),
    tables: [...document.querySelectorAll(".scroll")].map(scroll => {
      const hidden = scroll.scrollWidth - scroll.clientWidth;
      scroll.scrollLeft = hidden;
      return [hidden, ...scroll.querySelectorAll("th:first-child, th:last-child")].map(e => e.tagName ? box(e)[2] : e);
    }),
  }), "*"); }, 200));</script>"""
FRAME = """<!doctype html><script>addEventListener("message", event => {
  const note = document.createElement("p"); note.id = "found"; note.dataset.json = event.data;
  document.body.append(note);
});</script><body><iframe src="copy.html" width="WIDTH" height="1000" style="border: 0"></iframe></body>"""


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


def look(page, width, tmp_path):
    """Open a page in a browser `width` pixels wide, without a network; return what it measured and its console."""
    (tmp_path / "copy.html").write_text(page.read_text().replace("</body>", MEASURE + "</body>"))
    frame = tmp_path / "frame.html"
    frame.write_text(FRAME.replace("WIDTH", str(width)))
    call = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
        "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1700,1100",
        "--virtual-time-budget=5000", "--dump-dom", frame.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(call, capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(html.unescape(re.search(r'id="found" data-json="([^"]*)"', done.stdout).group(1)))
    return found, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@needs_browser
@pytest.mark.parametrize("width", [400, 1600])
def test_report_is_whole_in_a_browser(folder, tmp_path, width):
    found, console = look(folder / "report.html", width, tmp_path)
    assert console == []
    assert found["window"] == width
    assert found["page"] <= width  # nothing sticks out sideways
    assert len(found["images"]) == 3  # losses, and actuators at two setpoints
    for drawn_width, drawn_height, right, loaded, _ in found["images"]:
        assert loaded
        assert min(drawn_width, drawn_height) > 200
        assert right <= width
    assert found["smallest"] >= 12


@needs_browser
def test_report_tables_keep_the_agent_in_sight_when_scrolled(folder, tmp_path):
    """The first column stays, the last one can be reached; on a wide screen there is nothing to scroll."""
    narrow, wide = (look(folder / "report.html", width, tmp_path)[0]["tables"][:2] for width in (400, 1600))
    assert narrow[0][0] > 0
    for _, first, last in narrow:
        assert 50 < first < last <= 400
    assert [hidden for hidden, *_ in wide] == [0, 0]


@needs_browser
def test_report_shows_narrow_figures_on_a_narrow_screen(folder, tmp_path):
    narrow, wide = (look(folder / "report.html", width, tmp_path)[0]["images"][0] for width in (400, 1600))
    assert narrow[1] / narrow[0] > 1.5 * wide[1] / wide[0]
    assert narrow[4] != wide[4]


@needs_browser
def test_browser_check_would_notice_a_broken_page(tmp_path):
    page = tmp_path / "broken.html"
    page.write_text('<body><img src="missing.svg"><div style="width:3000px">x</div><script>nothing()</script></body>')
    found, console = look(page, 400, tmp_path)
    assert console
    assert found["page"] > 400
    assert not found["images"][0][3]


def test_report_is_self_contained(folder):
    page = (folder / "report.html").read_text()
    assert not re.search(r"https?://", page)
    sources = re.findall(r'(?:src|srcset|href)="([^"]{0,40})', page)
    assert len(sources) == 6
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)


def test_report_holds_command_tables_and_settings(folder):
    page = (folder / "report.html").read_text()
    assert html.escape(COMMAND) in page
    assert "<b>" not in page
    summary = pd.read_csv(folder / "summary.csv")
    row = summary[(summary["agent"] == "td3") & (summary["setpoint"] == "all")].iloc[-1]
    assert f"{row['mean']:.1f} [{row['mean_low']:.1f},&nbsp;{row['mean_high']:.1f}]" in page
    assert f"{row['p_better_than_noop']:.2f}" in page
    assert html.escape((folder / "config.json").read_text()) in page


def test_report_says_what_the_figure_does_not_show(folder, tmp_path):
    page = (folder / "report.html").read_text()
    assert "40 of the 40 steps shown are warm-up, not learning" in page
    assert "ppo with SB3&#x27;s defaults learns after every 2048 steps: in 40 steps it never does" in page
    assert "oracle plans on the true simulator" in page
    plain = write_report([make_folder(tmp_path / "plain", agents=("hold", "random"), setpoints=(50.0,))])[1].read_text()
    assert "warm-up" not in plain
    assert "oracle" not in plain
    assert "printed in the HABNN paper" not in plain
    assert ">nan<" not in page
    assert "-0.00" not in page  # the score of doing nothing is zero


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
    assert "noop" in page.read_text()


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
    assert "warm-up" not in (page := write_report([tmp_path])[1].read_text())
    assert "2048" not in page


def test_report_of_another_environment_names_it_and_draws_its_columns(tmp_path):
    def swing(task):
        return outcome_of({name: np.ones(task["steps"]) for name in ("loss", "entry_0", "entry_1", "entry_2")})

    run_study(ControlStudy(["random"], {"g": [9.81, 3.7]}, 2, 5, env="Pendulum-v1"), swing, tmp_path)
    summary, page = write_report([tmp_path])
    assert "Agents on Pendulum-v1" in page.read_text()
    assert "Industrial" not in page.read_text()
    assert "Mean entry_0, entry_1 and entry_2 with 95 % intervals at g 9.81." in page.read_text()
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
