"""What holds for every test."""

import logging
from collections.abc import Iterator

import pytest

OURS = ("agents", "envs", "habnn_control")


@pytest.fixture(autouse=True)
def loggers_as_before() -> Iterator[None]:
    """A level that stays changed silences the tests which happen to run later in the same process."""
    before = [logging.getLogger(name).level for name in OURS]
    yield
    assert [logging.getLogger(name).level for name in OURS] == before
