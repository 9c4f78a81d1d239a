"""Run one agent; the same as `habnn run`."""

import sys
from functools import partial

from agents.cli.main import run_command

main = partial(run_command, "run")

if __name__ == "__main__":
    sys.exit(main())
