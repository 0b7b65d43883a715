"""The analysis of a capture: takes the frames one by one, then answers questions about sessions and messages."""

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Self

import numpy as np

from messenger.errors import LocalError
from toolkit.dissect.analysis.latency import Exchange, ExchangeLog, Exchanges
from toolkit.dissect.analysis.limits import Limits
from toolkit.dissect.analysis.links import LinkView
from toolkit.dissect.analysis.messages import Party, Transmission
from toolkit.dissect.analysis.requests import Requests
from toolkit.dissect.analysis.rows import RowStore
from toolkit.dissect.analysis.sessions import Sessions, SessionView
from toolkit.dissect.analysis.volume import Volume
from toolkit.dissect.connects import FailedConnects, failed_connects
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.stream import Stream
from toolkit.tables import data_frame

if TYPE_CHECKING:
    from pandas import DataFrame

_NANO = 1e9
_MESSAGE_COLUMNS = (
    *("session", "sender", "receiver", "seq", "name", "tid", "bytes"),
    *("sent", "streams", "first_s", "last_s", "ack_s"),
)
_SESSION_COLUMNS = (
    *("session", "client", "server", "identity", "protocol", "mode", "streams"),
    *("to_server", "to_client", "resent", "missing", "unacked"),
    *("client_address", "server_address", "global_id", "cipher", "compression", "began", "ended"),
)
_HANDSHAKE_COLUMNS = (
    *("stream", "client", "server", "protocol", "mode", "began_s"),
    *("banner_ms", "auth_ms", "ident_ms", "ready_ms", "outcome", "session"),
)
_END_COLUMNS = ("stream", "client", "server", "ended_s", "outcome", "ended", "trouble", "hop_of")
_TRAFFIC_COLUMNS = ("stream", "sender", "receiver", "at_s", "frames", "bytes", "bytes_per_s")
_LATENCY_COLUMNS = ("request", "reply", "count", "median_ms", "p99_ms", "most_ms")
_BATCH_COLUMNS = ("stream", "sender", "receiver", "packets", "frames", "frames_per_packet", "most")
_NEW = frozenset({"SERVER_IDENT", "READY"})
"""The frames that grant a new session."""
_IN_SEQ = frozenset({"SESSION_RECONNECT", "SESSION_RECONNECT_OK"})
"""v2 frames whose ``msg_seq`` is their sender's in_seq (docs/protocol.md §4.9)."""


_PROOF = "AUTH_REQUEST_MORE"
"""The v2 frame with random numbers of the connector. If two connections have the same bytes, one link was
captured twice."""
_PROOF_BYTES = 70
"""From this length on, it has as many random bits as a key."""


class Analysis:
    """Sessions, links, messages and times of a capture. It keeps no payloads.

    A frame with a wrong crc, authentication tag or signature counts as traffic only.

    Args:
        limits: limits of the analysis; later frames are ignored, and :attr:`left_out` names the limit.
        each_request: keep every request in :attr:`requests`, which takes most of the memory of a long capture.
    """

    def __init__(self, limits: Limits | None = None, *, each_request: bool = True) -> None:
        self.left_out: str | None = None
        """Where the analysis stopped before the end of the capture, and why, in one line; None if it covers
        everything."""
        self.links: list[LinkView] = []
        """The links, in the order in which they began."""
        self.began_ns: int | None = None
        """Origin of all times: the first packet of the capture if it was set, else the first frame."""
        self.ended_ns = 0
        """Time of the last frame."""
        self.capture_ended_ns: int | None = None
        """Time of the last packet of the capture; None if only frames are known."""
        self.streams: list[Stream] = []
        """The TCP connections of the capture, links or not; empty if they were not set."""
        self.requests = Requests()
        """The requests one by one; none without ``each_request``."""
        self._each_request = each_request
        self._by_stream: dict[int, LinkView] = {}
        self._rows = RowStore()
        self._sessions = Sessions(self._rows)
        self._exchanges = Exchanges()
        self._answered = ExchangeLog(self._rows)
        self._limits = limits or Limits()
        self._frames = 0
        self._volumes: dict[tuple[int, Direction], Volume] = defaultdict(partial(Volume, self._rows))

    @classmethod
    def of(cls, frames: Iterable[DecodedFrame], limits: Limits | None = None) -> Self:
        """Analyse these frames, up to the limits."""
        analysis = cls(limits)
        for frame in frames:
            analysis.take(frame)
        return analysis

    @property
    def sessions(self) -> list[SessionView]:
        """The sessions, in the order in which they began."""
        return [session for session in self._sessions.all if session.joined]

    def take(self, frame: DecodedFrame) -> None:
        """Add a frame. Frames come in the order of the capture."""
        link = self._by_stream.get(frame.stream.index)
        if self.left_out or self._is_full(frame, is_new=link is None):
            return
        if self.began_ns is None:
            self.began_ns = frame.time_ns
        self.ended_ns = frame.time_ns
        self._frames += 1
        if link is None:
            link = self._by_stream[frame.stream.index] = LinkView(frame.stream, frame.time_ns)
            self.links.append(link)
        step = link.take(frame)
        if frame.tag == _PROOF and frame.length >= _PROOF_BYTES and not frame.is_bad:
            self._sessions.attempt(link, (frame.tag, blake2b(frame.wire, digest_size=16).digest()), frame.time_ns)
        self._volumes[frame.stream.index, frame.direction].add(frame.time_ns, frame.length, frame.packet)
        if step is not None:
            self._sessions.take(link, step)
        if not frame.is_bad and link.hop_of is None:
            self._follow(link, frame)

    def _is_full(self, frame: DecodedFrame, *, is_new: bool) -> bool:
        limits = self._limits
        end = f"the analysis ends before frame {frame.frame:,}, at its limit of"
        if self._frames >= limits.frames:
            self.left_out = f"{end} {limits.frames:,} frames"
        elif is_new and len(self.links) >= limits.links:
            self.left_out = f"{end} {limits.links:,} links"
        return self.left_out is not None

    def _follow(self, link: LinkView, frame: DecodedFrame) -> None:
        """Record the message that a frame carries, or the sequence number that it acknowledges."""
        message = frame.message
        where = Transmission(frame.stream.index, frame.frame, frame.time_ns)
        if message is not None:
            session = self._sessions.of(link)
            sender = session.party(link, frame.direction)
            sender.name = link.name(frame.direction) if message.src else sender.name
            size_bytes = message.front + message.middle + message.data
            sender.outbox.sent(message.seq, message.name, message.tid, size_bytes, where)
            receiver = session.other(sender)
            receiver.outbox.acked(message.ack_seq, where, prompt=False)
            if self._each_request:
                side = session.parties.index(sender)
                names = sender.name, receiver.name
                self.requests.take(session.index, side, names, frame, message, where, sender.outbox)
            exchange = self._exchanges.take(session, sender, message, where)
            if exchange is not None:
                self._answered.add(exchange)
        elif frame.tag in {"ACK", "SEQ"}:
            self._acknowledge(link, frame, "seq", where)
        elif frame.tag in _IN_SEQ:
            self._acknowledge(link, frame, "msg_seq", where)

    def _acknowledge(self, link: LinkView, frame: DecodedFrame, name: str, where: Transmission) -> None:
        seq = frame.fields.get(name)
        if isinstance(seq, int):
            session = self._sessions.of(link)
            receiver = session.party(link, frame.direction)
            session.other(receiver).outbox.acked(seq, where, prompt=True)

    # ---- sessions and messages

    def session_of(self, stream: int) -> SessionView:
        """Return the session of a link.

        Raises:
            LocalError: the capture has no such stream with frames.
        """
        link = self._by_stream.get(stream)
        if link is None:
            raise LocalError(f"no frames on stream {stream}; there are some on {self._streams()}")
        return self._sessions.of(link)

    def session(self, index: int) -> SessionView:
        """Return a session by its number.

        Raises:
            LocalError: there is no such session.
        """
        found = next((session for session in self.sessions if session.index == index), None)
        if found is None:
            known = [session.index for session in self.sessions]
            have = f"they go from 0 to {known[-1]}" if known else "the capture has none"
            raise LocalError(f"no session {index}; {have}")
        return found

    def has_session(self, link: LinkView) -> bool:
        """True if a link belongs to a session: its handshake finished, or it carried a message."""
        return self._sessions.has(link)

    def volume(self, link: LinkView, direction: Direction) -> Volume:
        """Return time (ns) and length (bytes) of every frame on a link in a direction."""
        return self._volumes.get((link.stream.index, direction)) or Volume(RowStore())

    def _streams(self) -> str:
        numbers = sorted(self._by_stream)
        shown = ", ".join(map(str, numbers[:20])) or "none"
        return shown if len(numbers) <= 20 else f"{shown} and {len(numbers) - 20} more"

    def where(self, seq: int, session: int | None = None) -> list[str]:
        """Return what happened to the messages with a seq, in lines: each transmission and the acknowledgement.

        Args:
            seq: seq of the messages.
            session: number of the session to search; None searches all.

        Raises:
            LocalError: there is no such session.
        """
        chosen = self.sessions if session is None else [self.session(session)]
        return [line for known in chosen for party in known.parties for line in self._story(known, party, seq)]

    def _story(self, session: SessionView, party: Party, seq: int) -> list[str]:
        to = session.other(party).name
        head = f"session {session.index}, {party.name} → {to}, seq {seq}"
        message = party.outbox.message(seq)
        if message is None:
            gap = next((gap for gap in party.outbox.gaps if seq in gap), None)
            if gap is None:
                return []
            hole = f"seqs {gap.start} to {gap.stop - 1}"
            return [f"{head}: not in the capture, which lacks {hole if gap.stop - gap.start > 1 else 'it'}"]
        lines = [f"{head}: {message.name}, tid {message.tid}, {message.size_bytes} bytes"]
        for again, sent in enumerate(message.transmissions):
            lines.append(f"  {self._when(sent)}: sent{' again' if again else ''}")
        ack = party.outbox.ack_of(seq)
        lines.append("  never acknowledged" if ack is None else f"  {self._when(ack)}: acknowledged")
        return lines

    def _when(self, where: Transmission) -> str:
        seconds = (where.time_ns - (self.began_ns or 0)) / _NANO
        return f"{seconds:.6f} s, stream {where.stream}, frame {where.frame}"

    # ---- tables

    def message_table(self) -> "DataFrame":
        """Return a table with one row per message and session, however often the message was sent.

        Columns: session, sender, receiver, seq, name, tid, bytes, sent (number of transmissions), streams, first_s
        and last_s (times of the first and last transmission since the first frame), ack_s (from the last
        transmission to the acknowledgement; missing if it was not acknowledged).
        """
        start = self.began_ns or 0
        rows = []
        for session in self.sessions:
            for party in session.parties:
                for seq, message in sorted(party.outbox.messages.items()):
                    first, last = message.transmissions[0], message.transmissions[-1]
                    ack = party.outbox.ack_of(seq)
                    rows.append(
                        {
                            "session": session.index,
                            "sender": party.name,
                            "receiver": session.other(party).name,
                            "seq": seq,
                            "name": message.name,
                            "tid": message.tid,
                            "bytes": message.size_bytes,
                            "sent": len(message.transmissions),
                            "streams": sorted({sent.stream for sent in message.transmissions}),
                            "first_s": (first.time_ns - start) / _NANO,
                            "last_s": (last.time_ns - start) / _NANO,
                            "ack_s": None if ack is None else (ack.time_ns - last.time_ns) / _NANO,
                        }
                    )
        return data_frame(rows, columns=_MESSAGE_COLUMNS)

    def session_table(self) -> "DataFrame":
        """Return a table with one row per session: its parties, links, and messages each way."""
        rows = []
        for session in self.sessions:
            first, second = session.parties
            links = session.links
            rows.append(
                {
                    "session": session.index,
                    "client": first.name,
                    "server": second.name,
                    "identity": session.identity,
                    "protocol": links[0].protocol,
                    "mode": links[-1].mode,
                    "streams": [link.stream.index for link in links],
                    "to_server": first.outbox.count,
                    "to_client": second.outbox.count,
                    "resent": len(first.outbox.resent) + len(second.outbox.resent),
                    "missing": first.outbox.missing + second.outbox.missing,
                    "unacked": len(first.outbox.unacked) + len(second.outbox.unacked),
                    "client_address": first.address,
                    "server_address": second.address,
                    "global_id": next((link.global_id for link in links if link.global_id), None),
                    "cipher": links[-1].cipher or "none",
                    "compression": links[-1].compression or "none",
                    "began": "new" if links[0].outcome in _NEW else "resumed" if links[0].ready_ns else "not open",
                    "ended": links[-1].ending(self.capture_ended_ns or self.ended_ns),
                }
            )
        return data_frame(rows, columns=_SESSION_COLUMNS)

    def handshake_table(self) -> "DataFrame":
        """Return a table with one row per link: start of the handshake, length of its phases (ms), outcome."""
        start = self.began_ns or 0
        rows = []
        for link in self.links:
            ready = link.ready_ns
            rows.append(
                {
                    "stream": link.stream.index,
                    "client": link.name(Direction.TO_SERVER),
                    "server": link.name(Direction.TO_CLIENT),
                    "protocol": link.protocol,
                    "mode": link.mode,
                    "began_s": (link.began_ns - start) / _NANO,
                    **{f"{phase}_ms": link.phases_ns.get(phase, 0) / 1e6 for phase in ("banner", "auth", "ident")},
                    "ready_ms": None if ready is None else (ready - link.began_ns) / 1e6,
                    "outcome": link.outcome,
                    "session": self._sessions.of(link).index if self.has_session(link) else None,
                }
            )
        return data_frame(rows, columns=_HANDSHAKE_COLUMNS).astype({"session": "Int64"})

    def end_table(self) -> "DataFrame":
        """Return a table with one row per link: how its TCP connection ended, and its trouble before.

        Columns: stream, client, server, ended_s (missing while it is open), outcome, ended (in words), trouble
        (repeated segments, zero windows), hop_of (the stream of which this one is another hop).
        """
        start, end_ns = self.began_ns or 0, self.capture_ended_ns or self.ended_ns
        rows = []
        for link in self.links:
            tcp, names = link.stream.tcp, [link.name(way) for way in Direction]
            is_over = tcp.reset is not None or tcp.fins
            rows.append(
                {
                    "stream": link.stream.index,
                    "client": names[0],
                    "server": names[1],
                    "ended_s": (tcp.ended_ns - start) / _NANO if is_over else None,
                    "outcome": str(tcp.outcome(end_ns)),
                    "ended": link.ending(end_ns),
                    "trouble": tcp.trouble(*names),
                    "hop_of": None if link.hop_of is None else link.hop_of.stream.index,
                }
            )
        return data_frame(rows, columns=_END_COLUMNS).astype({"hop_of": "Int64"})

    def failed(self) -> list[FailedConnects]:
        """Return the TCP connections to messengers without any frame, similar attempts grouped."""
        servers = {link.stream.server for link in self.links}
        return failed_connects(
            self.streams, self._by_stream.keys(), servers, self.capture_ended_ns or self.ended_ns
        )

    @property
    def exchanges(self) -> list[Exchange]:
        """The requests with their replies, in the order of the replies. Made anew at each use."""
        return list(self._answered)

    def latency_table(self) -> "DataFrame":
        """Return a table with one row per kind of request and reply: count, and time between them (ms)."""
        rows = [
            (request, reply, len(times), np.median(times), np.quantile(times, 0.99), times.max())
            for request, reply, times in self._answered.latencies_ms()
        ]
        return data_frame(rows, columns=_LATENCY_COLUMNS)

    def traffic_table(self, bin_s: float = 1.0) -> "DataFrame":
        """Return the throughput: one row per direction of a link and time span with traffic.

        Args:
            bin_s: length of a span in seconds.

        Raises:
            LocalError: ``bin_s`` is not positive.
        """
        if not bin_s > 0:
            raise LocalError(f"bin_s {bin_s}: a span of time is longer than 0 s")
        start = self.began_ns or 0
        rows = []
        for (stream, direction), passed in self._volumes.items():
            link = self._by_stream[stream]
            bins: dict[int, list[int]] = defaultdict(lambda: [0, 0])
            for time_ns, length in passed:
                span = bins[int((time_ns - start) / (bin_s * _NANO))]
                span[0] += 1
                span[1] += length
            for number, (frames, size_bytes) in sorted(bins.items()):
                rows.append(
                    {
                        "stream": stream,
                        "sender": link.name(direction),
                        "receiver": link.name(direction.other),
                        "at_s": number * bin_s,
                        "frames": frames,
                        "bytes": size_bytes,
                        "bytes_per_s": size_bytes / bin_s,
                    }
                )
        return data_frame(rows, columns=_TRAFFIC_COLUMNS)

    def batch_table(self) -> "DataFrame":
        """Return the number of frames per packet: one row per direction of a link."""
        rows = []
        for (stream, direction), passed in self._volumes.items():
            link = self._by_stream[stream]
            rows.append(
                {
                    "stream": stream,
                    "sender": link.name(direction),
                    "receiver": link.name(direction.other),
                    "packets": passed.packets,
                    "frames": len(passed),
                    "frames_per_packet": len(passed) / passed.packets,
                    "most": passed.most_per_packet,
                }
            )
        return data_frame(rows, columns=_BATCH_COLUMNS)
