"""The direction of imports: scripts -> agents -> (habnn_control, envs); private modules stay in their folders."""

import ast
import subprocess
import sys
from itertools import pairwise
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("habnn_control", "envs", "agents", "scripts")
HEAVY = {"torch", "stable_baselines3"}
# Modules that a package must not import anywhere, not even inside a function.
FORBIDDEN = {
    "habnn_control": {"envs", "agents", "scripts", "gymnasium", "gym"},
    "envs": {"agents", "scripts", "gym"} | HEAVY,
    "agents": {"scripts", "gym"},
    "scripts": {"scripts", "gym"},
    "tests": {"scripts", "gym"},
}
LIBRARY_FOR_ENVS = ("habnn_control.control.plant", "habnn_control.support")


def sources(package):
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in files}


def imports(source, path="", nested=True):
    """Return the dotted names that a file imports, as far as the source tells: `from a import b` gives a.b.

    Relative imports are resolved from the path of the file. Without `nested`, imports inside functions are left out.
    """
    found, waiting = set(), [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            folder = PurePosixPath(path).parts[: -node.level] if node.level else ()
            module = ".".join([*folder, *([node.module] if node.module else [])])
            found |= {f"{module}.{alias.name}" for alias in node.names}
        elif nested or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return found


def roots(names):
    return {name.partition(".")[0] for name in names}


def module_parts(name):
    """Return the parts of a dotted name that are modules of this repository, shortest first, as (folder, module).

    Scripts import their neighbours by bare names, because a script's folder is on the path when it runs.
    """
    parts = name.split(".")
    if (ROOT / "scripts" / f"{parts[0]}.py").exists():
        parts = ["scripts", *parts]
    chain = [PurePosixPath(*parts[: n + 1]) for n in range(len(parts))]
    exists = [path for path in chain if (ROOT / path).is_dir() or (ROOT / path).with_suffix(".py").exists()]
    return list(pairwise([PurePosixPath(), *exists]))


def foreign_private_imports(path, source):
    """Return the imports of private modules from outside of the folder that contains the module."""
    wrong = set()
    for name in imports(source, path):
        for folder, module in module_parts(name):
            if module.name.startswith("_") and not PurePosixPath(path).is_relative_to(folder):
                wrong.add(name)
    return wrong


def test_imports_finds_nested_from_and_relative_imports():
    source = "import a.b\nfrom c.d import e\nfrom . import f\nfrom ..g import h\ndef i():\n    import j\n"
    assert imports(source, "x/y/z.py") == {"a.b", "c.d.e", "x.y.f", "x.g.h", "j"}
    assert "j" not in imports(source, "x/y/z.py", nested=False)


@pytest.mark.parametrize(
    ("path", "source", "allowed"),
    [
        ("habnn_control/network.py", "from habnn_control._network import kernels", True),
        ("habnn_control/control/model.py", "from habnn_control._network.prior import focus", True),
        ("habnn_control/_network/prior.py", "from habnn_control._network.jit import kernel", True),
        ("agents/base.py", "from habnn_control._network.prior import focus", False),
        ("agents/base.py", "import habnn_control._network", False),
        ("agents/base.py", "def f():\n    from envs._kernels.benchmark import step", False),
        ("envs/vector.py", "from ._kernels import benchmark", True),
        ("scripts/attack.py", "from _attack import Result", True),
        ("agents/base.py", "from _attack import Result", False),
        ("agents/base.py", "from habnn_control.support.files import _HEADER", True),  # a name, not a module
    ],
)
def test_foreign_private_imports_depend_on_the_folder(path, source, allowed):
    assert bool(foreign_private_imports(path, source)) is not allowed


@pytest.mark.parametrize("package", FORBIDDEN)
def test_package_imports_point_one_way(package):
    for path, source in sources(package).items():
        wrong = roots(imports(source, path)) & FORBIDDEN[package]
        assert not wrong, f"{path} imports {sorted(wrong)}"


def test_envs_import_only_the_plant_and_support_of_the_library():
    for path, source in sources("envs").items():
        for name in imports(source, path):
            if name.partition(".")[0] == "habnn_control":
                assert any(f"{name}.".startswith(f"{allowed}.") for allowed in LIBRARY_FOR_ENVS), f"{path}: {name}"


@pytest.mark.parametrize("package", PACKAGES)
def test_private_modules_are_imported_only_inside_their_folder(package):
    wrong = {
        path: found for path, source in sources(package).items() if (found := foreign_private_imports(path, source))
    }
    assert not wrong


def test_library_modules_import_torch_and_stable_baselines_only_inside_functions():
    for path, source in sources("habnn_control").items():
        wrong = roots(imports(source, path, nested=False)) & HEAVY
        assert not wrong, f"{path} imports {sorted(wrong)} at import time"


def test_library_modules_leave_gymnasium_and_torch_alone():
    """Importing every module of the library must not load them through another package either."""
    program = (
        "import importlib, pkgutil, sys, habnn_control\n"
        "for module in pkgutil.walk_packages(habnn_control.__path__, 'habnn_control.'):\n"
        "    importlib.import_module(module.name)\n"
        f"print(*({HEAVY | {'gym', 'gymnasium'}!r} & set(sys.modules)))"
    )
    assert run(program).split() == []


@pytest.mark.parametrize("package", ["habnn_control", "envs", "agents"])
def test_package_import_leaves_torch_and_old_gym_alone(package):
    program = f"import sys, {package}; print(*({HEAVY | {'gym'}!r} & set(sys.modules)))"
    assert run(program).split() == []


def test_package_import_leaves_optional_libraries_alone():
    program = "import sys, habnn_control; print(*{'sklearn', 'pandas', 'matplotlib', 'scipy'} & set(sys.modules))"
    assert run(program).split() == []


def test_package_import_takes_less_time_than_numpy_and_scipy():
    """A ratio within one process, so that a busy machine slows both parts."""
    program = (
        "import time\nstart = time.perf_counter()\nimport numpy, scipy.special\nmiddle = time.perf_counter()\n"
        "import habnn_control\nprint((time.perf_counter() - middle) / (middle - start))"
    )
    assert min(float(run(program)) for _ in range(3)) < 0.5


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT).stdout
