"""The direction of imports: scripts -> agents -> (habnn_control, envs); nothing imports scripts."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "stable_baselines3"}
FORBIDDEN = {
    "habnn_control": {"envs", "agents", "scripts", "gymnasium", "gym"},
    "envs": {"agents", "scripts", "gym"} | HEAVY,
    "agents": {"scripts", "gym"},
}


def imported_roots(source: str) -> set[str]:
    roots = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            roots |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            roots.add(node.module.partition(".")[0])
    return roots


def test_imported_roots_sees_nested_and_from_imports():
    source = "import a.b\nfrom c.d import e\nfrom . import f\ndef g():\n    import h\n"
    assert imported_roots(source) == {"a", "c", "h"}


@pytest.mark.parametrize("package", FORBIDDEN)
def test_package_imports_point_one_way(package):
    files = list((ROOT / package).rglob("*.py"))
    assert files
    for path in files:
        wrong = imported_roots(path.read_text()) & FORBIDDEN[package]
        assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


@pytest.mark.parametrize("package", FORBIDDEN)
def test_package_import_leaves_torch_and_old_gym_alone(package):
    program = f"import sys, {package}; print(*({HEAVY | {'gym'}!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == []
