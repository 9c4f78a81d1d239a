"""Tune an SB3 agent; the same as `habnn tune`."""

import sys
from functools import partial

from agents.cli.main import run_command

main = partial(run_command, "tune")

if __name__ == "__main__":
    sys.exit(main())
