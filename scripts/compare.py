"""Compare agents; the same as `habnn compare`."""

import sys
from functools import partial

from agents.cli.main import run_command

main = partial(run_command, "compare")

if __name__ == "__main__":
    sys.exit(main())
