"""``msgrlab`` in a virtual machine, as a module that the machine runs."""

import sys

from toolkit.cli.main import run

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
