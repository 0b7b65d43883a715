"""A raw peer's host on the simulated network."""

from collections import deque
from collections.abc import Callable

from messenger.compat import override
from messenger.denc.address import EntityAddr
from messenger.errors import FaultReason
from toolkit.errors import ScenarioFailed
from toolkit.lab.sim.network import Network, Wire
from toolkit.node import NodeSpec
from toolkit.node.raw.peer import RawHost
from toolkit.node.raw.stream import PATIENCE_S, Stream

Wait = Callable[[Callable[[], bool], float], bool]
"""Lets virtual time pass until a condition holds, or for so many seconds."""


class SimStream(Stream):
    """One end of a simulated stream."""

    def __init__(self, host: "SimRawHost", wait: Wait) -> None:
        self.wire: Wire | None = None
        self.opened = False
        self.trouble = ""
        """Why it ended; empty while it is open."""
        self.inbound = bytearray()
        self._host = host
        self._wait = wait

    @override
    def write(self, raw: bytes) -> None:
        if self.wire is not None and raw and not self.trouble:
            self.wire.write(self._host, raw)

    @override
    def read(self) -> bytes:
        taken = bytes(self.inbound)
        self.inbound.clear()
        return taken

    @property
    @override
    def closed(self) -> bool:
        return bool(self.trouble)

    @override
    def wait(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        return self._wait(condition, timeout_s)

    @override
    def close(self) -> None:
        if self.wire is not None and not self.trouble:
            self.trouble = "closed here"
            self.wire.close(self._host)


class SimRawHost(RawHost):
    """A host on the network that acts only on calls of its scenario."""

    def __init__(self, spec: NodeSpec, network: Network, wait: Wait) -> None:
        self.name = spec.name
        self.alive = True
        self._network = network
        self._wait = wait
        self._streams: dict[Wire, SimStream] = {}
        self._accepted: deque[tuple[Stream, EntityAddr]] = deque()
        self._links = 0
        if spec.listens:
            network.listen(self, spec.addrs.front)

    @override
    def dial(self, name: str, addr: EntityAddr) -> Stream:
        stream = SimStream(self, self._wait)
        self._links += 1
        wire = stream.wire = self._network.dial(self, self._links, addr)
        if wire is None:
            raise ScenarioFailed(f"{self.name} dialled {name}, but nothing listens there")
        self._streams[wire] = stream
        if not self._wait(lambda: stream.opened or stream.closed, PATIENCE_S) or stream.closed:
            raise ScenarioFailed(f"{self.name} could not reach {name}: {stream.trouble or 'no answer'}")
        return stream

    @override
    def accept(self, timeout_s: float) -> tuple[Stream, EntityAddr] | None:
        self._wait(lambda: bool(self._accepted), timeout_s)
        return self._accepted.popleft() if self._accepted else None

    @override
    def close(self) -> None:
        """Do nothing: streams end with the network."""

    # ---- the network's Host

    def accepted(self, wire: Wire, remote: EntityAddr) -> None:
        """Handle a peer's dial of this host."""
        self._links += 1
        wire.link_ids[wire.direction_from(self)] = self._links
        stream = self._streams[wire] = SimStream(self, self._wait)
        stream.wire, stream.opened = wire, True
        self._accepted.append((stream, remote))

    def opened(self, wire: Wire, local: EntityAddr) -> None:  # noqa: ARG002 - the local address is not used
        """Handle a successful dial of this host."""
        self._streams[wire].opened = True

    def broken(self, wire: Wire, reason: FaultReason, detail: str) -> None:
        """Handle a broken stream or a failed dial."""
        stream = self._streams[wire]
        stream.trouble = stream.trouble or detail or reason.value

    def received(self, wire: Wire, chunk: bytes) -> None:
        """Handle received bytes."""
        self._streams[wire].inbound += chunk

    def written(self, wire: Wire, count: int) -> None:
        """Handle written bytes."""
