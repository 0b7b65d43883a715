"""SQ: sequence numbers, acknowledgements and replay, with a raw peer or between nodes."""

from itertools import pairwise

from messenger.batch import BATCH_BYTES
from messenger.v2.wire import SessionReconnectOk, Tag
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import ACCEPTOR, CONNECTOR, breaks
from toolkit.lab.ways import V2_WAYS, ways
from toolkit.node.raw.frames import ABORTED, RawFrame
from toolkit.scenarios.sequence_numbers import SQ
from toolkit.scenarios.shared.by_hand import (
    acknowledge,
    acks,
    asked,
    hang_up,
    header,
    messages,
    opened,
    refuse_session,
    resume,
)
from toolkit.scenarios.shared.node_states import ROLES
from toolkit.scenarios.shared.settings import settings

_ONE_SEGMENT = ways("v2-crc", "v2-crc-w2", "v2-secure", "v2-secure-aes256k", "v2-secure-w2")


@SQ.scenario("SQ-01", "long_order", quick=False, cases={"4 000": {"count": 4000, "cuts": 25}})
def long_order(lab: Lab, count: int, cuts: int) -> None:
    """Thousands of numbered messages both ways arrive in order over many broken links.

    Two peers send each other messages without pause while their link is cut again and again, at any byte. Each
    message arrives once, in order, and unchanged.
    """
    if lab.real_time:
        count, cuts = count // 4, cuts // 5
    lab.two()
    lab.connect("a", "b")
    for part in range(cuts):
        for name, peer in ("a", "b"), ("b", "a"):
            lab.send(name, peer, count // cuts, size_bytes=lab.rng.choice((0, 10, 100, 2000)))
        lab.wait(lab.rng.random() * 0.02)
        if part % 3 != 2:
            lab.cut("a", "b")
    for name, peer in ("a", "b"), ("b", "a"):
        lab.expect_delivered(peer, name, count, within_s=60)
        lab.require(lab.tids(name) == list(range(1, count + 1)), f"{name} got them in another order")
    lab.require(lab.dials("a") + lab.dials("b") >= 4, "hardly a link was cut")
    lab.settle()


@SQ.scenario("SQ-02", "old_seq_dropped_reader_alive", cases=ROLES)
def old_seq_dropped_reader_alive(lab: Lab, role: str) -> None:
    """A duplicate message is dropped, and the link goes on reading.

    An open link carries messages 1 to 3, then 2 and 3 again, then 4. The node delivers each once, message 4 within
    a second on the same link; the duplicates hold no throttle, and are counted.
    """
    _, link = opened(lab, role)
    link.send_messages(1, 2, 3)
    lab.expect_delivered("b", "a", 3)
    link.send_messages(2)
    link.send_messages(3)
    link.send_messages(4)
    lab.expect_delivered("b", "a", 4, within_s=1.0)
    lab.require(lab.tids("a") == [1, 2, 3, 4], f"delivered were {lab.tids('a')}")
    lab.expect_throttles_empty("a")
    lab.require(not link.closed, f"the link broke: {lab.last_fault('a')}")
    lab.require(acks(link)[-1] == 4, "the last acknowledgement is not of the last message")
    if not lab.way.workers:
        lab.require(lab.session("a", "b")["old_messages"] == 2, "two duplicates are not counted as such")


@SQ.scenario("SQ-03", "skipped_seq", rules=("skipped_seq",), cases=settings("skipped_seq"))
def skipped_seq(lab: Lab, rule: str) -> None:
    """skipped_seq decides if a gap in the sequence numbers is accepted.

    Message 3 follows message 1. If ``skipped_seq`` is accept, as in userspace, the node delivers it, counts the
    gap, and acknowledges 3. If it is fault, as in the kernel, the link breaks and message 3 is not delivered.
    """
    _, link = opened(lab, ACCEPTOR, skipped_seq=rule)
    link.send_messages(1)
    lab.expect_delivered("b", "a", 1)
    if rule == "fault":
        breaks(lab, link, lambda: link.send_messages(3), "SKIPPED_SEQ")
        lab.require(lab.tids("a") == [1], f"delivered were {lab.tids('a')}")
        return
    link.send_messages(3)
    lab.expect_delivered("b", "a", 2)
    lab.require(lab.tids("a") == [1, 3], f"delivered were {lab.tids('a')}")
    lab.require(acks(link)[-1] == 3, "what is acknowledged is not the last message")


def _holds(lab: Lab, acked: int, sent: int) -> None:
    """Wait until a's session has this acked_seq, and keeps this number of messages for replay."""
    lab.wait_until(
        lambda: (lab.session("a", "b")["acked_seq"], lab.session("a", "b")["sent"]) == (acked, sent),
        f"{acked} acknowledged and {sent} kept",
    )


@SQ.scenario("SQ-04", "ack_trims", cases=ROLES)
def ack_trims(lab: Lab, role: str) -> None:
    """An ACK drops all sent messages up to its number, and only an ACK does.

    A node has sent ten messages. After an ACK of 4 it keeps six for replay; after another ACK of 4, or one of 2,
    it still keeps six; after an ACK of 10 it keeps none. When the link breaks it replays the six on the next one.
    """
    peer, link = opened(lab, role)
    lab.send("a", "b", 10)
    lab.require([message.seq for message in messages(link)] == [*range(1, 11)], "ten messages did not come")
    for seq in (4, 4, 2):
        acknowledge(lab, link, seq)
        lab.wait(0.05)
        if not lab.way.workers:
            _holds(lab, 4, 6)
    hang_up(lab, link)
    if role == CONNECTOR:
        link = peer.accept("a")
        resume(lab, link, asked(lab, link), 4)
    else:
        link = peer.dial("a")
        if lab.is_v1:
            link.handshake(until=link.connect)
            reply = link.converse(connect_seq=5)
            link.converse(global_seq=reply.global_seq + 1, connect_seq=5)
            link.seq(4)
        else:
            link.client_cookie = peer.links[0].client_cookie
            link.handshake(until=link.ident)
            link.send(link.session_reconnect(msg_seq=4))
            link.expect(SessionReconnectOk)
    again = messages(link)
    lab.require([message.seq for message in again] == [*range(5, 11)], f"{again} came again")
    acknowledge(lab, link, 10)
    lab.expect_acked("a")


@SQ.scenario(
    "SQ-05", "ack_from_the_future", priority=2, rules=("ack_beyond_sent",), cases=settings("ack_beyond_sent")
)
def ack_from_the_future(lab: Lab, rule: str) -> None:
    """An ACK above the last sent message is ignored or a fault, by ack_beyond_sent.

    Three messages are unacknowledged when the peer acknowledges 1 000 000, and then 2^64 - 1. Either the node
    takes the three for acknowledged, keeps its counters in range, and takes no later message for acknowledged
    before it is; or the link breaks and the three are replayed, depending on ``ack_beyond_sent``.
    """
    peer, link = opened(lab, CONNECTOR, ack_beyond_sent=rule)
    lab.send("a", "b", 3)
    messages(link)
    if rule == "fault":
        breaks(lab, link, lambda: acknowledge(lab, link, 1_000_000), "UNSENT_SEQ")
        link = peer.accept("a").handshake()
        lab.require([message.tid for message in messages(link)] == [1, 2, 3], "what is kept is not sent again")
        return
    for seq in (1_000_000, (1 << 64) - 1):
        acknowledge(lab, link, seq)
    lab.wait(0.05)  # the ACK must arrive before the next messages are sent
    lab.expect_acked("a")
    lab.send("a", "b", 2)
    lab.require([message.seq for message in messages(link)] == [4, 5], "the next messages are not 4 and 5")
    hang_up(lab, link)
    link = peer.accept("a")
    resume(lab, link, asked(lab, link), 3)
    lab.require([message.tid for message in messages(link)] == [4, 5], "4 and 5 were taken for acknowledged")
    acknowledge(lab, link, 5)
    lab.expect_acked("a")


@SQ.scenario("SQ-06", "ack_in_header", ways=V2_WAYS)
def ack_in_header(lab: Lab) -> None:
    """ack_seq in a message header acknowledges like an ACK frame.

    A node has sent six messages. The peer sends it a message with ack_seq 4: the node keeps two for replay.
    """
    _, link = opened(lab, CONNECTOR)
    lab.send("a", "b", 6)
    messages(link)
    link.send_messages(1, ack_seq=4)
    lab.expect_delivered("b", "a", 1)
    if not lab.way.workers:
        _holds(lab, 4, 2)
    link.send_messages(2, ack_seq=6)
    lab.expect_acked("a")


_MOST_SEQ = 1 << 63
"""The highest seq from which a node continues after a peer announced a higher one."""
BEYOND = {
    f"{rule} {seq}": {"rule": rule, "seq": seq}
    for rule in ("adopt", "fault")
    for seq in (100, 1 << 31, (1 << 64) - 1)
}


@SQ.scenario("SQ-08", "discard_beyond_queue", rules=("in_seq_beyond_sent",), cases=BEYOND)
def discard_beyond_queue(lab: Lab, rule: str, seq: int) -> None:
    """in_seq_beyond_sent decides if a peer may announce a higher in_seq than was sent.

    A node has sent three messages and resumes its session. The peer announces an in_seq of 100, 2^31, or 2^64 - 1.
    Either the node drops all messages that it would replay, and continues its seqs from that number, from 2^63 at
    most, so that they stay within 64 bits; or the link breaks and the three are replayed, depending on
    ``in_seq_beyond_sent``.
    """
    peer, link = opened(lab, CONNECTOR, in_seq_beyond_sent=rule)
    lab.send("a", "b", 3)
    messages(link)
    hang_up(lab, link)
    link = peer.accept("a")
    wish = asked(lab, link)
    if rule == "fault":
        breaks(lab, link, lambda: resume(lab, link, wish, seq), "UNSENT_SEQ")
        link = peer.accept("a")
        resume(lab, link, asked(lab, link), 0)
        lab.require([message.tid for message in messages(link)] == [1, 2, 3], "what is kept is not sent again")
        return
    resume(lab, link, wish, seq)
    lab.expect_acked("a")
    seq = min(seq, _MOST_SEQ)
    lab.send("a", "b", 2)
    received = messages(link)
    lab.require([(m.seq, m.tid) for m in received] == [(seq + 1, 4), (seq + 2, 5)], f"{received} came next")
    acknowledge(lab, link, seq + 2)
    lab.expect_acked("a")


@SQ.scenario("SQ-09", "requeue_before_new")
def requeue_before_new(lab: Lab) -> None:
    """Replayed messages precede newer ones of any priority and keep their numbers.

    Three messages are unacknowledged when the link breaks; without a link one of low, one of high and one of
    normal priority are sent. The next link carries the three with their seqs and in order, then the others by
    priority, numbered as they are written.
    """
    peer, link = opened(lab, CONNECTOR)
    lab.send("a", "b", 3, priority=64)
    lab.require([message.seq for message in messages(link)] == [1, 2, 3], "three messages did not come")
    hang_up(lab, link)
    lab.send("a", "b", priority=64)
    lab.send("a", "b", priority=255)
    lab.send("a", "b", priority=127)
    link = peer.accept("a")
    resume(lab, link, asked(lab, link), 0)
    received = [(message.seq, message.tid) for message in messages(link)]
    lab.require(received == [(1, 1), (2, 2), (3, 3), (4, 5), (5, 6), (6, 4)], f"on the next link came {received}")
    acknowledge(lab, link, 6)
    lab.expect_acked("a")


@SQ.scenario("SQ-19", "second_break_in_replay", backends=("sim",), only="a socket takes a whole replay at once")
def second_break_in_replay(lab: Lab) -> None:
    """A replay that breaks starts again in order with the same seqs.

    Eight messages, each as long as a batch, are unacknowledged when the link breaks. The next link breaks after
    three of them were replayed, the one after that after five; the last one carries all eight, then a new message.
    """
    count, size_bytes = 8, BATCH_BYTES
    peer, link = opened(lab, CONNECTOR, write_ahead_bytes=1)
    lab.send("a", "b", count, size_bytes=size_bytes)
    for some in (count, 3, 5, count):
        received: list[tuple[int, int]] = []
        while len(received) < some:
            frame = link.await_next()
            lab.require(hasattr(frame, "tid"), f"{frame} came behind {received}")
            received.append((frame.seq, frame.tid))
        lab.require(received == [(n, n) for n in range(1, some + 1)], f"{received} came, by seq and tid")
        if some < count or len(peer.links) == 1:
            hang_up(lab, link)
            link = peer.accept("a")
            resume(lab, link, asked(lab, link), 0)
    lab.send("a", "b")
    received = [(message.seq, message.tid) for message in messages(link)]
    lab.require(received == [(count + 1, count + 1)], f"behind the replay came {received}")
    acknowledge(lab, link, count + 1)
    lab.expect_acked("a")


@SQ.scenario("SQ-10", "priority_queue", priority=2)
def priority_queue(lab: Lab) -> None:
    """A message of higher priority overtakes queued messages, but none that has a seq.

    Large messages of low priority are queued without a link, then a small one of the highest priority. It is
    written first and gets seq 1; the others follow in the order in which they were sent. After a fault a later
    urgent message does not overtake them, because they have their seqs.
    """
    peer, link = opened(lab, CONNECTOR)
    hang_up(lab, link)
    lab.send("a", "b", 4, size_bytes=200_000, priority=64)
    lab.send("a", "b", priority=255)
    link = peer.accept("a")
    resume(lab, link, asked(lab, link), 0)
    received = [(message.seq, message.tid, len(message.data)) for message in messages(link, 1.0)]
    wanted = [(1, 5, 100), *((seq, seq - 1, 200_000) for seq in range(2, 6))]
    lab.require(received == wanted, f"{received} came")
    hang_up(lab, link)
    lab.send("a", "b", priority=255)
    link = peer.accept("a")
    resume(lab, link, asked(lab, link), 0)
    received = [(message.seq, message.tid, len(message.data)) for message in messages(link, 1.0)]
    lab.require(received == [*wanted, (6, 6, 100)], f"{received} came again")


@SQ.scenario("SQ-11", "acked_counter_after_reset")
def acked_counter_after_reset(lab: Lab) -> None:
    """After a reset both directions count and acknowledge from 1 again.

    The peer has sent five messages when it resets the session. Messages of the new session are numbered from 1,
    and so are their acknowledgements: the first is 1, not 6. When the new session is resumed, the announced in_seq
    counts its messages alone.
    """
    peer, link = opened(lab, CONNECTOR)
    link.send_messages(1, 2, 3, 4, 5)
    lab.require(acks(link)[-1] == 5, "five messages are not acknowledged")
    hang_up(lab, link)
    link = peer.accept("a")
    refuse_session(lab, link, asked(lab, link))
    lab.expect_event("a", "b", "remote_reset")
    hang_up(lab, link)
    link = peer.accept("a").handshake()
    link.send_messages(1)
    lab.expect_delivered("b", "a", 6)
    acked = acks(link)
    lab.require(acked == [1], f"acknowledged was {acked}")
    link.send_messages(2)
    lab.expect_delivered("b", "a", 7)
    hang_up(lab, link)
    link = peer.accept("a")
    wish = asked(lab, link)
    if not lab.is_v1:
        lab.require(wish.msg_seq == 2, f"{wish.msg_seq} messages are said to have come")
    resume(lab, link, wish, 0)


@SQ.scenario("SQ-12", "one_way_stream_acks")
def one_way_stream_acks(lab: Lab) -> None:
    """A side that sends no messages sends ACK frames, which bound the sender's memory.

    2000 messages go one way and none the other. They are acknowledged while they arrive: the sender never keeps
    more than 1000 of them for replay, and none in the end.
    """
    lab.two()
    lab.connect("a", "b")
    kept = 0
    for _ in range(20):
        lab.send("a", "b", 100, size_bytes=1000)
        lab.wait(0.02)
        kept = max(kept, lab.snapshot("a")["sent"])
    lab.expect_delivered("a", "b", 2000)
    lab.expect_acked("a")
    acked = [frame["fields"]["seq"] for frame in lab.frames("b", "ACK")]
    lab.require(acked[-1] == 2000 and acked == sorted(set(acked)), f"acknowledged was {acked}")
    lab.require(len(acked) >= 10, f"only {len(acked)} acknowledgements for 20 bursts")
    lab.require(kept <= 1000, f"{kept} of 2000 messages were kept at a time")
    lab.require(not lab.messages("b"), "b has sent a message")
    lab.settle()


@SQ.scenario("SQ-13", "ack_coalescing", priority=2, cases=ROLES)
def ack_coalescing(lab: Lab, role: str) -> None:
    """A burst gets few acknowledgements: one for a read, or one for 16 messages while a frame is incomplete.

    1000 messages come in one write. At most ten acknowledgements go back, or on sockets, where the kernel may
    split the write, one for 15 messages. Each has a higher seq than the last, on v1 none covers more than 128
    messages, and the last one covers the last message. Another 1000 come in as many pieces, each of which ends
    inside a message: at most one acknowledgement for 15 of them goes back.
    """
    _, link = opened(lab, role)
    link.send_messages(*range(1, 1001))
    lab.expect_delivered("b", "a", 1000)
    acked = acks(link, 0.5)
    _expect_coalesced(lab, acked, 0, 1000 // 15 if lab.real_time else 1000 // 100)
    rest = b""
    for seq in range(1001, 2001):
        raw = link.message(seq)
        link.write(rest + raw[:20])
        rest = raw[20:]
        if not lab.real_time:
            lab.wait(0.003)  # so that each piece is read by itself
    link.write(rest)
    lab.expect_delivered("b", "a", 2000)
    _expect_coalesced(lab, acks(link, 0.5), 1000, 1000 // 15)


def _expect_coalesced(lab: Lab, acked: list[int], before: int, most: int) -> None:
    """Require at most ``most`` acknowledgements of the thousand messages after ``before``."""
    last = before + 1000
    lab.require(acked[-1] == last, f"the last acknowledgement is {acked[-1]}, not {last}")
    lab.require(len(acked) <= most, f"{len(acked)} acknowledgements, {most} are enough")
    steps = [later - earlier for earlier, later in pairwise([before, *acked])]
    lab.require(min(steps) > 0, f"acknowledged was {acked}")
    lab.require(not lab.is_v1 or max(steps) <= 128, f"acknowledged was {acked}")


@SQ.scenario("SQ-14", "same_object_twice")
def same_object_twice(lab: Lab) -> None:
    """One message object sent twice is two messages with equal bytes.

    An application sends the same object again: before its first copy was acknowledged, and after a fault that
    replayed it. Each copy arrives once, with a seq of its own.
    """
    peer, link = opened(lab, CONNECTOR)
    lab.send("a", "b", size_bytes=1000)
    lab.send_again("a", "b")
    first = messages(link)
    lab.require([message.seq for message in first] == [1, 2], f"{first} came")
    lab.require(bytes(first[0].data) == bytes(first[1].data), "the same object has other bytes")
    hang_up(lab, link)
    lab.send_again("a", "b")
    link = peer.accept("a")
    resume(lab, link, asked(lab, link), 1)
    again = messages(link)
    lab.require(
        [(m.seq, bytes(m.data)) for m in again] == [(seq, bytes(first[0].data)) for seq in (2, 3)], "again"
    )
    acknowledge(lab, link, 3)
    lab.expect_acked("a")


TAKEN = {
    f"{action.lower()} {nth}": {"action": action, "nth": nth}
    for action in ("FAULT", "BLOCK", "STALL")
    for nth in (1, 4)
}


@SQ.scenario(
    "SQ-15",
    "fault_between_dequeue_and_write",
    cases=TAKEN,
)
def fault_between_dequeue_and_write(lab: Lab, action: str, nth: int) -> None:
    """A message that was being written when the link broke is delivered once.

    The link breaks, or is held and then cut, where messages have left the queue and are not written yet, and where
    they have just been written. Each arrives once, in order.
    """
    lab.two()
    lab.connect("a", "b")
    point = lab.point("MESSAGE", "WRITE")
    lab.arm("a", point, action, nth)
    lab.send("a", "b", 6)
    lab.expect_hit("a", point)
    if action != "FAULT":
        lab.send("a", "b", 2)
        lab.cut("a", "b")
        lab.unblock("a", point)
    else:
        lab.send("a", "b", 2)
    lab.expect_delivered("a", "b", 8)
    lab.require(lab.tids("b") == [*range(1, 9)], f"delivered were {lab.tids('b')}")
    lab.settle()


ENDS = {end: {"end": end} for end in ("fault", "reset", "mark down")}


@SQ.scenario("SQ-16", "received_not_dispatched", cases=ENDS)
def received_not_dispatched(lab: Lab, end: str) -> None:
    """Received messages that wait for dispatch survive their link, but not their session.

    An injected delay holds five received messages. If the link breaks meanwhile they are delivered, in order. If
    the peer resets the session, or the application marks it down, none of them is delivered after that.
    """
    slow = {"ms_inject_delay_type": "osd", "ms_inject_delay_probability": 1.0, "ms_inject_delay_max": 0.3}
    peer, link = opened(lab, ACCEPTOR, **slow)
    link.send_messages(1, 2, 3, 4, 5)
    lab.wait(0.02)
    lab.require(len(lab.tids("a")) < 5, "nothing is held back")
    if end == "fault":
        hang_up(lab, link)
        lab.expect_delivered("b", "a", 5)
        lab.require(lab.tids("a") == [1, 2, 3, 4, 5], f"delivered were {lab.tids('a')}")
        return
    before = len(lab.tids("a"))
    if end == "mark down":
        before = len(lab.tids("a"))
        lab.mark_down("a", "b")
        lab.wait(0.5)
        lab.require(len(lab.tids("a")) == before, f"delivered were {lab.tids('a')} after mark_down")
        return
    link = peer.dial("a")
    if not lab.is_v1:
        link.client_cookie += 1
    link.handshake()
    lab.expect_event("a", "b", "remote_reset")
    before = len(lab.tids("a"))
    lab.wait(0.5)
    lab.require(len(lab.tids("a")) == before, f"delivered were {lab.tids('a')} after remote_reset")


SEQS = {f"2^{power}": {"seq": (1 << power) - 2} for power in (31, 32, 63)} | {"random": {"seq": 0}}


@SQ.scenario("SQ-17", "seq_extremes", priority=2, cases=SEQS)
def seq_extremes(lab: Lab, seq: int) -> None:
    """Sequence numbers are compared as unsigned 64-bit values from any start.

    A peer's first seq is random with 31 bits, as after a reset on v1, or just below 2^31, 2^32 or 2^63. That
    message and the next four are delivered and acknowledged, a repeated seq is dropped as a duplicate, and the
    session resumes after a fault.
    """
    seq = seq or lab.rng.getrandbits(31)
    peer, link = opened(lab, CONNECTOR)
    link.send_messages(seq, seq + 1, seq + 2, seq + 3)
    link.send_messages(seq + 2)
    link.send_messages(seq + 4)
    lab.expect_delivered("b", "a", 5)
    lab.require(lab.tids("a") == [seq + n for n in range(5)], f"delivered were {lab.tids('a')}")
    lab.require(acks(link)[-1] == seq + 4, "the last message is not acknowledged")
    hang_up(lab, link)
    link = peer.accept("a")
    wish = asked(lab, link)
    lab.require(lab.is_v1 or wish.msg_seq == seq + 4, "another number is sent")
    resume(lab, link, wish, 0)
    link.send_messages(seq + 4, seq + 5)
    lab.expect_delivered("b", "a", 6)


@SQ.scenario("SQ-18", "aborted_message", rules=("aborted_message",), cases=settings("aborted_message"))
def aborted_message(lab: Lab, rule: str) -> None:
    """A message that its sender aborted is not delivered.

    On v2 the late status of its frame is aborted: the node drops it, the next message may have its seq, and the
    link stays open; or the link breaks, as in the kernel, depending on ``aborted_message``. On v1, where the
    footer lacks the flag for complete, the link always breaks.
    """
    _, link = opened(lab, ACCEPTOR, aborted_message=rule)
    link.send_messages(1)
    lab.expect_delivered("b", "a", 1)
    if lab.is_v1:
        raw = bytearray(link.message(2, data=b"half of it"))
        raw[-1] &= 0xFE
        breaks(lab, link, lambda: link.write(bytes(raw)), "ABORTED")
        lab.require(lab.tids("a") == [1], f"delivered were {lab.tids('a')}")
        return
    aborted = RawFrame(Tag.MESSAGE, (header(2), b"half", b"", b"of it"), late_status=ABORTED)
    if rule == "fault":
        breaks(lab, link, lambda: link.write(aborted.encode(link.seal)), "ABORTED")
        return
    link.write(aborted.encode(link.seal))
    link.send_messages(2)
    lab.expect_delivered("b", "a", 2)
    lab.require(lab.tids("a") == [1, 2], f"delivered were {lab.tids('a')}")
    lab.require(not link.closed, f"the link broke: {lab.last_fault('a')}")
