"""The report in a real browser: nothing fails, nothing sticks out, and the controls do what they say."""

import time

import numpy as np
import pandas as pd
import pytest

from agents.reporting import write_report
from browser import chromium, console, needs_browser, show
from control_studies import COLUMNS, outcome_of, study_of
from habnn_control.experiments.engine import run_study
from habnn_control.experiments.provenance import write_meta

pytestmark = needs_browser
AGENTS = ("noop", "td3", "ppo", "oracle", "hold")
DRAWN = "return Number(document.body.dataset.drawn || 0)"


def play(task):
    rng = np.random.default_rng((task["agent_seed"], int(task["setpoint"])))
    columns = {name: 250 + 30 * rng.normal(size=task["steps"]) for name in COLUMNS}
    if task["agent"] == "hold":
        columns["shift"] = np.full(task["steps"], 250.0)
    return outcome_of(columns)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    run_study(study_of(AGENTS, (100.0, 20.0), 3, 70, 5), play, folder)
    write_meta(folder, "habnn compare", 12.0)
    write_report([folder])
    return folder


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("downloads")) as driver:
        yield driver


@pytest.fixture
def page(driver, folder):
    """Open the report in a wide window."""
    opened(driver, folder)
    return driver


def wait(driver, condition, *arguments):
    deadline = time.monotonic() + 30
    while not (found := driver.execute_script(condition, *arguments)):
        assert time.monotonic() < deadline, console(driver)
        time.sleep(0.05)
    return found


def opened(driver, folder, **look):
    show(driver, (folder / "report.html").as_uri(), **look)
    wait(driver, DRAWN)


def choose(driver, name, value):
    """Set a control as a user does, and wait until the page is drawn anew."""
    before = driver.execute_script(DRAWN)
    driver.execute_script(
        """const item = document.getElementById(arguments[0]) || document.querySelector(arguments[0]);
        if (item.type === "checkbox") { if (item.checked !== arguments[1]) item.click(); }
        else { item.value = arguments[1]; item.dispatchEvent(new Event("change", {bubbles: true})); }""",
        name,
        value,
    )
    wait(driver, f"{DRAWN} > arguments[0]", before)


def traces(driver, chart, kind=None):
    script = (
        "return document.getElementById(arguments[0]).data.map(t => ({name: t.name, meta: t.meta, x: t.x, y: t.y}))"
    )
    return [trace for trace in driver.execute_script(script, chart) if kind in (None, trace["meta"])]


def losses_of(folder, agent, setpoint):
    losses = pd.read_csv(folder / "losses.csv")
    return losses[(losses["agent"] == agent) & (losses["setpoint"] == setpoint)]


def cells(driver, table, column):
    script = """const table = document.getElementById(arguments[0]);
    const at = [...table.tHead.rows[0].cells].findIndex(cell =>
      cell.textContent.replace("\u2060", "").trim() === arguments[1]);
    return [...table.tBodies[0].rows].filter(row => !row.hidden).map(row => row.cells[at].textContent)"""
    return driver.execute_script(script, table, column)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [400, 800, 1600])
def test_report_is_whole_in_a_browser(driver, folder, width, dark):
    opened(driver, folder, width=width, dark=dark)
    assert console(driver) == []
    assert driver.execute_script("return [innerWidth, document.documentElement.scrollWidth]") == [width, width]
    charts = driver.execute_script(
        """return [...document.querySelectorAll(".chart")].map(c => {
        const box = c.querySelector(".main-svg").getBoundingClientRect();
        return [box.width, box.height, box.right, c.getAttribute("role"), c.getAttribute("aria-label")]})"""
    )
    assert len(charts) == 3
    for drawn_width, height, right, role, label in charts:
        assert drawn_width > 0.8 * min(width, 1216) - 40
        assert height > 200
        assert right <= width
        assert role == "img"
        assert len(label) > 30
    titles = "return [...document.querySelectorAll('.xtitle, .ytitle')].map(e => e.getBoundingClientRect())"
    assert all(box["left"] >= 0 and box["right"] <= width for box in driver.execute_script(titles))
    sizes = """return [...document.querySelectorAll('p, td, th, li, label')]
      .map(e => parseFloat(getComputedStyle(e).fontSize))"""
    assert min(driver.execute_script(sizes)) >= 12


def contrast(driver, element):
    """Return the contrast (WCAG) of the text of an element against the page."""
    script = """const rgb = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
    const canvas = document.createElement("div"); canvas.style.background = "Canvas"; document.body.append(canvas);
    const found = [rgb(getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]),
                   rgb(getComputedStyle(canvas).backgroundColor)];
    canvas.remove(); return found"""
    light = []
    for colour in driver.execute_script(script, *element):
        linear = [c / 12.92 if (c := value / 255) <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for value in colour]
        light.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(light) + 0.05) / (min(light) + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_report_is_legible_in_light_and_dark(driver, folder, dark):
    opened(driver, folder, dark=dark)
    assert contrast(driver, ("#curves .xtick text", "fill")) > 7
    assert contrast(driver, ("#curves .legendtext", "fill")) > 7
    oracle = "#curves .legend .traces:nth-child(4) path.js-line"  # black on white must not become black on black
    assert contrast(driver, (oracle, "stroke")) > 3


def test_curves_are_the_means_of_the_runs(page, folder):
    for place, setpoint in enumerate((100, 20)):
        choose(page, "condition", str(place))
        for trace in traces(page, "curves", "mean"):
            mean = losses_of(folder, trace["name"], setpoint).groupby("timestep")["loss"].mean()
            np.testing.assert_allclose(trace["y"], mean, rtol=1e-4)
    choose(page, "column", "1")
    assert traces(page, "curves", "mean")[0]["y"] == pytest.approx(
        losses_of(folder, "noop", 20).groupby("timestep")["velocity"].mean().to_list(), rel=1e-4
    )


def test_choosing_agents_changes_figures_tables_and_matrix(page):
    assert [trace["name"] for trace in traces(page, "curves", "mean")] == list(AGENTS)
    choose(page, 'input[name="agent"][value="1"]', False)
    kept = [name for name in AGENTS if name != "td3"]
    assert [trace["name"] for trace in traces(page, "curves", "mean")] == kept
    assert cells(page, "headline", "agent") == kept * 2
    assert page.execute_script("return document.querySelectorAll('#matrix tbody tr').length") == 4
    assert "td3" not in page.execute_script("return document.getElementById('said').textContent")
    page.execute_script("document.getElementById('none').click()")
    assert traces(page, "curves") == []
    assert "No agent is chosen" in page.execute_script("return document.getElementById('said').textContent")
    assert console(page) == []


def test_single_runs_and_intervals_can_be_shown(page, folder):
    assert traces(page, "curves", "interval") == []  # five agents: their bands would hide each other
    choose(page, "bands", True)
    assert len(traces(page, "curves", "interval")) == 5
    choose(page, "singles", True)
    (first, *_), runs = traces(page, "curves", "single runs"), losses_of(folder, "noop", 100)
    assert [value for value in first["y"] if value is not None] == pytest.approx(runs["loss"].to_list(), abs=0.01)
    assert first["y"].count(None) == 3
    assert len(traces(page, "curves", "single runs")) == 5


def test_zoom_and_steps_are_the_same(page):
    page.execute_script("Plotly.relayout('curves', {'xaxis.range[0]': 9.5, 'xaxis.range[1]': 20.5})")
    wait(page, "return document.getElementById('from').value === '10' && document.getElementById('to').value === '20'")
    assert traces(page, "curves", "mean")[0]["x"] == list(range(10, 21))
    choose(page, "from", "15")
    assert traces(page, "curves", "mean")[0]["x"] == list(range(15, 21))
    choose(page, "window", "1-60")
    assert traces(page, "curves", "mean")[0]["x"] == list(range(1, 61))


def test_pairs_are_differences_on_the_same_seed(page, folder):
    choose(page, "window", "1-60")
    choose(page, "other", "3")
    mine, theirs = (
        losses_of(folder, name, 100).query("timestep <= 60").groupby("seed")["loss"].mean()
        for name in ("td3", "oracle")
    )
    found = {trace["name"]: trace["x"] for trace in traces(page, "pairs", "pairs")}
    assert set(found) == set(AGENTS) - {"oracle"}
    assert found["td3"] == pytest.approx((mine - theirs).to_list(), abs=0.01)
    comparisons = pd.read_csv(folder / "comparisons.csv").set_index(["agent", "other", "setpoint", "window"])
    means = [trace["x"][0] for trace in traces(page, "pairs", "mean")]
    names = [name for name in AGENTS if name != "oracle"]
    expected = [comparisons.loc[(name, "oracle", "100", "1-60"), "difference"] for name in names]
    assert means == pytest.approx(expected, rel=1e-3)


def test_matrix_is_coloured_and_follows_the_window(page, folder):
    comparisons = pd.read_csv(folder / "comparisons.csv").set_index(["agent", "other", "setpoint", "window"])
    script = "const c = document.querySelector('#matrix tbody tr').cells[2]; return [c.textContent, c.style.background]"
    for window in ("1-60", "1-70"):
        choose(page, "window", window)
        text, colour = page.execute_script(script)
        assert text == f"{comparisons.loc[('noop', 'td3', '100', window), 'p_better']:.2f}"
        assert colour.startswith("rgba(")


def test_one_run_shows_its_actuators(page, folder):
    choose(page, "run-agent", "4")
    runs = page.execute_script("return [...document.getElementById('run-seed').options].map(o => [o.value, o.text])")
    assert [text for _, text in runs] == ["5", "6", "7"]
    choose(page, "run-seed", runs[1][0])
    rows = losses_of(folder, "hold", 100).query("seed == 6")
    found = {trace["name"]: trace["y"] for trace in traces(page, "run")}
    assert set(found) == {"loss", "consumption", "fatigue", "velocity", "gain", "shift"}
    for name, values in found.items():
        assert values == pytest.approx(rows[name].to_list(), abs=0.01)
    assert found["shift"] == pytest.approx([250.0] * 70, abs=1e-9)  # stored with 16 bits, but drawn as a constant
    look = "return document.getElementById('run').data.map(t => [t.name, t.line.color + (t.line.dash || 'solid')])"
    looks = dict(page.execute_script(look))
    assert looks["loss"] == "#222222solid"  # not the colour of an agent, which may be that of an actuator
    assert len(set(looks.values())) == len(found)
    choose(page, "condition", "1")  # the same seed elsewhere
    assert (
        page.execute_script("const s = document.getElementById('run-seed'); return s.options[s.selectedIndex].text")
        == "6"
    )


def test_table_is_sorted_by_keyboard_and_says_so(page):
    from selenium.webdriver.common.keys import Keys

    button = page.find_element("css selector", "#headline th:nth-child(4) button")
    button.send_keys(Keys.ENTER)
    values = [float(text.split()[0]) for text in cells(page, "headline", "steps 1-60")]
    assert values == sorted(values)
    assert page.find_element("css selector", "#headline th:nth-child(4)").get_attribute("aria-sort") == "ascending"
    button.send_keys(Keys.SPACE)
    values = [float(text.split()[0]) for text in cells(page, "headline", "steps 1-60")]
    assert values == sorted(values, reverse=True)
    assert page.find_element("css selector", "#headline th:nth-child(4)").get_attribute("aria-sort") == "descending"


def test_table_downloads_what_it_shows(page, folder, tmp_path):
    page.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    choose(page, 'input[name="agent"][value="0"]', False)
    page.find_element("css selector", 'button[data-table="headline"]').click()
    deadline = time.monotonic() + 20
    while not (tmp_path / "headline.csv").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    table = pd.read_csv(tmp_path / "headline.csv")
    assert table["agent"].tolist() == [*AGENTS[1:]] * 2
    assert table.columns[:4].tolist() == ["agent", "setpoint", "runs", "steps 1-60"]
    row = pd.read_csv(folder / "summary.csv").query("agent == 'td3' and setpoint == '100' and window == '1-60'").iloc[0]
    assert table["steps 1-60"][0] == f"{row['mean']:.1f} [{row['mean_low']:.1f}, {row['mean_high']:.1f}]"


def test_controls_have_names_and_can_all_be_reached(page):
    named = """return [...document.querySelectorAll("select, input")].map(e => [e.id || e.value, e.labels.length,
      e.labels.length ? e.labels[0].textContent.trim().length : 0, e.tabIndex])"""
    for _, n_labels, n_letters, place in page.execute_script(named):
        assert n_labels == 1
        assert n_letters > 1
        assert place == 0


def test_report_prints_light_and_without_controls(driver, folder):
    opened(driver, folder, dark=True)
    driver.execute_script("dispatchEvent(new Event('beforeprint'))")
    ink = "return document.querySelector('#curves .xtick text').style.fill"
    assert driver.execute_script(ink) == "rgb(34, 34, 34)"
    assert (
        driver.execute_script("return document.querySelector('#curves .main-svg').getBoundingClientRect().width") <= 661
    )
    driver.execute_script("dispatchEvent(new Event('afterprint'))")
    assert driver.execute_script(ink) == "rgb(221, 221, 221)"
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert driver.execute_script("return getComputedStyle(document.getElementById('controls')).display") == "none"
    caption = "return getComputedStyle(document.getElementById('run'), '::before').content"
    assert "noop, seed 5 at setpoint 100" in driver.execute_script(caption)  # the controls that say so are not printed
    heads = "return [...document.querySelectorAll('#headline th')].every(h => h.getBoundingClientRect().width > 10)"
    assert driver.execute_script(heads)
    assert driver.execute_script("return getComputedStyle(document.querySelector('.sort')).display") != "none"
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
