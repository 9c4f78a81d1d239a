"""Tables of pages come from their CSV files, and nobody can type another number."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from agents.cli.main import main as habnn
from real_scripts import script

ROOT = Path(__file__).parents[2]
SCRIPT = script("tables")
fill = script("_tables")["fill"]

NOTEBOOKS = {"control-notes.md"}  # its tables are typed: it records what was seen on the way

PAGE = """# A page

<!-- table: results/study.csv
rows: agent = habnn, noop
columns: window = 1-60, 201-300
heads: steps {}
cell: {mean:.1f} [{mean_low:.1f}, {mean_high:.1f}] else {mean:.1f}
where: setpoint = 100
-->

<!-- /table -->

Text below.
"""
FILLED = """| agent | steps 1-60 | steps 201-300 |
| --- | --- | --- |
| habnn, ours | 290.2 [280.0, 300.0] | 230.0 |
| noop | 298.0 [297.0, 299.0] | - |
"""


@pytest.fixture
def root(tmp_path):
    """Return a folder with a README, a page and the files behind it."""
    results = tmp_path / "docs/results"
    results.mkdir(parents=True)
    (tmp_path / "README.md").write_text("# Nothing to fill\n")
    (results / "page.md").write_text(PAGE)
    (results / "labels.csv").write_text('axis,name,label\nagent,habnn,"habnn, ours"\nmethod,noop,no agent\n')
    (results / "study.csv").write_text(
        "agent,setpoint,window,mean,mean_low,mean_high\n"
        "habnn,100,1-60,290.21,280,300\nhabnn,100,201-300,230,,\nnoop,100,1-60,298,297,299\nnoop,50,1-60,170,1,2\n"
    )
    return tmp_path


def page(root):
    return (root / "docs/results/page.md").read_text()


def call(root, *flags):
    return SCRIPT["main"](["--root", str(root), *flags])


def test_tables_are_filled_from_the_file(root):
    assert call(root) == 0
    assert FILLED in page(root)
    assert page(root).endswith("Text below.\n")


def test_tables_that_are_filled_pass_the_check_and_stay(root):
    call(root)
    before = page(root)
    assert call(root, "--check") == 0
    assert call(root) == 0
    assert page(root) == before


def test_check_finds_a_number_that_was_typed(root, capsys):
    call(root)
    changed = page(root).replace("290.2", "230.2")
    (root / "docs/results/page.md").write_text(changed)
    capsys.readouterr()
    assert call(root, "--check") == 1
    assert "docs/results/page.md: differs from its CSV files" in capsys.readouterr().out
    assert page(root) == changed


def test_check_finds_a_file_that_was_replaced(root):
    call(root)
    path = root / "docs/results/study.csv"
    path.write_text(path.read_text().replace("290.21", "250"))
    assert call(root, "--check") == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("agent = habnn, noop", "agent = habnn, none", "agent of study.csv must be one of habnn, noop, got 'none'"),
        ("setpoint = 100", "setpoint = 7", "where must choose rows of study.csv, got none"),
        ("where: setpoint = 100\n", "", "study.csv must have one row per agent and window"),
        ("heads:", "head:", "settings must be of"),
        ("results/study.csv", "results/other.csv", "other.csv must be an existing path"),
        ("<!-- /table -->", "", "must have one '<!-- /table -->', got 1 and 0"),
    ],
)
def test_tables_raise_on_a_wrong_comment(root, capsys, old, new, message):
    (root / "docs/results/page.md").write_text(PAGE.replace(old, new))
    assert call(root) == 2
    assert message in capsys.readouterr().err


def test_also_shows_a_column_behind_the_first(root):
    (root / "docs/results/page.md").write_text(PAGE.replace("columns:", "also: setpoint\ncolumns:"))
    assert call(root) == 0
    assert "| agent | setpoint | steps 1-60 |" in page(root)
    assert "| noop | 100 | 298.0 [297.0, 299.0] | - |" in page(root)


def test_fields_give_one_line_per_row(root):
    comment = "<!-- table: results/study.csv\nfields: who = {agent} | loss = {mean:.0f}\nwhere: window = 1-60\n-->\n"
    text = fill(f"{comment}\n<!-- /table -->\n", root / "docs")
    assert "| who | loss |\n| --- | --- |\n| habnn | 290 |\n| noop | 298 |\n| noop | 170 |\n" in text


def test_study_shows_date_commit_and_command(root):
    about = {"date": "2026-11-18", "commits": ["abc1234"], "commands": ["habnn compare"], "note": "On a busy machine."}
    (root / "docs/results/study.json").write_text(json.dumps(about))
    text = fill("<!-- study: results/study.json -->\n\n<!-- /study -->\n", root / "docs")
    assert "Made on 2026-11-18 with the code of commit abc1234. On a busy machine.\n\n```\nhabnn compare\n```" in text


def test_results_folder_becomes_files_table_and_picture(root, tmp_path, capsys):
    folder = tmp_path / "results/study"
    flags = ["--agents", "noop", "random", "--runs", "2", "--steps", "60", "--jobs", "1", "--out", str(folder)]
    assert habnn(["compare", *flags]) == 0
    (root / "docs/results/page.md").write_text(PAGE.replace("= habnn, noop", "").replace(" = 1-60, 201-300", ""))
    assert call(root, "--folder", str(folder)) == 0
    summary = pd.read_csv(folder / "summary.csv").set_index("agent")
    small = pd.read_csv(root / "docs/results/study.csv").set_index("agent")
    assert small["mean"].to_dict() == pytest.approx(summary["mean"].to_dict(), rel=1e-5)
    assert not [column for column in small if column.startswith("p_better")]
    pairs = pd.read_csv(root / "docs/results/study-pairs.csv")
    assert pairs[["agent", "other", "runs_paired"]].values.tolist() == [["noop", "random", 2]]
    about = json.loads((root / "docs/results/study.json").read_text())
    assert re.fullmatch(r"[0-9a-f]{7}\+?|unknown\+?", about["commits"][0])
    assert (root / "docs/results/study.png").read_bytes().startswith(b"\x89PNG")
    assert f"| noop | {summary['mean']['noop']:.1f} [" in page(root)

    steps = pd.read_csv(root / "docs/results/study-steps.csv").set_index(["agent", "timestep"])["loss"]
    losses = pd.read_csv(folder / "losses.csv")
    assert steps["noop"].index.tolist() == [10, 20, 30, 40, 50, 60]
    chosen = losses[(losses["agent"] == "random") & (losses["timestep"] == 20)]
    assert steps["random", 20] == pytest.approx(chosen["loss"].mean(), rel=1e-5)


def test_results_folder_of_one_agent_becomes_files_without_pairs(root, tmp_path):
    folder = tmp_path / "results/study"
    assert (
        habnn(["compare", "--agents", "noop", "--runs", "2", "--steps", "9", "--jobs", "1", "--out", str(folder)]) == 0
    )
    (root / "docs/results/page.md").write_text("Nothing to fill.\n")
    assert call(root, "--folder", str(folder)) == 0
    assert pd.read_csv(root / "docs/results/study.csv")["window"].tolist() == ["1-9"]
    assert not (root / "docs/results/study-pairs.csv").exists()


def test_regression_folder_adds_its_runs(root, tmp_path):
    folder = tmp_path / "results/end"
    flags = ["--protocol", "to-the-end", "--datasets", "diabetes", "--methods", "constant", "bayesian-ridge"]
    assert habnn(["uci", *flags, "--runs", "3", "--seed", "5", "--out", str(folder)]) == 0
    results = root / "docs/results"
    published = "protocol,method,dataset,rmse,nll,source\none-pass,theirs,diabetes,50,5.4,a book\n"
    results.joinpath("regression-published.csv").write_text(published)
    before = ["to-the-end,constant,diabetes,0,5,1,1,.5,.9,10,1", "gap,constant,diabetes,0,5,1,1,.5,.9,10,1"]
    head = "protocol,method,dataset,run,seed,rmse,nll,coverage_50,coverage_90,n_train,cpu_seconds"
    results.joinpath("regression-runs.csv").write_text("\n".join([head, *before]) + "\n")
    assert call(root, "--folder", str(folder)) == 0
    runs = pd.read_csv(results / "regression-runs.csv")
    assert sorted(zip(runs["protocol"], runs["method"], runs["seed"], strict=True)) == [
        ("gap", "constant", 5),
        *(("to-the-end", method, seed) for method in ("bayesian-ridge", "constant") for seed in (5, 6, 7)),
    ]
    scores = pd.read_csv(folder / "summary.csv").query("test_set == 'in'").set_index("method")["rmse"]
    medians = pd.read_csv(results / "regression-protocols.csv").query("protocol == 'to-the-end'")
    assert medians.set_index("method")["rmse"].to_dict() == pytest.approx(scores.to_dict(), rel=1e-5)
    assert medians["splits"].tolist() == ["3", "3"]
    assert len(json.loads((results / "regression-protocols.json").read_text())["commands"]) == 1


def test_medians_of_regression_compare_outliers_with_the_same_clean_splits():
    columns = ["protocol", "method", "dataset", "seed", "rmse", "nll", "coverage_90", "cpu_seconds"]
    rows = [("one-pass", "habnn-joint", "yacht", seed, 2.0 + seed, 1.0, 0.9, 1.0) for seed in (1, 2, 3, 90)]
    rows += [("outliers", "habnn-joint:outlier_threshold=10", "yacht", seed, 5.0, 1.0, 0.9, 1.0) for seed in (1, 2, 3)]
    table = script("_protocols")["summary_of"](pd.DataFrame(rows, columns=columns)).set_index("protocol")
    assert table.loc["outliers", ["clean_rmse", "ratio"]].tolist() == [4.0, 1.25]
    assert table.loc["one-pass", "rank"] == 1


def test_medians_of_regression_compare_with_nuts_on_its_splits():
    columns = ["protocol", "method", "dataset", "seed", "rmse", "nll", "coverage_90", "cpu_seconds"]
    rows = [("to-the-end", "ours", "yacht", seed, 2.0 * seed, 1.0, 0.9, 0.1 * seed) for seed in (1, 2, 3, 90)]
    rows += [("to-the-end", "nuts-long", "yacht", seed, 1.0, 1.0, 0.9, 60.0) for seed in (1, 2)]
    rows += [("to-the-end", "short", "yacht", 1, 1.0, 1.0, 0.9, 60.0)]
    table = script("_protocols")["summary_of"](pd.DataFrame(rows, columns=columns))
    table = table.set_index(["protocol", "method"])
    assert table.loc[("to-the-end", "ours"), ["nuts_rmse", "nuts_seconds"]].tolist() == pytest.approx([3.0, 450.0])
    assert table.loc[("to-the-end", "short"), ["nuts_rmse", "nuts_seconds"]].isna().all()
    assert table.loc[("first-split", "ours"), "splits"] == "1"


def test_runs_of_regression_have_the_generation_of_their_seeds():
    columns = ["protocol", "method", "dataset", "seed", "rmse", "nll", "coverage_90", "cpu_seconds"]
    seeds = {"to-the-end": (1, 7100, 7200), "gap": (1, 7100, 7200), "one-pass": (7200,)}
    rows = [(name, "m", "a", seed, 1.0, 1.0, 0.9, 0.1) for name, several in seeds.items() for seed in several]
    table = script("_protocols")["summary_of"](pd.DataFrame(rows, columns=columns))
    assert table.set_index("protocol")["splits"].to_dict() == {
        "to-the-end": "1",
        "relevance": "1",
        "fresh": "1",
        "gap": "2",
        "gap-fresh": "1",
        "one-pass-fresh": "1",
        "first-split": "1",
    }


def test_first_split_is_that_of_each_set():
    columns = ["protocol", "method", "dataset", "seed", "rmse", "nll", "coverage_90", "cpu_seconds"]
    rows = [("to-the-end", "ours", name, seed, seed, 1.0, 0.9, 0.1) for name, seed in (("a", 7), ("a", 8), ("b", 3))]
    table = script("_protocols")["summary_of"](pd.DataFrame(rows, columns=columns))
    first = table[table["protocol"] == "first-split"].set_index("dataset")["rmse"]
    assert first.to_dict() == {"a": 7, "b": 3}


def test_medians_with_noise_learned_are_beside_those_of_the_same_splits():
    columns = ["protocol", "method", "dataset", "seed", "rmse", "nll", "coverage_90", "cpu_seconds"]
    rows = [("to-the-end", "habnn-committee", name, seed, seed, 1.0, 0.9, 0.1) for name in "ab" for seed in (1, 2, 9)]
    rows += [("to-the-end", "habnn-committee:heteroscedastic=1", "a", seed, 7.0, 1.0, 0.9, 0.1) for seed in (1, 2)]
    table = script("_protocols")["summary_of"](pd.DataFrame(rows, columns=columns))
    noise = table[table["protocol"] == "noise"]
    assert noise[["method", "dataset", "rmse", "splits"]].values.tolist() == [
        ["habnn-committee", "a", 1.5, "2"],
        ["habnn-committee:heteroscedastic=1", "a", 7.0, "2"],
    ]


def test_medians_of_this_repository_are_those_of_its_runs(tmp_path):
    for name in ("regression-runs.csv", "regression-published.csv"):
        (tmp_path / name).write_text((ROOT / "docs/results" / name).read_text())
    made, _ = script("_protocols")["make_protocols"](tmp_path)
    assert made.read_text() == (ROOT / "docs/results" / made.name).read_text()


def test_benchmark_file_becomes_a_table(root):
    rows = [{"section": "env", "name": "step", "microseconds": 7.7, "ratio": 7.2, "bar": 5.0, "passed": True}]
    machine = {"processors": 2, "platform": "Linux", "python": "3.11.7"}
    content = {"command": "habnn benchmark", "commit": 40 * "a" + "+", "results": rows, **machine}
    (root / "benchmark.json").write_text(json.dumps(content))
    assert call(root, "--benchmark", str(root / "benchmark.json")) == 0
    assert pd.read_csv(root / "docs/results/benchmark.csv").to_dict("records") == rows
    assert json.loads((root / "docs/results/benchmark.json").read_text())["commits"] == ["aaaaaaa+"]


def test_tables_of_this_repository_are_those_of_their_files():
    assert SCRIPT["main"](["--check"]) == 0


def typed_tables(text):
    """Return the lines of tables with two or more cells that are numbers, outside of what the script fills."""
    rest = re.sub(r"<!-- table: .*?<!-- /table -->", "", text, flags=re.DOTALL)
    number = re.compile(r"[-+\d.,e%/=()\[\]\s]*\d[-+\d.,e%/=()\[\]\s]*")
    return [
        line
        for line in rest.splitlines()
        if line.startswith("|") and sum(bool(number.fullmatch(cell)) for cell in line.split("|")) >= 2
    ]


def test_typed_tables_are_found():
    assert typed_tables("| habnn | 1.0 [0.9, 1.1] | -2 |\n| one | number 3 |\n") == ["| habnn | 1.0 [0.9, 1.1] | -2 |"]
    assert len(typed_tables("| pbp | 5.67 (3.16) 90 % | 1e-05 |\n| sac | 405 491 | 6.9 / 6.6 = 1.05 |\n")) == 2
    assert typed_tables(f"<!-- table: a.csv -->\n{FILLED}<!-- /table -->") == []


@pytest.mark.parametrize("path", SCRIPT["pages"](ROOT), ids=lambda path: path.name)
def test_no_table_of_numbers_is_typed(path):
    found = typed_tables(path.read_text())
    assert found == [] or path.name in NOTEBOOKS
