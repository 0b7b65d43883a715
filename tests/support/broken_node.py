"""A node of a cluster with a bug: ``python -m tests.support.broken_node NAME`` has the canary of that name."""

import sys

from tests.canaries.bugs import CANARIES
from toolkit.cluster.node import main

if __name__ == "__main__":
    (bug,) = [canary for canary in CANARIES if canary.name == sys.argv[1]]
    with bug.alive():
        main()
