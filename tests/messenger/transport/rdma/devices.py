"""Two soft-RoCE devices on a pair of interfaces, in a machine whose kernel has them."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import mkdtemp

from toolkit.machine.journal import Journal
from toolkit.network import rdma

HOSTS = {"rxe0": "10.9.0.1", "rxe1": "10.9.0.2"}
"""Address of each device."""
_INTERFACES = {"rxe0": "va", "rxe1": "vb"}
_GID_OF_IPV4 = 1
"""Index of the address that is made of the interface's IPv4 address; 0 is of its link-local one."""
OPTIONS = {"ms_type": "async+rdma", "ms_async_rdma_gid_idx": _GID_OF_IPV4}
# Packets between two addresses of one namespace take the pair of interfaces, and not the way through loopback.
_ROUTES = """\
link add va type veth peer name vb
addr add 10.9.0.1/32 dev va
addr add 10.9.0.2/32 dev vb
link set va up
link set vb up
rule add pref 1 iif va to 10.9.0.1 lookup local
rule add pref 2 iif vb to 10.9.0.2 lookup local
rule add pref 3 to 10.9.0.2 from 10.9.0.1 lookup 101
rule add pref 4 to 10.9.0.1 from 10.9.0.2 lookup 102
rule add pref 100 lookup local
rule del pref 0
route add 10.9.0.2/32 dev va src 10.9.0.1 table 101
route add 10.9.0.1/32 dev vb src 10.9.0.2 table 102
"""
_NO_ROUTES = """\
rule add pref 0 lookup local
rule del pref 1
rule del pref 2
rule del pref 3
rule del pref 4
rule del pref 100
link del va
"""


@contextmanager
def made() -> Iterator[None]:
    """Make the interfaces and the devices; afterwards the machine is as it was."""
    journal = Journal(Path(mkdtemp()))
    with ExitStack() as undo:
        ip("-batch", "-", text=_ROUTES)
        undo.callback(ip, "-batch", "-", text=_NO_ROUTES)
        for interface in ("all", "va", "vb"):
            for setting, value in {"accept_local": "1", "rp_filter": "0"}.items():
                path = Path("/proc/sys/net/ipv4/conf") / interface / setting
                undo.callback(path.write_text, path.read_text())
                path.write_text(value)
        for name, interface in _INTERFACES.items():
            rdma.create(name, interface, journal)
        undo.callback(journal.undo)
        yield


def ip(*args: str, text: str | None = None) -> None:
    """Run ip(8)."""
    subprocess.run(["ip", *args], input=text, text=True, check=True)


def tc(*args: str) -> str:
    """Run tc(8) for a queue, with its counters; returns what it prints."""
    return subprocess.run(["tc", "-s", "qdisc", *args], capture_output=True, text=True, check=True).stdout


def packets(name: str) -> int:
    """Packets that the interface of a device has sent."""
    return int(Path(f"/sys/class/net/{_INTERFACES[name]}/statistics/tx_packets").read_text("ascii"))


def opened() -> int:
    """How many devices this process has open."""
    paths = list(Path("/proc/self/fd").iterdir())
    return sum(os.path.realpath(path).startswith("/dev/infiniband/") for path in paths)
