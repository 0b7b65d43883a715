"""Probes a v1 port for type and features, without credentials or a session (docs/protocol.md §3.2, §3.4).

A CONNECT with an unknown protocol version is refused with the peer's own version, which shows the peer's type. The
refusal also has a feature mask: features common to both sides, and features that the peer requires. A CONNECT with
all features and another without any separate the two.
"""

import asyncio
from dataclasses import dataclass

from messenger.denc.address import EntityAddr
from messenger.denc.entity import EntityType
from messenger.errors import FaultReason, PeerError
from messenger.v1.wire import Banner, ClientIdentify, Connect, ConnectReply, ServerIdentify, Tag, as_legacy

_ALL_FEATURES = (1 << 64) - 1
_NO_VERSION = (1 << 32) - 1
_MAX_ANSWER_BYTES = 64 * 1024
_READ_BYTES = 4096
_PEERS = {15: EntityType.MON, 24: EntityType.OSD, 32: EntityType.MDS}
"""Entity types by the protocol version that they expect of a client (§3.1)."""


@dataclass(slots=True)
class V1Findings:
    """The properties that a v1 peer announced."""

    addr: EntityAddr
    """The address that the peer announces as its own."""
    seen_as: EntityAddr
    """This side's address as the peer sees it."""
    protocol_version: int | None = None
    """The protocol version that the peer expects of clients; None if it did not reply with BADPROTOVER."""
    supported: int = 0
    """Features that the peer supports."""
    required: int = 0
    """Features that the peer requires of clients."""

    @property
    def entity_type(self) -> EntityType | None:
        """The peer's type by its protocol version; None if unknown: managers and clients share a version."""
        return None if self.protocol_version is None else _PEERS.get(self.protocol_version)


class _Conversation:
    """The connection, with the bytes already read from it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pending: bytes) -> None:
        self._reader = reader
        self._writer = writer
        self._pending = bytearray(pending)

    async def more(self) -> None:
        chunk = await self._reader.read(_READ_BYTES)
        if not chunk:
            raise PeerError(FaultReason.EOF)
        self._pending += chunk

    async def take(self, kind: type[Banner | ServerIdentify]) -> Banner | ServerIdentify:
        """Return the peer's next banner or identification, both of a fixed size."""
        while (found := kind.cut(memoryview(bytes(self._pending)))) is None:
            await self.more()
        del self._pending[: found[0]]
        return found[1]

    async def ask(self, features: int) -> ConnectReply:
        """Send a CONNECT with an unknown protocol version and these features; return the reply."""
        self._writer.write(Connect(features, EntityType.CLIENT, 1, 0, _NO_VERSION).encode())
        while (found := ConnectReply.cut(memoryview(bytes(self._pending)), _MAX_ANSWER_BYTES)) is None:
            await self.more()
        del self._pending[: found[0]]
        return found[1]

    def introduce(self, addr: EntityAddr) -> None:
        """Send the banner and this side's address."""
        self._writer.write(Banner().encode() + ClientIdentify(addr).encode())


async def ask_v1(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pending: bytes = b"") -> V1Findings:
    """Probe a v1 port on a connection on which nothing has been written yet.

    Args:
        reader: reading side of the connection.
        writer: writing side of the connection.
        pending: bytes already read from the connection.

    Raises:
        PeerError: the peer violates the messenger protocol, or closes the connection.
    """
    talk = _Conversation(reader, writer, pending)
    await talk.take(Banner)
    identify = await talk.take(ServerIdentify)
    assert isinstance(identify, ServerIdentify)
    found = V1Findings(identify.server_addr, identify.client_addr)
    talk.introduce(as_legacy(EntityAddr(nonce=1, ip=identify.client_addr.ip)))
    everything, nothing = await talk.ask(_ALL_FEATURES), await talk.ask(0)
    if everything.tag is nothing.tag is Tag.BADPROTOVER:
        found.protocol_version = everything.protocol_version
        found.supported, found.required = everything.features, nothing.features
    return found
