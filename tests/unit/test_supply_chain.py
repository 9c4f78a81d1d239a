"""Every installed distribution is pinned, and its licence is known."""

import re
import runpy
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts/licences.py"))


def pinned():
    lines = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in lines}


def test_every_installed_distribution_is_pinned_to_its_version():
    versions = {name: metadata.version(name).split("+")[0] for name in SCRIPT["required"]("habnn-control", ("dev",))}
    assert len(versions) > 70
    assert versions == {name: pinned().get(name) for name in versions}


@pytest.mark.skipif(find_spec("pcgym") is None, reason="needs the extra plants")
def test_the_plants_extra_is_pinned_to_its_versions():
    versions = {name: metadata.version(name).split("+")[0] for name in SCRIPT["required"]("habnn-control", ("plants",))}
    assert "casadi" in versions
    assert versions == {name: pinned().get(name) for name in versions}


@pytest.mark.skipif(find_spec("twine") is None, reason="needs the extra release")
def test_the_release_extra_is_pinned_to_its_versions():
    versions = {
        name: metadata.version(name).split("+")[0] for name in SCRIPT["required"]("habnn-control", ("release",))
    }
    assert "twine" in versions
    assert versions == {name: pinned().get(name) for name in versions}


def test_licences_are_listed(capsys):
    assert SCRIPT["main"](["--extras", "dev"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("numpy ") and "BSD" in line for line in lines)
    unknown = [line.split()[0] for line in lines if line.endswith("unknown")]
    assert len(unknown) < 0.1 * len(lines), unknown


def test_notice_names_the_origin_of_the_kernel():
    notice = (ROOT / "NOTICE").read_text()
    assert "Copyright 2017 Siemens AG" in notice
    assert "Permission is hereby granted" in notice
