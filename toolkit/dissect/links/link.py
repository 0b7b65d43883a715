"""State shared by the parts of one link's decoder: flows, their current readings, consumer of records."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from messenger.denc.codec import Buffer
from messenger.v2.framing import FrameCaches
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import GAP, UNKNOWN, DecodedFrame, Verdict
from toolkit.dissect.keys import KeyBook, LinkKeys
from toolkit.dissect.links.flow import Flow
from toolkit.dissect.links.names import Names
from toolkit.dissect.stream import Gap, Stream

if TYPE_CHECKING:
    from toolkit.dissect.links.lane import OpenPhase

LIMIT_BYTES = 128 << 20
"""Longer frames count as invalid. Ceph's largest frames are writes, of at most 90 MB unless configured."""
_MOST_HELD = 4
"""Number of messages about keys that wait for one of the other direction."""
_MOST_HELD_RECORDS = 256
_CEPH_PORTS = frozenset({3300, 6789, *range(6800, 7569)})


class Reading(Protocol):
    """How the bytes of one flow are currently read."""

    def step(self) -> bool:
        """Read all complete pieces; returns True if there was one, so that the other flow may go on."""

    def waits(self) -> bool:
        """True if bytes are unread because their layout depends on the other flow."""

    def disorder(self) -> None:
        """Read on without the bytes of the other flow, which will not come."""

    def unrecorded_bytes(self) -> int:
        """Number of bytes consumed last without a record; the successor has to record them."""

    def close(self, why: str) -> None:
        """Record the bytes left over, because the next ones are missing or the flow has ended."""

    def lost(self, size_bytes: int) -> None:
        """Skip ``size_bytes`` missing bytes; called after :meth:`close`."""


class DecodedLink:
    """One link of a capture.

    Args:
        stream: the connection.
        book: the keys.
        emit: called with each record.
        names: entity names, shared by the links of a capture.
        phase: reads the frames of open links.
        caches: frame caches, shared by the links of a capture.
    """

    def __init__(
        self,
        stream: Stream,
        book: KeyBook,
        emit: Callable[[DecodedFrame], None],
        names: Names,
        phase: "OpenPhase",
        caches: FrameCaches,
    ) -> None:
        self.stream = stream
        self.keys = LinkKeys(book)
        self.emit = emit
        self.names = names
        self.phase = phase
        self.caches = caches
        self.flows = {direction: Flow(direction) for direction in Direction}
        self.readings: dict[Direction, Reading] = {}
        self.proven = False
        """True if a banner or a frame was found, so that it is a messenger's link."""
        self._held: list[DecodedFrame] = []
        """Records without contents of what may be other traffic."""
        self._shown = self._on_ceph_port()
        self._key_messages: dict[Direction, list[tuple[int, bytes]]] = {way: [] for way in Direction}
        self._asked = False

    def prove(self) -> None:
        """Note that a banner or a frame was found, and emit the held records."""
        self.proven = True
        held, self._held = self._held, []
        for record in held:
            self.emit(record)

    def _on_ceph_port(self) -> bool:
        """True if one of its ports is a default port of Ceph's daemons."""
        ports = (addr.rpartition(":")[2] for addr in (self.stream.client, self.stream.server))
        return any(port.isdecimal() and int(port) in _CEPH_PORTS for port in ports)

    def unreadable(self, flow: Flow, why: str, auth: Verdict = Verdict.NONE) -> None:
        """Stop reading a flow, for the reason ``why``."""
        flow.needed = 0
        self.stream.batched = True
        skipped = self.readings[flow.direction].unrecorded_bytes()
        self.readings[flow.direction] = Unreadable(self, flow, why, auth, skipped)

    def key_message(self, direction: Direction, kind: int, front: Buffer) -> None:
        """Process a message about keys.

        Both directions may come batch by batch, but a reply is understood only after its request: each waits for
        the other, within limits.
        """
        self._key_messages[direction].append((kind, bytes(front)))
        requests, replies = self._key_messages[Direction.TO_SERVER], self._key_messages[Direction.TO_CLIENT]
        while True:
            if requests and (not self._asked or len(requests) > _MOST_HELD):
                self._asked = True
                self.keys.message(Direction.TO_SERVER, *requests.pop(0))
            elif replies and (self._asked or len(replies) > _MOST_HELD):
                self._asked = False
                self.keys.message(Direction.TO_CLIENT, *replies.pop(0))
            else:
                return

    def unknown(
        self,
        flow: Flow,
        start: int,
        length: int,
        error: str,
        auth: Verdict = Verdict.NONE,
        crc: Verdict = Verdict.NONE,
    ) -> None:
        """Emit a record of bytes that are no frame, from the offset ``start`` on."""
        if length:
            self._stretch(flow, UNKNOWN, start, length, flow.moment(start + length), error, crc, auth)

    def gap(self, flow: Flow, event: Gap) -> None:
        """Emit a record of bytes that the capture lacks."""
        moment = event.time_ns, event.packet
        error = "the capture does not have these bytes"
        if not event.exact:
            error += "; how many cannot be told exactly"
        self._stretch(flow, GAP, flow.offset, event.size_bytes, moment, error, Verdict.NONE, Verdict.NONE)

    def _stretch(
        self,
        flow: Flow,
        tag: str,
        start: int,
        length: int,
        moment: tuple[int, int],
        error: str,
        crc: Verdict,
        auth: Verdict,
    ) -> None:
        time_ns, packet = moment
        record = DecodedFrame(
            frame=-1,
            time_ns=time_ns,
            packet=packet,
            stream=self.stream,
            direction=flow.direction,
            protocol="",
            mode="",
            tag=tag,
            offset=start,
            length=length,
            crc=crc,
            auth=auth,
            error=error,
        )
        if self.proven or self._shown:
            self.emit(record)
        else:
            self._hold(record)

    def _hold(self, record: DecodedFrame) -> None:
        if len(self._held) < _MOST_HELD_RECORDS:
            self._held.append(record)
            return
        last = next((each for each in reversed(self._held) if each.direction is record.direction), None)
        if last is not None:
            last.tag = UNKNOWN
            last.length = record.offset + record.length - last.offset
            last.time_ns, last.packet = record.time_ns, record.packet


class Unreadable:
    """Counts the bytes of a flow without known frame borders.

    Args:
        link: the link.
        flow: the direction.
        why: reason, in words.
        auth: verdict on all of the bytes.
        skipped: number of bytes consumed before, which count as well.
    """

    def __init__(self, link: DecodedLink, flow: Flow, why: str, auth: Verdict, skipped: int) -> None:
        self._link = link
        self._flow = flow
        self._why = why
        self._auth = auth
        self._bytes = skipped

    def step(self) -> bool:
        """Read all complete pieces; returns True if there was one, so that the other flow may go on."""
        size = len(self._flow.view)
        self._bytes += size
        self._flow.consume(size)
        return False

    def waits(self) -> bool:
        """True if bytes are unread because their layout depends on the other flow."""
        return False

    def disorder(self) -> None:
        """Read on without the bytes of the other flow, which will not come."""

    def unrecorded_bytes(self) -> int:
        """Number of bytes consumed last without a record; the successor has to record them."""
        return self._bytes

    def close(self, why: str) -> None:  # noqa: ARG002 - no frame was expected to be whole
        """Record the bytes left over, because the next ones are missing or the flow has ended."""
        self.step()
        start = self._flow.offset - self._bytes
        self._link.unknown(self._flow, start, self._bytes, self._why, self._auth)
        self._bytes = 0

    def lost(self, size_bytes: int) -> None:
        """Skip ``size_bytes`` missing bytes; called after :meth:`close`."""
