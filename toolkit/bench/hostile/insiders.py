"""Attacks by clients with a valid ticket."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from messenger.denc.entity import EntityType
from messenger.errors import LocalError
from messenger.v1 import wire as v1
from messenger.v2 import wire as v2
from toolkit.bench.cell import KIB, MIB
from toolkit.bench.hostile.attack import Attack
from toolkit.bench.hostile.links import Crowd, RawLink, Target, wire_of
from toolkit.bench.hostile.spec import BIG_REQUEST, CLIENTS, ONE_WAY
from toolkit.errors import ScenarioFailed
from toolkit.node.raw.v1 import RawV1Link

_BATCH = 256
"""Number of frames that a flood writes at a time."""
_REQUESTS = 8
"""Number of requests that a slow reader sends at a time."""


class SlowReaders(Attack):
    """Clients that request large answers and never read them."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        target.receive_buffer_bytes = 4 * KIB
        self._crowd = Crowd(6, 2, self._dial, lambda member: wire_of(member[0]))

    def _dial(self) -> tuple[RawLink, Callable[[], bytes]]:
        link = self.target.open_link(next(self.target.protocols))
        return link, _messages(link, BIG_REQUEST, _REQUESTS)

    def step(self) -> None:
        """Send more requests on each link."""
        for link, more in self._crowd.refill():
            with suppress(OSError):
                link.stream.write(more())


class SlowSenders(Attack):
    """Clients that send their messages one byte at a time."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._crowd = Crowd(40, 4, self._dial, lambda member: wire_of(member[0]))

    def _dial(self) -> tuple[RawLink, list[int]]:
        link = self.target.open_link(next(self.target.protocols))
        return link, list(reversed(link.message(1, type_=ONE_WAY, data=bytes(4 * KIB))))

    def step(self) -> None:
        """Send one more byte on each link."""
        for link, rest in self._crowd.refill():
            if rest:
                link.stream.write(bytes([rest.pop()]))


class HugeMessages(Attack):
    """Clients that announce messages of the largest length; half of them then stop, the others send slowly."""

    DATA_BYTES = 512 * MIB - 4 * KIB
    """A little below the default of max_frame_bytes."""
    PAUSE_S = 0.05

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._crowd = Crowd(8, 8, self._dial, wire_of)

    def _dial(self) -> RawLink:
        link = self.target.open_link(next(self.target.protocols))
        link.write(link.message(1, type_=ONE_WAY, data=_Declared()))
        return link

    def step(self) -> None:
        """Send one more kilobyte of every second message."""
        for link in self._crowd.refill()[::2]:
            link.stream.write(bytes(KIB))


class _Flood(Attack):
    """Sends frames on a few links, as many as the server accepts."""

    PAUSE_S = 0.0
    IS_FLOOD = True

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._crowd = Crowd(4, 4, self._dial, lambda member: wire_of(member[0]))

    def _dial(self) -> tuple[RawLink, Callable[[], bytes]]:
        link = self.target.open_link(next(self.target.protocols))
        return link, self.frames(link)

    def frames(self, link: RawLink) -> Callable[[], bytes]:
        """Return the function that makes the next batch of frames for a link."""
        raise NotImplementedError

    def step(self) -> None:
        """Fill the send buffer of every socket; discard the server's answers."""
        for link, more in self._crowd.refill():
            wire = wire_of(link)
            wire.pour(more)
            wire.discard()


class Keepalives(_Flood):
    """KEEPALIVE2 frames, each of which the server answers."""

    def frames(self, link: RawLink) -> Callable[[], bytes]:
        """Return a function that repeats the same batch."""
        return partial(_same, _small_frame(link, v2.KeepAlive2(1, 0), v1.KeepAlive2(1, 0)) * _BATCH)


class Acks(_Flood):
    """ACK frames that acknowledge nothing."""

    def frames(self, link: RawLink) -> Callable[[], bytes]:
        """Return a function that repeats the same batch."""
        return partial(_same, _small_frame(link, v2.Ack(0), v1.Ack(0)) * _BATCH)


class TinyMessages(_Flood):
    """Messages without parts."""

    def frames(self, link: RawLink) -> Callable[[], bytes]:
        """Return a function that makes the next messages."""
        return _messages(link, ONE_WAY, _BATCH)


class Logins(Attack):
    """Sessions of new clients, which close as soon as they are open."""

    def step(self) -> None:
        """Open and close a session by each protocol."""
        for protocol in self.target.addrs:
            with suppress(OSError, ScenarioFailed):
                link = self.target.open_link(protocol)
                link.write(link.message(1, type_=ONE_WAY))
                link.hang_up()


class Squatting(Attack):
    """Clients that claim the legitimate client's address, its name, or another entity type."""

    def step(self) -> None:
        """Make each claim by each protocol."""
        for protocol, victim in self.target.victims.items():
            self._try(self.target.link(protocol, victim))
            named = self.target.link(protocol, victim)
            named.name = CLIENTS[protocol]
            self._try(named)
            typed = self.target.link(protocol)
            typed.name = type(typed.name)(EntityType.OSD, typed.name.num)
            self._try(typed)

    @staticmethod
    def _try(link: RawLink) -> None:
        with suppress(OSError, ScenarioFailed, LocalError):
            link.handshake()
        link.hang_up()


def _same(batch: bytes) -> bytes:
    return batch


def _small_frame(link: RawLink, frame: v2.ControlFrame, piece: v1.Frame) -> bytes:
    """Encode one of two equivalent frames: ``frame`` on v2, ``piece`` on v1."""
    return piece.encode() if isinstance(link, RawV1Link) else link.writer.control(frame.TAG, frame.encode())


def _messages(link: RawLink, type_: int, count: int) -> Callable[[], bytes]:
    """Return a function that makes the next ``count`` messages of a link."""
    seq = 0

    def batch() -> bytes:
        nonlocal seq
        first, seq = seq + 1, seq + count
        return b"".join(link.message(number, type_=type_) for number in range(first, seq + 1))

    return batch


class _Declared(bytes):
    """Empty bytes whose length is the one that the header of a message announces."""

    __slots__ = ()

    def __len__(self) -> int:
        return HugeMessages.DATA_BYTES
