"""V1: messages, acknowledgements and keepalives of msgr v1, and sessions after a broken link."""

from functools import partial

from messenger.denc.features import CLIENT_FEATURES, Feature
from messenger.outputs import EventKind
from messenger.v1.wire import FLAG_LOSSY, Close, KeepAlive, KeepAlive2, KeepAlive2Ack, Tag
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import ACCEPTOR, CONNECTOR, SOON, breaks, stage
from toolkit.lab.ways import V1_WAYS
from toolkit.scenarios.protocol_v1 import V1
from toolkit.scenarios.shared.by_hand import acknowledge, acks, asked, hang_up, messages, opened, resume

ROLES = {"connector": {"role": CONNECTOR}, "acceptor": {"role": ACCEPTOR}}

DECISIONS = {
    # policy, where the link breaks, whether something is queued: the state that follows
    "lossy client open": ("lossy_client", "open", False, "CLOSED"),
    "lossy client open queued": ("lossy_client", "open", True, "CLOSED"),
    "lossless client open": ("lossless_client", "open", False, "CONNECTING"),
    "lossless client open queued": ("lossless_client", "open", True, "CONNECTING"),
    "peer open": ("lossless_peer", "open", False, "STANDBY"),
    "peer open queued": ("lossless_peer", "open", True, "CONNECTING"),
    "server open": ("stateful_server", "open", False, "STANDBY"),
    "server open queued": ("stateful_server", "open", True, "STANDBY"),
    "lossy server open": ("stateless_registered_server", "open", False, "CLOSED"),
    "lossy server open queued": ("stateless_registered_server", "open", True, "CLOSED"),
    "lossless client connecting": ("lossless_client", "connecting", False, "CONNECTING"),
    "lossless client connecting queued": ("lossless_client", "connecting", True, "CONNECTING"),
    "peer connecting": ("lossless_peer", "connecting", False, "STANDBY"),
    "peer connecting queued": ("lossless_peer", "connecting", True, "CONNECTING"),
    "peer waiting": ("lossless_peer", "waiting", True, "WAIT"),
    "lossless client waiting": ("lossless_client", "waiting", False, "WAIT"),
}


@V1.scenario(
    "V1-13",
    "fault_decision_table",
    ways=V1_WAYS,
    cases={name: {"row": row} for name, row in DECISIONS.items()},
)
def fault_decision_table(lab: Lab, row: tuple[str, str, bool, str]) -> None:
    """After a broken link a session ends, stands by, waits or dials, depending on its policy, state and queue.

    Under each policy a link breaks: an open one, one that the node is dialling, or one that got WAIT; with nothing
    to send, or with a message that is queued or unacknowledged. A lossy session that was open ends with one reset
    event; a peer with nothing to send goes to STANDBY; a server waits for its client; a node with something to
    send dials at once after an open link, with connect_seq one higher, and after a pause when a dial failed, with
    the same connect_seq; a node that got WAIT waits.
    """
    policy, where, queued, wanted = row
    server = policy.endswith("server")
    pause_s, slack_s = (0.25, 0.2) if lab.real_time else (0.5, 0.05)
    backoff = {"ms_initial_backoff": pause_s, "ms_max_backoff": 4 * pause_s}
    peer = stage(lab, ACCEPTOR if server else CONNECTOR, policy=policy, **backoff)
    if where == "open":
        link = peer.dial("a") if server else peer.accept("a")
        if policy == "lossy_client":  # the acceptor decides whether a session is lossy
            link.handshake(until=link.connect)
            link.answer(flags=FLAG_LOSSY)
            link.seq()
        else:
            link.handshake()
        lab.expect_state("a", "b", "READY")
        if queued:
            lab.send("a", "b")
            lab.wait(0.05)
        seq = lab.session("a", "b")["connect_seq"]
        hang_up(lab, link)
    else:
        if queued:
            lab.send("a", "b")
        link = peer.accept("a")
        link.handshake(until=link.connect)
        connect, step = link.authenticated()
        seq = connect.connect_seq
        if where == "waiting":
            breaks(lab, link, lambda: link.send(link.reply_to(connect, Tag.WAIT, authorizer=step.payload)), "RACE")
        else:
            hang_up(lab, link)
    at = lab.records("a", "fault")[-1].time_s
    lab.wait(0.002)  # an open link may have been on another shard
    lab.expect_state("a", "b", wanted)
    if wanted == "CLOSED":
        lab.expect_event("a", "b", "reset")
        peer.expect_no_dial(6 * pause_s)
        return
    if wanted == "STANDBY":
        peer.expect_no_dial(6 * pause_s)
        return
    lab.wait_for_dials("a", 2)
    after_s = lab.records("a", "link", action="dial")[1].time_s - at
    expected_s = {"open": 0.0, "connecting": pause_s, "waiting": 4 * pause_s}[where]
    lab.require(
        abs(after_s - expected_s) < slack_s, f"dialled again after {after_s:g} s, {expected_s:g} s expected"
    )
    again = peer.accept("a")
    again.handshake(until=again.connect)
    connect_seq = again.authenticated()[0].connect_seq
    lab.require(connect_seq == seq + (where == "open"), f"connect_seq {connect_seq} behind {seq}")


@V1.scenario("V1-14", "requeue_ack_old_skip", priority=2, ways=V1_WAYS)
def requeue_ack_old_skip(lab: Lab) -> None:
    """Replay, acknowledgement, a duplicate and a gap keep to their rules in one session.

    A node has sent six messages, two of them acknowledged, when a duplicate and a gap come from the peer and the
    link breaks. On the next link the node announces the seq behind the gap, replays the four unacknowledged
    messages unchanged, then sends those queued meanwhile, and accepts the peer's next message.
    """
    peer, link = opened(lab, CONNECTOR)
    lab.send("a", "b", 6)
    messages(link)
    acknowledge(lab, link, 2)
    link.send_messages(1, 1, 4)
    lab.expect_delivered("b", "a", 2)
    lab.require(lab.tids("a") == [1, 4], f"delivered were {lab.tids('a')}")
    lab.require(acks(link)[-1] == 4, "4 is not acknowledged")
    hang_up(lab, link)
    lab.send("a", "b", 2)
    link = peer.accept("a")
    resume(lab, link, asked(lab, link), 2)
    received = [(message.seq, message.tid) for message in messages(link)]
    lab.require(received == [(n, n) for n in range(3, 9)], f"{received} came")
    link.send_messages(5)
    lab.expect_delivered("b", "a", 3)
    acknowledge(lab, link, 8)
    lab.expect_acked("a")


SPOILT = {
    # where, counted from the end of a message with front, middle and data of 10 bytes and a footer of 21, and why
    "header": (5, "HEADER_CRC"),
    "header crc": (50, "HEADER_CRC"),
    "front": (-51, "SEGMENT_CRC"),
    "middle": (-41, "SEGMENT_CRC"),
    "data": (-31, "SEGMENT_CRC"),
    "front crc": (-21, "SEGMENT_CRC"),
    "middle crc": (-17, "SEGMENT_CRC"),
    "data crc": (-13, "SEGMENT_CRC"),
    "signature": (-9, "MESSAGE_SIGNATURE"),
}


@V1.scenario(
    "V1-15",
    "footer_header_integrity",
    ways=V1_WAYS,
    cases={name: {"at": at, "reason": reason} for name, (at, reason) in SPOILT.items()}
    | {
        "aborted": {"at": 0, "reason": "ABORTED"},
        "nocrc": {"at": 0, "reason": ""},
        "old layout": {"at": 0, "reason": "old"},
    },
)
def footer_header_integrity(lab: Lab, at: int, reason: str) -> None:
    """A message with a wrong header, part, crc or signature is not delivered, and breaks its link.

    One byte of a message is changed: in its header, in each part, in each crc, or in the signature, which covers
    the crcs, so that data and its crc cannot be changed together. The message before it is delivered. A footer
    with the flag for data without crc is accepted, one with the flag for aborted breaks the link. Peers without
    MSG_AUTH send the shorter footer, without a signature.
    """
    peer = stage(lab, ACCEPTOR)
    link = peer.dial("a")
    if reason == "old":
        link.features = CLIENT_FEATURES & ~int(Feature.MSG_AUTH)
    link.handshake()
    link.send_messages(1)
    lab.expect_delivered("b", "a", 1)
    raw = bytearray(link.message(2, front=b"f" * 10, middle=b"m" * 10, data=b"d" * 10))
    if reason == "old":
        lab.require(len(raw) == 1 + 53 + 30 + 13, f"a message of {len(raw)} bytes")
        link.write(bytes(raw))
        lab.expect_delivered("b", "a", 2)
    elif reason == "":
        link.write(_without_data_crc(link))
        lab.expect_delivered("b", "a", 2)
    else:
        raw[at or -1] ^= 1
        breaks(lab, link, partial(link.write, bytes(raw)), reason)
        lab.require(lab.tids("a") == [1], f"delivered were {lab.tids('a')}")
        _changed_with_its_crc(lab, peer)


def _without_data_crc(link: object) -> bytes:
    """A signed message whose footer has the flag for data without crc."""
    from messenger.cephx.signature import message_signer  # noqa: PLC0415
    from messenger.v1.framing import MessageWriter  # noqa: PLC0415
    from toolkit.node.raw.v1 import RawV1Link  # noqa: PLC0415

    assert isinstance(link, RawV1Link)
    assert link.reply is not None
    signer = message_signer(link.result, link.reply.features & link.features)
    link.writer = MessageWriter(signer, sum_data=False)
    return link.message(2, data=b"no crc of this")


def _changed_with_its_crc(lab: Lab, peer: object) -> None:
    """Send a message whose data and crc were changed together, as an attacker without the session key can do."""
    from messenger.crc import crc32c  # noqa: PLC0415
    from toolkit.node.raw.peer import RawPeer  # noqa: PLC0415

    assert isinstance(peer, RawPeer)
    link = peer.dial("a").handshake()
    raw = bytearray(link.message(9, data=b"d" * 10))
    raw[-31:-21] = b"x" * 10
    raw[-13:-9] = crc32c(b"x" * 10, 0).to_bytes(4, "little")
    breaks(lab, link, partial(link.write, bytes(raw)), "MESSAGE_SIGNATURE")
    lab.require(9 not in lab.tids("a"), "a changed message was delivered")


@V1.scenario(
    "V1-17",
    "throttle_states",
    priority=2,
    ways=V1_WAYS,
    cases={f"{part} of it": {"part": part} for part in (0.0, 0.1, 0.5, 0.95, 1.0)},
)
def throttle_states(lab: Lab, part: float) -> None:
    """A link that breaks inside a message returns what the message took from the throttles.

    Messages fill the dispatch throttle while the application keeps them; another one is cut off before its header,
    in it, in its parts, or in its footer. Once the application has released its messages, and the link is gone,
    the throttle is at zero, and the next link's messages pass.
    """
    peer, link = opened(lab, ACCEPTOR, ms_dispatch_throttle_bytes=4000 * max(lab.way.workers, 1))
    lab.hold("a")
    link.write(link.message(1, data=bytes(1500)) + link.message(2, data=bytes(1500)))
    lab.expect_delivered("b", "a", 2)
    raw = link.message(3, data=bytes(1500))
    link.write(raw[: int(len(raw) * part)])
    lab.wait(0.05)
    link.hang_up()
    lab.wait(0.05)
    lab.release("a")  # the node may notice the end of the stream only when it reads on
    lab.expect_fault_count("a", 1)
    lab.expect_throttles_empty("a")
    lab.expect_memory("a", 0)
    link = peer.dial("a").handshake()
    link.send_messages(1)
    lab.wait_until(lambda: lab.tids("a")[-1:] == [1], "the next link's message is delivered")
    lab.expect_throttles_empty("a")


@V1.scenario("V1-18", "tag_close_unknown_tag_keepalive", ways=V1_WAYS, cases=ROLES)
def tag_close_unknown_tag_keepalive(lab: Lab, role: str) -> None:
    """KEEPALIVE2 is answered and KEEPALIVE is not; an unknown tag breaks the link; CLOSE ends the session.

    Each KEEPALIVE2 gets one answer with its own timestamp, KEEPALIVE none; KEEPALIVE2_ACK updates the time of the
    last answer. An undefined tag breaks the link; a lossless session goes on with the next one. CLOSE ends the
    session: the application gets one reset event, and neither side dials.
    """
    peer, link = opened(lab, role)
    link.send(KeepAlive())
    lab.require(link.rest(0.1) == [], "something answers a KEEPALIVE")
    for nanoseconds in (789, 790):
        link.send(KeepAlive2(123456, nanoseconds))
        answers = [(type(frame), frame.seconds, frame.nanoseconds) for frame in link.rest(0.1)]
        lab.require(answers == [(KeepAlive2Ack, 123456, nanoseconds)], f"{answers} came")
    link.send(KeepAlive2Ack(1000, 0))
    if not lab.way.workers:
        lab.wait_until(lambda: lab.session("a", "b")["keepalive_acked_s"] == 1000.0, "the answer is taken")
    breaks(lab, link, partial(link.write, b"\x63"), "UNKNOWN_TAG")
    link = (peer.accept("a") if role == CONNECTOR else peer.dial("a")).handshake()
    lab.expect_state("a", "b", "READY")
    breaks(lab, link, partial(link.send, Close()), "PEER_CLOSED")
    lab.expect_state("a", "b", "CLOSED")
    peer.expect_no_dial(0.3)
    resets = lab.events("a", "b", EventKind.RESET)
    lab.require(resets == 1, f"CLOSE raises one reset event, {resets} came")


DELAYS = {end: {"end": end} for end in ("fault", "reset", "stop")}


@V1.scenario("V1-19", "delayed_delivery", priority=2, ways=V1_WAYS, cases=DELAYS)
def delayed_delivery(lab: Lab, end: str) -> None:
    """A fault flushes messages under an injected delay, a reset discards them.

    Each message is delayed by up to five seconds, and meanwhile the link breaks, the peer resets the session, or
    the messenger is shut down. After a fault all are delivered at once, in order; after a reset or a shutdown none
    of the delayed ones is delivered.
    """
    options = {"ms_inject_delay_type": "osd", "ms_inject_delay_probability": 1.0, "ms_inject_delay_max": 5.0}
    peer, link = opened(lab, ACCEPTOR, **options)
    link.send_messages(1, 2, 3, 4, 5)
    lab.wait(0.02)
    lab.require(len(lab.tids("a")) < 5, "nothing is held back")
    if end == "fault":
        hang_up(lab, link)
        lab.expect_delivered("b", "a", 5, within_s=1.0)
        lab.require(lab.tids("a") == [1, 2, 3, 4, 5], f"delivered were {lab.tids('a')}")
        return
    if end == "reset":
        peer.dial("a").handshake()
        lab.expect_event("a", "b", "remote_reset")
    else:
        lab.stop("a")
        lab.expect_stopped("a")
    before = len(lab.tids("a"))
    lab.wait(0.5 if lab.real_time else 6.0)
    lab.require(len(lab.tids("a")) == before, f"delivered were {lab.tids('a')}")


@V1.scenario(
    "V1-20",
    "socket_failure_injection",
    priority=2,
    ways=V1_WAYS,
    cases={"often": {"every": 10}, "seldom": {"every": 60}},
)
def socket_failure_injection(lab: Lab, every: int) -> None:
    """A socket that fails in reading or writing is one fault and loses no message.

    A share of the reads and writes of both sides finds its socket shut down while they send each other messages.
    Each link breaks for one reason, and every message arrives once and in order.
    """
    lab.two(ms_inject_socket_failures=every, **SOON)
    for _ in range(10):
        lab.send("a", "b", 10)
        lab.send("b", "a", 10)
        lab.wait(0.05)
    for name in "ab":
        lab.configure(name, ms_inject_socket_failures=0)
    lab.expect_delivered("b", "a", 100)
    lab.expect_delivered("a", "b", 100)
    for name in "ab":
        lab.require(lab.tids(name) == [*range(1, 101)], f"{name} got {lab.tids(name)}")
        links = [record["link"] for record in lab.records(name, "fault")]
        lab.require(len(links) == len(set(links)), f"links of {name} broke twice: {links}")
    lab.require(lab.records("a", "inject") + lab.records("b", "inject") != [], "nothing failed")
    lab.settle()


SHUTDOWNS = {name: {"how": name} for name in ("loopback", "lossless", "lossy", "deaf")}


@V1.scenario("V1-22", "loopback_and_shutdown", ways=V1_WAYS, cases=SHUTDOWNS)
def loopback_and_shutdown(lab: Lab, how: str) -> None:
    """The connection to oneself needs no socket, and a graceful close sends its queue first.

    A node that sends to itself delivers at once, without a dial. A graceful shutdown waits until the last message
    of a lossless session is acknowledged, and until that of a lossy one is written; for a peer that never
    acknowledges it waits ``ms_shutdown_timeout`` at most.
    """
    timeout_s = 0.5 if lab.real_time else 5.0
    if how == "loopback":
        lab.node("a", "osd.1", "lossless_peer")
        lab.start()
        lab.send("a", "a", 3)
        lab.expect_delivered("a", "a", 3)
        lab.require(lab.dials("a") == 0, "a has dialled")
        return
    if how == "deaf":
        peer, link = opened(lab, CONNECTOR, ms_shutdown_timeout=timeout_s)
        lab.send("a", "b")
        lab.require(len(messages(link)) == 1, "no message came")
        began_s = lab.history[-1].time_s
        lab.stop("a", graceful=True)
        lab.expect_stopped("a", within_s=2 * timeout_s)
        took_s = lab.history[-1].time_s - began_s
        lab.require(took_s >= 0.8 * timeout_s, f"it waited {took_s:g} s only")
        del peer
        return
    if how == "lossless":
        lab.two("lossless_peer_reuse", ms_shutdown_timeout=timeout_s)
    else:
        lab.two("lossy_client", "stateless_server", "client.7", "osd.2", ms_shutdown_timeout=timeout_s)
    lab.connect("a", "b")
    lab.send("a", "b", 50, size_bytes=2000)
    lab.stop("a", graceful=True)
    lab.expect_stopped("a")
    lab.expect_delivered("a", "b", 50)
    lab.require(lab.tids("b") == [*range(1, 51)], f"delivered were {lab.tids('b')}")


@V1.scenario("V1-25", "old_header_throttled", priority=2, ways=V1_WAYS)
def old_header_throttled(lab: Lab) -> None:
    """Messages with the header of peers without NOSRCADDR wait for a throttle as others do.

    One side lacks NOSRCADDR, so both use the longer header that has two names with addresses. Its message throttle
    of two stops reading after two messages, which the application keeps; once they are released the rest arrives
    in order.
    """
    lab.node("a", "osd.1", "lossless_peer")
    old = CLIENT_FEATURES & ~Feature.NOSRCADDR
    lab.node(
        "b", "osd.2", "lossless_peer", throttle={"messages": 2 * max(1, lab.way.workers)}, features_supported=old
    )
    lab.start()
    lab.connect("a", "b")
    lab.hold("b")
    lab.send("a", "b", 6, size_bytes=3000)
    lab.expect_delivered("a", "b", 2)
    lab.wait(0.2)
    lab.require(lab.delivered("a", "b") == 2, f"{lab.delivered('a', 'b')} messages were delivered, two may be")
    lab.release("b")
    lab.expect_delivered("a", "b", 6)
    lab.require(lab.tids("b") == [1, 2, 3, 4, 5, 6], f"the order was {lab.tids('b')}")
    lab.settle()
