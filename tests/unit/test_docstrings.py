"""Every public name has a docstring: modules, classes, functions, methods and properties."""

import ast
import inspect
import re
from pathlib import Path

import pytest

from envs.industrial_benchmark import IndustrialBenchmarkEnv
from real_scripts import script

ROOT = Path(__file__).parents[2]
SITE = script("_site")
MODULES = [module for package in SITE["PACKAGES"] for module in SITE["public_modules"](package)]


def source_of(module):
    path = ROOT / module.replace(".", "/")
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()


def public_names(tree, prefix):
    """Yield dotted name and node of a module, of its public classes and functions, and of what these classes hold."""
    yield prefix, tree
    for node in tree.body if isinstance(tree, ast.Module | ast.ClassDef) else []:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield from public_names(node, f"{prefix}.{node.name}")


def undocumented(source, module="m"):
    """Return the public names without a docstring; a property and its setter share one."""
    documented = {}
    for name, node in public_names(ast.parse(source), module):
        documented[name] = documented.get(name, False) or bool((ast.get_docstring(node) or "").strip())
    return [name for name, has_one in documented.items() if not has_one]


def test_undocumented_finds_names_without_docstring():
    source = '"""M."""\nclass A:\n    """A."""\n    def f(self): ...\n    def _g(self): ...\ndef h(): ...\n'
    assert undocumented(source) == ["m.A.f", "m.h"]
    assert undocumented("class A:\n    '''A.'''\n") == ["m"]


def test_the_walk_sees_the_whole_library():
    names = [name for module in MODULES for name, _ in public_names(ast.parse(source_of(module)), module)]
    assert len(MODULES) > 90
    assert len(names) > 700
    assert "habnn_control.network.HABNN.predict" in names


@pytest.mark.parametrize("module", MODULES)
def test_public_names_have_docstrings(module):
    assert undocumented(source_of(module), module) == []


def test_documented_defaults_of_the_plant_are_those_of_the_code():
    """A page cannot show a default that is an attribute of another class, so the docstring repeats it."""
    text = inspect.getdoc(IndustrialBenchmarkEnv) or ""
    named = re.findall(r"^(\w+) : .*, default (.+)$", text, re.MULTILINE)
    choices = re.findall(r"^(\w+) : \{([^,]+), .*\}$", text, re.MULTILINE)
    defaults = {name: one.default for name, one in inspect.signature(IndustrialBenchmarkEnv).parameters.items()}
    assert {name: ast.literal_eval(value) for name, value in [*named, *choices]} == defaults
