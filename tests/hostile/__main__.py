"""``python -m tests.hostile``: mutations of the captures in ``captures/`` through decode, analyze and chart.

Files with which something is wrong stay in the folder; a limit for memory makes what takes too much fail.
"""

import argparse
import resource
import sys
from pathlib import Path

from tests.hostile.mutations import problems

_MIB = 1 << 20


def main() -> int:
    """0, or 1 if a command did not end in order."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutations", type=int, default=1000)
    parser.add_argument("--memory", type=int, default=3072, metavar="MIB", help="address space (default 3072)")
    parser.add_argument("--folder", type=Path, default=Path("msgrlab-out/hostile"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    resource.setrlimit(resource.RLIMIT_AS, (options.memory * _MIB, options.memory * _MIB))
    found = 0
    for problem in problems(options.seed, options.mutations, options.folder):
        found += 1
        print(problem, flush=True)
    print(f"{options.mutations} mutations, {found} problems")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
