"""A raw peer's host with plain sockets, on loopback or in a network namespace."""

import socket

from messenger.compat import override
from messenger.denc.address import AddressType, EntityAddr
from toolkit.errors import ScenarioFailed
from toolkit.faults.sockets import Inside, here
from toolkit.node import NodeSpec
from toolkit.node.raw.peer import RawHost
from toolkit.node.raw.stream import PATIENCE_S, SocketStream, Stream

_BACKLOG = 16


class SocketRawHost(RawHost):
    """Plain sockets, without a proxy in between.

    Args:
        spec: name, entity and address of the raw peer; it listens if the spec says so.
        inside: calls functions on its host, for example in a network namespace.
    """

    def __init__(self, spec: NodeSpec, inside: Inside = here) -> None:
        self.name = spec.name
        self._inside = inside
        self._streams: list[SocketStream] = []
        self._listener: socket.socket | None = None
        if spec.listens:
            front = spec.addrs.front
            self._listener = inside(socket.socket)
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind((front.host, front.port))
            self._listener.listen(_BACKLOG)

    @override
    def dial(self, name: str, addr: EntityAddr) -> Stream:
        try:
            sock = self._inside(lambda: socket.create_connection((addr.host, addr.port), PATIENCE_S))
        except OSError as error:
            raise ScenarioFailed(f"{self.name} could not reach {name}: {error}") from None
        return self._kept(sock)

    @override
    def accept(self, timeout_s: float) -> tuple[Stream, EntityAddr] | None:
        assert self._listener is not None, f"{self.name} does not listen"
        self._listener.settimeout(timeout_s)
        try:
            sock, (host, port) = self._listener.accept()
        except TimeoutError:
            return None
        return self._kept(sock), EntityAddr.from_host(host, port, AddressType.MSGR2)

    def _kept(self, sock: socket.socket) -> SocketStream:
        stream = SocketStream(sock)
        self._streams.append(stream)
        return stream

    @override
    def close(self) -> None:
        for stream in self._streams:
            stream.close()
        if self._listener is not None:
            self._listener.close()
