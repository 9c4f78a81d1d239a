"""Measure speed; the same as `habnn benchmark`."""

import sys
from functools import partial

from agents.cli.main import run_command

main = partial(run_command, "benchmark")

if __name__ == "__main__":
    sys.exit(main())
