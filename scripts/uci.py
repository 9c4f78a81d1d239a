"""Regression studies; the same as `habnn uci`."""

import sys
from functools import partial

from agents.cli.main import run_command

main = partial(run_command, "uci")

if __name__ == "__main__":
    sys.exit(main())
