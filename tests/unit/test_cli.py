"""The command `habnn`: its subcommands, its help and how fast it answers."""

import os
import resource
import subprocess
import sys
from importlib import import_module, metadata
from pathlib import Path

import pytest

from agents import runner
from agents.cli import settings
from agents.cli.main import COMMANDS, main, run_command
from agents.cli.tune import SPACES
from habnn_control.regression import data, methods, protocol

HABNN = Path(sys.executable).with_name("habnn")
SCRIPTS = Path(__file__).parents[2] / "scripts"


def call(*words, program=HABNN):
    return subprocess.run([program, *words], capture_output=True, text=True, check=False, timeout=60)


def test_help_fits_a_screen_and_names_all_commands():
    done = call("--help")
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 100
    for name in ("compare", "run", "plot", "uci", "tune", "benchmark"):
        assert sum(line.strip().startswith(f"{name} ") for line in lines) == 1


def test_version_is_that_of_the_distribution():
    assert call("--version").stdout.split() == ["habnn", metadata.version("habnn-control")]


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["--help"], ["--print-completion", "bash"]])
def test_output_may_go_to_a_reader_that_leaves(words, unbuffered):
    """As in `habnn ... | head`: no traceback."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": os.environ | {"PYTHONUNBUFFERED": unbuffered}}
    with subprocess.Popen([HABNN, *words], text=True, **pipes) as process:
        process.stdout.close()
        errors = process.stderr.read()
    assert process.returncode == 141
    assert errors == ""


def test_unknown_command_names_the_nearest(capsys):
    assert main(["compair"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "command must be one of compare, run, plot, uci, tune, benchmark, got 'compair'" in line
    assert "did you mean 'compare'?" in line


def child_seconds():
    """Return the processor time of all child processes so far: unlike wall time, it is the same on a busy machine."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_answers_within_a_second(name):
    best = float("inf")
    for _ in range(3):
        before = child_seconds()
        done = call(name, "--help")
        best = min(best, child_seconds() - before)
    assert done.stdout.startswith(f"usage: habnn {name} ")
    assert best < 1.0


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_imports_nothing_heavy(name):
    program = (
        "import sys\nfrom agents.cli.main import main\n"
        f"try:\n    main([{name!r}, '--help'])\nexcept SystemExit:\n    pass\n"
        "print('HEAVY', *{'pandas', 'scipy', 'matplotlib', 'torch', 'numba', 'joblib', 'sklearn'} & set(sys.modules))"
    )
    assert call("-c", program, program=sys.executable).stdout.splitlines()[-1] == "HEAVY"


@pytest.mark.parametrize(("script", "command"), [("run_episode", "run")] + [(n, n) for n in COMMANDS if n != "run"])
def test_script_is_the_command(script, command):
    ours, theirs = call(command, "--help").stdout, call(SCRIPTS / f"{script}.py", "--help", program=sys.executable)
    assert theirs.returncode == 0
    assert "".join(theirs.stdout.split()).replace(f"{script}.py", "") == "".join(ours.split()).replace(
        f"habnn{command}", ""
    )


def test_flag_of_a_command_is_checked_by_it(capsys):
    with pytest.raises(SystemExit) as stop:
        run_command("plot", ["x", "--outt", "y"])
    assert stop.value.code == 2
    assert "did you mean '--out'?" in capsys.readouterr().err


def test_settings_write_out_the_names_of_slow_modules():
    assert runner.BENCHMARK == settings.BENCHMARK
    assert tuple(SPACES) == settings.TUNABLE
    assert protocol.PROTOCOLS == settings.PROTOCOLS
    assert tuple(methods.METHODS) == settings.METHODS
    assert tuple(data.SOURCES) == settings.DATASETS
    assert tuple(data.BUILT_IN) == settings.BUILT_IN
    for section in settings.SECTIONS:
        assert callable(import_module(f"agents.benchmarks.{section}").measure)


@pytest.mark.parametrize(
    "words", [["tune", "--out"], ["benchmark", "--json"], ["compare", "--agents", "noop", "--out", "x", "--monitor"]]
)
def test_command_refuses_a_path_it_could_not_write_to_before_it_starts(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert main([*words, str(tmp_path / "file" / "below")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "must be in folders, not in a file" in line
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_command_that_is_stopped_says_so_in_one_line(monkeypatch, capsys):
    def stop(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("agents.cli.plot.main", stop)
    assert main(["plot", "x"]) == 130
    assert capsys.readouterr().err.split() == ["Stopped."]
