"""A capture as a history, so that charts and invariants read it as they read a run (toolkit.checks.history).

A capture sees the wire at one place. A frame that was complete there counts as sent by the one side and received
by the other at that moment. A frame that is judged bad is left out: its receiver did not take it, and what its
sender sent is not known. What stood in a send queue, why a link ended and what applications were told a capture
cannot see; invariants about that find nothing to judge by. A link counts as open from its first frame to its last.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict

from toolkit.checks.history import History
from toolkit.dissect.analysis.analysis import Analysis
from toolkit.dissect.analysis.limits import Limits
from toolkit.dissect.analysis.links import LinkView
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import DecodedFrame, MessageInfo

_NANO = 1e9
TO_SERVER, TO_CLIENT = Direction.TO_SERVER, Direction.TO_CLIENT
_NO_FRAMES = frozenset({"UNKNOWN", "GAP"})


class HistoryMaker:
    """Gathers the frames of a capture; parties get their names when all has been seen.

    Args:
        analysis: is fed with the same frames, each of them first.
        limits: those of the analysis.
    """

    def __init__(self, analysis: Analysis, limits: Limits | None = None) -> None:
        self.left_out: str | None = None
        """Where the history ends ahead of the analysis, and why, in one line; None if it covers all of it."""
        self._analysis = analysis
        self._most_frames = (limits or Limits()).history_frames
        self._seen: list[tuple[int, int, Direction, str, int, int, int, MessageInfo | dict[str, object]]] = []
        self._counts: dict[tuple[int, Direction], int] = defaultdict(int)

    def take(self, frame: DecodedFrame) -> None:
        """One more frame."""
        if frame.tag in _NO_FRAMES or frame.is_bad or self.left_out or self._analysis.left_out:
            return
        if len(self._seen) >= self._most_frames:
            limit = f"{self._most_frames:,} frames"
            self.left_out = f"charts and invariants end before frame {frame.frame:,}, at their limit of {limit}"
            return
        way = frame.stream.index, frame.direction
        fields = frame.message or frame.fields
        number = self._counts[way]
        self._counts[way] += 1
        self._seen.append((frame.time_ns, *way, frame.tag, number, frame.offset, frame.length, fields))

    def history(self, streams: Iterable[int] | None = None) -> History:
        """The history of these streams, or of all."""
        chosen = None if streams is None else set(streams)
        history = History()
        links = {link.stream.index: link for link in self._analysis.links}
        last = {seen[1]: place for place, seen in enumerate(self._seen)}
        opened: set[int] = set()
        start = self._analysis.began_ns or 0
        for place, (time_ns, stream, direction, tag, number, offset, length, said) in enumerate(self._seen):
            if chosen is not None and stream not in chosen:
                continue
            link, time_s = links[stream], (time_ns - start) / _NANO
            session = self._analysis.session_of(stream).index if self._analysis.has_session(link) else None
            if stream not in opened:
                opened.add(stream)
                self._tell(history, link, time_s, session, {"dial": TO_SERVER, "accept": TO_CLIENT})
            fields = asdict(said) if isinstance(said, MessageInfo) else said
            for end, way in ((direction, "tx"), (direction.other, "rx")):
                history.append(
                    time_s,
                    node := _node(link, end),
                    "frame",
                    link=f"{node}/{stream}",
                    session=session,
                    direction=way,
                    tag=tag,
                    index=number,
                    offset=offset,
                    length=length,
                    fields=fields,
                )
            if place == last[stream]:
                for end in Direction:
                    self._tell(history, link, time_s, session, {"close": end})
        return history

    @staticmethod
    def _tell(
        history: History, link: LinkView, time_s: float, session: int | None, actions: dict[str, Direction]
    ) -> None:
        """What an end of a link did."""
        for action, end in actions.items():
            node, peer = _node(link, end), link.stream.source(end.other)
            name = f"{node}/{link.stream.index}"
            history.append(time_s, node, "link", link=name, action=action, peer=peer, session=session)


def _node(link: LinkView, end: Direction) -> str:
    """Who an end of a link is. Who has dialled himself, as managers do, is two nodes."""
    name = link.name(end)
    return f"{name} (itself)" if end is TO_CLIENT and name == link.name(TO_SERVER) else name
