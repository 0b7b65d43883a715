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
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from toolkit.checks.audit.preambles import layout_problem, undefined_late_status
from toolkit.checks.carried import carried, end_part
from toolkit.checks.history import History, Omitted
from toolkit.dissect.analysis.analysis import Analysis
from toolkit.dissect.analysis.limits import Limits
from toolkit.dissect.analysis.links import LinkView
from toolkit.dissect.analysis.parts import divided
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


class _Side:
    """The frames of one direction of a stream."""

    __slots__ = ("count", "end", "first", "last")

    def __init__(self) -> None:
        self.count = 0
        self.end = 0
        """Offset behind the last frame."""
        self.first = 0
        """Place of the first frame among all frames of the capture, if there is one."""
        self.last = -1
        """Place of the last frame; -1 if there is none."""


_NO_SIDES = _Side(), _Side()


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
        self._sides: dict[int, tuple[_Side, _Side]] = {}
        """By stream, what is known about its two directions."""
        self._bad: dict[int, int] = defaultdict(int)
        self._cuts: dict[int, int] = {}
        """By stream, the place of the last frame before the first gap of either direction; -1 if there is none."""

    def take(self, frame: DecodedFrame) -> None:
        """Add a frame.

        Raises:
            LocalError: there is no space for the temporary file, in which frames of long captures are.
        """
        if self.left_out or self._analysis.left_out:
            return
        stream = frame.stream.index
        sides = self._sides.get(stream)
        if sides is None:
            sides = self._sides[stream] = _Side(), _Side()
        side = sides[frame.direction is TO_CLIENT]
        if frame.tag in NO_FRAMES or frame.is_bad:
            self._cut(stream, side)
            self._bad[stream] += frame.tag not in NO_FRAMES
            return
        place = len(self._seen)
        if place >= self._most_frames:
            limit = f"{self._most_frames:,} frames"
            self.left_out = f"charts and invariants end before frame {frame.frame:,}, at their limit of {limit}"
            return
        if frame.offset != side.end or (not side.count and frame.tag not in _FIRST):
            self._cut(stream, side)
        side.end = frame.offset + frame.length
        side.first = side.first if side.count else place
        side.last = place
        self._seen.add(frame, side.count, _layout(frame))
        side.count += 1

    def _cut(self, stream: int, side: "_Side") -> None:
        """Note a gap after the last frame of a direction; the other one may answer what is lost."""
        self._cuts[stream] = min(self._cuts.get(stream, side.last), side.last)

    def _all_cuts(self, links: Iterable[LinkView]) -> dict[int, int]:
        """Return the cuts of the streams of some links, also those that show at the end of a stream only."""
        cuts: dict[int, int] = {}
        end = len(self._seen)
        for link in links:
            stream, tcp = link.stream.index, link.stream.tcp
            sides = self._sides.get(stream, _NO_SIDES)
            cut = self._cuts.get(stream, end)
            for number, count in enumerate(tcp.beyond_fin):
                if count:
                    cut = min(cut, sides[number != tcp.client_side].last)
            begins = [side.first if side.count else end for side in sides]
            if max(begins) > cut or max(begins) == end:  # no side goes on alone: the other direction is missing
                cut = min(cut, *begins)
            if cut < end:
                cuts[stream] = cut
        return cuts

    def _lasts(self, links: Iterable[LinkView], cuts: dict[int, int]) -> tuple[dict[int, int], dict[int, int]]:
        """Return the place of each stream's last frame before its cut, and the number of frames beyond cuts.

        The last frame of a stream without frames before its cut is its first one.
        """
        last = {
            link.stream.index: max(side.last for side in self._sides.get(link.stream.index, _NO_SIDES))
            for link in links
        }
        beyond: dict[int, int] = defaultdict(int)
        found: dict[int, int] = {}
        for place, seen in self._seen.of(cuts.keys()) if cuts else ():
            is_beyond = place > cuts[seen.stream]
            beyond[seen.stream] += is_beyond
            if not is_beyond or seen.stream not in found:
                found[seen.stream] = place
        return last | found, beyond

    def parts(self, most_frames: int, *, unbroken: bool = True) -> Iterator[History]:
        """Yield the history in parts that can be judged one after the other.

        A session of more frames is in several parts, of which all but the first begin with the records that stand
        for those of earlier parts: see :func:`toolkit.checks.carried.carried`.

        Args:
            most_frames: most frames of a part, besides these; up to 1.5 times as many in a session's last one.
            unbroken: as for :meth:`history`.
        """
        if len(self._seen) <= most_frames:
            yield self.history(unbroken=unbroken)
            return
        for streams in divided(self._analysis, most_frames):
            yield from self._histories(streams, unbroken=unbroken, part_frames=most_frames)

    def history(
        self, streams: Iterable[int] | None = None, *, unbroken: bool = False, most_frames: int | None = None
    ) -> History:
        """Return the history of these streams, or of all.

        Args:
            streams: numbers of the streams; None takes all.
            most_frames: most frames of a history for a chart; those in the middle are omitted, with the beginnings
                and ends of links among them. None takes all.
            unbroken: end each link before the first bytes of it that the capture lacks or could not decode. Frames
                after them prove nothing about what the capture does not show; they count as ``bad_frames``.
        """
        return next(self._histories(streams, unbroken=unbroken, most_frames=most_frames))

    def _histories(
        self,
        streams: Iterable[int] | None,
        *,
        unbroken: bool,
        most_frames: int | None = None,
        part_frames: int | None = None,
    ) -> Iterator[History]:
        """Yield the history of some streams: whole, or in parts of ``part_frames`` frames; see :meth:`history`."""
        chosen = None if streams is None else frozenset(streams)
        history = History()
        links = {
            link.stream.index: link
            for link in self._analysis.links
            if link.hop_of is None and (chosen is None or link.stream.index in chosen)
        }
        cuts = self._all_cuts(links.values()) if unbroken else {}
        last, beyond = self._lasts(links.values(), cuts)
        opened: set[int] = set()
        ends: dict[int, dict[Direction, tuple[str, str]]] = {}
        closing: list[_Closing] = []
        start = self._analysis.began_ns or 0
        middle = self._middle(links, most_frames)
        counted = 0
        ends_at = self._ends_of_parts(links, part_frames)
        end_at = next(ends_at, None)
        for place, seen in self._seen.of(chosen):
            time_ns, stream, direction = seen.time_ns, seen.stream, seen.direction
            link, time_s = links.get(stream), (time_ns - start) / _NANO
            if link is None:
                continue
            if counted == end_at:
                end_part(history)
                yield history
                history, end_at = carried(history), next(ends_at, None)
            counted += 1
            if counted - 1 in middle:
                history.omitted = history.omitted or Omitted(time_s, len(history), len(middle))
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
        yield history

    def _ends_of_parts(self, streams: Iterable[int], part_frames: int | None) -> Iterator[int]:
        """Yield the number of frames of some streams before the end of each part, except for the last part."""
        if part_frames is not None:
            count = self._count(streams)
            yield from range(part_frames, count - part_frames // 2, part_frames)

    def _count(self, streams: Iterable[int]) -> int:
        """Return the number of frames of some streams."""
        return sum(side.count for stream in streams for side in self._sides.get(stream, _NO_SIDES))

    def _middle(self, streams: Iterable[int], most_frames: int | None) -> range:
        """Return which of the frames of some streams are omitted, by their numbers among these frames.

        The end, where failures show, keeps two thirds.
        """
        count = self._count(streams)
        if most_frames is None or count <= most_frames:
            return range(0)
        head = most_frames // 3
        return range(head, count - (most_frames - head))

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
