"""Probes an address frame by frame for what it supports and accepts; needs no credentials.

See docs/protocol.md §4.2, §4.7.

Every question uses its own connection, which is closed before a session begins.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import product

from messenger.cephx.exchange import AuthMethod, ConMode
from messenger.cephx.structures import AuthMode
from messenger.denc.address import AddressType, EntityAddr
from messenger.denc.codec import Encoder
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.features import MSGR2_SUPPORTED
from messenger.errors import Fault, FaultError, FaultReason, PeerError
from messenger.v2.revision import crc_frames
from messenger.v2.wire import (
    AuthBadMethod,
    AuthDone,
    AuthReplyMore,
    AuthRequest,
    ControlFrame,
    Hello,
    decode_banner,
    decode_control,
    encode_banner,
)
from toolkit.probe.wire_v1 import V1Findings, ask_v1

_MAX_ANSWER_BYTES = 64 * 1024
_READ_BYTES = 4096


@dataclass(slots=True)
class WireFindings:
    """The properties that the peer at an address announced."""

    protocol: str = ""
    """``v2`` or ``v1``; empty if the peer sent no banner."""
    entity_type: EntityType | None = None
    msgr2_supported: int = 0
    msgr2_required: int = 0
    seen_as: EntityAddr | None = None
    """This side's address as the peer sees it."""
    v1: V1Findings | None = None
    """Findings about a v1 peer; None for v2."""
    methods: list[AuthMethod] = field(default_factory=list)
    """Authentication methods that the peer allows clients."""
    modes: dict[AuthMethod, list[ConMode]] = field(default_factory=dict)
    """Connection modes that the peer accepts with each method."""


class _Conversation:
    """One connection, on which whole frames are sent and received."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._pending = bytearray()
        self._frames, self._builder = crc_frames(MSGR2_SUPPORTED, _MAX_ANSWER_BYTES)
        self._sent = "before any frame"

    async def _more(self) -> None:
        chunk = await self._reader.read(_READ_BYTES)
        if not chunk:
            raise PeerError(FaultReason.EOF, f"{self._sent}; the peer's log may say why")
        self._pending += chunk

    def send(self, frame: ControlFrame, about: str = "") -> None:
        """Write a control frame; error messages add ``about`` to its name."""
        self._sent = f"after {frame.TAG.name}" + (f" ({about})" if about else "")
        self._writer.write(self._builder.control(frame.TAG, frame.encode()))

    async def banner(self) -> tuple[int, int]:
        """Exchange banners; return the feature masks that the peer supports and requires."""
        self._writer.write(encode_banner(MSGR2_SUPPORTED, 0))
        while (found := decode_banner(memoryview(bytes(self._pending)))) is None:
            await self._more()
        size, supported, required = found
        del self._pending[:size]
        self._frames, self._builder = crc_frames(supported & MSGR2_SUPPORTED, _MAX_ANSWER_BYTES)
        return supported, required

    async def v1(self) -> V1Findings:
        """Probe a v1 port; nothing may have been sent on the connection before."""
        return await ask_v1(self._reader, self._writer)

    async def receive(self) -> ControlFrame:
        """Return the peer's next control frame."""
        while True:
            whole = memoryview(bytes(self._pending))
            found = self._frames.next_frame(whole, 0, len(whole), owned=False)
            if found is not None:
                stop, tag, *segments = found
                del self._pending[:stop]
                return decode_control(tag, tuple(segments))
            await self._more()


@asynccontextmanager
async def _conversation(host: str, port: int) -> AsyncIterator[_Conversation]:
    try:
        reader, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        refused = isinstance(error, ConnectionRefusedError)
        reason = FaultReason.REFUSED if refused else FaultReason.SOCKET
        raise FaultError(Fault(reason, f"{host}:{port}" if refused else f"{host}:{port}: {error}")) from None
    try:
        yield _Conversation(reader, writer)
    except (ConnectionError, PeerError) as error:
        if isinstance(error, PeerError):
            raise FaultError(Fault(error.reason, error.detail)) from None
        raise FaultError(Fault(FaultReason.SOCKET, str(error))) from None
    finally:
        writer.transport.abort()


async def ask(addr: EntityAddr, name: AuthName, timeout_s: float, found: WireFindings) -> None:
    """Probe ``addr`` for protocol, features, methods and modes, as the client ``name``.

    The results are stored in ``found`` as they arrive, so that they remain after an error.

    Raises:
        FaultError: the connection is refused, or the peer violates the messenger protocol.
        TimeoutError: an answer takes longer than ``timeout_s``.
    """
    if addr.type is AddressType.LEGACY:
        await _ask_v1(addr, timeout_s, found)
        return
    try:
        await _ask_v2(addr, name, timeout_s, found)
    except FaultError as error:
        if error.fault.reason is not FaultReason.V1_PEER:
            raise
        await _ask_v1(addr, timeout_s, found)


async def _ask_v1(addr: EntityAddr, timeout_s: float, found: WireFindings) -> None:
    async with asyncio.timeout(timeout_s), _conversation(addr.host, addr.port) as talk:
        v1 = await talk.v1()
        found.protocol, found.entity_type, found.seen_as, found.v1 = "v1", v1.entity_type, v1.seen_as, v1


async def _ask_v2(addr: EntityAddr, name: AuthName, timeout_s: float, found: WireFindings) -> None:
    async with asyncio.timeout(timeout_s), _conversation(addr.host, addr.port) as talk:
        found.msgr2_supported, found.msgr2_required = await talk.banner()
        found.protocol = "v2"
        hello = await _greet(talk, addr)
        found.entity_type, found.seen_as = hello.entity_type, hello.peer_addr
        # Method 0 is never allowed, so the refusal (AUTH_BAD_METHOD) lists the methods that are.
        answer = await _request(talk, name, AuthMethod.UNKNOWN, ConMode.SECURE, ConMode.CRC)
        methods = answer.allowed_methods if isinstance(answer, AuthBadMethod) else []
        found.methods = [AuthMethod(method) for method in methods if method in list(AuthMethod)]
    found.modes = {method: [] for method in found.methods}
    for method, mode in product(found.methods, (ConMode.CRC, ConMode.SECURE)):
        if await _accepts(addr, name, method, mode, timeout_s):
            found.modes[method].append(mode)


async def _greet(talk: _Conversation, addr: EntityAddr) -> Hello:
    talk.send(Hello(EntityType.CLIENT, addr))
    hello = await talk.receive()
    if not isinstance(hello, Hello):
        raise PeerError(FaultReason.UNEXPECTED_FRAME, f"{hello.TAG.name} instead of HELLO")
    return hello


async def _request(talk: _Conversation, name: AuthName, method: AuthMethod, *modes: ConMode) -> ControlFrame:
    """Send an authentication request and return the answer.

    Nautilus decodes the payload before it checks the method, and closes the connection if the payload is empty.
    """
    payload = Encoder()
    payload.u8(AuthMode.MON)
    name.encode(payload)
    payload.u64(0)
    about = f"method {method.name.lower()}, {' or '.join(mode.name.lower() for mode in modes)}"
    talk.send(AuthRequest(method, [*modes], payload.getvalue()), about)
    return await talk.receive()


async def _accepts(addr: EntityAddr, name: AuthName, method: AuthMethod, mode: ConMode, timeout_s: float) -> bool:
    """True if the peer continues the handshake when only this method and mode are offered."""
    async with asyncio.timeout(timeout_s), _conversation(addr.host, addr.port) as talk:
        await talk.banner()
        await _greet(talk, addr)
        return isinstance(await _request(talk, name, method, mode), AuthReplyMore | AuthDone)
