"""Run a program on a host in a guest: ``python -m toolkit.cluster.backends.vm.terminal CLUSTER NODE ARGV...``.

The cluster's supervisor runs it, for ten minutes at most. It gets all input of this process, unless that is a
terminal, and its output is printed when it has ended.
"""

import sys

from messenger.errors import LocalError
from toolkit.cluster.supervisor.client import ask
from toolkit.machine.leases import Lease

_LONGEST_S = 600.0
_ANSWER_S = 60.0
"""Seconds for the answer about a program that has ended or was killed."""
_USAGE_ERROR = 2
_SIGNALLED = 128


def main(name: str, node: str, *argv: str) -> int:
    """Run the program and return its exit code."""
    stdin = "" if sys.stdin.isatty() else sys.stdin.read()
    try:
        wanted = {"node": node, "argv": [*argv], "stdin": stdin}
        done = ask(Lease.find(name), "run", timeout_s=_LONGEST_S + _ANSWER_S, **wanted)
    except LocalError as error:
        print(f"msgrlab: {error}", file=sys.stderr)
        return _USAGE_ERROR
    sys.stdout.write(done["stdout"])
    sys.stderr.write(done["stderr"])
    code: int = done["code"]
    return code if code >= 0 else _SIGNALLED - code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
