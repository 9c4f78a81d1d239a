"""The elementary functions of the kernel against the standard library."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import envs
from envs._kernels import goldstone
from envs._kernels.elementary import exp, log, sine


@settings(deadline=None)  # the first call compiles
@given(st.floats(2.0**-53, 2.0))
def test_log_vs_standard_library(x):
    assert log(x) == pytest.approx(math.log(x), rel=1e-15, abs=1e-300)


@settings(deadline=None)  # the first call compiles
@given(st.floats(-80.0, 20.0))
def test_exp_vs_standard_library(x):
    assert exp(x) == pytest.approx(math.exp(x), rel=1e-15)


@settings(deadline=None)  # the first call compiles
@given(st.floats(0.0, 1.25))
def test_sine_vs_standard_library(turns):
    assert sine(turns) == pytest.approx(math.sin(2.0 * math.pi * turns), rel=1e-15, abs=1.5e-15)


def test_jit_recompiles_when_an_inlined_module_changes(tmp_path):
    """A change of exp in one module invalidates the cached machine code of another module that inlines it."""
    package = tmp_path / "copied"
    package.mkdir()
    for name in ("elementary.py", "goldstone.py"):
        source = (Path(envs.__file__).parent / "_kernels" / name).read_text()
        (package / name).write_text(source.replace("envs._kernels", "copied"))

    def penalty():
        program = "from copied.goldstone import penalty; print(penalty(1.0, 1.4))"
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return float(done.stdout)

    before, again = penalty(), penalty()
    source = package / "elementary.py"
    source.write_text(source.read_text().replace("+ 1.0 / 2.0", "+ 1.0 / 4.0"))
    assert before == again == goldstone.penalty(1.0, 1.4)
    assert penalty() != before


def test_elementary_functions_at_their_exact_points():
    assert log(1.0) == 0.0
    assert exp(0.0) == 1.0
    np.testing.assert_array_equal([sine(k / 2) for k in range(3)], [0.0, 0.0, 0.0])
