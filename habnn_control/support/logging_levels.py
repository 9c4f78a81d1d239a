"""Logging of one package turned down for a while."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def log_only(level: int, name: str) -> Iterator[None]:
    """Let a logger and those below it report only messages of a level or above, until the end of the block."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)
