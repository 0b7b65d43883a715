"""Exports captures for Wireshark: encrypted and compressed frames are rewritten as plain frames in crc mode.

Every stream gets new packets with the same addresses, ports and times. A stream without encrypted or compressed
frames keeps its bytes and packet borders, as does a stream that cannot be opened. Of other streams each frame has
its own packet: plain frames are unchanged, all others are framed again, in the same revision, with right crcs.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from messenger.cephx.exchange import ConMode
from messenger.denc.codec import Buffer
from messenger.denc.features import Msgr2Feature
from messenger.errors import DecodeError
from messenger.files import amount
from messenger.v2.framing import RawWriter
from messenger.v2.revision import crc_frames
from messenger.v2.wire import AuthDone, Tag
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import GAP, IN_PART, DecodedFrame, Verdict
from toolkit.dissect.stream import End, Ending, Gap, Run, Stream, StreamEvent
from toolkit.dissect.wireshark.packets import Conversation

MOST_RESTORED_BYTES = 1 << 32
"""Limit of decompressed bytes; without it, a small capture could fill the disk."""
SECURE = "secure"
_REVISIONS = {"v2.0": 0, "v2.1": int(Msgr2Feature.REVISION_1)}


class PacketSink(Protocol):
    """Receives packets."""

    def packet(self, time_ns: int, data: bytes, *, comment: str | None = None) -> None:
        """Append a packet."""


@dataclass(slots=True)
class Exported:
    """The result of an export."""

    packets: int = 0
    opened: int = 0
    """Number of streams with decrypted or decompressed frames."""
    sealed: int = 0
    """Number of encrypted streams that could not be opened."""
    rewritten: int = 0
    """Number of frames that were decrypted or decompressed, and of AUTH_DONE frames that announced encryption."""
    left_out: int = 0
    """Number of frames, or stretches of bytes, of opened streams that could not be opened."""
    trouble: str | None = None
    """What could not be decoded, in one line; None if nothing is wrong."""

    def __str__(self) -> str:
        parts = [f"packets: {self.packets}", f"streams opened: {self.opened} ({self.rewritten} frames)"]
        if self.left_out:
            parts.append(f"frames left out: {self.left_out}")
        if self.sealed:
            parts.append(f"streams that stay encrypted: {self.sealed}")
        return ", ".join(parts)


Plain = Callable[[], Buffer]
"""Returns the bytes to write for a frame. Called when they are written, since a compressed frame may be huge."""
Made = Callable[[Conversation], list[bytes]]
"""Returns packets of a conversation; called in the order in which they are written."""


@dataclass(slots=True)
class _Step:
    """An event in one direction of a stream that is not written yet."""

    packet: int
    """Number of the packet in the capture, which orders streams and directions."""
    time_ns: int
    stream: Stream
    make: Made
    comment: str | None
    ends: bool


class Exporter:
    """Writes streams as packets: unchanged streams by their events, others by their frames.

    Args:
        sink: receives the packets.
        source: name of the capture, for comments.
    """

    def __init__(self, sink: PacketSink, source: str) -> None:
        self.total = Exported()
        self._sink = sink
        self._source = source
        self._conversations: dict[int, Conversation] = {}
        self._frames: list[DecodedFrame] = []
        self._restored_bytes = 0
        self._steps: list[_Step] = []
        self._latest: dict[tuple[int, Direction], tuple[int, int]] = {}
        """Packet and time of the last step of a direction, so that times never decrease."""
        self._writers: dict[str, RawWriter] = {
            protocol: crc_frames(features, 0)[1] for protocol, features in _REVISIONS.items()
        }

    def event(self, event: StreamEvent) -> None:
        """Write an event of an unchanged stream; an :class:`End` also of streams written by their frames."""
        direction = event.direction
        if isinstance(event, Run):
            start = 0
            for end, time_ns, packet in zip(event.ends, event.times_ns, event.packets, strict=True):
                self._data(int(packet), int(time_ns), event.stream, direction, event.data[start:end])
                start = end
        elif isinstance(event, Gap):
            self._skip(event.stream, direction, event.size_bytes)
        elif isinstance(event, End):
            reset = event.how is Ending.RESET
            make: Made = lambda talk: [talk.reset(direction) if reset else talk.finish(direction)]  # noqa: E731
            self._step(event.packet, event.time_ns, event.stream, direction, make, ends=True)

    def frame(self, frame: DecodedFrame) -> None:
        """Write a frame of a stream that was opened or decompressed."""
        self._frames.append(frame)

    def flush(self) -> None:
        """Write what was added since the last call, in the order of the capture."""
        # Each direction in the order of its bytes: packets may have been captured out of order.
        for frame in sorted(self._frames, key=lambda frame: (frame.stream.index, frame.direction, frame.offset)):
            self._take(frame)
        self._frames.clear()
        self._steps.sort(key=lambda step: (step.packet, step.ends))
        new = {
            step.stream.index: step.stream for step in self._steps if step.stream.index not in self._conversations
        }
        waiting = deque(new[index] for index in sorted(new))
        for step in self._steps:
            while step.stream.index not in self._conversations:  # streams are opened in their original order
                self._begin(waiting.popleft(), step.time_ns)
            packets = step.make(self._conversations[step.stream.index])
            for packet in packets[:-1]:
                self._put(step.time_ns, packet)
            for packet in packets[-1:]:  # a frame is shown where it ends
                self._put(step.time_ns, packet, step.comment)
        self._steps.clear()

    def _take(self, frame: DecodedFrame) -> None:
        if frame.tag == GAP or frame.error == IN_PART:
            self._skip(frame.stream, frame.direction, frame.length)
            return
        where = (frame.packet, frame.time_ns, frame.stream, frame.direction)
        plain = self._plain(frame)
        if isinstance(plain, str):
            self.total.left_out += 1
            comment = f"left out: {frame.tag}, {frame.length} bytes, {plain}"
            self._step(*where, lambda talk: [talk.acknowledge(frame.direction)], comment)
            return
        make, remark = plain
        self._step(*where, lambda talk: talk.data(frame.direction, make()), remark)

    def _begin(self, stream: Stream, time_ns: int) -> None:
        talk = self._conversations[stream.index] = Conversation(stream.client, stream.server)
        if stream.opening_seen:
            for number, packet in enumerate(talk.open()):
                comment = None if number else f"stream {stream.index} of {self._source}"
                self._put(time_ns, packet, comment)

    def _put(self, time_ns: int, packet: bytes, comment: str | None = None) -> None:
        self._sink.packet(time_ns, packet, comment=comment)
        self.total.packets += 1

    def _data(self, packet: int, time_ns: int, stream: Stream, direction: Direction, data: Buffer) -> None:
        self._step(packet, time_ns, stream, direction, lambda talk: talk.data(direction, data))

    def _skip(self, stream: Stream, direction: Direction, size_bytes: int) -> None:
        """Skip missing bytes. They have no time of their own: what follows them shows the gap."""
        packet, time_ns = self._latest.get((stream.index, direction), (0, 0))
        make: Made = lambda talk: talk.skip(direction, size_bytes)  # noqa: E731
        self._steps.append(_Step(packet, time_ns, stream, make, None, ends=False))

    def _step(
        self,
        packet: int,
        time_ns: int,
        stream: Stream,
        direction: Direction,
        make: Made,
        comment: str | None = None,
        *,
        ends: bool = False,
    ) -> None:
        now = max(self._latest.get((stream.index, direction), (0, 0)), (packet, time_ns))
        if not ends:  # an end is reported before the frames that precede it
            self._latest[stream.index, direction] = now
        self._steps.append(_Step(*now, stream, make, comment, ends))

    def _plain(self, frame: DecodedFrame) -> tuple[Plain, str | None] | str:
        """Return what to write for a frame, and a comment; or the reason why it is left out."""
        sealed = frame.mode == SECURE
        if not (sealed or frame.compressed) or not _is_opened(frame):
            if announcing := self._announcing_crc(frame):
                return announcing
            return (lambda: frame.wire, frame.error) if frame.wire and not sealed else frame.error or "not opened"
        if frame.compressed:
            info = frame.message
            self._restored_bytes += info.front + info.middle + info.data if info else frame.length
            if self._restored_bytes > MOST_RESTORED_BYTES:
                return f"more than {amount(MOST_RESTORED_BYTES)} were compressed, which is the limit for an export"
        self.total.rewritten += 1
        was = " and ".join(word for word, holds in ((SECURE, sealed), ("compressed", frame.compressed)) if holds)
        return lambda: self._framed(frame, frame.segments), f"was {was}, {frame.length} bytes"

    def _announcing_crc(self, frame: DecodedFrame) -> tuple[Plain, str] | None:
        """Return AUTH_DONE rewritten to announce crc mode; None for other frames, or if no change is needed."""
        if frame.tag != Tag.AUTH_DONE.name or not frame.segments or frame.mode == SECURE:
            return None
        try:
            done = AuthDone.decode(frame.segments[0])
        except DecodeError:
            return None
        if done.con_mode != ConMode.SECURE:
            return None
        self.total.rewritten += 1
        plain = self._framed(frame, (replace(done, con_mode=ConMode.CRC).encode(),))
        return lambda: plain, "con_mode was secure: what follows was encrypted"

    def _framed(self, frame: DecodedFrame, segments: Sequence[Buffer]) -> bytes:
        writer = self._writers[frame.protocol]
        if frame.tag != Tag.MESSAGE.name:
            tag = Tag[frame.tag] if frame.tag in Tag.__members__ else int(frame.tag)
            return writer.control(tag, bytes(segments[0]))
        header, front, middle, data = segments
        pieces: list[Buffer] = []
        writer.message(pieces, bytes(header), front, middle, data)
        return b"".join(pieces)


def _is_opened(frame: DecodedFrame) -> bool:
    """True if the segments of an encrypted or compressed frame are complete and right."""
    if not frame.segments or Verdict.BAD in {frame.crc, frame.auth} or (frame.compressed and frame.error):
        return False
    if frame.tag == Tag.MESSAGE.name:
        return frame.message is not None  # it may be aborted, or without a header
    return not any(frame.segments[1:])  # control frames of real peers have one segment
