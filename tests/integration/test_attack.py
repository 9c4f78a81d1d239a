"""The real scripts/attack.py, and the page that shows its table."""

import re
from pathlib import Path

from real_scripts import script

ROOT = Path(__file__).parents[2]
ROWS = r"^\| ((?:network|files|plant|studies): [^|]+?) \| (\d+) \| ([^|]+) \| (yes|NO) \|$"


def test_attack_smoke_writes_a_table_of_outcomes_as_promised(tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    assert script("attack")["main"](["--smoke", "--sections", "files", "plant", "--out", str(tmp_path)]) == 0
    text = (tmp_path / "attacks.md").read_text()
    assert text == capsys.readouterr().out
    rows = re.findall(ROWS, text, flags=re.MULTILINE)
    assert len(rows) == 5
    assert all(int(cases) >= 12 and passed == "yes" for _, cases, _, passed in rows)


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
