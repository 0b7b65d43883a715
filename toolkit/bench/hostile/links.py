"""The attackers' side of the network: sockets to the server, raw links over them, and crowds that reconnect."""

import select
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from itertools import cycle
from random import SystemRandom
from time import time
from typing import Generic, TypeVar

from messenger.cephx.exchange import AuthServer
from messenger.cephx.keys import CryptoKey
from messenger.cephx.minting import MintingClient
from messenger.cephx.tickets import ServiceKey
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.entity import AuthName, EntityName, EntityType
from messenger.link import Protocol
from toolkit.bench.hostile.spec import ATTACKER_HOSTS, FIRST_ATTACKER, AttackSpec
from toolkit.bench.identity import RECEIVER, SECRET_ID, auth_server
from toolkit.errors import ScenarioFailed
from toolkit.node.raw.link import Identity, Other
from toolkit.node.raw.stream import SocketStream
from toolkit.node.raw.v1 import RawV1Link
from toolkit.node.raw.v2 import RawV2Link

RawLink = RawV1Link | RawV2Link
T = TypeVar("T")
_PATIENCE_S = 2.0
_LINGER_RESET = struct.pack("ii", 1, 0)
_READ_BYTES = 1 << 16
_MOST_BYTES = 1 << 20
"""Bytes that a flood writes to one socket before it turns to the next."""
_WOULD_BLOCK = (BlockingIOError, InterruptedError)


class Wire(SocketStream):
    """One connection to the server. It can be written without waiting, and reset.

    Args:
        sock: a socket that is connected or connecting.
    """

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.sock = sock
        self.recorded = bytearray()
        """All bytes passed to :meth:`write`."""
        self._rest = memoryview(b"")

    def write(self, raw: bytes) -> None:
        """Record and send bytes."""
        self.recorded += raw
        super().write(raw)

    def pour(self, more: Callable[[], bytes]) -> None:
        """Send chunks from ``more`` until the kernel's buffer is full, or 1 MiB is sent.

        A server that reads as fast as this process writes leaves room in the buffer for ever.
        """
        total = 0
        with suppress(OSError):
            while total < _MOST_BYTES:
                if not self._rest:
                    self._rest = memoryview(more())
                count = self.sock.send(self._rest)
                self._rest = self._rest[count:]
                total += count

    def discard(self) -> None:
        """Read and discard all received bytes."""
        with suppress(OSError):
            while len(self.sock.recv(_READ_BYTES)) == _READ_BYTES:
                pass

    def reset(self) -> None:
        """Close with a RST instead of a FIN."""
        with suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
        self.close()


class Target:
    """The attacked server.

    Args:
        spec: the attackers' spec.
    """

    def __init__(self, spec: AttackSpec) -> None:
        self.addrs = {Protocol(name): EntityAddr.parse(addr) for name, addr in spec.addrs.items()}
        self.victims = {Protocol(name): EntityAddr.parse(addr) for name, addr in spec.victims.items()}
        self.protocols = cycle(self.addrs)
        """The protocols in turn, for attacks that work with any protocol."""
        self.links = 0
        """Number of connections opened."""
        self.receive_buffer_bytes = 0
        """SO_RCVBUF of new connections; 0 for the kernel's default."""
        self._hosts = cycle(ATTACKER_HOSTS)
        self._key = CryptoKey.from_base64(spec.key)
        self._rng = SystemRandom()

    def dial(self, protocol: Protocol) -> Wire:
        """Start connecting from the next of the attackers' hosts, without waiting.

        Raises:
            OSError: no socket can be opened, or the connection was reset at once.
        """
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            if self.receive_buffer_bytes:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer_bytes)
            sock.bind((next(self._hosts), 0))
            addr = self.addrs[protocol]
            sock.connect_ex((addr.host, addr.port))
            self.links += 1
            return Wire(sock)
        except OSError:
            sock.close()
            raise

    def link(self, protocol: Protocol, addr: EntityAddr | None = None) -> RawLink:
        """Connect a link of a new entity with its own ticket; nothing is sent yet.

        Args:
            protocol: protocol of the link.
            addr: address to announce; one of the attackers' addresses unless given.

        Raises:
            OSError: as :meth:`dial`.
        """
        wire = self.dial(protocol)
        name = EntityName(EntityType.CLIENT, FIRST_ATTACKER + self.links)
        own = addr or EntityAddr.from_host(ATTACKER_HOSTS[0], 0, AddressType.ANY, name.num)
        client = MintingClient(
            AuthName(name.type, str(name.num)), name.num, {RECEIVER.type: ServiceKey(SECRET_ID, self._key)}
        )
        server: AuthServer = auth_server(self._key)  # an identity needs one, but it is never used
        me = Identity(name, AddrVec((own,)), client, server, self._rng, time)
        kind = RawV2Link if protocol is Protocol.V2 else RawV1Link
        link: RawLink = kind(wire, me, Other(RECEIVER.type, self.addrs[protocol]), connecting=True)
        link.patience_s = _PATIENCE_S
        return link

    def open_link(self, protocol: Protocol) -> RawLink:
        """Connect a link and complete its handshake.

        Raises:
            OSError: as :meth:`dial`.
            ScenarioFailed: the server did not open the session.
        """
        link = self.link(protocol)
        try:
            link.handshake()
        except ScenarioFailed:
            link.stream.close()
            raise
        return link


def wire_of(link: RawLink) -> Wire:
    """Return the connection of a link of :class:`Target`."""
    assert isinstance(link.stream, Wire)
    return link.stream


class Crowd(Generic[T]):
    """A fixed number of connections: those that the server closes are opened again.

    Args:
        count: number of connections.
        per_step: maximum number of connections that one :meth:`refill` opens.
        dial: opens a connection and returns its member.
        wire: returns the connection of a member.
    """

    def __init__(self, count: int, per_step: int, dial: Callable[[], T], wire: Callable[[T], Wire]) -> None:
        self._count = count
        self._per_step = per_step
        self._dial = dial
        self._wire = wire
        self._members: dict[int, T] = {}
        self._poll = select.poll()

    def refill(self) -> list[T]:
        """Remove members that the server has closed, open new ones, and return all."""
        for descriptor, _ in self._poll.poll(0):
            self._poll.unregister(descriptor)
            self._wire(self._members.pop(descriptor)).close()
        for _ in range(min(self._per_step, self._count - len(self._members))):
            with suppress(OSError, ScenarioFailed):
                member = self._dial()
                descriptor = self._wire(member).sock.fileno()
                self._members[descriptor] = member
                # poll for hang-ups only: bytes from the server may stay unread
                self._poll.register(descriptor, select.POLLRDHUP)
        return list(self._members.values())
