"""The data phase of a v2 link: messages, acks and keepalives, in batches (docs/protocol.md §4.8, §3.6).

The hot path. One call takes every complete frame out of the receive buffer, one call turns everything queued
into one write; nothing per message but the message object itself.
"""

from functools import partial
from typing import TYPE_CHECKING

from messenger.batch import BATCH_BYTES, JOIN_BELOW_BYTES, decode_message, joined
from messenger.denc.codec import Buffer
from messenger.errors import FaultReason, PeerError, describe
from messenger.messages.message import Message
from messenger.messages.registry import KNOWN_TYPES
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
    import cython  # types of the compiled form alone (docs/compiled.md)

    from messenger.session.session import Session
    from messenger.v2.link import V2Link

FLAGS = 3
"""Message flags COMPLETE and NOCRC, as every real sender sets them (§4.8)."""

Header = tuple[int, ...]
"""The fields of a message's header."""

_unpack_header = MESSAGE_HEADER.unpack_from
_HEADER_SIZE = MESSAGE_HEADER.size


def take_frames(
    link: "V2Link",
    session: "Session",
    messages: list[Message],
    view: memoryview,
    start: "cython.Py_ssize_t",
    end: "cython.Py_ssize_t",
    owned: bool,  # noqa: FBT001 - hot path
    now: float,
) -> int:
    """Read every complete frame of ``view[start:end]`` and append its message to ``messages`` (v2)."""
    next_frame = link.reader.next_frame
    gate = link.gate
    assert gate is not None
    watched: cython.bint = gate.watches(end - start)
    rules, tracing, features = link.host.rules, link.host.tracing, session.features
    accepts_unknown: cython.bint = link.host.config.unknown_message == "deliver"
    tag: cython.int
    message: Message
    size_bytes: cython.Py_ssize_t
    position: cython.Py_ssize_t = start
    stop: cython.Py_ssize_t
    while True:
        if position == end or (watched and not gate.is_open and not link.admits_next(view, position, end)):
            return position
        frame = next_frame(view, position, end, owned)
        if frame is None:
            link.reserve_rest(view, position, end)
            return position
        stop, tag, s0, s1, s2, s3 = frame
        size_bytes = len(s1) + len(s2) + len(s3)
        if watched and gate.is_open:
            gate.pass_one(size_bytes)
        if tag == MESSAGE_TAG:
            if len(s0) < _HEADER_SIZE:
                raise PeerError(FaultReason.MALFORMED, f"message header of {len(s0)} bytes")
            header = _unpack_header(s0)
            seq, type_, ack_seq = header[0], header[2], header[7]
            if tracing:
                segments = (s0, s1, s2, s3)
                printable = partial(printable_message, segments)
                link.trace_frame("rx", "MESSAGE", stop - position, printable, now, position - start)
            if ack_seq > session.acked_seq:
                if ack_seq > session.out_seq:
                    rules.unsent_acknowledged(session, ack_seq)
                session.acknowledge(ack_seq)
            in_seq = session.in_seq
            if seq > in_seq:
                if seq != in_seq + 1:
                    rules.message_skipped(session, seq)
                message = _message(header, s1, s2, s3, size_bytes)
                if type_ in KNOWN_TYPES:
                    decode_message(message, features)
                elif not (accepts_unknown or rules.accepts_unknown(session, message)):
                    session.in_seq = seq
                    position = stop
                    continue
                session.in_seq = seq
                link.taken_bytes += size_bytes
                messages.append(message)
            else:
                rules.message_old(session, seq)
        elif tag == ABORTED:
            _on_aborted(link, stop - position, position - start, now)
        else:
            control = decode_control(tag, (s0, s1, s2, s3), last=link.reads_last_segment)
            if tracing:
                link.trace_frame("rx", control.TAG.name, stop - position, control.printable, now, position - start)
            _on_control(link, session, control)
        position = stop


def _message(
    header: Header, front: Buffer, middle: Buffer, data: Buffer, size_bytes: "cython.Py_ssize_t"
) -> Message:
    """A received message. ``__init__``, with so many arguments, would cost more than the assignments do."""
    message = Message.__new__(Message)
    seq, tid, type_, priority, version, _, data_off, _, flags, compat_version, _ = header
    message.type = type_
    message.front = front
    message.middle = middle
    message.data = data
    message.tid = tid
    message.priority = priority
    message.version = version
    message.compat_version = compat_version
    message.seq = seq
    message.flags = flags
    message.data_off = data_off
    message.payload = None
    message.held_bytes = size_bytes
    message.encoded = None
    return message


def _on_aborted(link: "V2Link", length: int, offset: int, now: float) -> None:
    """A frame that its sender aborted: a fault, if the options say so."""
    if link.host.tracing:
        link.trace_frame("rx", "ABORTED", length, dict, now, offset)
    if link.host.config.aborted_message == "fault":
        raise PeerError(FaultReason.ABORTED)


def _on_control(link: "V2Link", session: "Session", frame: ControlFrame) -> None:
    """Handle a control frame of the data phase; any other is a fault."""
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
    else:
        raise PeerError(FaultReason.UNEXPECTED_FRAME, frame.TAG.name)


def write_due(link: "V2Link", session: "Session", now: float) -> None:
    """Write what is due: keepalive, its reply, messages, or an ack when no message carries it (§4.12).

    Control frames wait too while the transport is behind, so replies to a peer that does not read use no memory.
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
        _write_messages(link, session, pieces, now)
        pieces = []
    if session.out_seq != sent_seq:
        host.count_sent(session, session.out_seq - sent_seq, now)
    if link.ack_is_due(session):
        session.ack_due = 0
        _control(link, pieces, Ack(session.in_seq), now)
    if pieces:
        link.write(pieces, sum(map(len, pieces)))


def due_tags(link: "V2Link", session: "Session") -> list[str]:
    """Tags of the frames that :func:`write_due` would write now."""
    if link.unwritten_bytes >= link.host.config.write_ahead_bytes:
        return []
    tags = [Tag.KEEPALIVE2] * session.keepalive_due + [Tag.KEEPALIVE2_ACK] * (link.keepalive_reply is not None)
    messages = [Tag.MESSAGE] * len(session.queue)
    acks = [] if messages or not link.ack_is_due(session) else [Tag.ACK]
    return [tag.name for tag in (*tags, *messages, *acks)]


def _control(link: "V2Link", pieces: list[Buffer], frame: ControlFrame, now: float) -> None:
    raw = link.writer.control(frame.TAG, frame.encode())
    if link.endpoint.tracing:
        link.trace_frame("tx", frame.TAG.name, len(raw), frame.printable, now)
    link.tx_offset += len(raw)
    pieces.append(raw)


def _write_messages(link: "V2Link", session: "Session", pieces: list[Buffer], now: float) -> None:
    """Write ``pieces``, then frames of queued messages, up to the size of a batch."""
    queue, in_seq, lossy = session.queue, session.in_seq, session.lossy
    build = link.writer.message
    pack = MESSAGE_HEADER.pack
    tracing = link.host.tracing
    size: cython.Py_ssize_t = sum(map(len, pieces))
    before: cython.Py_ssize_t = size
    length: cython.Py_ssize_t
    large: cython.bint = False
    message: Message
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
        try:
            header = pack(
                out_seq,
                message.tid,
                message.type,
                message.priority,
                version,
                0,
                message.data_off,
                in_seq,
                FLAGS,
                message.compat_version,
                0,
            )
            length = build(pieces, header, front, message.middle, message.data)
        except PeerError:  # out of nonces: the message stays first in line for the next link
            queue.requeued.appendleft((out_seq, message))
            session.out_seq = out_seq - 1
            raise
        except Exception as error:  # it was changed after it was sent; the writer may have lost its place
            session.out_seq = out_seq - 1
            link.host.unsendable(session, message, error, now)
            raise PeerError(FaultReason.LOCAL, describe(error)) from error
        if not lossy:
            queue.sent.append((out_seq, message))
        if tracing:
            segments = (header, front, message.middle, message.data)
            link.trace_frame("tx", "MESSAGE", length, partial(printable_message, segments), now, size - before)
        size += length
        large = large or length >= JOIN_BELOW_BYTES
        if size >= BATCH_BYTES:
            break
    if out_seq != session.out_seq:
        session.out_seq = out_seq
        session.ack_due = 0  # every header just built has in_seq
    if size:
        link.tx_offset += size - before
        link.write(joined(pieces) if large else [b"".join(pieces)], size)
