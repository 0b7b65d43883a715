"""Hosts without a messenger, and a network between them."""

from dataclasses import dataclass, field
from random import Random

import pytest

from messenger.denc.address import EntityAddr
from messenger.errors import FaultReason
from toolkit.dissect.keys import KeyBook
from toolkit.lab.sim.clock import Clock
from toolkit.lab.sim.network import Network
from toolkit.lab.sim.wire import Wire


@dataclass(eq=False)
class Socket:
    """One end of a stream, and the callbacks of its host."""

    host: "PlainHost"
    wire: Wire
    received: bytes = b""
    written: int = 0
    broken: list[tuple[FaultReason, str]] = field(default_factory=list)

    def write(self, chunk: bytes) -> None:
        self.wire.write(self.host, chunk)

    def close(self) -> None:
        self.wire.close(self.host)


class PlainHost:
    """Accepts everything and writes down what happens."""

    def __init__(self, name: str, network: Network, port: int) -> None:
        self.name = name
        self.alive = True
        self.addr = EntityAddr.from_host("127.0.0.1", port)
        self.sockets: dict[Wire, Socket] = {}
        self.log: list[tuple[float, str, object]] = []
        self._network = network
        network.listen(self, self.addr)

    def dial(self, other: "PlainHost", link_id: int = 1) -> Wire:
        wire = self._network.dial(self, link_id, other.addr)
        assert wire is not None
        self.sockets[wire] = Socket(self, wire)
        return wire

    def crash(self) -> None:
        self.alive = False
        self._network.crashed(self)

    def _note(self, what: str, detail: object) -> None:
        self.log.append((self._network.clock.now_s, what, detail))

    def accepted(self, wire: Wire, remote: EntityAddr) -> None:
        self.sockets[wire] = Socket(self, wire)
        self._note("accepted", wire)

    def opened(self, wire: Wire, local: EntityAddr) -> None:
        self._note("opened", wire)

    def broken(self, wire: Wire, reason: FaultReason, detail: str) -> None:
        self.sockets[wire].broken.append((reason, detail))
        self._note("broken", reason)

    def received(self, wire: Wire, chunk: bytes) -> None:
        self.sockets[wire].received += chunk
        self._note("received", chunk)

    def written(self, wire: Wire, count: int) -> None:
        self.sockets[wire].written += count


class Pair:
    """Two hosts."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.network = Network(self.clock, Random(1), lambda _a, _b: [], KeyBook, lambda _wire, _breakpoint: None)
        self.a = PlainHost("a", self.network, 1)
        self.b = PlainHost("b", self.network, 2)

    def run(self, seconds: float = 1.0) -> None:
        self.clock.run_until(lambda: False, self.clock.now_s + seconds)

    def stream(self) -> tuple[Socket, Socket]:
        """A stream that ``a`` dialled, both ends."""
        wire = self.a.dial(self.b)
        self.run()
        return self.a.sockets[wire], self.b.sockets[wire]


@pytest.fixture
def pair() -> Pair:
    """Two hosts on a new network."""
    return Pair()
