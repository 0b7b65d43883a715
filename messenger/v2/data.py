"""The data phase of a v2 link: messages, acks and keepalives, in batches (protocol.md §4.8, §3.6).

The hot path. One call takes every complete frame out of the receive buffer, one call turns everything queued
into one write; nothing per message but the message object itself.
"""

from functools import partial
from typing import TYPE_CHECKING

from messenger.denc.codec import Buffer
from messenger.errors import DecodeError, FaultReason, PeerError
from messenger.messages.message import Message
from messenger.messages.registry import KNOWN_TYPES, decode_payload
from messenger.v2.framing import ABORTED
from messenger.v2.preamble import MESSAGE_TAG
from messenger.v2.wire import (
    MESSAGE_HEADER,
    Ack,
    ControlFrame,
    KeepAlive2,
    KeepAlive2Ack,
    Tag,
    decode_control,
    printable_message,
)

if TYPE_CHECKING:
    from messenger.session.session import Session
    from messenger.v2.link import V2Link

FLAGS = 3
"""Message flags COMPLETE and NOCRC, as every real sender sets them (§4.8)."""
_BATCH_BYTES = 512 * 1024
_MOST_ACKS_DUE = 16
_JOIN_BELOW_BYTES = 16 * 1024
"""Pieces shorter than this are cheaper to copy into one buffer than to hand over one by one."""

_unpack_header = MESSAGE_HEADER.unpack_from
_HEADER_SIZE = MESSAGE_HEADER.size


def receive(link: "V2Link", view: memoryview, start: int, end: int, owned: bool, now: float) -> int:  # noqa: FBT001 - hot path
    """Take every complete frame of ``view[start:end]``; returns where the first incomplete one begins.

    What was complete before a faulty frame is delivered before the fault is raised.

    Raises:
        PeerError: the peer broke the protocol.
    """
    session = link.session
    assert session is not None
    host = link.host
    held_bytes = host.dispatch_throttle.value
    messages: list[Message] = []
    position = start
    try:
        position = _take_frames(link, session, messages, view, start, end, owned, now)
    finally:
        if messages:
            host.deliver(link, session, messages, host.dispatch_throttle.value - held_bytes, now)
            if not session.lossy:
                session.ack_due += len(messages)
        elif link.gate is not None:
            link.gate.settle(0, 0, now)
        if session.ack_due:
            host.want_flush(session)
    link.rx_offset += position - start
    return position


def _take_frames(
    link: "V2Link",
    session: "Session",
    messages: list[Message],
    view: memoryview,
    start: int,
    end: int,
    owned: bool,  # noqa: FBT001
    now: float,
) -> int:
    next_frame = link.reader.next_frame
    deliver = messages.append
    throttle = link.host.dispatch_throttle
    limit = throttle.limit
    tracing = link.host.tracing
    position = start
    while True:
        if 0 < limit <= throttle.value:  # throttle.full, without a call per frame
            link.pause()
            return position
        if position == end:
            return position
        frame = next_frame(view, position, end, owned=owned)
        if frame is None:
            return position
        stop, tag, s0, s1, s2, s3 = frame
        if tag == MESSAGE_TAG:
            if len(s0) < _HEADER_SIZE:
                raise PeerError(FaultReason.MALFORMED, f"message header of {len(s0)} bytes")
            seq, tid, type_, priority, version, _, data_off, ack_seq, flags, compat, _ = _unpack_header(s0)
            if tracing:
                segments = (s0, s1, s2, s3)
                printable = partial(printable_message, segments)
                link.trace_frame("rx", "MESSAGE", stop - position, printable, now, position - start)
            if ack_seq > session.acked_seq:
                session.acknowledge(ack_seq)
            if seq > session.in_seq:
                if seq != session.in_seq + 1:
                    link.host.message_skipped(session, seq)
                message = Message(type_, s1, s2, s3, tid, priority, version, compat, seq, flags, data_off)
                if type_ in KNOWN_TYPES:
                    _decode(message, session.features)
                session.in_seq = seq
                throttle.take(len(s1) + len(s2) + len(s3))
                deliver(message)
            else:
                link.host.message_old(session, seq)
        elif tag != ABORTED:
            control = decode_control(tag, (s0, s1, s2, s3))
            if tracing:
                link.trace_frame("rx", control.TAG.name, stop - position, control.printable, now, position - start)
            _on_control(link, session, control)
        position = stop


def _decode(message: Message, features: int) -> None:
    """A message that does not decode ends the link, as in Ceph (§6.1)."""
    try:
        message.payload = decode_payload(message, features)
    except DecodeError as error:
        raise PeerError(
            FaultReason.BAD_MESSAGE, f"type {message.type} seq {message.seq}: {error.detail}"
        ) from None


def _on_control(link: "V2Link", session: "Session", frame: ControlFrame) -> None:
    """The small frames of the data phase; anything else is a fault."""
    if isinstance(frame, Ack):
        session.acknowledge(frame.seq)
    elif isinstance(frame, KeepAlive2):
        link.keepalive_reply = KeepAlive2Ack(frame.seconds, frame.nanoseconds)
        session.keepalive_seen_s = link.host.wall_time_s(link.last_activity_s)
        link.host.want_flush(session)
    elif isinstance(frame, KeepAlive2Ack):
        stamp = frame.seconds + frame.nanoseconds / 1e9
        session.keepalive_acked_s = max(session.keepalive_acked_s, stamp)
    else:
        raise PeerError(FaultReason.UNEXPECTED_FRAME, frame.TAG.name)


def flush(link: "V2Link", session: "Session", now: float) -> None:
    """Write what is due: keepalive, its reply, messages, or an ack when no message carries it (§4.12).

    Control frames wait too while the transport is behind: a peer that asks but does not read costs no memory.
    """
    host = link.host
    limit = host.config.write_ahead_bytes
    if link.unwritten_bytes >= limit:
        return
    pieces: list[Buffer] = []
    sent_seq = session.out_seq
    if session.keepalive_due:
        session.keepalive_due = False
        seconds = host.wall_time_s(now)
        _control(link, pieces, KeepAlive2(int(seconds), int(seconds % 1 * 1e9)), now)
    if link.keepalive_reply is not None:
        _control(link, pieces, link.keepalive_reply, now)
        link.keepalive_reply = None
    while session.queue and link.unwritten_bytes < limit:
        size = _build_messages(link, session, pieces, now)
        link.write(_joined(pieces), size)
        pieces = []
    if session.out_seq != sent_seq:
        host.count_sent(session, session.out_seq - sent_seq, now)
    if _ack_is_due(link, session):
        session.ack_due = 0
        _control(link, pieces, Ack(session.in_seq), now)
    if pieces:
        link.write([b"".join(pieces)], sum(map(len, pieces)))


def _ack_is_due(link: "V2Link", session: "Session") -> bool:
    # With a part of the next frame here, the rest is on its way and wants an ack as well.
    more_is_coming = link.receive_buffer.held_bytes and not link.paused
    return session.ack_due >= (_MOST_ACKS_DUE if more_is_coming else 1)


def due_tags(link: "V2Link", session: "Session") -> list[str]:
    """Tags of the frames that :func:`flush` would write now."""
    if link.unwritten_bytes >= link.host.config.write_ahead_bytes:
        return []
    tags = [Tag.KEEPALIVE2] * session.keepalive_due + [Tag.KEEPALIVE2_ACK] * (link.keepalive_reply is not None)
    messages = [Tag.MESSAGE] * len(session.queue)
    acks = [] if messages or not _ack_is_due(link, session) else [Tag.ACK]
    return [tag.name for tag in (*tags, *messages, *acks)]


def _control(link: "V2Link", pieces: list[Buffer], frame: ControlFrame, now: float) -> None:
    raw = link.writer.control(frame.TAG, frame.encode())
    link.trace_frame("tx", frame.TAG.name, len(raw), frame.printable, now)
    link.tx_offset += len(raw)
    pieces.append(raw)


def _build_messages(link: "V2Link", session: "Session", pieces: list[Buffer], now: float) -> int:
    """Frames of queued messages up to a batch's size, appended to ``pieces``; returns the size of all pieces."""
    queue, in_seq, lossy = session.queue, session.in_seq, session.lossy
    build = link.writer.message
    pack = MESSAGE_HEADER.pack
    tracing = link.host.tracing
    size = sum(map(len, pieces))
    out_seq = session.out_seq
    while queue and size < _BATCH_BYTES:
        message = queue.pop()
        out_seq += 1
        if message.payload is not None:
            message.encode_front(session.features)
        header = pack(
            out_seq,
            message.tid,
            message.type,
            message.priority,
            message.version,
            0,
            message.data_off,
            in_seq,
            FLAGS,
            message.compat_version,
            0,
        )
        try:
            length = build(pieces, header, message.front, message.middle, message.data)
        except PeerError:  # out of nonces: the message stays first in line for the next link
            queue.requeued.appendleft((out_seq, message))
            session.out_seq = out_seq - 1
            raise
        if not lossy:
            queue.sent.append((out_seq, message))
        if tracing:
            segments = (header, message.front, message.middle, message.data)
            link.trace_frame("tx", "MESSAGE", length, partial(printable_message, segments), now)
        link.tx_offset += length
        size += length
    session.out_seq = out_seq
    session.ack_due = 0  # every header just built tells in_seq
    return size


def _joined(pieces: list[Buffer]) -> list[Buffer]:
    """The pieces with runs of small ones joined; large payloads stay the buffers they are."""
    if max(map(len, pieces)) < _JOIN_BELOW_BYTES:
        return [b"".join(pieces)]
    joined: list[Buffer] = []
    run: list[Buffer] = []
    for piece in pieces:
        if len(piece) < _JOIN_BELOW_BYTES:
            run.append(piece)
            continue
        if run:
            joined.append(b"".join(run))
            run = []
        joined.append(piece)
    if run:
        joined.append(b"".join(run))
    return joined
