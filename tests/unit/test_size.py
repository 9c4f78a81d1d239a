"""Files, functions and constructors stay small enough to read in one go."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("habnn_control", "envs", "agents", "scripts", "examples")
LONGEST_FILE, LONGEST_BODY, MOST_ARGUMENTS = 400, 40, 10
FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
CONSTRUCTORS = [path for path in FILES if path.parent in (ROOT / "agents", ROOT / "habnn_control" / "control")]


def body_lines(function):
    """Count the lines of a function behind its signature and docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return function.end_lineno - body[0].lineno + 1 if body else 0


def functions(path):
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]


def test_body_lines_leave_signature_and_docstring_out():
    (function,) = ast.parse('def f(\n    a,\n):\n    """Say.\n\n    More.\n    """\n    b = a\n\n    return b\n').body
    assert body_lines(function) == 3


@pytest.mark.parametrize("path", [*FILES, *TESTS], ids=lambda path: str(path.relative_to(ROOT)))
def test_file_is_short(path):
    assert len(path.read_text().splitlines()) <= LONGEST_FILE


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_are_short(path):
    long = {function.name: body_lines(function) for function in functions(path) if body_lines(function) > LONGEST_BODY}
    assert not long


@pytest.mark.parametrize("path", CONSTRUCTORS, ids=lambda path: str(path.relative_to(ROOT)))
def test_constructors_take_few_arguments(path):
    classes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]
    for kind in classes:
        for method in kind.body:
            if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                arguments = method.args
                names = [argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)][1:]
                assert len(names) <= MOST_ARGUMENTS, f"{kind.name}: {names}"
