"""Attacks by clients without a key."""

from contextlib import suppress
from itertools import cycle
from typing import ClassVar

from messenger.denc.features import CLIENT_FEATURES, MSGR2_SUPPORTED
from messenger.link import Protocol
from messenger.v1 import wire as v1
from messenger.v2.wire import Hello, Tag, encode_banner
from toolkit.bench.cell import KIB
from toolkit.bench.hostile.attack import Attack
from toolkit.bench.hostile.links import Crowd, RawLink, Target, Wire, wire_of
from toolkit.bench.hostile.spec import RECORDED
from toolkit.bench.identity import SENDER
from toolkit.errors import ScenarioFailed
from toolkit.node.raw.frames import RawFrame

_HUGE_BYTES = 127 * KIB
"""Length of a frame before authentication; the default limit is 128 KiB."""
_BEGIN_OF_BANNER = b"ceph"
_BEGIN_OF_FRAME = bytes([Tag.HELLO])


class Silent(Attack):
    """Connections that never send a byte."""

    PAUSE_S = 0.5  # closed connections are opened again only twice a second: this is not a flood
    CONNECTIONS: ClassVar[int] = 800

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._crowd = Crowd(self.CONNECTIONS, self.CONNECTIONS, self._dial, lambda wire: wire)

    def _dial(self) -> Wire:
        return self.target.dial(next(self.target.protocols))

    def step(self) -> None:
        """Reconnect closed connections."""
        self._crowd.refill()


class HalfOpen(Attack):
    """Connections that stop in the handshake, before each of its steps and within a frame."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._step_numbers = cycle(range(16))
        self._crowd = Crowd(120, 8, self._dial, wire_of)

    def _dial(self) -> RawLink:
        link = self.target.link(next(self.target.protocols))
        number = next(self._step_numbers)
        steps = link.steps
        # with an even number the link stops between two frames, with an odd one within a frame
        stop = number // 2 % len(steps)
        link.handshake(until=steps[stop])
        if number % 2:
            link.write(_BEGIN_OF_FRAME if stop else _BEGIN_OF_BANNER)
        return link

    def step(self) -> None:
        """Reconnect closed connections."""
        self._crowd.refill()


class Trickle(Attack):
    """Connections that send their handshake one byte at a time."""

    PAUSE_S = 0.05

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._crowd = Crowd(200, 20, self._dial, lambda member: member[0])

    def _dial(self) -> tuple[Wire, list[bytes]]:
        protocol = next(self.target.protocols)
        opening = _opening(self.target, protocol)
        return self.target.dial(protocol), [opening[i : i + 1] for i in reversed(range(len(opening)))]

    def step(self) -> None:
        """Send one more byte on each connection."""
        for wire, rest in self._crowd.refill():
            if rest:
                wire.write(rest.pop())


class HugeHandshake(Attack):
    """Handshakes with a frame of the largest length, whose last byte is never sent."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._unfinished = {protocol: _huge_opening(target, protocol)[:-1] for protocol in target.addrs}
        self._crowd = Crowd(400, 16, self._dial, lambda wire: wire)

    def _dial(self) -> Wire:
        protocol = next(self.target.protocols)
        wire = self.target.dial(protocol)
        wire.write(self._unfinished[protocol])
        return wire

    def step(self) -> None:
        """Reconnect closed connections, and continue unfinished writes."""
        for wire in self._crowd.refill():
            wire.read()


class Connections(Attack):
    """Connections that are closed as soon as they are open, as many as possible."""

    PAUSE_S = 0.0
    IS_FLOOD = True

    def step(self) -> None:
        """Open and close a batch of connections."""
        for _ in range(32):
            with suppress(OSError):
                self.target.dial(next(self.target.protocols)).close()


class Resets(Attack):
    """Connections that are reset at once, within the banner, within a frame and within a message."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._parts = cycle((0, 5, -1))

    def step(self) -> None:
        """Open and reset a batch of each kind."""
        for _ in range(12):
            with suppress(OSError):
                protocol = next(self.target.protocols)
                wire = self.target.dial(protocol)
                wire.write(_opening(self.target, protocol)[: next(self._parts)])
                wire.reset()
        with suppress(OSError, ScenarioFailed):
            link = self.target.open_link(next(self.target.protocols))
            link.write(link.message(1, data=bytes(4 * KIB))[: 2 * KIB])
            wire_of(link).reset()


class Descriptors(Silent):
    """More connections than the server's limit of open files."""

    CONNECTIONS = 600
    OPEN_FILES = 128


class Replay(Attack):
    """Replays the recorded bytes of a handshake and a message on new connections."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._recorded: dict[Protocol, bytes] = {}
        self._sent: list[Wire] = []

    def step(self) -> None:
        """Record a link first; afterwards replay it on new connections."""
        for protocol in self.target.addrs:
            if protocol not in self._recorded:
                link = self.target.open_link(protocol)
                link.write(link.message(1, type_=RECORDED))
                self._recorded[protocol] = bytes(wire_of(link).recorded)
                link.hang_up()
        for wire in self._sent:
            wire.close()
        self._sent = []
        for _ in range(4):
            protocol = next(self.target.protocols)
            with suppress(OSError):
                wire = self.target.dial(protocol)
                self._sent.append(wire)
                wire.write(self._recorded[protocol])


def _opening(target: Target, protocol: Protocol) -> bytes:
    """Return the first bytes of a valid connector."""
    own = target.victims[protocol]
    if protocol is Protocol.V1:
        return v1.Banner().encode() + v1.ClientIdentify(own).encode()
    hello = RawFrame(Tag.HELLO, (Hello(SENDER.type, own).encode(),))
    return encode_banner(MSGR2_SUPPORTED, 0) + hello.encode()


def _huge_opening(target: Target, protocol: Protocol) -> bytes:
    if protocol is Protocol.V2:
        return encode_banner(MSGR2_SUPPORTED, 0) + RawFrame(Tag.HELLO, (bytes(_HUGE_BYTES),)).encode()
    connect = v1.Connect(CLIENT_FEATURES, SENDER.type, 1, 0, 0, 2, authorizer=bytes(_HUGE_BYTES))
    return _opening(target, protocol) + connect.encode()
