"""The model of the live view: processes packets and returns snapshots. All its memory is bounded."""

from collections.abc import Collection
from dataclasses import dataclass

from toolkit.capture.formats import PacketBatch
from toolkit.dissect.analysis.latency import Exchanges
from toolkit.dissect.analysis.links import LinkView
from toolkit.dissect.analysis.messages import Transmission
from toolkit.dissect.analysis.rows import RowStore
from toolkit.dissect.analysis.sessions import Sessions, SessionView
from toolkit.dissect.decode import Decoder
from toolkit.dissect.frames import NO_FRAMES, DecodedFrame
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.stream import End, Run, StreamEvent
from toolkit.dissect.top.record import LINKS, OpenLink, Record, announces_secure
from toolkit.dissect.top.snapshot import Snapshot

_NANO = 1_000_000_000
_SHORTEST_NS = 1_000_000
"""Minimum length of an interval, so that rates stay finite."""
_FAULT_TAGS = frozenset(
    {"SESSION_RESET", "SESSION_RETRY", "SESSION_RETRY_GLOBAL", "WAIT", "AUTH_BAD_METHOD", "IDENT_MISSING_FEATURES"}
)
"""v2 frames that refuse a connector's request (docs/protocol.md §4.9)."""
_GRANTED = frozenset({"READY", "SEQ"})
_MOST_FORGOTTEN = 512
"""Number of ended links that are dropped together; each time costs in proportion to all links."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the rows: for how long sessions have one, and how many there are."""

    ended_s: float = 60.0
    """Seconds after which a session without an open link is folded."""
    silent_s: float = 900.0
    """Seconds without traffic after which a session is folded."""
    sessions: int = 4096
    """Number of sessions; beyond it, the longest silent ones are folded at once."""
    links: int = 8192
    """Number of TCP connections that are followed at the same time."""


class Top:
    """Follows the sessions in a sequence of packets.

    Args:
        keys: known keys; keys found in the packets are added.
        ports: decode only connections with one of these ports at either end; None decodes all.
        limits: limits of its memory.
    """

    def __init__(
        self, keys: KeyBook | None = None, *, ports: Collection[int] | None = None, limits: Limits | None = None
    ) -> None:
        self._limits = limits or Limits()
        self.decoder = Decoder(keys, ports=ports, watch=self._event, most_links=self._limits.links, most_streams=0)
        self.packets = 0
        self.began_ns: int | None = None
        """Time of the first packet."""
        self.now_ns = 0
        """Time of the newest packet."""
        self._sessions = Sessions(RowStore())
        self._exchanges = Exchanges()
        self._numbers = 0
        self._records: dict[int, Record] = {}
        """Records by number."""
        self._of_stream: dict[int, Record] = {}
        self._of_session: dict[SessionView, Record] = {}
        self._ended: list[LinkView] = []
        self._marked_ns: int | None = None
        self._folded = [0, 0, 0]
        """Number of folded sessions, and their bytes and frames."""

    # ---- packets

    def feed(self, batch: PacketBatch, secrets: str = "") -> None:
        """Process consecutive packets, after new lines of a key log.

        Raises:
            LocalError: a line of the key log is malformed.
        """
        if secrets:
            self.decoder.keys.add_key_log(secrets)
        if not len(batch):
            return
        self.packets += len(batch)
        self._at(int(batch.times_ns[0]), int(batch.times_ns[-1]))
        for frame in self.decoder.feed(batch):
            self._frame(frame)
        self._fold_if_full()

    def finish(self) -> None:
        """Process the end of the packets."""
        for frame in self.decoder.finish():
            self._frame(frame)
        self._fold_if_full()

    def _at(self, first_ns: int, last_ns: int) -> None:
        if self.began_ns is None:
            self.began_ns = self._marked_ns = first_ns
        self.now_ns = max(self.now_ns, last_ns)

    def _event(self, event: StreamEvent) -> None:
        stream = event.stream
        record = self._of_stream.get(stream.index)
        if isinstance(event, End):
            if record is not None:
                self._end(record, record.links[stream.index], event)
            return
        if not isinstance(event, Run):
            return
        time_ns = int(event.times_ns[-1])
        if record is None:
            record = self._begin(LinkView(stream, int(event.times_ns[0])))
        link = record.links[stream.index]
        if link.view.hop_of is None:
            record.counts[record.party(link.view, event.direction)].bytes += len(event.data)
        record.last_ns = max(record.last_ns, time_ns)

    def _begin(self, view: LinkView) -> Record:
        record = Record(self._numbers, view.began_ns, view)
        self._numbers += 1
        record.links[view.stream.index] = OpenLink(view)
        self._records[record.number] = self._of_stream[view.stream.index] = record
        return record

    def _end(self, record: Record, link: OpenLink, end: End) -> None:
        if not link.end(end.how):
            return
        view = link.view
        if view.hop_of is None:
            record.events.append((end.time_ns, view))
            record.ended = end.time_ns, view
        if all(each.ends for each in record.links.values()):
            record.down_ns = end.time_ns

    # ---- frames

    def _frame(self, frame: DecodedFrame) -> None:
        record = self._of_stream.get(frame.stream.index)
        if record is None:  # a link that was dropped
            record = self._begin(LinkView(frame.stream, frame.time_ns))
        link = record.links[frame.stream.index]
        view = link.view
        was_ready = view.ready_ns is not None
        if not view.frames:
            record.note(frame.time_ns, f"stream {view.stream.index}: {view.stream.client} to {view.stream.server}")
        step = view.take(frame)
        if step is not None:
            self._sessions.take(view, step)
            link.announced_secure |= announces_secure(frame.tag, frame.fields)
        if view.hop_of is not None:
            return
        if frame.mode == "secure" and frame.segments:
            link.announced_secure = False
        record = self._identified(record, link, frame)
        if not was_ready and view.ready_ns is not None:
            again = frame.tag == "SESSION_RECONNECT_OK" or frame.fields.get("tag") == "SEQ"
            record.note(frame.time_ns, f"stream {view.stream.index} {'reconnected' if again else 'ready'}")
        self._count(record, link, frame)

    def _identified(self, record: Record, link: OpenLink, frame: DecodedFrame) -> Record:
        """Return the record of the link's session, once that is known."""
        view = link.view
        if frame.message is None and not self._sessions.has(view):
            return record
        session = self._sessions.of(view)
        known = self._of_session.get(session)
        if known is record:
            return record
        if known is None and record.session is None:
            known = record
        elif known is None:
            known = self._begin(view)
        elif record.session is None:
            known.absorb(record, swapped=view.dialler == 1)
            del self._records[record.number]
        if known is not record:
            self._move(link, record, known)
        if known.session is None:
            known.session = session
            self._of_session[session] = known
        return known

    def _move(self, link: OpenLink, old: Record, new: Record) -> None:
        """Move a link to another session."""
        view = link.view
        old.links.pop(view.stream.index)
        if not old.links:
            old.down_ns = view.ended_ns
        new.links[view.stream.index] = link
        new.newest, new.down_ns = view, None
        new.reconnects += new.session is not None
        self._of_stream[view.stream.index] = new
        while len(new.links) > LINKS:
            self._drop_link(new, next(iter(new.links)))

    def _drop_link(self, record: Record, stream: int) -> None:
        link = record.links.pop(stream)
        self._of_stream.pop(stream, None)
        self._ended.append(link.view)

    def _count(self, record: Record, link: OpenLink, frame: DecodedFrame) -> None:
        view = link.view
        party = record.party(view, frame.direction)
        counts = record.counts[party]
        record.last_ns = max(record.last_ns, frame.time_ns)
        if frame.tag not in NO_FRAMES:
            counts.frames += 1
        violated = record.judge.frame(frame, party, link.seqs)
        if violated:
            record.note(frame.time_ns, violated, fault=True)
        if frame.is_bad:
            return
        sender = view.name(frame.direction)
        answer = frame.fields.get("tag") if frame.tag == "CONNECT_REPLY" else None
        if frame.tag in _FAULT_TAGS or (isinstance(answer, str) and answer not in _GRANTED):
            record.note(frame.time_ns, f"{answer or frame.tag} from {sender}", fault=True)
        if frame.message is None:
            return
        counts.messages += 1
        session = record.session
        assert session is not None
        sending = session.party(view, frame.direction)
        sending.name = sender if frame.message.src else sending.name
        where = Transmission(view.stream.index, frame.frame, frame.time_ns)
        exchange = self._exchanges.take(session, sending, frame.message, where)
        if exchange is not None:
            record.requests += 1
            record.latencies_ns.append(exchange.latency_ns)

    # ---- bounds

    def _fold_if_full(self) -> None:
        """Fold sessions if there are twice as many as their limit."""
        if len(self._records) > 2 * self._limits.sessions:
            self._fold(self.now_ns)

    def _fold(self, now_ns: int) -> None:
        """Fold sessions that ended or were silent long ago, and the longest silent ones beyond the limit."""
        limits = self._limits
        old = [record for record in self._records.values() if self._is_old(record, now_ns)]
        left = len(self._records) - len(old)
        if left > limits.sessions:
            removed = {record.number for record in old}
            others = sorted(
                (record for record in self._records.values() if record.number not in removed),
                key=lambda record: (record.down_ns is None, record.last_ns),
            )
            old += others[: left - limits.sessions]
        sessions = []
        for record in old:
            for stream in list(record.links):
                self._drop_link(record, stream)
            del self._records[record.number]
            if record.session is not None:
                sessions.append(record.session)
                del self._of_session[record.session]
            if record.is_shown:
                self._folded[0] += 1
                self._folded[1] += sum(counts.bytes for counts in record.counts)
                self._folded[2] += record.frames
        for record in self._records.values():
            for stream in [s for s, link in record.links.items() if link.ends == 2 and len(record.links) > 1]:
                self._drop_link(record, stream)
        if sessions or len(self._ended) > _MOST_FORGOTTEN:
            self._sessions.forget(sessions, self._ended)
            self._ended.clear()

    def _is_old(self, record: Record, now_ns: int) -> bool:
        limits = self._limits
        if record.down_ns is not None and now_ns - record.down_ns > limits.ended_s * _NANO:
            return True
        return now_ns - record.last_ns > limits.silent_s * _NANO

    # ---- snapshots

    def snapshot(self, now_ns: int | None = None, dropped: int | None = None) -> Snapshot:
        """Return all sessions now; rates are means since the last snapshot.

        Args:
            now_ns: Unix time in nanoseconds; None: that of the newest packet.
            dropped: number of packets lost before they came here; None for a file.
        """
        now_ns = self.now_ns if now_ns is None else max(now_ns, self.now_ns)
        before_ns = now_ns if self._marked_ns is None else self._marked_ns
        self._marked_ns = now_ns
        interval_s = max(now_ns - before_ns, _SHORTEST_NS) / _NANO
        self._fold(now_ns)
        rows = []
        for record in self._records.values():
            if record.is_shown:
                rows.append(record.row(now_ns, interval_s))
            record.mark()
        folded, size_bytes, frames = self._folded
        return Snapshot(
            now_ns,
            interval_s,
            tuple(rows),
            folded,
            size_bytes,
            frames,
            self.packets,
            dropped,
            self.decoder.problem or "",
        )
