"""The elementary functions of the kernel against the standard library."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs._elementary import exp, log, sine


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


def test_elementary_functions_at_their_exact_points():
    assert log(1.0) == 0.0
    assert exp(0.0) == 1.0
    np.testing.assert_array_equal([sine(k / 2) for k in range(3)], [0.0, 0.0, 0.0])
