"""Sessions of a capture in a form that can be replayed: links with their frames, in the order of the capture."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from messenger.errors import LocalError
from toolkit.capture.formats import open_capture
from toolkit.capture.formats.source import CaptureFiles
from toolkit.dissect.analysis import Analysis
from toolkit.dissect.analysis.sessions import SessionView
from toolkit.dissect.decode import Decoder, KeysInside
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import CAPTURE_ENDS, GAP, NO_FRAMES, DecodedFrame
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.stream import End, Stream, StreamEvent
from toolkit.replay.handshake import Handshake

DATA_TAGS = frozenset({"MESSAGE", "MSG", "ACK", "KEEPALIVE", "KEEPALIVE2", "KEEPALIVE2_ACK", "CLOSE"})
"""Tags of frames of an open link; all other frames belong to handshakes."""


@dataclass(slots=True, eq=False)
class RecordedLink:
    """One link of a capture."""

    stream: Stream
    dialler: int
    """Index of the party of its session that opened it, 0 or 1."""
    handshake: Handshake
    frames: list[DecodedFrame] = field(default_factory=list)
    """Frames of both directions, in the order of the capture."""
    end: End | None = None
    """Its first end; None if it outlives the capture."""

    def sent_by(self, party: int) -> Direction:
        """Return the direction in which a party sends."""
        return Direction.TO_SERVER if party == self.dialler else Direction.TO_CLIENT

    def arrived(self, frame: DecodedFrame) -> bool:
        """False if the link ended before the receiver's TCP acknowledged all of a frame."""
        tcp = self.stream.tcp
        sender = tcp.client_side if frame.direction is Direction.TO_SERVER else 1 - tcp.client_side
        return self.end is None or frame.offset + frame.length <= tcp.acknowledged[sender]

    @property
    def problem(self) -> str:
        """Reason why its bytes cannot be replayed; empty if they can."""
        number = self.stream.index
        if not self.stream.opening_seen or not any(frame.tag == "BANNER" for frame in self.frames):
            return f"link {number} began before the capture"
        for frame in self.frames:
            if frame.tag == GAP:
                return f"the capture lacks {frame.length} bytes of link {number}"
            if frame.tag in NO_FRAMES and not _is_cut_off(frame):
                return f"link {number}: {frame.error}"
            if frame.is_bad:
                return f"frame {frame.frame} of link {number}: {frame.error}"
        return self.handshake.problem and f"link {number}: {self.handshake.problem}"


def _is_cut_off(frame: DecodedFrame) -> bool:
    """True if the rest of the frame is missing because the capture or the connection ended."""
    error = frame.error or ""
    return error.startswith((CAPTURE_ENDS, "the connection was "))


@dataclass(slots=True, eq=False)
class RecordedSession:
    """One session over all its links."""

    index: int
    """Its number, as in ``msgrlab analyze``; attempts without a session follow those."""
    names: tuple[str, str]
    """The side that opened its first link, and the other side."""
    links: list[RecordedLink]
    hop: str = ""
    """Text that names the link of which this one is another hop, as behind a proxy; empty if of none."""

    @property
    def title(self) -> str:
        """The names of both sides."""
        return f"{self.names[0]} → {self.names[1]}"

    @property
    def protocol(self) -> str:
        """Protocol of its first link: ``v1``, ``v2.0`` or ``v2.1``; empty if unknown."""
        return next((frame.protocol for link in self.links for frame in link.frames if frame.protocol), "")

    @property
    def mode(self) -> str:
        """``crc`` or ``secure``, of its last frame."""
        return next((frame.mode for link in self.links for frame in reversed(link.frames) if frame.mode), "")

    @property
    def problem(self) -> str:
        """Reason why it cannot be replayed; empty if it can."""
        if self.hop:
            return self.hop
        if problem := next((link.problem for link in self.links if link.problem), ""):
            return problem
        if self.links[0].handshake.resumes:
            return "the session began before the capture"
        return ""


class Recording:
    """A capture, read for a replay.

    Args:
        source: path of the capture, or a list of several.
        book: known keys; those inside the capture are added.
        ports: decode only connections with one of these ports at either end; None decodes all.

    Raises:
        LocalError: the file cannot be read, or is not a capture.
    """

    def __init__(self, source: CaptureFiles, book: KeyBook, ports: Collection[int] | None = None) -> None:
        self.book = book
        self.sessions: list[RecordedSession] = []
        """The sessions, in the order in which they began."""
        self.problem: str | None = None
        """The part that could not be read or decoded, in one line; None if everything was."""
        self._ends: dict[int, End] = {}
        self._analysis = Analysis()
        self._frames: dict[int, list[DecodedFrame]] = {}
        self._streams: dict[int, Stream] = {}
        self._read(source, ports)
        self._group()

    def _read(self, source: CaptureFiles, ports: Collection[int] | None) -> None:
        reader = open_capture(source)
        try:
            decoder = Decoder(self.book, ports=ports, watch=self._watch)
            inside = KeysInside(reader, decoder.keys)
            for batch in reader:
                inside.learn()
                self._take(decoder.feed(batch))
            self._take(decoder.finish())
        finally:
            reader.close()
        problems = [reader.problem, inside.problem, decoder.problem]
        self.problem = "; ".join(problem for problem in problems if problem) or None

    def _watch(self, event: StreamEvent) -> None:
        if isinstance(event, End):
            self._ends.setdefault(event.stream.index, event)

    def _take(self, frames: Sequence[DecodedFrame]) -> None:
        for frame in frames:
            self._analysis.take(frame)
            self._streams[frame.stream.index] = frame.stream
            self._frames.setdefault(frame.stream.index, []).append(frame)

    def _group(self) -> None:
        """Assign links to sessions: those of the analysis, and attempts without a session."""
        joined: set[int] = set()
        for view in self._analysis.sessions:
            links = [self._link(each.stream, each.dialler) for each in view.links]
            joined |= {link.stream.index for link in links}
            self.sessions.append(RecordedSession(view.index, _names(view), links))
        hops = {view.stream.index: view.hop_of for view in self._analysis.links if view.hop_of is not None}
        for index in sorted(self._streams.keys() - joined):
            link = self._link(self._streams[index], 0)
            if index in hops:
                hop = f"link {index} is another hop of link {hops[index].stream.index}"
                self._add_single(link, hop)
            else:
                self._add_attempt(link)
        for session in self.sessions:
            session.links.sort(key=lambda link: link.stream.index)

    def _add_attempt(self, link: RecordedLink) -> None:
        """Add a link that opened no session to the session of the same two parties, before or after it."""
        for session in self.sessions:
            dialler = next((by for each in session.links if (by := _same_parties(each, link)) is not None), None)
            if dialler is not None:
                link.dialler = dialler
                session.links.append(link)
                return
        self._add_single(link)

    def _add_single(self, link: RecordedLink, hop: str = "") -> None:
        names = link.stream.client, link.stream.server
        self.sessions.append(RecordedSession(len(self.sessions), names, [link], hop))

    def _link(self, stream: Stream, dialler: int) -> RecordedLink:
        frames = self._frames[stream.index]
        handshake = Handshake(frames, self.book)
        return RecordedLink(stream, dialler, handshake, frames, self._ends.get(stream.index))

    def session(self, number: int) -> RecordedSession:
        """Return the session with this number.

        Raises:
            LocalError: the session does not exist.
        """
        for session in self.sessions:
            if session.index == number:
                return session
        raise LocalError(f"no session {number}: the capture has {len(self.sessions)}, counted from 0")


def _names(view: SessionView) -> tuple[str, str]:
    return view.parties[0].name, view.parties[1].name


def _same_parties(known: RecordedLink, attempt: RecordedLink) -> int | None:
    """Return the index of the party that dialled; None if the attempt is between other parties.

    Only sessions with cookies, or lossless ones on v1, outlive a link and are dialled again.
    """
    old, new = known.handshake, attempt.handshake
    if not (old.lasting and new.lasting and old.client_addr and new.client_addr):
        return None
    pair = old.client_addr, old.target
    if (new.client_addr, new.target) == pair:
        return known.dialler
    if (new.target, new.client_addr) == pair:
        return 1 - known.dialler
    return None
