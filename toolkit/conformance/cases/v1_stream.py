"""The stream of an open v1 session, and reconnections (docs/protocol.md §3.4, §3.6, §3.7)."""

from collections.abc import Callable
from struct import pack
from typing import Any

from messenger.crc import crc32c
from messenger.v1.wire import Ack, KeepAlive, KeepAlive2, KeepAlive2Ack, Seq, Tag
from toolkit.conformance.attempt import Attempt
from toolkit.conformance.case import CLOSED, OPEN, SILENCE, Area, Level, Need
from toolkit.conformance.peers import V1Peer
from toolkit.errors import ScenarioFailed
from toolkit.node.raw.v1 import RawV1Message

STREAM = Area("v1/stream", "3.7", Need.SESSION)
MESSAGE = Area("v1/message", "3.7", Need.SESSION)
SEQ = Area("v1/seq", "3.6", Need.SESSION)
RESUME = Area("v1/resume", "3.4", Need.LOSSLESS, destructive=True)
_U32, _U64 = (1 << 32) - 1, (1 << 64) - 1
_HEADER_AT, _HEADER_BYTES = 1, 53
_COMPLETE = 1


# ---- small pieces


def _raw(attempt: Attempt, raw: bytes, what: str) -> str:
    peer = attempt.open_v1()
    peer.put(raw, what)
    return peer.fate()


@STREAM.case("KEEPALIVE2 is answered with the same stamp", "the same stamp")
def _stamp(attempt: Attempt) -> str:
    return attempt.open_v1().echo(1_700_000_000, 123_456_789)


@STREAM.case("KEEPALIVE2 with stamp 0 is answered with stamp 0", "the same stamp")
def _stamp_0(attempt: Attempt) -> str:
    return attempt.open_v1().echo(0, 0)


@STREAM.case("KEEPALIVE2 with the highest second of 32 bits is answered with the same stamp", "the same stamp")
def _stamp_high(attempt: Attempt) -> str:
    return attempt.open_v1().echo(_U32, 999_999_999)


@STREAM.case("KEEPALIVE2 is answered exactly once", "1 answer")
def _once(attempt: Attempt) -> str:
    return attempt.open_v1().echoes()


@STREAM.case("KEEPALIVE is not answered, the link stays open", "no answer", classic=(SILENCE,))
def _old(attempt: Attempt) -> str:
    peer = attempt.open_v1()
    peer.send(KeepAlive())
    fate = peer.fate()
    return "no answer" if fate == OPEN and not peer.seen_of(KeepAlive2Ack) else fate


@STREAM.case("An unsolicited KEEPALIVE2_ACK is ignored", OPEN)
def _unasked(attempt: Attempt) -> str:
    return _raw(attempt, KeepAlive2Ack(9, 9).encode(), "KEEPALIVE2_ACK")


@STREAM.case("ACK 0, before any message: it is ignored", OPEN)
def _ack_0(attempt: Attempt) -> str:
    return _raw(attempt, Ack(0).encode(), "ACK 0")


@STREAM.case("ACK of a message that was never sent: it is ignored", OPEN, level=Level.TOLERANT)
def _ack_beyond(attempt: Attempt) -> str:
    return _raw(attempt, Ack(_U64).encode(), "ACK 2^64 - 1")


@STREAM.case("CLOSE: the link is closed", CLOSED, section="3.1")
def _close(attempt: Attempt) -> str:
    return _raw(attempt, bytes([Tag.CLOSE]), "CLOSE")


@STREAM.case("Tag 0: the link is closed", CLOSED, section="3.1")
def _tag_0(attempt: Attempt) -> str:
    return _raw(attempt, b"\0", "tag 0")


@STREAM.case("Tag 17, one above the highest: the link is closed", CLOSED, section="3.1")
def _tag_17(attempt: Attempt) -> str:
    return _raw(attempt, bytes([17]), "tag 17")


@STREAM.case("Tag 255: the link is closed", CLOSED, section="3.1")
def _tag_255(attempt: Attempt) -> str:
    return _raw(attempt, b"\xff", "tag 255")


def _of_replies(tag: Tag) -> None:
    @STREAM.case(f"{tag.name}, a tag of replies, on an open session: the link is closed", CLOSED, section="3.1")
    def _reply_tag(attempt: Attempt) -> str:
        return _raw(attempt, bytes([tag]), tag.name)


for _tag in (
    Tag.READY, Tag.RESETSESSION, Tag.WAIT, Tag.RETRY_SESSION, Tag.RETRY_GLOBAL, Tag.BADPROTOVER,
    Tag.BADAUTHORIZER, Tag.FEATURES, Tag.SEQ, Tag.CHALLENGE_AUTHORIZER,
):  # fmt: skip
    _of_replies(_tag)


@STREAM.case("The stream ends inside KEEPALIVE2: the link is closed", CLOSED)
def _half(attempt: Attempt) -> str:
    peer = attempt.open_v1()
    peer.put(KeepAlive2(1, 1).encode()[:5], "5 bytes of KEEPALIVE2")
    peer.half_close()
    return _end(peer)


def _end(peer: V1Peer) -> str:
    answer = peer.outcome()
    while answer not in (CLOSED, SILENCE):
        answer = peer.outcome()
    return answer


# ---- messages


def _bent(attempt: Attempt, what: str, bend: Callable[[bytearray], None]) -> str:
    peer = attempt.open_v1()
    raw = bytearray(peer.message(1, front=b"front", middle=b"middle", data=b"data"))
    bend(raw)
    peer.put(bytes(raw), what)
    return peer.fate()


def _flip(place: int) -> Callable[[bytearray], None]:
    def bend(raw: bytearray) -> None:
        raw[place] ^= 1

    return bend


_FRONT_AT = _HEADER_AT + _HEADER_BYTES


@MESSAGE.case("A message with front, middle and data: it is accepted", OPEN)
def _whole(attempt: Attempt) -> str:
    return _bent(attempt, "a message with three parts", lambda _: None)


@MESSAGE.case("A message without parts: it is accepted", OPEN)
def _empty(attempt: Attempt) -> str:
    return _sent(attempt, 1)


@MESSAGE.case("A wrong crc of the header: the link is closed", CLOSED)
def _header_crc(attempt: Attempt) -> str:
    return _bent(attempt, "a message with a wrong header crc", _flip(_FRONT_AT - 1))


@MESSAGE.case("A flipped bit in the header: the link is closed", CLOSED)
def _header_bit(attempt: Attempt) -> str:
    return _bent(attempt, "a message with a flipped bit in its tid", _flip(_HEADER_AT + 8))


@MESSAGE.case("A flipped bit in the front: the link is closed", CLOSED)
def _front(attempt: Attempt) -> str:
    return _bent(attempt, "a message with a flipped bit in its front", _flip(_FRONT_AT))


@MESSAGE.case("A flipped bit in the middle: the link is closed", CLOSED)
def _middle(attempt: Attempt) -> str:
    return _bent(attempt, "a message with a flipped bit in its middle", _flip(_FRONT_AT + 5))


@MESSAGE.case("A flipped bit in the data: the link is closed", CLOSED)
def _data(attempt: Attempt) -> str:
    return _bent(attempt, "a message with a flipped bit in its data", _flip(_FRONT_AT + 11))


@MESSAGE.case("A wrong crc of the front in the footer: the link is closed", CLOSED)
def _footer_front(attempt: Attempt) -> str:
    return _bent(attempt, "a message with a wrong front crc", _flip(_FRONT_AT + 15))


@MESSAGE.case("A footer without COMPLETE (an aborted message): the link is closed", CLOSED)
def _aborted(attempt: Attempt) -> str:
    def bend(raw: bytearray) -> None:
        raw[-1] &= ~_COMPLETE

    return _bent(attempt, "a message without COMPLETE", bend)


@MESSAGE.case("NOCRC and 0 as the crc of the data: the crc is not checked", OPEN)
def _no_crc(attempt: Attempt) -> str:
    peer = attempt.open_v1()
    peer.without_data_crc()
    peer.put(peer.message(1, data=b"data"), "a message with NOCRC")
    return peer.fate()


@MESSAGE.case("A flipped bit in the signature: the link is closed", CLOSED, needs=(Need.SIGNATURES,))
def _signature(attempt: Attempt) -> str:
    return _bent(attempt, "a message with a wrong signature", _flip(-2))


@MESSAGE.case(
    "A message of 4 GiB of front, data and middle: the link is closed",
    CLOSED,
    level=Level.TOLERANT,
    classic=(SILENCE,),
    destructive=True,
)
def _huge(attempt: Attempt) -> str:
    def bend(raw: bytearray) -> None:
        raw[_HEADER_AT + 22 : _HEADER_AT + 34] = pack("<III", _U32, _U32, _U32)
        raw[_FRONT_AT - 4 : _FRONT_AT] = pack("<I", crc32c(bytes(raw[_HEADER_AT : _FRONT_AT - 4]), 0))

    return _bent(attempt, "a message that announces 12 GiB", bend)


@MESSAGE.case("The stream ends inside a message: the link is closed", CLOSED)
def _half_message(attempt: Attempt) -> str:
    peer = attempt.open_v1()
    peer.put(peer.message(1, front=bytes(100))[:80], "80 bytes of a message")
    peer.half_close()
    return _end(peer)


# ---- seq


def _sent(attempt: Attempt, *seqs: int) -> str:
    peer = attempt.open_v1()
    peer.send_messages(*seqs)
    return peer.fate()


@SEQ.case("The first message has seq 1: it is accepted", OPEN)
def _first(attempt: Attempt) -> str:
    return _sent(attempt, 1)


@SEQ.case(
    "The first message has seq 12345, as after a reset to a random seq: it is accepted", OPEN, kernel=(CLOSED,)
)
def _random_first(attempt: Attempt) -> str:
    return _sent(attempt, 12345)


@SEQ.case("A gap in seq between two messages: the later one is accepted", OPEN, kernel=(CLOSED,))
def _gap(attempt: Attempt) -> str:
    return _sent(attempt, 1, 5)


@SEQ.case("A message is sent twice: the second copy is dropped, the link stays open", OPEN, classic=(SILENCE,))
def _twice(attempt: Attempt) -> str:
    return _sent(attempt, 1, 1)


@SEQ.case(
    "A message with a lower seq than the last one: it is dropped, the link stays open", OPEN, classic=(SILENCE,)
)
def _older(attempt: Attempt) -> str:
    return _sent(attempt, 1, 2, 3, 2)


@SEQ.case("The target numbers its messages from 1, without gaps", "without a gap", needs=(Need.REPLIES,))
def _numbers(attempt: Attempt) -> str:
    peer = attempt.open_v1()
    peer.send_messages(1, 2, 3)
    peer.fate()
    found = [message.seq for message in peer.seen_of(RawV1Message)]
    peer.fate()
    found += [message.seq for message in peer.seen_of(RawV1Message)]
    return "without a gap" if found == list(range(1, len(found) + 1)) else str(found)


@SEQ.case("A message of a lossless session is acknowledged", "ACK 1", needs=(Need.LOSSLESS,))
def _acked(attempt: Attempt) -> str:
    peer = attempt.open_v1()
    peer.send_messages(1)
    while (frame := peer.await_next()) is not None:
        if isinstance(frame, Ack):
            return f"ACK {frame.seq}"
    return CLOSED if peer.stream.closed else SILENCE


@SEQ.case("A message of a lossy session is never acknowledged", "no ACK", needs=(Need.LOSSY,))
def _no_ack(attempt: Attempt) -> str:
    peer = attempt.open_v1()
    peer.send_messages(1, 2, 3)
    fates = [peer.fate()]
    acks = peer.seen_of(Ack)
    fates.append(peer.fate())
    acks += peer.seen_of(Ack)
    return "no ACK" if fates == [OPEN, OPEN] and not acks else f"{acks}, {fates}"


# ---- existing sessions


def _broken(attempt: Attempt, messages: int = 0, **changes: Any) -> None:
    """Open a session and close its link."""
    peer = attempt.identified_v1()
    peer.ask(**changes)
    peer.seq()
    if messages:
        peer.send_messages(*range(1, messages + 1))
    peer.fate()
    peer.hang_up()


def _resumed(attempt: Attempt, connect_seq: int, seq: int = 0) -> tuple[V1Peer, int]:
    """Resume the session on a new link; return the link and the in_seq of the target's SEQ."""
    peer = attempt.identified_v1()
    reply = peer.ask(connect_seq=connect_seq)
    if reply == "RETRY_GLOBAL":
        reply = peer.ask(connect_seq=connect_seq, global_seq=peer.global_seq + 50)
    if reply != "SEQ":
        raise ScenarioFailed(f"{reply} came where SEQ is due")
    number = peer.expect(Seq).seq
    peer.send(Seq(seq))
    return peer, number


@RESUME.case("CONNECT with a higher connect_seq after the link broke: SEQ, and the session works", OPEN)
def _resume(attempt: Attempt) -> str:
    _broken(attempt)
    return _resumed(attempt, 2)[0].fate()


@RESUME.case(
    "The first reply to a CONNECT that replaces a session's link is RETRY_GLOBAL",
    "RETRY_GLOBAL",
    level=Level.TOLERANT,
)
def _replaces(attempt: Attempt) -> str:
    _broken(attempt)
    return attempt.identified_v1().ask(connect_seq=2)


@RESUME.case("SEQ has in_seq 0 if no message has arrived", "0", section="3.6")
def _in_seq_0(attempt: Attempt) -> str:
    _broken(attempt)
    return str(_resumed(attempt, 2)[1])


@RESUME.case("SEQ has the seq of the last message received", "3", section="3.6")
def _in_seq_3(attempt: Attempt) -> str:
    _broken(attempt, messages=3)
    return str(_resumed(attempt, 2)[1])


@RESUME.case("CONNECT with the target's connect_seq: RETRY_SESSION with connect_seq + 1", "RETRY_SESSION")
def _retry(attempt: Attempt) -> str:
    _broken(attempt)
    return attempt.identified_v1().ask(connect_seq=1)


@RESUME.case(
    "CONNECT with a lower global_seq: RETRY_GLOBAL with the highest global_seq that the target has seen",
    "RETRY_GLOBAL 1000",
)
def _retry_global(attempt: Attempt) -> str:
    _broken(attempt, global_seq=1000)
    peer = attempt.identified_v1()
    tag = peer.ask(connect_seq=2, global_seq=3)
    return f"{tag} {_global_seq(peer)}"


def _global_seq(peer: V1Peer) -> int:
    assert peer.reply is not None
    return peer.reply.global_seq


@RESUME.case(
    "CONNECT with connect_seq 0, as after a restart: a new session replaces the old one",
    *("SEQ", "READY", "RETRY_GLOBAL"),
)
def _restarted(attempt: Attempt) -> str:
    _broken(attempt, messages=2)
    return attempt.identified_v1().ask(connect_seq=0)
