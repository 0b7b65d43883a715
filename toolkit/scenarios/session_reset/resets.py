"""RS: sessions that are reset, retried and refused, with a raw peer."""

from collections.abc import Callable, Sequence
from typing import Any

from messenger.cephx.exchange import AuthDone
from messenger.v1.wire import Connect, ConnectReply
from messenger.v1.wire import Tag as V1Tag
from messenger.v2.wire import (
    ClientIdent,
    ServerIdent,
    SessionReconnect,
    SessionReset,
    SessionRetry,
    SessionRetryGlobal,
    Tag,
    Wait,
)
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import ACCEPTOR, CONNECTOR, SOON, V2_PLACES, arrive, breaks, stage, v2_samples
from toolkit.lab.ways import V2_WAYS, ways
from toolkit.node.raw.v1 import RawV1Link
from toolkit.node.raw.v2 import SERVER_COOKIE
from toolkit.scenarios.session_reset import RS
from toolkit.scenarios.shared.by_hand import (
    acknowledge,
    acks,
    asked,
    hang_up,
    messages,
    opened,
    refuse_session,
    resume,
)


@RS.scenario(
    "RS-01", "full_reset_with_resetcheck", cases={"clients": {"nodes": True}, "by hand": {"nodes": False}}
)
def full_reset_with_resetcheck(lab: Lab, nodes: bool) -> None:  # noqa: FBT001 - a case
    """A full reset drops the client's queue, raises one remote_reset event and restarts both seqs.

    Some of a client's messages are acknowledged and some not when the link breaks and the server loses the
    session: it restarts, or a raw peer answers as if it had. The client's SESSION_RECONNECT is answered with a
    full reset. It drops its unacknowledged messages, raises one remote_reset event before any event of the new
    session, and opens that on the same link with a new cookie, or with connect_seq 0. On v2 the seqs of the new
    session are 1, 2 and so on in both directions, and so are their acknowledgements; on v1, where the first seq
    may be any, the client's seqs are consecutive.
    """
    if nodes:
        _server_killed(lab)
        return
    peer, link = opened(lab, CONNECTOR)
    lab.send("a", "b", 4)
    first = messages(link)
    lab.require([message.tid for message in first] == [1, 2, 3, 4], f"{first} came")
    acknowledge(lab, link, 2)
    link.send_messages(1, 2, 3)
    lab.expect_delivered("b", "a", 3)
    lab.wait(0.05)
    old_cookie = link.client_cookie if not lab.is_v1 else 0
    hang_up(lab, link)
    link = peer.accept("a")
    wish = asked(lab, link)
    refuse_session(lab, link, wish)
    if lab.is_v1:
        again = link.expect(Connect)
        lab.require(again.connect_seq == 0, f"{again} after RESETSESSION")
        _open_v1(link, again)
    else:
        ident = link.expect(ClientIdent)
        lab.require(ident.client_cookie not in {0, old_cookie}, "the new session has the old cookie")
        link.send(link.server_ident())
    lab.expect_state("a", "b", "READY")
    lab.expect_events("a", "b", connect=2, remote_reset=1)
    lab.send("a", "b", 2)
    second = messages(link)
    lab.require([message.tid for message in second] == [5, 6], f"what was dropped came: {second}")
    seqs = [message.seq for message in second]
    first_seq = seqs[0] if lab.is_v1 else 1
    lab.require(seqs == [first_seq, first_seq + 1], f"seqs of the new session: {seqs}")
    link.send_messages(1)
    lab.expect_delivered("b", "a", 4)
    lab.require(acks(link) == [1], "the new session's first message is not acknowledged as such")


def _open_v1(link: object, connect: Connect) -> None:
    """Grant a CONNECT that repeats its last authorizer."""
    assert isinstance(link, RawV1Link)
    step = link.judge(connect)
    assert isinstance(step, AuthDone)
    link.reply = link.reply_to(connect, V1Tag.SEQ, authorizer=step.payload)
    link.agree(link.reply.features & connect.features)
    link.send(link.reply)
    link.seq()


def _server_killed(lab: Lab) -> None:
    lab.two("lossless_client", "stateful_server", "client.7", "mds.0", **SOON)
    lab.connect("a", "b")
    lab.exchange(count=5)
    lab.expect_acked("a")
    lab.kill("b")
    lab.send("a", "b", 3)
    lab.revive("b")
    lab.expect_event("a", "b", "remote_reset")
    lab.expect_state("a", "b", "READY")
    lab.send("a", "b", 2)
    lab.expect_delivered("a", "b", 7)
    arrived = [(record["tid"], record["seq"]) for record in lab.records("b", "deliver")][-2:]
    first_seq = arrived[0][1] if lab.is_v1 else 1
    lab.require(arrived == [(9, first_seq), (10, first_seq + 1)], f"delivered were {arrived}, by tid and seq")
    lab.expect_events("a", "b", connect=2, remote_reset=1)
    lab.settle()


@RS.scenario(
    "RS-05",
    "reset_retry_loop",
)
def reset_retry_loop(lab: Lab) -> None:
    """A session that one side has lost is open again after three rounds at most.

    A node's session was reset by its peer, and the link broke before the new one was open: the node is in STANDBY
    without a session. Now the peer dials to resume the old session. The node answers with a reset; the peer asks
    for a new session and gets it. Reset and retry do not repeat.
    """
    peer, link = opened(lab, CONNECTOR, policy="lossless_peer_reuse")
    lab.send("a", "b")
    messages(link)
    hang_up(lab, link)
    link = peer.accept("a")
    refuse_session(lab, link, asked(lab, link))
    lab.expect_event("a", "b", "remote_reset")
    hang_up(lab, link)
    lab.expect_state("a", "b", "STANDBY")
    link = peer.dial("a")
    replies: list[str] = []
    if lab.is_v1:
        link.handshake(until=link.connect)
        reply = link.converse(connect_seq=5)
        while reply.tag not in {V1Tag.SEQ, V1Tag.READY} and len(replies) < 5:
            replies.append(reply.tag.name)
            last = link.connects[-1]
            seqs = {
                V1Tag.RESETSESSION: (last.global_seq, 0),
                V1Tag.RETRY_GLOBAL: (reply.global_seq + 1, last.connect_seq),
                V1Tag.RETRY_SESSION: (last.global_seq, reply.connect_seq),
            }[reply.tag]
            reply = link.converse(global_seq=seqs[0], connect_seq=seqs[1])
        link.seq()
    else:
        link.handshake(until=link.ident)
        link.send(link.session_reconnect(connect_seq=5, global_seq=99, server_cookie=7, client_cookie=8))
        replies.append(f"RESET {link.expect(SessionReset).full}")
        link.send(link.client_ident(global_seq=99))
        link.expect(ServerIdent)
    lab.expect_state("a", "b", "READY")
    lab.require(len(replies) <= 2, f"the third round is not the last: {replies}")
    lab.require(replies[0] in {"RESET True", "RESETSESSION"}, f"the lost session is answered by {replies[0]}")
    link.send_messages(1)
    lab.expect_delivered("b", "a", 1)


CHAINS = {
    "behind": {"value": 7, "good": True},
    "not larger": {"value": 0, "good": False},
    "for ever": {"value": 7, "good": False, "rounds": 20},
}


@RS.scenario("RS-06", "retry_chain", cases=CHAINS)
def retry_chain(lab: Lab, value: int, good: bool, rounds: int = 1) -> None:  # noqa: FBT001 - a case
    """SESSION_RETRY raises connect_seq once and the session resumes; a value not above it is a fault.

    A node resumes its session and gets SESSION_RETRY with a higher connect_seq. On the same link it tries again,
    with a connect_seq above that. A value that is not above its own breaks the link; so does a peer that answers
    with SESSION_RETRY again and again.
    """
    peer, link = opened(lab, CONNECTOR)
    lab.send("a", "b")
    messages(link)
    hang_up(lab, link)
    link = peer.accept("a")
    wish = asked(lab, link)
    before = wish.connect_seq
    if not good:
        breaks(lab, link, lambda: _retry(lab, link, wish, value, rounds), "UNEXPECTED_FRAME", "STALE")
        return
    wish = _retry(lab, link, wish, value, rounds)
    wanted = value if lab.is_v1 else value + 1
    lab.require(wish.connect_seq == wanted > before, f"told {value}, the node asks with {wish.connect_seq}")
    if lab.is_v1:
        _open_v1(link, wish)
    else:
        resume(lab, link, wish, 1)
    lab.expect_state("a", "b", "READY")
    lab.expect_events("a", "b", connect=2)


def _retry(lab: Lab, link: Any, wish: Any, value: int, rounds: int) -> Any:  # noqa: ANN401 - of either protocol
    for number in range(rounds):
        if lab.is_v1:
            link.send(link.reply_to(wish, V1Tag.RETRY_SESSION, connect_seq=value + number))
            wish = link.expect(Connect)
        else:
            link.send(SessionRetry(value + number))
            wish = link.expect(SessionReconnect)
    return wish


@RS.scenario(
    "RS-07",
    "retry_global_chain",
    priority=2,
    cases={"told": {"flips": 0}, "no room": {"flips": 0, "room": False}, "two of one address": {"flips": 6}},
)
def retry_global_chain(lab: Lab, flips: int, room: bool = True) -> None:  # noqa: FBT001, FBT002 - a case
    """After RETRY_GLOBAL a connector has a larger global_seq, for this and all later dials, if there is one.

    A node that resumes its session gets RETRY_GLOBAL: it tries again on the same link with a larger global_seq,
    and no later dial has a lower one. The largest possible number breaks the link and is not adopted: the next
    dial increments the node's own. Where two processes with one address take a session from each other in turn,
    each dial is accepted once, each lost session raises an event, and the node itself does not dial.
    """
    if flips:
        _flip_flop(lab, flips)
        return
    peer, link = opened(lab, CONNECTOR)
    hang_up(lab, link)
    link = peer.accept("a")
    wish = asked(lab, link)
    if not room:
        most = (1 << (32 if lab.is_v1 else 64)) - 1
        retry = link.reply_to(wish, V1Tag.RETRY_GLOBAL, global_seq=most) if lab.is_v1 else SessionRetryGlobal(most)
        breaks(lab, link, lambda: link.send(retry), "MALFORMED")
        later = asked(lab, peer.accept("a"))
        lab.require(later.global_seq == wish.global_seq + 1, f"a later dial has {later.global_seq}")
        return
    if lab.is_v1:
        link.send(link.reply_to(wish, V1Tag.RETRY_GLOBAL, global_seq=1000))
        wish = link.expect(Connect)
        _open_v1(link, wish)
    else:
        link.send(SessionRetryGlobal(1000))
        wish = link.expect(SessionReconnect)
        resume(lab, link, wish, 0)
    lab.require(wish.global_seq > 1000, f"told 1000, the node asks with {wish.global_seq}")
    lab.expect_state("a", "b", "READY")
    hang_up(lab, link)
    later = asked(lab, peer.accept("a"))
    lab.require(later.global_seq > wish.global_seq, f"a later dial has {later.global_seq}")


def _flip_flop(lab: Lab, flips: int) -> None:
    peer = stage(lab, ACCEPTOR)
    for number in range(1, flips + 1):
        link = peer.dial("a")
        if not lab.is_v1:
            link.client_cookie = 1000 + number
        link.handshake()
        link.send_messages(1)
        lab.expect_delivered("b", "a", number)
    lab.expect_events("a", "b", accept=flips, remote_reset=flips - 1)
    lab.require(lab.dials("a") == 0, "the node has dialled")
    lab.expect("a", "registry", 1)


_WAITS: dict[str, dict[str, Any]] = {
    "obey": {"rule": "obey"},
    "obey, nothing to send": {"rule": "obey", "queued": 0},
    "fault": {"rule": "fault"},
}


@RS.scenario("RS-08", "wait_frame", priority=2, rules=("server_wait",), cases=_WAITS)
def wait_frame(lab: Lab, rule: str, queued: int = 1) -> None:
    """After WAIT a node waits for the peer's dial, and dials again itself after ms_max_backoff.

    A node's dial is answered with WAIT, with a message in its queue or without. It keeps the message and dials
    again after ``ms_max_backoff``, no sooner; after another WAIT it accepts the peer's dial, and dials no more. If
    ``server_wait`` is fault, WAIT breaks the link like any unexpected frame, and the next dial comes after
    ``ms_initial_backoff``.
    """
    pause_s = 1.0 if lab.real_time else 3.0
    options = {"ms_initial_backoff": 0.01, "ms_max_backoff": pause_s, "server_wait": rule}
    peer = stage(lab, CONNECTOR, policy="lossless_peer", **options)
    lab.send("a", "b", queued)
    _make_wait(lab, peer.accept("a"), "RACE" if rule == "obey" else "UNEXPECTED_FRAME")
    if rule == "fault":
        peer.accept("a", within_s=pause_s / 2).handshake()
        return
    lab.expect_state("a", "b", "WAIT")
    waits_s = lab.records("a", "fault")[-1].time_s
    link = peer.accept("a", within_s=2 * pause_s)
    waited_s = lab.records("a", "link", action="dial")[-1].time_s - waits_s
    lab.require(
        pause_s - 0.001 <= waited_s < 1.5 * pause_s, f"the node has waited {waited_s} s, {pause_s} s are due"
    )
    _make_wait(lab, link, "RACE")
    lab.expect_state("a", "b", "WAIT")
    theirs = peer.dial("a").handshake()
    lab.expect_state("a", "b", "READY")
    sent = [message.tid for message in messages(theirs)]
    lab.require(sent == [1] * queued, f"on the peer's link came the messages {sent}")
    peer.expect_no_dial(2 * pause_s)


def _make_wait(lab: Lab, link: Any, reason: str) -> None:  # noqa: ANN401 - of either protocol
    """Answer the node's wish for a session with WAIT, and require that its link breaks for that reason."""
    wait: ConnectReply | Wait
    if lab.is_v1:
        link.handshake(until=link.connect)
        connect, _ = link.authenticated()
        wait = link.reply_to(connect, V1Tag.WAIT)
    else:
        link.handshake(until=link.ident)
        link.expect(ClientIdent)
        wait = Wait()
    breaks(lab, link, lambda: link.send(wait), reason)


@RS.scenario("RS-11", "server_cookie_zero", priority=2, ways=V2_WAYS, provokes=("cookies",))
def server_cookie_zero(lab: Lab) -> None:
    """A lossless session whose SERVER_IDENT has server_cookie 0 is not resumed: CLIENT_IDENT comes again.

    A peer grants a session without LOSSY and with server_cookie 0, and does not acknowledge three messages. After
    a fault the node sends CLIENT_IDENT with the same client_cookie, and replays the three with their seqs. Without
    a server_cookie, neither a failed dial nor the end of STANDBY raises connect_seq: after a link that brought a
    server_cookie, the next begins with SESSION_RECONNECT, whose connect_seq is the number of open links that
    broke, two. The second dial that the peer closes raises a refused event.
    """
    peer = stage(lab, CONNECTOR, policy="lossless_peer")
    hang_up(lab, peer.accept("a"))
    lab.expect_state("a", "b", "STANDBY")
    lab.send("a", "b", 3)
    cookies = []
    for granted in (0, None, None, SERVER_COOKIE):
        link = peer.accept("a")
        link.handshake(until=link.ident)
        cookies.append(link.expect(ClientIdent).client_cookie)
        if granted is None:  # a dial that fails
            hang_up(lab, link)
            continue
        link.send(link.server_ident(server_cookie=granted))
        lab.expect_state("a", "b", "READY")
        received = [(message.seq, message.tid) for message in messages(link)]
        lab.require(received == [(1, 1), (2, 2), (3, 3)], f"{received} came by seq and tid")
        hang_up(lab, link)
    lab.require(len(set(cookies)) == 1 and cookies[0], f"the client_cookies were {cookies}")
    wish = asked(lab, peer.accept("a"))
    lab.require((wish.server_cookie, wish.connect_seq) == (SERVER_COOKIE, 2), f"{wish} came")
    lab.expect_events("a", "b", connect=2, refused=1)


UNEXPECTED = (
    *(Tag.SESSION_RESET, Tag.SESSION_RETRY, Tag.SESSION_RETRY_GLOBAL, Tag.WAIT),
    *(Tag.SESSION_RECONNECT_OK, Tag.SERVER_IDENT),
)
_STAYING = ("client_cookie", "server_cookie", "peer_global_seq", "in_seq", "acked_seq")


@RS.scenario("RS-09", "reset_at_each_state", ways=ways("v2-crc", "v2-secure", "v2-compressed", "v2-crc-w2", "v1"))
def reset_at_each_state(lab: Lab) -> None:
    """An unsolicited session reply breaks the link and leaves the session unchanged.

    In every state of a client's links SESSION_RESET, SESSION_RETRY, SESSION_RETRY_GLOBAL, WAIT,
    SESSION_RECONNECT_OK and SERVER_IDENT arrive where that state does not accept them; on v1 every reply arrives
    on an open link. Each breaks the link. Cookies, seqs, queued and unacknowledged messages stay, the application
    gets no reset event, and the session resumes on the next link.
    """
    peer = stage(lab, CONNECTOR)
    link = peer.accept("a").handshake()
    lab.send("a", "b", 2)
    messages(link)
    if lab.is_v1:
        for reply in _V1_REPLIES:
            _unchanged(lab, link, lambda: link.send(ConnectReply(reply, 0, 9, 9)))  # noqa: B023 - called at once
            link = peer.accept("a").handshake()
            again = [message.tid for message in messages(link)]
            lab.require(again == [1, 2], f"not acknowledged was 1 and 2, {again} came after {reply.name}")
        return
    hang_up(lab, link)
    for place in V2_PLACES:
        if (
            place.role != CONNECTOR
            or place.before == "compression"
            or (place.before == "ident" and not place.resumes)
        ):
            continue
        for tag in UNEXPECTED:
            if tag in place.takes:
                continue
            link = arrive(peer, place)
            _unchanged(lab, link, lambda: link.send(v2_samples(link)[tag]))  # noqa: B023
            fault = lab.last_fault("a")
            lab.require(fault.endswith(f"in {place.state}: {tag.name}"), f"{fault} to {tag.name} in {place.state}")
    link = peer.accept("a").handshake()
    lab.require([message.tid for message in messages(link)] == [1, 2], "what was not acknowledged is gone")
    lab.expect_no_event("a", "b", "remote_reset")
    lab.expect_no_event("a", "b", "reset")


_V1_REPLIES: Sequence[V1Tag] = (V1Tag.RESETSESSION, V1Tag.RETRY_SESSION, V1Tag.RETRY_GLOBAL, V1Tag.WAIT, V1Tag.SEQ)


def _unchanged(lab: Lab, link: Any, send: Callable[[], object]) -> None:  # noqa: ANN401 - as above
    lab.wait(0.02)  # a link that has just opened may still be on its way to another shard
    before = lab.session("a", "b")
    breaks(lab, link, send, "UNEXPECTED_FRAME")
    after = lab.session("a", "b")
    lab.require(all(before[name] == after[name] for name in _STAYING), f"the session was {before}, and is {after}")
    lab.require(
        after["queued"] + after["sent"] == before["queued"] + before["sent"], f"messages are lost: {after}"
    )


ORDERS: dict[str, dict[str, Any]] = {
    "at once": {"options": {}},
    "by priority": {"options": {"dispatch_by_priority": True}},
    "delayed": {
        "options": {"ms_inject_delay_type": "osd", "ms_inject_delay_probability": 1.0, "ms_inject_delay_max": 0.2}
    },
}


@RS.scenario("RS-10", "event_order", cases=ORDERS)
def event_order(lab: Lab, options: dict[str, Any]) -> None:
    """remote_reset comes between the messages of the old session and those of the new one.

    A peer sends messages, then opens a new session on a new link and sends more. No message of the old session is
    dispatched after remote_reset, and none of the new one before it: with direct dispatch, with dispatch by
    priority, and with an injected delay, where the reset may drop delayed messages.
    """
    peer, link = opened(lab, ACCEPTOR, **options)
    link.send_messages(1, 2, 3)
    link = peer.dial("a")
    if not lab.is_v1:
        link.client_cookie += 1
    link.handshake()
    link.write(b"".join(link.message(seq, tid=100 + seq) for seq in (1, 2)))
    lab.wait_until(lambda: lab.tids("a")[-1:] == [102], "the new session's messages")
    story = [
        record["event"] if record.kind == "event" else record["tid"]
        for record in lab.history.node("a")
        if record.kind in {"event", "deliver"}
    ]
    at = story.index("remote_reset")
    old = [tid for tid in story if isinstance(tid, int) and tid < 100]
    lab.require(old == [1, 2, 3][: len(old)], f"of the old session {old} were dispatched")
    lab.require(bool(options) or len(old) == 3, f"{old} of 1 to 3 were dispatched")
    lab.require(all(story.index(tid) < at for tid in old), f"told in this order: {story}")
    lab.require(story[at:] == ["remote_reset", "accept", 101, 102], f"told in this order: {story}")
