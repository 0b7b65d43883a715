"""HS: the first frames of a peer: banners, HELLO, addresses, silence, split and joined bytes."""

from typing import Any

from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import EntityType
from messenger.v1.wire import Banner, ServerIdentify
from messenger.v2.wire import BANNER_PREFIX, ClientIdent, encode_banner
from toolkit.faults.mangle import Drop, Join, Mangle
from toolkit.lab.lab import Lab
from toolkit.lab.verbs.policies import PAIRS
from toolkit.lab.ways import ALL_WAYS, V2_WAYS
from toolkit.scenarios.handshake import HS

_V2_STEPS = (
    *(("b", tag, 1) for tag in ("BANNER", "HELLO", "AUTH_REPLY_MORE", "AUTH_DONE", "AUTH_SIGNATURE")),
    *(("b", tag, 1) for tag in ("COMPRESSION_DONE", "SERVER_IDENT")),
    *(("a", tag, 1) for tag in ("BANNER", "HELLO", "AUTH_REQUEST", "AUTH_REQUEST_MORE", "AUTH_SIGNATURE")),
    *(("a", tag, 1) for tag in ("COMPRESSION_REQUEST", "CLIENT_IDENT")),
)
_V1_STEPS = (
    *(
        ("b", tag, nth)
        for tag, nth in (("BANNER", 1), ("IDENTIFY", 1), ("CONNECT_REPLY", 1), ("CONNECT_REPLY", 2))
    ),
    *(("a", tag, nth) for tag, nth in (("BANNER", 1), ("IDENTIFY", 1), ("CONNECT", 1), ("CONNECT", 2))),
    ("b", "SEQ", 1),
    ("a", "SEQ", 1),
)
_SLACK_S = 0.5


@HS.scenario(
    "HS-09",
    "handshake_blackhole_each_step",
    cases={f"step {step}": {"step": step} for step in range(len(_V2_STEPS))},
)
def handshake_blackhole_each_step(lab: Lab, step: int) -> None:
    """A handshake that stalls at any frame times out after ms_connection_ready_timeout.

    From one frame on, the bytes of one side are lost while both sockets stay open. The waiting side closes the
    link after ms_connection_ready_timeout; the connector dials again, and the next link opens and carries the
    queued messages. Each side is left with that one link.
    """
    steps = _V1_STEPS if lab.is_v1 else _V2_STEPS
    sender, tag, nth = steps[step % len(steps)]
    timeout_s, slack_s = (0.7, 0.4) if lab.real_time else (4.0, _SLACK_S)
    PAIRS["client"].start(lab, ms_connection_ready_timeout=timeout_s)
    mangle = lab.mangle("a", "b", Mangle(sender, tag, nth, change=Drop(rest=True)))
    lab.send("a", "b", 2)
    lab.expect_mangled(mangle)
    # After its SEQ a connector of v1 takes the session for open, so the acceptor is the waiting side.
    waiting = "b" if (sender, tag) == ("a", "SEQ") else "a"
    lab.expect_broken(waiting, 1, within_s=timeout_s + _SLACK_S)
    fault = lab.records(waiting, "fault")[0]
    dial = lab.records("a", "link", action="dial")[0]
    lab.require(fault["reason"] == "READY_TIMEOUT", f"why it was given up: {fault['reason']}")
    late_s = fault.time_s - dial.time_s - timeout_s
    lab.require(abs(late_s) < slack_s, f"given up {late_s:+.3f} s from the timeout")
    lab.expect_delivered("a", "b", 2)
    lab.settle(within_s=timeout_s + 1)
    pause_s = lab.records("a", "link", action="dial")[1].time_s - fault.time_s
    due_s = 0.2 if waiting == "a" else 0.0
    lab.require(abs(pause_s - due_s) < max(0.05, slack_s), f"the pause before the next dial is {pause_s:.3f} s")
    lab.require(lab.dials("a") == 2, "the second dial succeeds")
    lab.wait(timeout_s)
    for node in "a", "b":
        lab.require(lab.snapshot(node)["links"] == 1, f"links left at {node}: {lab.snapshot(node)['links']}")


_NOISE = bytes(range(7, 250, 11)) * 3
_BANNERS: dict[str, tuple[bytes | None, str, str]] = {
    "other protocol": (None, "V1_PEER", "V2_PEER"),
    "http": (b"HTTP/1.1 400 Bad Request\r\n\r\n", "NOT_MSGR", "NOT_MSGR"),
    "noise": (_NOISE, "NOT_MSGR", "NOT_MSGR"),
    "nothing": (b"", "READY_TIMEOUT", "READY_TIMEOUT"),
    "half a banner": (b"ceph v", "READY_TIMEOUT", "READY_TIMEOUT"),
}
"""Bytes sent instead of a banner, and the fault of a v2 link and of a v1 link."""


@HS.scenario(
    "HS-10",
    "wrong_banner",
    ways=ALL_WAYS,
    cases={
        f"{banner} {role}": {"banner": banner, "dialled": role == "acceptor"}
        for banner in _BANNERS
        for role in ("connector", "acceptor")
    },
)
def wrong_banner(lab: Lab, banner: str, *, dialled: bool) -> None:
    """A wrong banner breaks the link at once, a missing one after ms_connection_ready_timeout.

    A peer sends the other protocol's banner, other bytes, part of a banner, or nothing. A connector breaks the
    link, pauses and dials again, and the next link opens; a wrong banner raises a refused event. An acceptor
    closes the link and keeps neither link nor session.
    """
    raw, on_v2, on_v1 = _BANNERS[banner]
    reason = on_v1 if lab.is_v1 else on_v2
    if raw is None:
        raw = encode_banner(3, 0) if lab.is_v1 else Banner().encode()
    b = lab.raw("b", listens=not dialled)
    lab.node("a", "osd.1", "lossless_peer", ms_connection_ready_timeout=1.5)
    lab.start()
    if dialled:
        link = b.dial("a")
        link.write(raw)
        link.expect_closed()
        lab.expect_faults("a", reason)
        lab.require(lab.snapshot("a")["links"] == 0, "nothing is kept of the link")
        lab.require(lab.snapshot("a")["registry"] == 0, "nor is a session")
        return
    lab.send("a", "b")
    link = b.accept("a")
    link.write(raw)
    link.expect_closed()
    lab.expect_faults("a", reason)
    proper = b.accept("a")
    lab.expect_events("a", "b", refused=int(reason != "READY_TIMEOUT"))
    proper.handshake()
    lab.expect_event("a", "b", "connect")
    pause_s = lab.dial_pauses_s("a")[0] - (1.5 if reason == "READY_TIMEOUT" else 0)
    lab.require(pause_s >= 0.199, f"the pause before the next dial is {pause_s:.3f} s")
    proper.hang_up()


_SIZES = {size: size >= 16 for size in (0, 8, 15, 16, 17, 1000, 65535)}


@HS.scenario(
    "HS-11",
    "banner_payload_sizes",
    ways=V2_WAYS,
    cases={
        f"{size} bytes {role}": {"size": size, "dialled": role == "acceptor"}
        for size in _SIZES
        for role in ("connector", "acceptor")
    },
)
def banner_payload_sizes(lab: Lab, size: int, *, dialled: bool) -> None:
    """A banner payload may be longer than 16 bytes, but not shorter.

    A payload of fewer than 16 bytes breaks the link. In a longer one the receiver ignores the bytes after the
    first 16, but the signatures cover them. The receiver waits for the whole payload, in however many pieces it
    comes.
    """
    b = lab.raw("b", listens=not dialled)
    lab.node("a", "osd.1", "lossless_peer")
    lab.start()
    if not dialled:
        lab.send("a", "b")
    link = b.dial("a") if dialled else b.accept("a")
    payload = encode_banner(link.features, 0)[len(BANNER_PREFIX) + 2 :] + bytes(size)
    banner = BANNER_PREFIX + size.to_bytes(2, "little") + payload[:size]
    if not _SIZES[size]:
        link.write(banner)
        link.expect_closed()
        lab.expect_faults("a", "BANNER")
        return
    link.write(banner[:-3])
    lab.wait(0.1)
    lab.require(not lab.frames("a", "BANNER", "rx"), "a banner that is not complete was taken")
    link.write(banner[-3:])
    for step in link.steps[1:]:
        step()
    lab.expect_event("a", "b", "accept" if dialled else "connect")
    lab.require(lab.faults("a") == [], f"nothing broke: {lab.faults('a')}")
    link.hang_up()


@HS.scenario(
    "HS-12",
    "banner_required_feature_mismatch",
    ways=V2_WAYS,
    cases={"connector": {"dialled": False}, "acceptor": {"dialled": True}},
)
def banner_required_feature_mismatch(lab: Lab, *, dialled: bool) -> None:
    """A peer that requires an unknown msgr2 feature gets no session and is not dialled again.

    The peer's banner requires an undefined feature bit, which another dial would require too: a connector's
    session ends with a reset event and dials no more; an acceptor closes the link.
    """
    b = lab.raw("b", listens=not dialled)
    lab.node("a", "osd.1", "lossless_peer")
    lab.start()
    if not dialled:
        lab.send("a", "b")
    link = b.dial("a") if dialled else b.accept("a")
    link.banner(required=1 << 40)
    link.expect_closed()
    lab.expect_faults("a", "BANNER_FEATURES")
    if dialled:
        lab.require(lab.snapshot("a")["links"] == 0, "nothing is kept of the link")
        return
    lab.expect_event("a", "b", "reset")
    lab.expect_events("a", "b", reset=1)
    lab.expect_no_dial(2.0, "a")


@HS.scenario("HS-14", "hello_wrong_entity_type", ways=V2_WAYS)
def hello_wrong_entity_type(lab: Lab) -> None:
    """A connector closes the session when the peer's entity type differs from the one it dialled.

    The peer's HELLO has another entity type than the one that was dialled, for which the connector's tickets are
    not meant: the session ends with a reset event before the connector sends AUTH_REQUEST, and it dials no more.
    """
    b = lab.raw("b")
    lab.node("a", "osd.1", "lossless_peer")
    lab.start()
    lab.send("a", "b")
    link = b.accept("a")
    link.banner()
    link.hello(entity_type=EntityType.MON)
    link.expect_closed()
    lab.expect_faults("a", "PEER_TYPE")
    lab.expect_event("a", "b", "reset")
    lab.expect_events("a", "b", reset=1)
    lab.require(not lab.frames("a", "AUTH_REQUEST"), "credentials were shown to the wrong peer")
    lab.expect_no_dial(2.0, "a")


@HS.scenario(
    "HS-16",
    "target_address_mismatch",
    cases={"of the connector": {"ours": True}, "of the acceptor": {"ours": False}},
    ways=ALL_WAYS,
)
def target_address_mismatch(lab: Lab, *, ours: bool) -> None:
    """A session opens only between the addresses that both sides expect.

    As if another daemon had taken over a port: an acceptor whose address is not the target of CLIENT_IDENT breaks
    the link; a connector breaks it if the peer's addresses do not contain the one it dialled, and raises a refused
    event. A peer with the right address then gets the session on the next link. On v1 only the connector checks.
    """
    b = lab.raw("b", listens=ours or lab.is_v1)
    lab.node("a", "osd.1", "lossless_peer")
    lab.start()
    other = EntityAddr.from_host("127.0.0.1", 9, lab.protocol.addr_type).with_nonce(77)
    if not ours and not lab.is_v1:
        link = b.dial("a")
        link.handshake(until=link.ident)
        link.send(link.client_ident(target_addr=other))
        link.expect_closed()
        lab.expect_faults("a", "WRONG_TARGET")
        lab.require(lab.snapshot("a")["registry"] == 0, "no session is left of it")
        again = b.dial("a").handshake()
        lab.expect_event("a", "b", "accept")
        again.hang_up()
        return
    lab.send("a", "b")
    link = b.accept("a")
    if lab.is_v1:
        link.banner()
        link.send(ServerIdentify(other, link.socket_addr))
    else:
        link.handshake(until=link.ident)
        link.expect(ClientIdent)
        link.send(link.server_ident(addrs=AddrVec((other,))))
    link.expect_closed()
    lab.expect_faults("a", "WRONG_TARGET")
    proper = b.accept("a")
    lab.expect_events("a", "b", refused=1)
    proper.handshake()
    lab.expect_event("a", "b", "connect")
    proper.hang_up()


_JOINED_V2 = {
    "bytes": (),
    "hello": (("b", "BANNER"),),
    "auth done": (("b", "AUTH_DONE"),),
    "signature": (("a", "AUTH_SIGNATURE"),),
    "ident": (("b", "SERVER_IDENT"),),
    "all": (("b", "BANNER"), ("b", "AUTH_DONE"), ("a", "AUTH_SIGNATURE"), ("b", "SERVER_IDENT")),
}
_JOINED_V1 = {
    "bytes": (),
    "hello": (("b", "BANNER"),),
    "auth done": (("b", "CONNECT_REPLY", 2),),
    "signature": (("a", "BANNER"),),
    "ident": (("a", "SEQ"),),
    "all": (("b", "BANNER"), ("b", "CONNECT_REPLY", 2)),
}


@HS.scenario("HS-17", "byte_at_a_time", cases={name: {"joined": name} for name in _JOINED_V2})
def byte_at_a_time(lab: Lab, joined: str) -> None:
    """The handshake does not depend on how its bytes are split or joined.

    Every byte arrives by itself; or frames that were written one after the other arrive in one piece, up to the
    first message behind the ident, so that a receiver has bytes of its next state before it is in that state. Each
    side reads the frames that the other wrote, and no message is lost or read twice.
    """
    lab.two("lossless_client", "stateful_server", "client.7", "osd.2")
    if joined == "bytes":
        lab.trickle("a", "b")
    places: tuple[Any, ...] = (_JOINED_V1 if lab.is_v1 else _JOINED_V2)[joined]
    mangles = [lab.mangle("a", "b", Mangle(*place, change=Join())) for place in places]
    lab.dial("a", "b")
    if lab.is_v1:
        lab.send("a", "b", 3)
        lab.expect_delivered("a", "b", 3)
        lab.send("b", "a", 3)
    else:
        # The held ident is joined with the acceptor's first message, so that message must come first.
        lab.expect_event("b", "a", "accept")
        lab.send("b", "a", 3)
        lab.expect_delivered("b", "a", 3)
        lab.send("a", "b", 3)
        lab.expect_delivered("a", "b", 3)
    lab.expect_delivered("b", "a", 3)
    lab.expect_mangled(*mangles)
    lab.settle()
    lab.require(lab.dials("a") == 1 and lab.faults("a") == lab.faults("b") == [], "one link did for it")
    for node, peer in ("a", "b"), ("b", "a"):
        written = [record["tag"] for record in lab.records(node, "frame", direction="tx")]
        read = [record["tag"] for record in lab.records(peer, "frame", direction="rx")]
        lab.require(written == read, f"{node} wrote {written}, {peer} read {read}")
