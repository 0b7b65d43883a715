"""Two hosts in namespaces of this machine, which send numbered datagrams to each other."""

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import ip_interface
from pathlib import Path

from toolkit.machine.changes import Namespace
from toolkit.machine.labels import PROCESS_VARIABLE
from toolkit.machine.leases import Lease, lab_name
from toolkit.network import namespaces
from toolkit.network.links import Links, Way, open_links
from toolkit.network.switch import Plug, wire

SENDER, RECEIVER = "a", "b"
PACKET_BYTES = 242
"""Length of a datagram's Ethernet frame: 200 bytes of data and 42 of headers."""
_DATA_BYTES = 200
_PORT = 7
_SO_TIMESTAMPNS, _SO_RCVBUFFORCE = 35, 33
_BUFFER_BYTES = 1 << 27
_TIMESPEC = struct.Struct("=qq")
_SILENCE_S = 1.0
_HEAD = struct.Struct("<IQ")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A datagram as it arrived."""

    number: int
    delay_ms: float
    at_s: float
    """Time of its arrival at the receiver's kernel, on the wall clock."""


class Hosts:
    """Hosts a and b on a switch.

    Args:
        lease: lease that everything is journalled in.
    """

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._plugs = [
            Plug(name, self._namespace(name), "public", "eth0", ip_interface(f"10.9.0.{number}/24"), 1500)
            for number, name in enumerate((SENDER, RECEIVER), 1)
        ]
        self._switch = self._namespace("net-switch")
        wire(self._switch, self._plugs)

    def _namespace(self, name: str) -> Path:
        change = Namespace(self._lease.label.namespace(name))
        self._lease.journal.note(change)
        return namespaces.create(change.name)

    def links(self, way: Way) -> Links:
        """Open the links between them, by netem or by the wire."""
        return open_links(
            [plug.cable(self._switch) for plug in self._plugs],
            way=way,
            note=self._lease.journal.note,
            environment={PROCESS_VARIABLE: str(self._lease.label)},
            log=self._lease.directory / "wire.log",
            table=self._lease.label.table("wire"),
        )

    def send(self, count: int, *, every_s: float = 0.0) -> list[Arrival]:
        """Send numbered datagrams from a to b; returns those that arrive undamaged, in the order of arrival."""
        source_plug, target_plug = self._plugs
        address = (str(target_plug.address.ip), _PORT)
        with self._socket(target_plug) as target, self._socket(source_plug) as source:
            target.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            target.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
            target.bind(address)
            target.settimeout(_SILENCE_S)
            due_s = time.monotonic()
            for number in range(count):
                source.sendto(_HEAD.pack(number, time.time_ns()).ljust(_DATA_BYTES, b"."), address)
                due_s += every_s
                if (pause_s := due_s - time.monotonic()) > 0:
                    time.sleep(pause_s)
            return list(_arrivals(target, count))

    @staticmethod
    def _socket(plug: Plug) -> socket.socket:
        with namespaces.within(plug.namespace):
            return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _arrivals(target: socket.socket, count: int) -> Iterator[Arrival]:
    """Yield what has arrived, until nothing has for a second."""
    while True:
        try:
            data, ((_, _, when),), _, _ = target.recvmsg(2000, 100)
        except TimeoutError:
            return
        number, sent_ns = _HEAD.unpack_from(data)
        seconds, nanoseconds = _TIMESPEC.unpack(when)
        arrived_ns = seconds * 10**9 + nanoseconds
        if number < count and data.endswith(b"." * (_DATA_BYTES - _HEAD.size)):
            yield Arrival(number, (arrived_ns - sent_ns) / 1e6, arrived_ns / 1e9)


@contextmanager
def two_hosts() -> Iterator[Hosts]:
    """Make both hosts for the time of a ``with`` block.

    Raises:
        Unsupported: this user may not make namespaces.
        LocalError: the kernel rejects it.
    """
    namespaces.check()
    with ExitStack() as undo:
        lease = Lease.take(lab_name())
        undo.callback(lease.journal.undo)
        undo.enter_context(lease.held())
        yield Hosts(lease)
