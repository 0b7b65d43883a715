"""Converts a capture to a history (toolkit.checks.history), for charts and invariants.

A capture sees the wire at one place. A frame counts as sent by one side and received by the other at the moment at
which the capture has it complete. A bad frame is left out: its receiver rejected it, and what its sender sent is
unknown. A capture shows no send queues, no reasons why links ended, and no events of applications; invariants
about these judge nothing. A link is open from its first frame to its FIN or RST, or to its last frame. The end
that closed it has a ``tcp`` field with what its packets show; both ends have ``bad_frames``, the number of frames
left out, if there are any. Of a link that was captured at two places, only one is in the history.

Its frames have more fields than those of runs: frame (its number in the capture), and as far as the bytes show
them preamble (what is wrong with the layout of a v2 frame, empty if nothing is) or late_status (if it is
undefined), compressed, and signed (of a v1 message).
"""

from collections import defaultdict
from collections.abc import Iterable
from heapq import heappop, heappush

from toolkit.checks.audit.preambles import layout_problem, undefined_late_status
from toolkit.checks.history import History
from toolkit.dissect.analysis.analysis import Analysis
from toolkit.dissect.analysis.limits import Limits
from toolkit.dissect.analysis.links import LinkView
from toolkit.dissect.analysis.seen import FrameRecord, Layout, MessageFields, SeenFrames
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import NO_FRAMES, DecodedFrame, MessageInfo, Verdict

_NANO = 1e9
_Closing = tuple[int, int, LinkView, int | None]
"""Closing time of a link, its stream, the link, and its session."""
_FIRST = frozenset({"BANNER", "MESSAGE", "MSG", "ACK", "KEEPALIVE", "KEEPALIVE2", "KEEPALIVE2_ACK", "CLOSE"})
"""Tags with which a direction may begin: any other frame is from the middle of a handshake."""
_SOUND: Layout = (("preamble", ""),)
TO_SERVER, TO_CLIENT = Direction.TO_SERVER, Direction.TO_CLIENT


class HistoryMaker:
    """Collects the frames of a capture. Nodes get their names once all frames have been added.

    Args:
        analysis: the analysis, to which each frame is added first.
        limits: the limits of the analysis.
    """

    def __init__(self, analysis: Analysis, limits: Limits | None = None) -> None:
        self.left_out: str | None = None
        """Where the history stopped before the end of the analysis, and why, in one line; None if it covers all
        of it."""
        self._analysis = analysis
        self._most_frames = (limits or Limits()).history_frames
        self._seen = SeenFrames()
        self._counts: dict[tuple[int, Direction], int] = defaultdict(int)
        self._bad: dict[int, int] = defaultdict(int)
        self._ends: dict[tuple[int, Direction], int] = {}
        self._last: dict[tuple[int, Direction], int] = {}
        self._cuts: dict[int, int] = {}
        """By stream, the place of the last frame before the first gap of either direction; -1 if there is none."""

    def take(self, frame: DecodedFrame) -> None:
        """Add a frame."""
        if self.left_out or self._analysis.left_out:
            return
        way = frame.stream.index, frame.direction
        if frame.tag in NO_FRAMES or frame.is_bad:
            self._cut(way)
            self._bad[frame.stream.index] += frame.tag not in NO_FRAMES
            return
        if len(self._seen) >= self._most_frames:
            limit = f"{self._most_frames:,} frames"
            self.left_out = f"charts and invariants end before frame {frame.frame:,}, at their limit of {limit}"
            return
        if frame.offset != self._ends.get(way, 0) or (way not in self._ends and frame.tag not in _FIRST):
            self._cut(way)
        self._ends[way], self._last[way] = frame.offset + frame.length, len(self._seen)
        self._seen.add(frame, self._counts[way], _layout(frame))
        self._counts[way] += 1

    def _cut(self, way: tuple[int, Direction]) -> None:
        """Note a gap after the last frame of a direction; the other one may answer what is lost."""
        stream, last = way[0], self._last.get(way, -1)
        self._cuts[stream] = min(self._cuts.get(stream, last), last)

    def _all_cuts(self) -> dict[int, int]:
        """Return the cuts of all streams, also those that show at the end of a stream only."""
        cuts = dict(self._cuts)
        firsts: dict[tuple[int, Direction], int] = {}
        for place, way in enumerate(self._seen.streams()):
            firsts.setdefault(way, place)
        end = len(self._seen)
        for link in self._analysis.links:
            stream, tcp = link.stream.index, link.stream.tcp
            cut = cuts.get(stream, end)
            for side, count in enumerate(tcp.beyond_fin):
                if count:
                    end_of = TO_SERVER if side == tcp.client_side else TO_CLIENT
                    cut = min(cut, self._last.get((stream, end_of), -1))
            begins = [firsts.get((stream, way), end) for way in Direction]
            if max(begins) > cut or max(begins) == end:  # no side goes on alone: the other direction is missing
                cut = min(cut, *begins)
            if cut < end:
                cuts[stream] = cut
        return cuts

    def history(self, streams: Iterable[int] | None = None, *, unbroken: bool = False) -> History:
        """Return the history of these streams, or of all.

        Args:
            streams: numbers of the streams; None takes all.
            unbroken: end each link before the first bytes of it that the capture lacks or could not decode. Frames
                after them prove nothing about what the capture does not show; they count as ``bad_frames``.
        """
        chosen = None if streams is None else set(streams)
        history = History()
        links = {link.stream.index: link for link in self._analysis.links}
        cuts = self._all_cuts() if unbroken else {}
        last: dict[int, int] = {}
        beyond: dict[int, int] = defaultdict(int)
        for place, (stream, _) in enumerate(self._seen.streams()):
            is_beyond = place > cuts.get(stream, place)
            beyond[stream] += is_beyond
            if not is_beyond or stream not in last:
                last[stream] = place
        opened: set[int] = set()
        ends: dict[int, dict[Direction, tuple[str, str]]] = {}
        closing: list[_Closing] = []
        start = self._analysis.began_ns or 0
        for place, seen in enumerate(self._seen):
            time_ns, stream, direction = seen.time_ns, seen.stream, seen.direction
            if chosen is not None and stream not in chosen:
                continue
            link, time_s = links[stream], (time_ns - start) / _NANO
            if link.hop_of is not None:
                continue
            self._close(history, closing, time_ns, beyond)
            session = self._analysis.session_of(stream).index if self._analysis.has_session(link) else None
            if stream not in opened:
                opened.add(stream)
                self._add_link(history, link, time_s, session, {"dial": TO_SERVER, "accept": TO_CLIENT})
            is_shown = place <= cuts.get(stream, place)
            fields = vars(MessageFields(seen.content)) if isinstance(seen.content, MessageInfo) else seen.content
            names = ends.get(stream) or ends.setdefault(stream, _ends(link))
            for end, way in ((direction, "tx"), (direction.other, "rx")) if is_shown else ():
                node, name = names[end]
                history.put(time_s, node, "frame", vars(FrameRecord(name, session, way, seen, fields)))
            if place == last[stream]:
                # The packets that ended a link with gaps may be among those that the capture lacks.
                ended_ns = time_ns if beyond[stream] else max(time_ns, link.stream.tcp.ended_ns)
                heappush(closing, (ended_ns, stream, link, session))
        self._close(history, closing, None, beyond)
        return history

    def _close(
        self, history: History, closing: list[_Closing], until_ns: int | None, beyond: dict[int, int]
    ) -> None:
        """Close the links that had ended by ``until_ns``; None closes all."""
        while closing and (until_ns is None or closing[0][0] <= until_ns):
            time_ns, stream, link, session = heappop(closing)
            tcp = link.stream.tcp
            mark = tcp.reset or (tcp.fins[0] if tcp.fins else None)
            ender = None
            if mark is not None:
                ender = TO_SERVER if mark.side == tcp.client_side else TO_CLIENT
            left_out = self._bad.get(stream, 0) + beyond.get(stream, 0)
            bad: dict[str, object] = {"bad_frames": left_out} if left_out else {}
            for end in Direction:
                more = bad | ({"tcp": link.ending(time_ns)} if end is ender else {})
                time_s = (time_ns - (self._analysis.began_ns or 0)) / _NANO
                self._add_link(history, link, time_s, session, {"close": end}, more)

    @staticmethod
    def _add_link(
        history: History,
        link: LinkView,
        time_s: float,
        session: int | None,
        actions: dict[str, Direction],
        more: dict[str, object] | None = None,
    ) -> None:
        """Append the link records of one end."""
        names = _ends(link)
        for action, end in actions.items():
            (node, name), peer = names[end], link.stream.source(end.other)
            history.append(
                time_s, node, "link", link=name, action=action, peer=peer, session=session, **(more or {})
            )


def _node(link: LinkView, end: Direction) -> str:
    """Return the node name of an end of a link. An entity that dials itself, as managers do, is two nodes."""
    name = link.name(end)
    return f"{name} (itself)" if end is TO_CLIENT and name == link.name(TO_SERVER) else name


def _ends(link: LinkView) -> dict[Direction, tuple[str, str]]:
    """Return the node of each end of a link, and the link's name there."""
    nodes = {end: _node(link, end) for end in Direction}
    return {end: (node, f"{node}/{link.stream.index}") for end, node in nodes.items()}


def _layout(frame: DecodedFrame) -> Layout:
    """Return what the bytes of a frame show besides its fields; equal results share one value."""
    if frame.message is not None and frame.protocol == "v1":
        if len(frame.wire) != frame.length:  # snapped
            return ()
        return _SIGNED.get(frame.auth, ())
    if not frame.protocol.startswith("v2") or frame.tag == "BANNER":
        return ()
    found: Layout = ()
    if frame.mode == "crc" and len(frame.wire) == frame.length:
        problem = layout_problem(frame.wire)
        late = None if problem else undefined_late_status(frame.wire, revision=int(frame.protocol != "v2.0"))
        found = (("preamble", problem),) if problem else _SOUND if late is None else (("late_status", late),)
    return (*found, ("compressed", True)) if frame.compressed else found


_SIGNED: dict[Verdict, Layout] = {
    Verdict.OK: (("signed", True),),
    Verdict.NO_KEY: (("signed", True),),
    Verdict.NONE: (("signed", False),),
}
