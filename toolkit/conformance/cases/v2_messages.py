"""Keepalives, acknowledgements and sequence numbers on an open session (docs/protocol.md §3.6, §3.7, §4.8)."""

from struct import pack

from messenger.v2.wire import Ack, KeepAlive2, KeepAlive2Ack, SessionReconnectOk, Tag
from toolkit.conformance.attempt import Attempt
from toolkit.conformance.case import CLOSED, OPEN, SILENCE, Area, Level, Need
from toolkit.conformance.peers import V2Peer
from toolkit.node.raw.v2 import RawMessage

KEEPALIVE = Area("v2/keepalive", "3.7", Need.SESSION)
ACK = Area("v2/ack", "4.8", Need.SESSION)
SEQ = Area("v2/seq", "3.6", Need.SESSION)
_U32, _U63, _U64 = (1 << 32) - 1, 1 << 63, (1 << 64) - 1
_FAR = 1 << 40


@KEEPALIVE.case("KEEPALIVE2 is answered with the same stamp", "the same stamp")
def _stamp(attempt: Attempt) -> str:
    return attempt.open().echo(1_700_000_000, 123_456_789)


@KEEPALIVE.case("KEEPALIVE2 with stamp 0 is answered with stamp 0", "the same stamp")
def _stamp_0(attempt: Attempt) -> str:
    return attempt.open().echo(0, 0)


@KEEPALIVE.case("KEEPALIVE2 with the highest second of 32 bits is answered with the same stamp", "the same stamp")
def _stamp_high(attempt: Attempt) -> str:
    return attempt.open().echo(_U32, 999_999_999)


@KEEPALIVE.case(
    "KEEPALIVE2 with more than 999999999 ns is answered with the same stamp",
    "the same stamp",
    level=Level.TOLERANT,
)
def _stamp_nanoseconds(attempt: Attempt) -> str:
    return attempt.open().echo(5, _U32)


@KEEPALIVE.case("KEEPALIVE2 is answered exactly once", "1 answer")
def _once(attempt: Attempt) -> str:
    return attempt.open().echoes()


@KEEPALIVE.case("Five KEEPALIVE2, one after the other: each is answered", "5 answers")
def _in_turn(attempt: Attempt) -> str:
    peer = attempt.open()
    stamps = []
    for second in range(5):
        peer.send(KeepAlive2(second, 1))
        answer = peer.next_echo()
        stamps.append(None if answer is None else answer.seconds)
    return "5 answers" if stamps == list(range(5)) else str(stamps)


@KEEPALIVE.case(
    "Three KEEPALIVE2 at once: at least the last is answered, and answers are in order", "the last, in order"
)
def _at_once(attempt: Attempt) -> str:
    peer = attempt.open()
    peer.send(KeepAlive2(1, 0), KeepAlive2(2, 0), KeepAlive2(3, 0))
    fate = peer.fate()
    stamps = [ack.seconds for ack in peer.seen_of(KeepAlive2Ack)]
    if fate == OPEN and stamps == sorted(stamps) and set(stamps) <= {1, 2, 3}:
        return "the last, in order"
    return f"{stamps}, {fate}"


@KEEPALIVE.case("An unsolicited KEEPALIVE2_ACK is ignored", OPEN)
def _unasked(attempt: Attempt) -> str:
    peer = attempt.open()
    peer.send(KeepAlive2Ack(9, 9))
    return peer.fate()


@KEEPALIVE.case("KEEPALIVE2 of 4 bytes: the link is closed", CLOSED, section="4.3")
def _short(attempt: Attempt) -> str:
    return _payload(attempt, Tag.KEEPALIVE2, bytes(4), "KEEPALIVE2 of 4 bytes")


@KEEPALIVE.case("KEEPALIVE2 with extra bytes after its stamp: they are ignored", OPEN, section="4.3")
def _trailing(attempt: Attempt) -> str:
    return _payload(attempt, Tag.KEEPALIVE2, bytes(12), "KEEPALIVE2 of 12 bytes")


@KEEPALIVE.case("KEEPALIVE2_ACK of 4 bytes: the link is closed", CLOSED, section="4.3")
def _short_ack(attempt: Attempt) -> str:
    return _payload(attempt, Tag.KEEPALIVE2_ACK, bytes(4), "KEEPALIVE2_ACK of 4 bytes")


def _payload(attempt: Attempt, tag: int, payload: bytes, what: str) -> str:
    peer = attempt.open()
    peer.payload(tag, payload, what)
    return peer.fate()


# ---- ACK


def _acked(attempt: Attempt, seq: int) -> str:
    peer = attempt.open()
    peer.send(Ack(seq))
    return peer.fate()


@ACK.case("ACK 0, before any message: it is ignored", OPEN)
def _ack_0(attempt: Attempt) -> str:
    return _acked(attempt, 0)


@ACK.case("ACK of a message that was never sent: it is ignored", OPEN, level=Level.TOLERANT)
def _ack_beyond(attempt: Attempt) -> str:
    return _acked(attempt, 1000)


@ACK.case("ACK of the highest 64-bit number: it is ignored", OPEN, level=Level.TOLERANT)
def _ack_high(attempt: Attempt) -> str:
    return _acked(attempt, _U64)


@ACK.case("The same ACK twice: the second is ignored", OPEN)
def _ack_twice(attempt: Attempt) -> str:
    peer = attempt.open()
    peer.send(Ack(1), Ack(1))
    return peer.fate()


@ACK.case("ACK of 4 bytes: the link is closed", CLOSED, section="4.3")
def _ack_short(attempt: Attempt) -> str:
    return _payload(attempt, Tag.ACK, bytes(4), "ACK of 4 bytes")


@ACK.case("ACK with extra bytes after its number: they are ignored", OPEN, section="4.3")
def _ack_trailing(attempt: Attempt) -> str:
    return _payload(attempt, Tag.ACK, pack("<QI", 0, 7), "ACK of 12 bytes")


@ACK.case("A message whose ack_seq was never sent: the ack_seq is ignored", OPEN, level=Level.TOLERANT)
def _ack_seq_beyond(attempt: Attempt) -> str:
    peer = attempt.open()
    peer.send_messages(1, ack_seq=1000)
    return peer.fate()


def _acknowledged(peer: V2Peer, seq: int) -> str:
    """True if the target acknowledges messages up to ``seq``, by ACK or by the ack_seq of a message."""
    numbers = []
    while (frame := peer.await_next()) is not None:
        if isinstance(frame, Ack):
            numbers.append(frame.seq)
        elif isinstance(frame, RawMessage):
            numbers.append(frame.ack_seq)
        if seq in numbers:
            return f"acknowledged {seq}"
    return f"acknowledged {numbers or 'nothing'}"


@ACK.case(
    "A message of a lossless session is acknowledged", "acknowledged 1", needs=(Need.LOSSLESS,), destructive=True
)
def _ack_of_one(attempt: Attempt) -> str:
    peer = attempt.open()
    peer.send_messages(1)
    return _acknowledged(peer, 1)


@ACK.case(
    "Ten messages of a lossless session are acknowledged up to the last",
    "acknowledged 10",
    needs=(Need.LOSSLESS,),
    destructive=True,
)
def _ack_of_ten(attempt: Attempt) -> str:
    peer = attempt.open()
    peer.send_messages(*range(1, 11))
    return _acknowledged(peer, 10)


@ACK.case("A message of a lossy session is never acknowledged by ACK", "no ACK", needs=(Need.LOSSY,))
def _no_ack(attempt: Attempt) -> str:
    peer = attempt.open()
    peer.send_messages(1, 2, 3)
    fates = [peer.fate()]
    acks = peer.seen_of(Ack)
    fates.append(peer.fate())
    acks += peer.seen_of(Ack)
    return "no ACK" if fates == [OPEN, OPEN] and not acks else f"{acks}, {fates}"


# ---- seq


def _sent(attempt: Attempt, *seqs: int) -> str:
    peer = attempt.open()
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


@SEQ.case("A gap of 2^40 in seq: the later message is accepted", OPEN, kernel=(CLOSED,), level=Level.TOLERANT)
def _wide_gap(attempt: Attempt) -> str:
    return _sent(attempt, 1, _FAR)


@SEQ.case("A message is sent twice: the second copy is dropped, the link stays open", OPEN, classic=(SILENCE,))
def _twice(attempt: Attempt) -> str:
    return _sent(attempt, 1, 1)


@SEQ.case(
    "A message with a lower seq than the last one: it is dropped, the link stays open", OPEN, classic=(SILENCE,)
)
def _older(attempt: Attempt) -> str:
    return _sent(attempt, 1, 2, 3, 2)


@SEQ.case(
    "A first message with the invalid seq 0: it is dropped",
    OPEN,
    classic=(SILENCE,),
    level=Level.TOLERANT,
)
def _zero(attempt: Attempt) -> str:
    return _sent(attempt, 0)


def _answers(attempt: Attempt, *seqs: int) -> str:
    """Return the number of messages that the target has accepted, by its in_seq."""
    peer = attempt.open()
    peer.send_messages(*seqs)
    peer.fate()
    peer.hang_up()
    again = attempt.admitted()
    again.send(again.session_reconnect(server_cookie=peer.server_cookie, connect_seq=1))
    return str(again.expect(SessionReconnectOk).msg_seq)


@SEQ.case("in_seq is the seq of the last message after a gap", "7", needs=(Need.LOSSLESS,), destructive=True)
def _in_seq_after_gap(attempt: Attempt) -> str:
    return _answers(attempt, 1, 7)


@SEQ.case(
    "in_seq does not decrease after a message with a lower seq", "3", needs=(Need.LOSSLESS,), destructive=True
)
def _in_seq_stays(attempt: Attempt) -> str:
    return _answers(attempt, 1, 2, 3, 1)


def _replies(attempt: Attempt, *seqs: int) -> list[int]:
    """Send messages; return the seqs of the target's messages after them."""
    peer = attempt.open()
    peer.send_messages(*seqs)
    peer.fate()
    found = [message.seq for message in peer.seen_of(RawMessage)]
    peer.fate()
    return found + [message.seq for message in peer.seen_of(RawMessage)]


@SEQ.case("The target numbers its messages from 1, without gaps", "without a gap", needs=(Need.REPLIES,))
def _numbers(attempt: Attempt) -> str:
    found = _replies(attempt, 1, 2, 3)
    return "without a gap" if found == list(range(1, len(found) + 1)) else str(found)


@SEQ.case(
    "The target numbers the messages of the next session from 1 again",
    "without a gap",
    needs=(Need.REPLIES, Need.LOSSY),
)
def _numbers_again(attempt: Attempt) -> str:
    _replies(attempt, 1, 2)
    return _numbers(attempt)
