"""Hosts on a bridge, for tests of links: namespaces with an interface each, and sockets in them."""

import socket
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from toolkit.machine.changes import Interface, Namespace
from toolkit.machine.leases import Lease
from toolkit.network.links import Cable
from toolkit.network.namespaces import within
from toolkit.network.switch import wait_up

_DIRECTORY = Path("/run/netns")
_PORT = 7
_SO_TIMESTAMPNS, _SO_RCVBUFFORCE = 35, 33
_BUFFER_BYTES = 1 << 26
_TIMESPEC = struct.Struct("=qq")
_PERMANENT = 0x80
"""NUD_PERMANENT: no ARP either."""
_NO_IPV6 = Path("/proc/sys/net/ipv6/conf/default/disable_ipv6")


def make_hosts(lease: Lease, names: str, *, on_machine: bool = False) -> "Hosts":
    """Hosts with names of one letter, on a bridge that is in a namespace or, as Docker's, on this machine."""

    def namespace(name: str) -> str:
        lease.journal.note(Namespace(lease.label.namespace(name)))
        return lease.label.namespace(name)

    def interface(name: str) -> str:
        lease.journal.note(Interface(lease.label.interface(name)))
        return lease.label.interface(name)

    return Hosts(names, namespace, interface if on_machine else None)


class Hosts:
    """Hosts by name, which reach one another through a bridge in a namespace of its own.

    Args:
        names: of the hosts.
        namespace: makes the name of a namespace, and sees to it that it goes again.
        interface: makes the name of an interface likewise; with it, the bridge is in this process's namespace.
    """

    def __init__(
        self,
        names: Sequence[str],
        namespace: Callable[[str], str],
        interface: Callable[[str], str] | None = None,
    ) -> None:
        from pyroute2 import IPRoute, netns

        spaces = {name: _DIRECTORY / namespace(name) for name in (*names, *(() if interface else ("bridge",)))}
        named = interface or (lambda name: name)
        for space in spaces.values():
            netns.create(space.name)
            with within(space):
                _NO_IPV6.write_text("1")  # nothing is sent that no test has asked for
        self.switch = spaces.get("bridge")
        self.cables = [
            Cable(
                name,
                "public",
                spaces[name],
                "eth0",
                f"02:00:00:00:00:{number:02x}",
                1500,
                named(f"{name}-0"),
                self.switch,
                tap=named(f"t{name}") if interface else "",
                bridge=named(f"b{name}") if interface else "",
            )
            for number, name in enumerate(names, 1)
        ]
        self._addresses = {name: f"10.9.0.{number}" for number, name in enumerate(names, 1)}
        with within(self.switch), IPRoute() as route:
            name = named("br0")
            route.link("add", ifname=name, kind="bridge", state="up")
            (bridge,) = route.link_lookup(ifname=name)
            for cable in self.cables:
                with cable.namespace.open("rb") as space:
                    peer = {"ifname": "eth0", "net_ns_fd": space.fileno(), "address": cable.mac}
                    route.link("add", ifname=cable.port, kind="veth", peer=peer, master=bridge, state="up")
        for cable in self.cables:
            with within(cable.namespace), IPRoute() as route:
                (index,) = route.link_lookup(ifname="eth0")
                route.link("set", index=1, state="up")
                route.link("set", index=index, state="up")
                route.addr("add", index=index, address=self._addresses[cable.host], prefixlen=24)
                for other in self.cables:
                    if other is not cable:
                        route.neigh(
                            "add",
                            dst=self._addresses[other.host],
                            lladdr=other.mac,
                            ifindex=index,
                            state=_PERMANENT,
                        )
        with within(self.switch):
            wait_up({cable.port for cable in self.cables})

    def send(self, sender: str, receiver: str, count: int, *, every_s: float = 0.0) -> list[tuple[int, float]]:
        """Send numbered datagrams; returns the numbers of those that arrive, and after how many seconds."""
        arrived: list[tuple[int, float]] = []
        with self.socket(receiver) as target, self.socket(sender) as source:
            target.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            target.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
            target.bind((self._addresses[receiver], _PORT))
            target.settimeout(0.3)
            for number in range(count):
                stamp = f"{number} {time.time_ns()}".ljust(200).encode()
                source.sendto(stamp, (self._addresses[receiver], _PORT))
                time.sleep(every_s)
            while True:
                try:
                    stamp, ((_, _, when),), _, _ = target.recvmsg(2000, 100)
                except TimeoutError:
                    return arrived
                number, sent_ns = map(int, stamp.split())
                # When the kernel had it, however long it has waited for us.
                seconds, nanoseconds = _TIMESPEC.unpack(when)
                arrived.append((number, (seconds * 10**9 + nanoseconds - sent_ns) / 10**9))

    def round_trips(self, a: str, b: str, count: int) -> list[float]:
        """Seconds that a datagram takes to a host and back, one after the other."""
        found = []
        with self.socket(a) as here, self.socket(b) as there:
            there.bind((self._addresses[b], _PORT))
            for one in (here, there):
                one.settimeout(5)
            for _ in range(count):
                before_s = time.monotonic()
                here.sendto(b"ping", (self._addresses[b], _PORT))
                data, back = there.recvfrom(100)
                there.sendto(data, back)
                here.recv(100)
                found.append(time.monotonic() - before_s)
        return found

    def socket(self, name: str, kind: socket.SocketKind = socket.SOCK_DGRAM) -> socket.socket:
        """A socket on a host."""
        (cable,) = [cable for cable in self.cables if cable.host == name]
        with within(cable.namespace):
            return socket.socket(socket.AF_INET, kind)

    def address(self, name: str) -> str:
        return self._addresses[name]
