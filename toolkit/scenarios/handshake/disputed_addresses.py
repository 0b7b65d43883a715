"""HS: disputed rules (docs/disputes.md), a case for each setting, with a raw peer."""

from dataclasses import replace

from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.v2.wire import ClientIdent, ServerIdent, SessionReset
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import ACCEPTOR, CONNECTOR, breaks, leave, stage
from toolkit.scenarios.handshake import HS
from toolkit.scenarios.shared.node_states import FEW_V2_WAYS
from toolkit.scenarios.shared.settings import settings

_FOREIGN = EntityAddr.from_host("192.0.2.9", 0)
"""An address of no host of a lab."""


@HS.scenario(
    "HS-16-rule",
    "server_addresses",
    rules=("server_addresses",),
    ways=FEW_V2_WAYS,
    cases=settings("server_addresses"),
)
def server_addresses(lab: Lab, rule: str) -> None:
    """server_addresses decides which addresses SERVER_IDENT may contain beside the dialled one.

    The peer puts another msgr2 address before the one that was dialled. If ``server_addresses`` is contain, as in
    AsyncMessenger, the node accepts it; if it is exact, as in crimson and the kernel, the node takes it for
    another peer and breaks the link. With both settings it accepts a v1 address behind the dialled one.
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
    """hello_addr decides if an acceptor refuses a HELLO with a foreign port or nonce.

    The peer's HELLO has the node's address with another nonce. The node accepts it, since a NAT may have
    translated the address, or, as crimson does, breaks the link, depending on ``hello_addr``. With both settings
    it accepts its own port and nonce on another IP.
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


@HS.scenario(
    "HS-21-rule",
    "address_after_reset",
    rules=("peer_addresses",),
    ways=FEW_V2_WAYS,
    cases=settings("peer_addresses"),
)
def address_after_reset(lab: Lab, rule: str) -> None:
    """A peer whose reconnect is reset opens a new session on the same link, under the same address.

    The peer asks for a session that the node does not have, gets SESSION_RESET, and sends CLIENT_IDENT. With its
    address of before it gets a session with every setting. With another port, if ``peer_addresses`` is same_host,
    as in crimson, the link breaks; otherwise it gets a session, as with AsyncMessenger.
    """
    peer = stage(lab, ACCEPTOR, peer_addresses=rule)
    own = peer.spec.addrs
    other = AddrVec((replace(own.front, port=own.front.port + 1),))
    for addrs in (own, other):
        link = peer.dial("a")
        link.handshake(until=link.ident)
        link.send(link.session_reconnect(client_cookie=7, server_cookie=8, connect_seq=2))
        lab.require(link.expect(SessionReset).full, "the reset of an unknown session is full")
        ident = link.client_ident(addrs=addrs)
        if addrs is other and rule == "same_host":
            breaks(lab, link, lambda: link.send(ident), "MALFORMED")  # noqa: B023 - called at once
            continue
        link.send(ident)
        lab.require(link.expect(ServerIdent).flags == 0, "a session that is not lossy is granted")
        leave(lab, link)
        lab.mark_down("a", "b")


@HS.scenario(
    "HS-22",
    "type_of_an_announced_address",
    rules=("peer_addresses",),
    ways=FEW_V2_WAYS,
    cases=settings("peer_addresses"),
)
def type_of_an_announced_address(lab: Lab, rule: str) -> None:
    """peer_addresses decides if a peer on v2 may announce a v1 address first.

    CLIENT_IDENT has the peer's address with type v1. If ``peer_addresses`` is same_host, as in crimson, the link
    breaks: the node could not dial that address by v2. Otherwise the peer gets a session, as with AsyncMessenger.
    The address with type msgr2 or any is accepted with both settings.
    """
    peer = stage(lab, ACCEPTOR, peer_addresses=rule)
    for kind in (AddressType.LEGACY, AddressType.ANY, AddressType.MSGR2):
        link = peer.dial("a")
        link.handshake(until=link.ident)
        ident = link.client_ident(addrs=AddrVec((peer.spec.addrs.front.with_type(kind),)))
        if kind is AddressType.LEGACY and rule == "same_host":
            breaks(lab, link, lambda: link.send(ident), "MALFORMED")  # noqa: B023 - called at once
            lab.require("no address for v2" in lab.last_fault("a"), f"why: {lab.last_fault('a')}")
            continue
        link.send(ident)
        link.expect(ServerIdent)
        leave(lab, link)
        lab.mark_down("a", "b")
