"""Start Python so that it finds msgrlab's modules and imports nothing from the current directory.

msgrlab runs as root in other users' directories. Without ``-P``, ``python -m`` and ``python -c`` look for every
module there first.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PYTHON = (sys.executable, "-P")
"""First words of a Python command line."""
PACKAGES = Path(__file__).parents[2]
"""Directory of msgrlab's packages: a checkout, or where they are installed."""
_SAFE_PATH_VARIABLE = "PYTHONSAFEPATH"


def environment() -> dict[str, str]:
    """Return this process's environment with msgrlab's packages in PYTHONPATH."""
    paths = [str(PACKAGES), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


@contextmanager
def safe_workers() -> Iterator[None]:
    """Make the workers of a ``ProcessPoolExecutor``, which takes no Python options, start with ``-P`` as well."""
    before = os.environ.get(_SAFE_PATH_VARIABLE)
    os.environ[_SAFE_PATH_VARIABLE] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_SAFE_PATH_VARIABLE, None)
        else:
            os.environ[_SAFE_PATH_VARIABLE] = before
