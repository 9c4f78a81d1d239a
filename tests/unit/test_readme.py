"""The README stays short, and what it points to is there."""

import re
from pathlib import Path

import yaml
from PIL import Image

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()


def test_readme_is_short():
    lines = TEXT.splitlines()
    assert len(lines) <= 150
    assert max(map(len, lines)) <= 120


def test_readme_says_nothing_about_seeds():
    assert not re.search(r"\bseeds\b", TEXT)


def test_links_of_the_readme_lead_to_files():
    links = [link for link in re.findall(r"\]\(([^)]+)\)", TEXT) if "://" not in link]
    assert len(links) > 10
    for link in links:
        assert (ROOT / link).exists(), link


def test_moving_picture_moves_and_is_small():
    path = ROOT / "docs/assets/episode.gif"
    assert path.stat().st_size < 3e6
    with Image.open(path) as picture:
        assert picture.n_frames > 50


def test_versions_agree():
    version = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), flags=re.MULTILINE)[1]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == version
    assert f"## {version} - {citation['date-released']}" in (ROOT / "CHANGELOG.md").read_text()
