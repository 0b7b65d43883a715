"""``python -m toolkit.cluster.supervisor NAME``: keep a cluster up; its lease is taken already.

The first line of input says what is wanted (see :class:`Supervisor`). ``msgrlab up`` starts it with the cluster's
label in its environment.
"""

import json
import os
import sys

from messenger.errors import LocalError
from toolkit.cluster.zygote import Zygote


def main() -> int:
    """Keep a cluster up until it is taken down."""
    name, *kind = sys.argv[1:]
    # Before anything is locked or opened, and before any thread: forks of this process are the nodes.
    zygote = Zygote() if kind != ["exec"] else None
    from toolkit.cluster.backends.base import Backend  # noqa: PLC0415 - as said
    from toolkit.cluster.supervisor.server import Supervisor  # noqa: PLC0415
    from toolkit.machine.descriptors import raise_limit  # noqa: PLC0415
    from toolkit.machine.leases import Lease  # noqa: PLC0415

    raise_limit()  # not that of the nodes, which may be about limits
    Backend.zygote = zygote
    # What anything here prints goes to the log: on the standard output the front expects lines of JSON.
    tell = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    lease = Lease.find(name)
    with lease.held():
        wanted = json.loads(sys.stdin.buffer.readline())
        return Supervisor(lease, wanted, sys.stdin.buffer, tell).run()


try:
    code = main()
except LocalError as error:
    print(f"msgrlab: {error}", file=sys.stderr)
    code = 2
except FileNotFoundError as error:  # the directory has just been removed
    print(f"msgrlab: {error.filename}: {error.strerror}", file=sys.stderr)
    code = 2
# Threads that still wait for something that has ended are not waited for.
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)
