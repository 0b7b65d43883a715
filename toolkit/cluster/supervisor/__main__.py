"""Run a supervisor, which keeps a cluster up: ``python -m toolkit.cluster.supervisor NAME``.

The cluster's lease was taken already. The first line of input has the parameters (see :class:`Supervisor`).
``msgrlab up`` starts the supervisor with the cluster's label in its environment.
"""

import gc
import json
import os
import sys

from messenger.errors import LocalError


def main() -> int:
    """Keep a cluster up until it is taken down."""
    name, *kind = sys.argv[1:]
    gc.disable()  # collections during imports take a tenth of their time and find nothing
    from toolkit.cluster.zygote import Zygote  # noqa: PLC0415 - after gc.disable

    # First, before locks, open files and threads, because the nodes are forks of this process.
    zygote = Zygote() if kind != ["exec"] else None
    from toolkit.cluster.backends.base import Backend  # noqa: PLC0415 - after the zygote
    from toolkit.cluster.supervisor.server import Supervisor  # noqa: PLC0415
    from toolkit.machine.descriptors import raise_limit  # noqa: PLC0415
    from toolkit.machine.leases import Lease  # noqa: PLC0415

    gc.freeze()  # what was imported stays, so later collections need not look at it
    gc.enable()
    raise_limit()  # after the fork of the zygote: nodes keep the default, which faults may limit
    Backend.zygote = zygote
    # Print to the log from here on, because the front expects lines of JSON on standard output.
    events = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    lease = Lease.find(name)
    with lease.held():
        wanted = json.loads(sys.stdin.buffer.readline())
        return Supervisor(lease, wanted, sys.stdin.buffer, events).run()


try:
    code = main()
except LocalError as error:
    print(f"msgrlab: {error}", file=sys.stderr)
    code = 2
except FileNotFoundError as error:  # the directory has just been removed
    print(f"msgrlab: {error.filename}: {error.strerror}", file=sys.stderr)
    code = 2
# Do not wait for daemon threads that are still blocked.
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)
