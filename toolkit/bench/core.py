"""Measures the core alone, without sockets: the time to build and to parse one message.

``frame`` is the frame codec by itself. ``endpoint`` is the whole core between two endpoints in memory: queueing
and building on one side, parsing and delivering on the other, with all the bookkeeping of a lossless session.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from random import SystemRandom
from statistics import median
from time import perf_counter, time
from typing import Any

from messenger.cephx.connection_secret import new_connection_secret
from messenger.cephx.exchange import ConMode
from messenger.cephx.keys import CryptoKey
from messenger.config import Config
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.codec import Buffer
from messenger.endpoint import Endpoint
from messenger.messages.message import Message
from messenger.outputs import Deliver, OpenLink, WriteLink
from messenger.receive import OWN_BUFFER_BYTES
from messenger.session.session import Session
from messenger.v2.framing import CrcReader, CrcWriter, FrameReader, FrameWriter, SecureReader, SecureWriter
from messenger.v2.onwire import stream_ciphers
from messenger.v2.wire import MESSAGE_HEADER
from toolkit.bench.cell import KIB
from toolkit.bench.identity import (
    MESSAGE_TYPE,
    RECEIVER,
    RECEIVER_POLICIES,
    SENDER,
    SENDER_POLICIES,
    auth_client,
    auth_server,
)

CORE_SIZES = (64, 4 * KIB, 64 * KIB)
BATCH = 32
"""Number of messages that are built, and then parsed, together."""

Times = tuple[float, float]
"""Seconds of building and of parsing one batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreResult:
    """Medians over many batches, per message."""

    layer: str
    """frame or endpoint."""
    size: int
    mode: str
    build_us: float
    parse_us: float

    def as_json(self) -> dict[str, Any]:
        """Return the row of the JSON object."""
        return {**asdict(self), "build_us": round(self.build_us, 2), "parse_us": round(self.parse_us, 2)}


def measure_core(
    sizes: Sequence[int], modes: Sequence[str], seconds: float, finished: Callable[[CoreResult], None]
) -> list[CoreResult]:
    """Measure both layers in this process, ``seconds`` for each row; ``finished`` is called with each row."""
    results = []
    for (layer, batches), mode, size in product(LAYERS.items(), modes, sizes):
        build_s, parse_s = _medians(batches(mode, bytes(size)), seconds)
        result = CoreResult(
            layer=layer, size=size, mode=mode, build_us=build_s / BATCH * 1e6, parse_us=parse_s / BATCH * 1e6
        )
        results.append(result)
        finished(result)
    return results


def _medians(batches: Iterator[Times], seconds: float) -> Times:
    next(batches)  # fills the caches
    end_s = perf_counter() + seconds
    times = [next(batches)]
    while perf_counter() < end_s:
        times.append(next(batches))
    return median(build_s for build_s, _ in times), median(parse_s for _, parse_s in times)


def _frame_batches(mode: str, payload: bytes) -> Iterator[Times]:
    writer, reader = _codec(mode)
    header = MESSAGE_HEADER.pack(1, 0, MESSAGE_TYPE, 127, 1, 0, 0, 0, 3, 1, 0)
    # as on a link: small frames are copied out of a reused buffer, large ones keep their own buffer
    owned = len(payload) >= OWN_BUFFER_BYTES
    while True:
        pieces: list[Buffer] = []
        started_s = perf_counter()
        for _ in range(BATCH):
            writer.message(pieces, header, b"", b"", payload)
        built_s = perf_counter()
        stream = memoryview(bytearray().join(pieces))
        position, end = 0, len(stream)
        received_s = perf_counter()
        while frame := reader.next_frame(stream, position, end, owned=owned):
            position = frame[0]
        yield built_s - started_s, perf_counter() - received_s


def _codec(mode: str) -> tuple[FrameWriter, FrameReader]:
    limit = Config().max_frame_bytes
    if mode == "crc":
        return CrcWriter(), CrcReader(limit)
    secret = new_connection_secret(ConMode.SECURE, SystemRandom())
    _, sending = stream_ciphers(secret, connector=True)
    receiving, _ = stream_ciphers(secret, connector=False)
    return SecureWriter(sending), SecureReader(receiving, limit)


class Side:
    """An endpoint whose only link is in memory."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.link_id = 0
        self.spent_s = 0.0
        """Time spent in the core since this was last set to 0."""
        self._written: list[Buffer] = []

    def connect(self, addrs: AddrVec) -> Session:
        """Connect to ``addrs``; the link in memory opens at once."""
        session = self.endpoint.connect(addrs, RECEIVER.type, 0.0)
        (dial,) = (output for output in self.endpoint.drain(0.0) if isinstance(output, OpenLink))
        self.link_id = dial.link_id
        self.endpoint.link_opened(dial.link_id, addrs.front, 0.0)
        return session

    def pump(self, started_s: float) -> None:
        """Carry out the outputs of the core; add the time since ``started_s`` to :attr:`spent_s`."""
        while outputs := self.endpoint.drain(0.0):
            for output in outputs:
                if isinstance(output, WriteLink):
                    self._written += output.buffers
                    self.endpoint.link_written(self.link_id, output.size_bytes, 0.0)
                elif isinstance(output, Deliver):
                    self.endpoint.release(output.size_bytes, 0.0)
        self.spent_s += perf_counter() - started_s

    @property
    def has_written(self) -> bool:
        """True if bytes are waiting to be passed to the other side."""
        return bool(self._written)

    def written(self) -> memoryview:
        """Return and clear the bytes written since the last call."""
        written, self._written = self._written, []
        return memoryview(b"".join(written))

    def receive(self, stream: memoryview) -> None:
        """Pass bytes to the endpoint, as a transport would."""
        endpoint, link_id = self.endpoint, self.link_id
        while stream:
            buffer = endpoint.receive_buffer(link_id)
            count = min(len(buffer), len(stream))
            buffer[:count] = stream[:count]
            stream = stream[count:]
            started_s = perf_counter()
            endpoint.link_received(link_id, count, 0.0)
            self.pump(started_s)


def _endpoint_batches(mode: str, payload: bytes) -> Iterator[Times]:
    sender, receiver = _sides(mode)
    addr = receiver.endpoint.addrs.front
    session = sender.connect(receiver.endpoint.addrs)
    receiver.link_id = receiver.endpoint.link_accepted(addr, 0.0)
    while True:
        sender.spent_s = receiver.spent_s = 0.0
        started_s = perf_counter()
        for _ in range(BATCH):
            sender.endpoint.send(session, Message(MESSAGE_TYPE, data=payload), 0.0)
        sender.pump(started_s)
        # the handshake needs several turns, a batch and its ACK only one
        receiver.pump(perf_counter())
        while (forth := sender.written()) or receiver.has_written:
            receiver.receive(forth)
            sender.receive(receiver.written())
        yield sender.spent_s, receiver.spent_s


def _sides(mode: str) -> tuple[Side, Side]:
    key = CryptoKey.generate(SystemRandom(), time())
    receiver = Endpoint(
        RECEIVER,
        AddrVec.parse("v2:127.0.0.1:6800/2"),
        rng=SystemRandom(),
        auth_server=auth_server(key),
        policies=RECEIVER_POLICIES,
        config=Config.only_mode(ConMode[mode.upper()]),
        wall_offset_s=time(),
    )
    return sender_side(mode, key), Side(receiver)


def sender_side(mode: str, key: CryptoKey, nonce: int = 1) -> Side:
    """Return the connecting side; its clock stands at 0.0."""
    sender = Endpoint(
        SENDER,
        AddrVec((EntityAddr.blank(AddressType.ANY, nonce),)),
        rng=SystemRandom(),
        auth_client=auth_client(key),
        policies=SENDER_POLICIES,
        config=Config.only_mode(ConMode[mode.upper()]),
        wall_offset_s=time(),
    )
    return Side(sender)


LAYERS = {"frame": _frame_batches, "endpoint": _endpoint_batches}
