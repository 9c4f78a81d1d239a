"""What holds for every test."""

import logging
from collections.abc import Iterator

import pytest

OURS = ("agents", "envs", "habnn_control")


@pytest.fixture(autouse=True)
def loggers_as_before() -> Iterator[None]:
    """Fail a test that leaves a level changed: it would silence tests that run later in the same process."""
    before = [logging.getLogger(name).level for name in OURS]
    yield
    assert [logging.getLogger(name).level for name in OURS] == before
