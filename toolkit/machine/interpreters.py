"""Starting Python: our own modules are found, and nothing that lies in the current directory is imported.

msgrlab runs as root in directories of anybody's. Without ``-P`` a Python that is started with ``-m`` or ``-c``
looks for every module there first.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PYTHON = (sys.executable, "-P")
"""How a command line begins."""
PACKAGES = Path(__file__).parents[2]
"""Directory of our packages: a checkout, or where they are installed."""
_SAFE_PATH_VARIABLE = "PYTHONSAFEPATH"


def environment() -> dict[str, str]:
    """This process's environment, for a Python that is to find our packages."""
    paths = [str(PACKAGES), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


@contextmanager
def safe_workers() -> Iterator[None]:
    """Have the workers of a ``ProcessPoolExecutor``, which takes no options for Python, start so as well."""
    before = os.environ.get(_SAFE_PATH_VARIABLE)
    os.environ[_SAFE_PATH_VARIABLE] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_SAFE_PATH_VARIABLE, None)
        else:
            os.environ[_SAFE_PATH_VARIABLE] = before
