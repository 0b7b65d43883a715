"""A tap on one link: it parses the bytes into frames and acts on those that strikes match. No sockets, no clock.

The proxy on loopback and the simulated network both pass the bytes of a link through a tap, so a breakpoint has
the same meaning in both.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count

from messenger.denc.codec import Buffer
from messenger.keylog import LinkSecrets
from messenger.link import Protocol
from messenger.v1.wire import Piece
from messenger.v2.wire import Tag
from toolkit.dissect.direction import Direction
from toolkit.dissect.follow import LinkFollower, SeenFrame
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.stream import Ending
from toolkit.faults.mangle import Altered, Mangle
from toolkit.faults.passage import Delivery, Pace, Passage
from toolkit.faults.scalars import count as parse_count
from toolkit.faults.strike import Strike
from toolkit.scanner import Scanner, colon_separated


@dataclass(slots=True)
class Breakpoint(Strike):
    """Cut the link at a frame, once.

    ``byte`` is the number of bytes of that frame that are still delivered (negative: counted from its end, as in
    slices; None: all of it).
    """

    byte: int | None = 0
    how: Ending = field(default=Ending.RESET, kw_only=True)
    """How both parties see the end: as RST, or as FIN."""

    @classmethod
    def parse(cls, text: str, protocol: Protocol = Protocol.V2) -> "Breakpoint":
        """Parse ``SENDER:TAG:NTH:BYTE``; an empty BYTE cuts after the frame, an empty NTH means 1.

        Args:
            text: text of the breakpoint.
            protocol: protocol whose tags are accepted.

        Raises:
            TextError: the text is wrong, or there is no such frame.
        """
        tags = [piece.value for piece in Piece] if protocol is Protocol.V1 else ["BANNER", *(t.name for t in Tag)]
        found = Scanner("breakpoint", colon_separated(text), len(text) + 1)
        found.hint = "; a breakpoint is SENDER:TAG[:NTH[:BYTE]]"
        if not found.peek():
            raise found.error("SENDER is missing")
        sender, tag = found.take("SENDER").text, found.choose("tag", tags)
        nth = found.read("NTH, a number from 1 on", lambda word: parse_count(word or "1")) if found.more else 1
        byte = found.read("BYTE, a whole number", lambda word: int(word) if word else None) if found.more else None
        found.finish("BYTE is the last number")
        return cls(sender, tag, nth, byte)

    def passing(self, raw: bytes) -> bytes:
        """Return the part of the frame's bytes that is still delivered."""
        return raw if self.byte is None else raw[: self.byte]

    def __str__(self) -> str:
        where = "after it" if self.byte is None else f"after {self.byte} bytes of it" if self.byte else "before it"
        return f"at {self.place}, {where}"


@dataclass(slots=True)
class ByteCut(Breakpoint):
    """Cut a connection after the first ``byte`` bytes of its sender, once.

    It needs no frames: over RDMA the TCP connection carries the records of the queue pairs (docs/protocol.md §8).
    """

    tag: str = ""

    @property
    def spent(self) -> bool:
        """True if it has cut a connection."""
        return self.hits > 0

    def matches(self, sender: str, frame: SeenFrame) -> bool:  # noqa: ARG002 - frames do not matter
        """Return False: bytes are counted, not frames."""
        return False

    def taking(self, link: int, sender: str, chunk: Buffer) -> bytes | None:
        """Count bytes of a link; returns those that are still delivered if it cuts there, else None."""
        if self.spent or sender != self.sender:
            return None
        before = self._seen.get(link, 0)
        self._seen[link] = before + len(chunk)
        if before + len(chunk) <= (self.byte or 0):
            return None
        self.hits = 1
        return bytes(chunk[: (self.byte or 0) - before])

    def __str__(self) -> str:
        return f"after {self.byte} bytes from {self.sender}"


@dataclass(slots=True)
class Listener(Strike):
    """A strike on all bytes of the sender, not on certain frames."""

    tag: str = ""

    def matches(self, sender: str, frame: SeenFrame) -> bool:  # noqa: ARG002 - frames do not matter
        """Return False: frames are not matched."""
        return False


@dataclass(slots=True)
class Trickle(Listener):
    """Deliver the sender's bytes in pieces of ``size_bytes``."""

    size_bytes: int = field(default=1, kw_only=True)


@dataclass(slots=True)
class Tape(Listener):
    """Record the sender's bytes and frames."""

    received: bytearray = field(default_factory=bytearray, repr=False, kw_only=True)
    """All bytes, over all links."""
    frames: list[SeenFrame] = field(default_factory=list, repr=False, kw_only=True)
    """All frames that could be parsed, over all links, as the sender wrote them."""


MOST_WAITING_BYTES = 64 << 20
"""Most bytes of one direction of a link that wait for the next frame."""
_numbers = count(1)


@dataclass(slots=True)
class _Lane:
    """State of one direction between frames."""

    held: bytes = b""
    """Bytes that are delivered with the next frame."""
    joined: bool = False
    """True to deliver them before that frame, in one write; otherwise after it."""
    mute: bool = False
    """True to drop everything."""
    pace: Pace | None = None
    """Pace of everything from here on."""

    def has_room(self, altered: Altered) -> bool:
        """False if the frame would wait for the next one, and too many bytes do so already."""
        waits = altered.held or altered.joined
        return not waits or len(self.held) + len(altered.forward) <= MOST_WAITING_BYTES

    def place(self, altered: Altered) -> tuple[bytes, bool]:
        """Return the bytes to deliver now, and whether they need to be in one write."""
        self.mute |= altered.mute
        if altered.held or altered.joined:
            self.held += altered.forward
            self.joined = altered.joined
            return b"", False
        held, self.held = self.held, b""
        if not held:
            return altered.forward, False
        return (held + altered.forward, True) if self.joined else (altered.forward + held, False)


class LinkTap:
    """One link between two named parties.

    Args:
        connector: name of the party that dialled.
        acceptor: name of the other party.
        breakpoints: strikes, shared by all taps of the pair; those that have struck stay in it with their ``hit``.
        keys: keys to parse frames of secure links.
        on_secrets: called with the keys of the link once they are known.
    """

    def __init__(
        self,
        connector: str,
        acceptor: str,
        breakpoints: list[Strike],
        keys: KeyBook | None = None,
        on_secrets: Callable[[LinkSecrets], None] | None = None,
    ) -> None:
        self._names = {Direction.TO_SERVER: connector, Direction.TO_CLIENT: acceptor}
        self.breakpoints = breakpoints
        self._follower = LinkFollower(keys)
        if on_secrets is not None:
            self._follower.keys.on_secrets = on_secrets
        self._blind_since: dict[Direction, bool] = dict.fromkeys(Direction, False)
        self._lanes = {direction: _Lane() for direction in Direction}
        self.on_frame: Callable[[str, SeenFrame], None] = lambda _sender, _frame: None
        """Called for each frame that is delivered at least in part, with its sender's name."""
        self.on_struck: Callable[[Mangle], None] = lambda _mangle: None
        """Called when a frame or its timing was changed."""
        self.on_blind: Callable[[str], None] = lambda _why: None
        """Called with the reason when frames cannot be parsed any more."""
        self.number = next(_numbers)
        """Number of the tap in this process."""
        self.follows = True
        """True to parse frames; once False, all bytes pass, and parsing cannot be resumed."""

    @property
    def blind(self) -> str:
        """Why frames cannot be parsed any more; empty while they can."""
        return str(self._follower.blind or "")

    def pending(self, direction: Direction) -> bytes:
        """Return the bytes of an incomplete frame, which wait until it is complete."""
        if self._blind_since[direction] or self._lanes[direction].mute:
            return b""
        return self._follower.pending(direction)

    def feed(self, direction: Direction, chunk: Buffer) -> Passage:
        """Take bytes from one party; returns what is delivered to the other.

        Raises:
            LocalError: a change cannot be applied to the frame that it matched.
        """
        if not self.follows:
            return Passage(bytes(chunk))
        sender, lane = self._names[direction], self._lanes[direction]
        for strike in self.breakpoints:
            if isinstance(strike, ByteCut):
                taken = strike.taking(self.number, sender, chunk)
                if taken is not None:
                    return Passage(taken, strike)
        listeners = [s for s in self.breakpoints if isinstance(s, Listener) and s.sender == sender]
        tapes = [listener for listener in listeners if isinstance(listener, Tape)]
        for tape in tapes:
            tape.received += chunk
        delivery, back, whole = Delivery(), bytearray(), False
        for frame in () if self._blind_since[direction] else self._follower.feed(direction, chunk):
            frame.link = self.number
            for tape in tapes:
                tape.frames.append(frame)
            if lane.mute:
                break
            altered = self._altered(sender, frame, lane)
            back += altered.back
            cut = next(
                (b for b in self.breakpoints if isinstance(b, Breakpoint) and b.matches(sender, frame)), None
            )
            if cut is not None:
                if passing := cut.passing(altered.forward):
                    self.on_frame(sender, frame)
                self._deliver(delivery, lane, altered, passing)
                return Passage(delivery.forward, cut, bytes(back), None, delivery.steps)
            self.on_frame(sender, frame)
            placed, in_one_piece = lane.place(altered)
            whole |= in_one_piece
            self._deliver(delivery, lane, altered, placed)
        delivery.add(self._unseen(direction, chunk), lane.pace)
        forward = delivery.forward
        pieces = _pieces(forward, listeners, whole=whole)
        return Passage(forward, None, bytes(back), pieces, delivery.steps)

    @staticmethod
    def _deliver(delivery: Delivery, lane: _Lane, altered: Altered, placed: bytes) -> None:
        """Add to the delivery what becomes of a frame."""
        for gate in altered.gates:
            delivery.wait(gate)
        if altered.pace is not None and altered.lasting:
            lane.pace = altered.pace
        delivery.add(placed, altered.pace or lane.pace)
        for raw, gate in altered.aside:
            delivery.aside(raw, gate)

    def _altered(self, sender: str, frame: SeenFrame, lane: _Lane) -> Altered:
        """Apply the changes that match a frame."""
        altered, segments = Altered(frame.raw), frame.segments
        for mangle in self.breakpoints:
            if isinstance(mangle, Mangle) and mangle.matches(sender, frame):
                made = mangle.alter(replace(frame, raw=altered.forward, segments=segments)).after(altered)
                if lane.has_room(made):
                    altered = made
                else:
                    mangle.problem = f"{len(lane.held)} bytes wait for the next frame already"
                segments = altered.segments or segments
                self.on_struck(mangle)
        return altered

    def _unseen(self, direction: Direction, chunk: Buffer) -> bytes:
        """Return bytes in which frames cannot be parsed; they are delivered unchanged."""
        lane = self._lanes[direction]
        if lane.mute:
            return b""
        if self._blind_since[direction]:
            return bytes(chunk)
        if self._follower.blind is None:
            return b""
        if not any(self._blind_since.values()):
            self.on_blind(self.blind)
        self._blind_since[direction] = True
        held, lane.held = lane.held, b""
        return held + self._follower.pending(direction)


def _pieces(forward: bytes, listeners: list[Listener], *, whole: bool) -> list[bytes] | None:
    trickle = next((listener for listener in listeners if isinstance(listener, Trickle)), None)
    if trickle is not None:
        return [forward[at : at + trickle.size_bytes] for at in range(0, len(forward), trickle.size_bytes)]
    return [forward] if whole else None
