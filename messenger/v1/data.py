"""The data phase of a v1 link: messages, acks and keepalives, in batches (docs/protocol.md §3.6, §3.7).

This is the hot path. One call reads all complete frames of the receive buffer, one call writes everything queued;
the only object created for each message is the message itself.
"""

from functools import partial
from typing import TYPE_CHECKING

from messenger.batch import BATCH_BYTES, JOIN_BELOW_BYTES, decode_message, joined
from messenger.denc.codec import Buffer
from messenger.denc.entity import EntityName
from messenger.denc.features import Feature, has_feature
from messenger.errors import FaultReason, PeerError, describe
from messenger.messages.message import Message
from messenger.messages.registry import KNOWN_TYPES
from messenger.v1.framing import HeaderFields, printable_message
from messenger.v1.wire import Ack, Close, Frame, KeepAlive, KeepAlive2, KeepAlive2Ack, Piece

if TYPE_CHECKING:
    from messenger.session.session import Session
    from messenger.v1.link import V1Link

MESSAGES_PER_ACK = 128
"""Most messages that real peers drop from their sent queue for one ACK (§3.6)."""


def take_frames(
    link: "V1Link",
    session: "Session",
    messages: list[Message],
    view: memoryview,
    start: int,
    end: int,
    owned: bool,  # noqa: FBT001 - hot path
    now: float,
) -> int:
    """Read every complete frame of ``view[start:end]`` and append its message to ``messages`` (v1)."""
    next_frame = link.reader.next_frame
    deliver = messages.append
    gate = link.gate
    assert gate is not None
    watched = gate.watches(end - start)
    rules, tracing = link.host.rules, link.host.tracing
    peer_num = session.peer_name.num
    position = start
    while True:
        if position == end or (watched and not gate.is_open and not link.admits_next(view, position, end)):
            return position
        frame = next_frame(view, position, end, owned)
        if frame is None:
            link.reserve_rest(view, position, end)
            return position
        if len(frame) == 2:
            stop, small = frame
            if tracing:
                link.trace_frame("rx", small.PIECE.value, stop - position, small.printable, now, position - start)
            _on_small(link, session, small)
            position = stop
            continue
        stop, header, front, middle, data, flags = frame
        if watched and gate.is_open:
            gate.pass_one(len(front) + len(middle) + len(data))
        seq, tid, type_, priority, version, _, _, _, data_off, src_type, src_num, compat, _, _ = header
        if tracing:
            printable = partial(printable_message, header)
            link.trace_frame("rx", Piece.MSG.value, stop - position, printable, now, position - start)
        if seq > session.in_seq:
            if seq != session.in_seq + 1:
                rules.message_skipped(session, seq)
            size_bytes = len(front) + len(middle) + len(data)
            message = Message(
                type_, front, middle, data, tid, priority, version, compat, seq, flags, data_off, None, size_bytes
            )
            if type_ in KNOWN_TYPES:
                decode_message(message, session.features)
            elif not rules.accepts_unknown(session, message):
                session.in_seq = seq
                position = stop
                continue
            if src_num != peer_num and src_type == session.peer_type:
                # A v1 peer announces its number only here; a client's changes once a monitor has assigned one.
                session.peer_name = EntityName(session.peer_type, src_num)
                peer_num = src_num
            session.in_seq = seq
            link.taken_bytes += size_bytes
            deliver(message)
        else:
            rules.message_old(session, seq)
        position = stop


def _on_small(link: "V1Link", session: "Session", frame: Frame) -> None:
    """Handle a frame that is no message; a KEEPALIVE needs no answer."""
    if isinstance(frame, Ack):
        if frame.seq > session.out_seq:
            link.host.rules.unsent_acknowledged(session, frame.seq)
        session.acknowledge(frame.seq)
    elif isinstance(frame, KeepAlive2):
        link.check_keepalive()
        link.keepalive_reply = KeepAlive2Ack(frame.seconds, frame.nanoseconds)
        session.keepalive_seen_s = link.host.wall_time_s(link.last_activity_s)
        link.host.want_flush(session)
    elif isinstance(frame, KeepAlive2Ack):
        stamp = frame.seconds + frame.nanoseconds / 1e9
        now = link.last_activity_s
        session.keepalive_acked(stamp, link.host.wall_time_s(now), now)
    elif isinstance(frame, KeepAlive):
        session.keepalive_seen_s = link.host.wall_time_s(link.last_activity_s)
    elif isinstance(frame, Close):
        raise PeerError(FaultReason.PEER_CLOSED)


def write_due(link: "V1Link", session: "Session", now: float) -> None:
    """Write what is due: keepalive, its reply, acks, messages.

    Nothing is written while the transport is behind, so a peer that requests replies but does not read them uses
    no memory.
    """
    host = link.host
    limit = host.config.write_ahead_bytes
    if link.unwritten_bytes >= limit:
        return
    pieces: list[Buffer] = []
    sent_seq = session.out_seq
    if session.keepalive_due:
        session.keepalive_due = False
        _small(link, pieces, _keepalive(session, host.wall_time_s(now)), now)
    if link.keepalive_reply is not None:
        _small(link, pieces, link.keepalive_reply, now)
        link.keepalive_reply = None
    if link.ack_is_due(session):
        _acknowledge(link, session, pieces, now)
    while session.queue and link.unwritten_bytes < limit:
        _write_messages(link, session, pieces, now)
        pieces = []
    if session.out_seq != sent_seq:
        host.count_sent(session, session.out_seq - sent_seq, now)
    if pieces:
        link.write([b"".join(pieces)], sum(map(len, pieces)))


def due_tags(link: "V1Link", session: "Session") -> list[str]:
    """Names of the frames that :func:`write_due` would write now."""
    if link.unwritten_bytes >= link.host.config.write_ahead_bytes:
        return []
    keepalive = [_keepalive(session, 0.0).PIECE] * session.keepalive_due
    reply = [Piece.KEEPALIVE2_ACK] * (link.keepalive_reply is not None)
    acks = [Piece.ACK] * link.ack_is_due(session)
    return [tag.value for tag in (*keepalive, *reply, *acks, *[Piece.MSG] * len(session.queue))]


def _keepalive(session: "Session", wall_time_s: float) -> Frame:
    if not has_feature(session.features, Feature.MSGR_KEEPALIVE2):
        return KeepAlive()
    return KeepAlive2(int(wall_time_s), int(wall_time_s % 1 * 1e9))


def _acknowledge(link: "V1Link", session: "Session", pieces: list[Buffer], now: float) -> None:
    """Acknowledge up to in_seq, in steps of :data:`MESSAGES_PER_ACK`."""
    acked = session.in_seq - session.ack_due
    for seq in (*range(acked + MESSAGES_PER_ACK, session.in_seq, MESSAGES_PER_ACK), session.in_seq):
        _small(link, pieces, Ack(seq), now)
    session.ack_due = 0


def _small(link: "V1Link", pieces: list[Buffer], frame: Frame, now: float) -> None:
    raw = frame.encode()
    link.trace_frame("tx", frame.PIECE.value, len(raw), frame.printable, now)
    link.tx_offset += len(raw)
    pieces.append(raw)


def _write_messages(link: "V1Link", session: "Session", pieces: list[Buffer], now: float) -> None:
    """Write ``pieces``, then queued messages, up to the size of a batch."""
    queue, lossy = session.queue, session.lossy
    build = link.writer.message
    me = link.endpoint.me.name
    src = int(me.type), me.num
    tracing = link.host.tracing
    size = sum(map(len, pieces))
    large = False
    out_seq = session.out_seq
    for message in queue.popped():
        version, front = message.version, message.front
        if message.payload is not None:
            try:
                version, front = message.front_for(session.features)
            except Exception as error:  # noqa: BLE001 - the application's, and only this message's
                link.host.unsendable(session, message, error, now)
                continue
        out_seq += 1
        fields = out_seq, message.tid, message.type, message.priority, version
        parts = front, message.middle, message.data
        try:
            length = build(pieces, fields, parts, message.data_off, src, message.compat_version)
        except Exception as error:  # the application changed the message after sending it
            session.out_seq = out_seq - 1
            link.host.unsendable(session, message, error, now)
            raise PeerError(FaultReason.LOCAL, describe(error)) from error
        if not lossy:
            queue.sent.append((out_seq, message))
        if tracing:
            header: HeaderFields = (  # type: ignore[assignment]
                *fields,
                *map(len, parts),
                message.data_off,
                *src,
                message.compat_version if has_feature(session.features, Feature.NOSRCADDR) else 0,
                0,
                0,
            )
            link.trace_frame("tx", Piece.MSG.value, length, partial(printable_message, header), now)
        link.tx_offset += length
        size += length
        large = large or length >= JOIN_BELOW_BYTES
        if size >= BATCH_BYTES:
            break
    session.out_seq = out_seq
    if size:
        link.write(joined(pieces) if large else [b"".join(pieces)], size)
