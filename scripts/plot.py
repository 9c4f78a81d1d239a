"""Make reports again from results folders; the same as `habnn plot`."""

import sys
from functools import partial

from agents.cli.main import run_command

main = partial(run_command, "plot")

if __name__ == "__main__":
    sys.exit(main())
