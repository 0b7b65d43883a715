"""A program for a virtual machine, which prints how it was run."""

import json
import os
import sys
from pathlib import Path

PRELOADED = sorted(sys.modules)

if __name__ == "__main__":
    found = {"args": sys.argv[1:], "directory": str(Path.cwd()), "odd": os.environ["ODD"], "preloaded": PRELOADED}
    print(json.dumps(found))  # noqa: T201 - what this is for
    print("to stderr", file=sys.stderr)  # noqa: T201 - likewise
    sys.exit(int(sys.argv[1]))
