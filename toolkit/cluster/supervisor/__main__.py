"""Run a supervisor, which keeps a cluster up: ``python -m toolkit.cluster.supervisor``.

The first line of input has the parameters: those of :class:`Supervisor`, the ``name`` of the cluster, whose lease
was taken already, and the ``environment`` of the command that took it. Until then the program has a blank label
and belongs to no cluster: it exits if its input ends.
"""

import gc
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from messenger.errors import LocalError
from toolkit.cluster.supervisor.program import LOG
from toolkit.machine.labels import label_this_process
from toolkit.machine.leases import Lease
from toolkit.machine.private import FILE_MODE

if TYPE_CHECKING:
    from toolkit.cluster.zygote import Zygote


def main() -> int:
    """Keep a cluster up until it is taken down."""
    gc.disable()  # collections during imports take a tenth of their time and find nothing
    from toolkit.cluster.zygote import Zygote  # noqa: PLC0415 - after gc.disable

    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        return 0
    wanted = json.loads(line)
    lease = _joined(wanted.pop("name"), wanted.pop("environment"))
    # First, before locks, open files and threads, because the nodes are forks of this process.
    zygote = Zygote()
    with lease.held():
        return _kept_up(lease, wanted, zygote)


def _kept_up(lease: Lease, wanted: dict[str, Any], zygote: "Zygote") -> int:
    """Keep the cluster of a lease up; returns the exit code."""
    from toolkit.cluster.backends.base import Backend  # noqa: PLC0415 - after the zygote
    from toolkit.cluster.supervisor.server import Supervisor  # noqa: PLC0415
    from toolkit.machine.descriptors import raise_limit  # noqa: PLC0415

    gc.freeze()  # what was imported stays, so later collections need not look at it
    gc.enable()
    raise_limit()  # after the fork of the zygote: nodes keep the default, which faults may limit
    Backend.zygote = zygote
    # Print to the log from here on, because the front expects lines of JSON on standard output.
    events = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return Supervisor(lease, wanted, sys.stdin.buffer, events).run()


def _joined(name: str, variables: dict[str, str]) -> Lease:
    """Make this process one of a cluster's, with its environment, its label and its log; returns the lease.

    Raises:
        LocalError: the cluster is gone, or its log cannot be written.
    """
    os.environ.clear()
    os.environ.update(variables)
    lease = Lease.find(name)
    printed = os.pread(sys.stderr.fileno(), os.fstat(sys.stderr.fileno()).st_size, 0)
    try:
        log = os.open(lease.directory / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE_MODE)
        os.write(log, printed)
    except OSError as error:
        raise LocalError(f"{lease.directory / LOG}: {error.strerror}") from None
    os.dup2(log, sys.stderr.fileno())
    os.close(log)
    label_this_process(str(lease.label))
    return lease


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
