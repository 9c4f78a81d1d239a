"""Run the files of scripts/ as Python does, for tests of what they define."""

import runpy
import sys
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parents[1] / "scripts"


def script(name: str) -> dict[str, Any]:
    """Return the names that a file of scripts/ defines; the files beside it can be imported, as from a shell."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        return runpy.run_path(str(SCRIPTS / f"{name}.py"))
    finally:
        sys.path.remove(str(SCRIPTS))
