"""The real scripts/attack.py, and the page that shows its table."""

import json
import re
from pathlib import Path

import pandas as pd

from habnn_control.experiments.provenance import write_meta
from real_scripts import script

ROOT = Path(__file__).parents[2]
ROWS = r"^\| ((?:network|files|plant|studies): [^|]+?) \| (\d+) \| ([^|]+) \| (yes|NO) \|$"


def test_attack_smoke_writes_a_table_of_outcomes_as_promised(tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    assert script("attack")["main"](["--smoke", "--sections", "files", "plant", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "attack.csv").read_text() == capsys.readouterr().out
    found = pd.read_csv(tmp_path / "attack.csv")
    assert len(found) == 5
    assert (found["cases"] >= 12).all()
    assert set(found["promised"]) == {"yes"}


def test_attack_table_is_stored_for_its_page(tmp_path):
    (tmp_path / "docs/results").mkdir(parents=True)
    (tmp_path / "README.md").write_text("")
    (tmp_path / "attack.csv").write_text('attack,cases,outcome,promised\nfiles: all,3,"none, NA",yes\n')
    write_meta(tmp_path, "python scripts/attack.py", 120.0)
    flags = ["--made", str(tmp_path / "attack.csv"), "--root", str(tmp_path)]
    assert script("tables")["main"](flags) == 0
    assert (tmp_path / "docs/results/attack.csv").read_text() == (tmp_path / "attack.csv").read_text()
    about = json.loads((tmp_path / "docs/results/attack.json").read_text())
    assert about["commands"] == ["python scripts/attack.py"]
    assert about["note"] == "It took 2 minutes."


def test_attack_raises_on_unknown_section(capsys):
    assert script("attack")["main"](["--sections", "file"]) == 2
    assert "sections must be one of network, files, plant, studies, got 'file'" in capsys.readouterr().err


def test_attack_page_shows_a_full_run_and_existing_tests():
    page = (ROOT / "docs/reliability.md").read_text()
    rows = re.findall(ROWS, page, flags=re.MULTILINE)
    assert {attack.partition(":")[0] for attack, *_ in rows} >= {"network", "files", "plant"}
    assert {passed for *_, passed in rows} == {"yes"}
    tests = set(re.findall(r"tests/\S+?\.py", page))
    assert len(tests) > 10
    assert [name for name in sorted(tests) if not (ROOT / name).exists()] == []
