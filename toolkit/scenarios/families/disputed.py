"""Rows about disputed rules (docs/disputes.md), a case for each setting, with a peer by hand."""

from collections.abc import Callable
from dataclasses import replace

from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.v1.wire import KeepAlive2 as V1KeepAlive2
from messenger.v1.wire import KeepAlive2Ack as V1KeepAlive2Ack
from messenger.v2.wire import ClientIdent, Hello, KeepAlive2, KeepAlive2Ack, SessionReconnectOk, SessionReset, Tag
from toolkit.scenarios.families.by_hand.common import asked, hang_up, messages, opened, resume
from toolkit.scenarios.families.hs import HS
from toolkit.scenarios.families.ka import KA
from toolkit.scenarios.families.lc import LC
from toolkit.scenarios.families.mf.family import FEW_V2_WAYS, FEW_WAYS, MF, early_and_late
from toolkit.scenarios.families.mf.preambles import goes_on, proper
from toolkit.scenarios.families.nf import NF
from toolkit.scenarios.families.rs import RS
from toolkit.scenarios.families.settings import settings
from toolkit.scenarios.lab import Lab
from toolkit.scenarios.raw.frames import RawFrame
from toolkit.scenarios.raw.link import RawLink
from toolkit.scenarios.raw.peer import RawPeer
from toolkit.scenarios.raw.places import ACCEPTOR, CONNECTOR, SOON, Place, arrive, breaks, stage
from toolkit.scenarios.raw.v2 import RawV2Link

_FOREIGN = EntityAddr.from_host("192.0.2.9", 0)
"""On no host of a lab."""


@HS.scenario(
    "HS-16-rule",
    "server_addresses",
    rules=("server_addresses",),
    ways=FEW_V2_WAYS,
    cases=settings("server_addresses"),
)
def server_addresses(lab: Lab, rule: str) -> None:
    """Which addresses SERVER_IDENT may name beside the dialled one is a matter of a rule.

    The peer names another address of msgr2 before the one that was dialled. Where ``server_addresses`` says
    contain, as AsyncMessenger does, that is whom the node looked for; where it says exact, as crimson and the
    kernel do, it is somebody else, and the link breaks. Behind the dialled address one of v1 is right by both.
    """
    peer = stage(lab, CONNECTOR, server_addresses=rule)
    dialled = peer.spec.addrs.front
    other = EntityAddr.from_host("127.0.0.1", 9, AddressType.MSGR2).with_nonce(77)
    old = other.with_type(AddressType.LEGACY).with_nonce(dialled.nonce)
    for addrs in (AddrVec((other, dialled)), AddrVec((dialled, old))):
        link = peer.accept("a")
        link.handshake(until=link.ident)
        wish = link.await_next()
        ident = link.server_ident(addrs=addrs)
        if rule == "exact" and addrs.front == other:
            breaks(lab, link, lambda: link.send(ident), "WRONG_TARGET")  # noqa: B023 - called at once
            continue
        lab.require(isinstance(wish, ClientIdent), f"{wish} came where CLIENT_IDENT is due")
        link.send(ident)
        lab.expect_state("a", "b", "READY")
        return


@HS.scenario("HS-14-rule", "hello_addr", rules=("hello_addr",), ways=FEW_V2_WAYS, cases=settings("hello_addr"))
def hello_addr(lab: Lab, rule: str) -> None:
    """A connector that has dialled a foreign port or nonce, as HELLO tells, is refused or not by a rule.

    The peer's HELLO has the node's address with another nonce. By ``hello_addr`` any is accepted, since addresses
    may be translated on the way, or, as crimson does, the link breaks. The node's own port and nonce on another IP
    are accepted by both.
    """
    peer = stage(lab, ACCEPTOR, hello_addr=rule)
    for change in ("nonce", "ip"):
        link = peer.dial("a")
        link.handshake(until=link.hello)
        own = link.other.addr
        seen = own.with_nonce(own.nonce ^ 1) if change == "nonce" else own.with_ip_of(_FOREIGN)
        if change == "nonce" and rule == "own":
            breaks(lab, link, lambda: link.hello(peer_addr=seen), "WRONG_TARGET")  # noqa: B023 - called at once
            continue
        link.hello(peer_addr=seen)
        for step in link.steps[link.steps.index(link.hello) + 1 :]:
            step()
        lab.expect_state("a", "b", "READY")
        return


@NF.scenario(
    "NF-08-rule",
    "portless_peer",
    priority=2,
    rules=("portless_peer",),
    ways=FEW_WAYS,
    cases=settings("portless_peer"),
)
def portless_peer(lab: Lab, rule: str) -> None:
    """A connector without a port is refused or not by a rule if the policy makes the acceptor dial it again.

    A peer whose address has port 0 dials a lossless peer. By ``portless_peer`` it gets its session, or, as by
    crimson, the link breaks, since the session could not be dialled again.
    """
    peer = stage(lab, ACCEPTOR, policy="lossless_peer", portless_peer=rule)
    own = peer.spec.addrs.front
    link = peer.dial("a").pretend(AddrVec((replace(own, port=0),)))
    _opens_or_breaks(lab, peer, link, opens=rule == "accept")


@LC.scenario(
    "LC-08-rule",
    "server_number",
    priority=2,
    rules=("server_number",),
    ways=FEW_V2_WAYS,
    cases=settings("server_number"),
)
def server_number(lab: Lab, rule: str) -> None:
    """A server that comes back with another number keeps the session or not by a rule.

    A client resumes its session, is told by a reset that is not full to begin a new one, and gets SERVER_IDENT
    with another gid. By ``server_number`` the peer has that number from now on, or, as by crimson, the session
    ends by a reset event.
    """
    peer, link = opened(lab, CONNECTOR, server_number=rule)
    hang_up(lab, link)
    link = peer.accept("a")
    asked(lab, link)
    link.send(SessionReset(full=False))
    link.expect(ClientIdent)
    ident = link.server_ident(gid=link.name.num + 1)
    if rule == "close":
        breaks(lab, link, lambda: link.send(ident), "PEER_NUMBER")
        lab.expect_event("a", "b", "reset")
        lab.expect("a", "registry", 0)
        return
    link.send(ident)
    lab.expect_state("a", "b", "READY")
    lab.expect_no_event("a", "b", "reset")


@KA.scenario("KA-01-rule", "server_keepalive", rules=("server_keepalive",), cases=settings("server_keepalive"))
def server_keepalive(lab: Lab, rule: str) -> None:
    """Whether a server may ask for a sign of life is a matter of a rule; a client may.

    The peer sends KEEPALIVE2 on a link that the node has dialled. By ``server_keepalive`` it is answered with the
    same stamp, or, as by the kernel, breaks the link. On a link that the node has accepted it is answered by both.
    """
    question, answer = (V1KeepAlive2, V1KeepAlive2Ack) if lab.is_v1 else (KeepAlive2, KeepAlive2Ack)
    peer, link = opened(lab, CONNECTOR, policy="lossless_peer", server_keepalive=rule)
    if rule == "fault":
        breaks(lab, link, lambda: link.send(question(11, 22)), "UNEXPECTED_FRAME")
    else:
        link.send(question(11, 22))
        lab.require(link.skip_to(answer) == answer(11, 22), "the answer has another stamp")
        hang_up(lab, link)
    lab.expect_state("a", "b", "STANDBY")
    accepted = peer.dial("a").handshake()
    accepted.send(question(33, 44))
    lab.require(accepted.skip_to(answer) == answer(33, 44), "the answer has another stamp")


@RS.scenario(
    "RS-02-rule",
    "partial_reset_obeyed",
    rules=("partial_reset",),
    ways=FEW_V2_WAYS,
    cases=settings("partial_reset"),
)
def partial_reset(lab: Lab, rule: str) -> None:
    """Whether a reset may leave the queue alone is a matter of a rule.

    A client would resume its session and is answered by SESSION_RESET that is not full. By ``partial_reset`` it
    identifies itself on the same link, or, as the kernel, takes it for nonsense and dials again. Nothing that was
    queued is lost by either, and nobody is told of a reset.
    """
    peer, link = opened(lab, CONNECTOR, partial_reset=rule)
    lab.send("a", "b", 2)
    lab.require([message.tid for message in messages(link)] == [1, 2], "two messages did not come")
    hang_up(lab, link)
    link = peer.accept("a")
    wish = asked(lab, link)
    if rule == "fault":
        breaks(lab, link, lambda: link.send(SessionReset(full=False)), "UNEXPECTED_FRAME")
        link = peer.accept("a")
        resume(lab, link, asked(lab, link), 0)
    else:
        link.send(SessionReset(full=False))
        again = link.expect(ClientIdent)
        lab.require(again.client_cookie == wish.client_cookie, "it identifies itself as somebody else")
        link.send(link.server_ident())
    lab.require([message.tid for message in messages(link)] == [1, 2], "what was queued does not come again")
    lab.expect_no_event("a", "b", "remote_reset")


@RS.scenario(
    "RS-07-rule",
    "reconnect_cookies",
    priority=2,
    rules=("reconnect_cookies",),
    ways=FEW_V2_WAYS,
    cases=settings("reconnect_cookies"),
)
def reconnect_cookies(lab: Lab, rule: str) -> None:
    """How much of a session a peer must know to resume it is a matter of a rule.

    The link of a session breaks, and the peer comes back with its client_cookie and another server_cookie, as
    after two dials that took each other's place. By ``reconnect_cookies`` both must fit, and it must identify
    itself anew by a reset that is not full; or the client_cookie alone, as AsyncMessenger and crimson have it.
    """
    peer, link = opened(lab, ACCEPTOR, policy="lossless_peer", reconnect_cookies=rule)
    hang_up(lab, link)
    again = peer.dial("a")
    again.handshake(until=again.ident)
    again.global_seq = link.global_seq + 1
    again.client_cookie = link.client_cookie
    again.server_cookie = link.server_cookie
    again.send(again.session_reconnect(server_cookie=link.server_cookie ^ 1))
    if rule == "client":
        again.expect(SessionReconnectOk)
    else:
        lab.require(not again.expect(SessionReset).full, "the reset is full")
        again.ident()
    lab.expect_state("a", "b", "READY")
    lab.expect_no_event("a", "b", "remote_reset")


_WRONG = {3, 65535}


@MF.scenario(
    "MF-06-rule",
    "segment_alignment",
    priority=2,
    rules=("segment_alignment",),
    ways=FEW_V2_WAYS,
    cases=settings("segment_alignment"),
)
def segment_alignment(lab: Lab, rule: str) -> None:
    """Whether an alignment must be one is a matter of a rule.

    Frames come whose alignments are powers of two, or 0; all of them are taken. Frames with alignments of 3 and of
    65535 are taken too, unless ``segment_alignment`` has them checked, as AsyncMessenger does in effect.
    """
    peer = stage(lab, ACCEPTOR, segment_alignment=rule)
    number = 0
    for alignments in ((0, 1, 2, 32768), (3, 8, 8, 4096), (8, 8, 8, 65535)):
        for place in early_and_late(ACCEPTOR):
            link = arrive(peer, place)
            frame = proper(link, place, number + 1, alignments=alignments)
            if rule == "ignored" or not _WRONG.intersection(alignments[: len(frame.segments)]):
                number += place.state == "READY"
                link.write(frame.encode(link.seal))
                goes_on(lab, link, place, number)
            else:
                breaks(lab, link, lambda: link.write(frame.encode(link.seal)), "FRAME", state=place.state)  # noqa: B023


@MF.scenario(
    "MF-09-rule",
    "control_segments",
    rules=("control_segments",),
    ways=FEW_V2_WAYS,
    cases=settings("control_segments"),
)
def control_segments(lab: Lab, rule: str) -> None:
    """Whether a control frame may have several segments is a matter of a rule.

    HELLO and KEEPALIVE2 come with other segments before the one that they are. By ``control_segments`` a frame
    with several is malformed and breaks the link, or, as by AsyncMessenger and crimson, its last one counts.
    """
    peer = stage(lab, ACCEPTOR, control_segments=rule)
    for place in early_and_late(ACCEPTOR):
        for more in (1, 2, 3):
            link = arrive(peer, place)
            frame = _several(link, place, more)
            if rule == "one":
                breaks(lab, link, lambda: link.write(frame), "FRAME", state=place.state)  # noqa: B023
                continue
            link.write(frame)
            if place.before:
                link.expect(Hello)
            else:
                lab.require(
                    link.skip_to(KeepAlive2Ack) == KeepAlive2Ack(55, 66), "the last segment does not count"
                )
            hang_up(lab, link)


def _several(link: RawV2Link, place: Place, more: int) -> bytes:
    """HELLO or KEEPALIVE2 behind other segments."""
    if place.before:
        tag, payload = Tag.HELLO, Hello(link.name.type, link.other.addr).encode()
    else:
        tag, payload = Tag.KEEPALIVE2, KeepAlive2(55, 66).encode()
    return RawFrame(tag, (*[b"x" * len(payload)] * more, payload)).encode(link.seal)


def _opens_or_breaks(lab: Lab, peer: RawPeer, link: RawLink, *, opens: bool) -> None:
    """The link opens a session, or breaks, and a link that pretends nothing opens one."""
    if not opens:
        breaks(lab, link, link.handshake, "MALFORMED")
        lab.expect("a", "registry", 0)
        link = peer.dial("a")
    link.handshake()
    lab.expect_state("a", "b", "READY")


@MF.scenario(
    "MF-17-rule",
    "peer_addresses",
    priority=2,
    rules=("peer_addresses",),
    ways=FEW_WAYS,
    cases=settings("peer_addresses"),
)
def peer_addresses(lab: Lab, rule: str) -> None:
    """Whether a peer may be at home elsewhere than where it dials from is a matter of a rule.

    A peer dials and tells an address on another host as its own. By ``peer_addresses`` it is believed, for it may
    be behind a NAT, or, as by crimson, the link breaks. With an address on the host that it dials from it gets its
    session by both.
    """
    peer = stage(lab, ACCEPTOR, peer_addresses=rule)
    own = peer.spec.addrs.front
    elsewhere = EntityAddr.from_host("127.7.7.7", own.port, own.type).with_nonce(own.nonce)
    link = peer.dial("a").pretend(AddrVec((elsewhere,)))
    _opens_or_breaks(lab, peer, link, opens=rule == "any")


@MF.scenario(
    "MF-18-rule",
    "peer_identity",
    priority=2,
    rules=("peer_identity",),
    ways=FEW_WAYS,
    cases=settings("peer_identity"),
)
def peer_identity(lab: Lab, rule: str) -> None:
    """Whether addresses alone make a peer is a matter of a rule.

    osd.2 has a session with a node. osd.3, which has proven to be osd.3, dials and tells osd.2's addresses as its
    own. By ``peer_identity`` the session is osd.2's by its name, and the link breaks; or, as by AsyncMessenger, it
    is whoever's those addresses are: osd.2 loses its link, and the application hears of a reset.
    """
    b = lab.raw("b", "osd.2")
    c = lab.raw("c", "osd.3")
    lab.node("a", "osd.1", "lossless_peer_reuse", peer_identity=rule, **SOON)
    lab.start()
    link = b.dial("a").handshake()
    link.send_messages(1, 2)
    lab.expect_delivered("a", "b", 2)
    before = lab.session("a", "b")
    other = c.dial("a").pretend(b.spec.addrs)
    other.global_seq = 9
    if isinstance(other, RawV2Link):
        other.client_cookie = 77
    dial: Callable[[], object] = other.handshake
    if rule == "name":
        breaks(lab, other, dial, "PEER_IDENTITY")
        lab.require(lab.session("a", "b") == before, "the session of osd.2 is not what it was")
        lab.require(not link.closed, "osd.2 has lost its link")
        link.send_messages(3)
        lab.expect_delivered("a", "b", 3)
        lab.expect_no_event("a", "b", "remote_reset")
        return
    dial()
    lab.expect_event("a", "b", "remote_reset")
    link.expect_closed()
