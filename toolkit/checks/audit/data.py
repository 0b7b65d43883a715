"""Rules about messages, acknowledgements and keepalives (docs/protocol.md §3.6, §3.7, §4.8)."""

from toolkit.checks.audit.rule import Rule, Side
from toolkit.checks.audit.talk import Fields, Talk, number

SEQ_STEP = Rule(
    "seq_step",
    "3.6 4.8",
    Side.BOTH,
    "The seq of each message is one above that of the previous message on the link.",
)
FIRST_SEQ = Rule("first_seq", "4.8", Side.BOTH, "The first message of a new v2 session has seq 1.")
REPLAY = Rule(
    "replay",
    "3.6 4.9",
    Side.BOTH,
    "The first message on a link that resumes a session has the seq after the in_seq that the peer announced.",
    "no session was resumed, or no message was sent on it",
)
ACK_KNOWN = Rule(
    "ack_known", "3.6 4.8", Side.BOTH, "ACK and ack_seq are no higher than the seq of the last message received."
)
ACK_BACK = Rule("ack_back", "3.6 4.8", Side.BOTH, "Acknowledgements on a link never decrease.")
ACK_NEW = Rule(
    "ack_new", "3.6", Side.BOTH, "An ACK acknowledges at least one message that was not acknowledged before."
)
ACK_LOSSY = Rule("ack_lossy", "3.6", Side.BOTH, "Only lossless sessions send ACK.")
IN_SEQ = Rule(
    "in_seq",
    "4.9",
    Side.BOTH,
    "The in_seq in SESSION_RECONNECT and SESSION_RECONNECT_OK is no lower than what the sender has acknowledged, "
    "and no higher than the last message received.",
    "no handshake announced an in_seq of a session whose beginning is in the history",
)
KEEPALIVE = Rule(
    "keepalive_echo",
    "3.7",
    Side.BOTH,
    "KEEPALIVE2_ACK has the timestamp of a KEEPALIVE2 that was not answered yet.",
)
COMPRESSED = Rule(
    "compressed",
    "4.10",
    Side.BOTH,
    "Compressed frames are sent only after a COMPRESSION_DONE that agrees to compress.",
    "no compressed frame; histories of runs do not show which frames are compressed",
)
SIGNED = Rule(
    "signed",
    "3.7",
    Side.BOTH,
    "All messages of one direction of a v1 link are signed, or none is.",
    "no v1 message, or signatures are not recorded",
)
PREAMBLE = Rule(
    "preamble",
    "4.4 4.5",
    Side.BOTH,
    "A preamble has 1 to 4 segments, of which the last is not empty, the alignments 8 and 4096, and zeros in "
    "unused fields; the late status is complete or aborted. (No crc protects the late status: an undefined value "
    "that a sender uses once on a link may be damage of the capture, and is not judged.)",
    "no v2 frame with readable bytes: histories of runs have none, and frames of secure links are sealed",
)
RULES = (
    *(SEQ_STEP, FIRST_SEQ, REPLAY, ACK_KNOWN, ACK_BACK, ACK_NEW, ACK_LOSSY, IN_SEQ, KEEPALIVE, COMPRESSED, SIGNED),
    PREAMBLE,
)

_LARGEST_SEQ = 1 << 63
"""A larger in_seq cannot be the seq of a message; implementations continue after it in different ways."""


def message_sent(talk: Talk, fields: Fields) -> None:
    """Judge a MESSAGE or MSG that was sent."""
    seq = number(fields, "seq")
    if seq is None:
        talk.miss()
        return
    if talk.gap:
        return
    if talk.out_seq is not None:
        talk.judge(SEQ_STEP, seq == talk.out_seq + 1, "seq {} is sent after seq {}", seq, talk.out_seq)
    elif talk.first_seq is not None:
        if talk.replays:
            text = "seq {} is the first one sent, the peer has announced in_seq {}"
            holds = seq == talk.first_seq or talk.first_seq > _LARGEST_SEQ
            talk.judge(REPLAY, holds, text, seq, talk.first_seq - 1)
        else:
            talk.judge(FIRST_SEQ, seq == talk.first_seq, "the first message of a new session has seq {}", seq)
    talk.out_seq = seq
    ack_seq = number(fields, "ack_seq")
    if ack_seq is not None and "SEQ" not in talk.sent:  # v1 messages have no ack_seq
        _acknowledge(talk, ack_seq, "ack_seq")


def message_received(talk: Talk, fields: Fields) -> None:
    """Note a message that may have been received."""
    seq = number(fields, "seq")
    if seq is None:
        talk.miss()
        return
    if talk.in_seq is not None and seq > talk.in_seq:
        talk.in_seq = seq
    memory = talk.memory
    if memory is not None and memory.received is not None and seq > memory.received:
        memory.received, memory.until = seq, talk.position


def ack_sent(talk: Talk, fields: Fields) -> None:
    """Judge an ACK that was sent."""
    seq = number(fields, "seq")
    if seq is None:
        return
    if talk.lossy is not None:
        talk.judge(ACK_LOSSY, not talk.lossy, "ACK on a lossy session")
    if talk.in_seq is not None and not talk.gap:
        text = "ACK acknowledges seq {}, which was acknowledged before"
        talk.judge(ACK_NEW, seq != talk.acked_seq, text, seq)
    _acknowledge(talk, seq, "ACK")


def _acknowledge(talk: Talk, seq: int, what: str) -> None:
    in_seq = talk.in_seq
    if in_seq is None or talk.gap:
        return
    if seq > in_seq and talk.is_next(seq):
        _note_ack(talk, seq)
        return  # the capture does not show the order of the two
    talk.judge(ACK_KNOWN, seq <= in_seq, "{} acknowledges seq {}, the last one received is {}", what, seq, in_seq)
    acked_seq = talk.acked_seq
    talk.judge(ACK_BACK, seq >= acked_seq, "{} acknowledges seq {} after seq {}", what, seq, acked_seq)
    _note_ack(talk, seq)


def _note_ack(talk: Talk, seq: int) -> None:
    if seq > talk.acked_seq:
        talk.acked_seq = seq
        memory = talk.memory
        if memory is not None and seq > memory.acked:
            memory.acked, memory.until = seq, talk.position


def keepalive_received(talk: Talk, fields: Fields) -> None:
    """Note a KEEPALIVE2, which must be answered."""
    talk.stamps.append((fields.get("seconds"), fields.get("nanoseconds")))


def keepalive_answered(talk: Talk, fields: Fields) -> None:
    """Judge a KEEPALIVE2_ACK that was sent."""
    stamp, stamps = (fields.get("seconds"), fields.get("nanoseconds")), talk.stamps
    holds = stamp in stamps
    is_out_of_order = not holds and talk.has_stamp_later(stamp)
    if not talk.gap and (holds or not (talk.folded_keepalives or is_out_of_order)):
        talk.judge(KEEPALIVE, holds, "KEEPALIVE2_ACK of {}.{}, which no KEEPALIVE2 waits for", *stamp)
    while holds and stamps.popleft() != stamp:
        pass


def folded_sent(talk: Talk, fields: Fields) -> None:
    """Note the numbers of sent frames that were judged before they were folded."""
    if (seq := number(fields, "last_seq")) is not None:
        talk.out_seq = seq
    if (seq := number(fields, "last_ack")) is not None:
        _note_ack(talk, seq)


def folded_received(talk: Talk, fields: Fields) -> None:
    """Note the numbers of received frames that were folded; the stamps of their keepalives are lost."""
    if (seq := number(fields, "last_seq")) is not None:
        message_received(talk, {"seq": seq})
    talk.folded_keepalives |= bool(fields.get("keepalives"))


def layout_sent(talk: Talk, frame: Fields) -> None:
    """Judge what the bytes of a captured frame show."""
    if "preamble" in frame:
        talk.judge(PREAMBLE, not frame["preamble"], "{}: {}", frame["tag"], frame["preamble"])
    late = frame.get("late_status")
    if late is not None:
        if late in talk.late_statuses:  # damage does not repeat itself, a sender does
            text = "{}: its late status, {:#04x}, is neither complete nor aborted"
            talk.judge(PREAMBLE, False, text, frame["tag"], late)
        talk.late_statuses.add(late)
    if frame.get("compressed"):
        ends = (talk.received, talk.sent)
        agreed = any(end.get("COMPRESSION_DONE", {}).get("is_compress") for end in ends)
        text = "{} is compressed, and no COMPRESSION_DONE agrees to that"
        talk.judge(COMPRESSED, agreed, text, frame["tag"])
    signed = frame.get("signed")
    if isinstance(signed, bool):
        text = "a message is {}signed, unlike the one before"
        talk.judge(SIGNED, talk.signed in {None, signed}, text, "" if signed else "not ")
        talk.signed = signed


def begin(talk: Talk, in_seq: int, first_seq: int | None, *, replays: bool) -> None:
    """Open the link: this end has received messages up to ``in_seq``, and must send ``first_seq`` first."""
    talk.in_seq = talk.acked_seq = in_seq
    talk.first_seq, talk.replays = first_seq, replays


def announce(talk: Talk, in_seq: int, tag: str) -> None:
    """Judge the in_seq that this end announces in a handshake."""
    memory = talk.memory
    if memory is None or talk.position < memory.until:
        return
    if memory.received is not None and not talk.gap:
        text = "{} announces in_seq {}; seq {} was acknowledged, and seq {} is the last one received"
        holds = memory.acked <= in_seq <= memory.received
        talk.judge(IN_SEQ, holds, text, tag, in_seq, memory.acked, memory.received)
    memory.received = memory.acked = in_seq
