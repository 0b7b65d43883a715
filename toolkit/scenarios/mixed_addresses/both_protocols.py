"""MX: nodes that speak both protocols, address families, and identities by address."""

from typing import Any

from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.link import Protocol
from toolkit.lab.lab import Lab
from toolkit.lab.ways import ways
from toolkit.scenarios.mixed_addresses import MX

_BEHIND_NAT = "10.9.8.7"
_BOTH = "v2 v1"
_EITHER = ways("v2-crc", "v2-secure", "v2-crc-w2", "v1", "v1-aes256k")
"""The way decides cipher and shards; each case decides the protocols."""


def _protocols_seen(lab: Lab, node: str) -> set[Protocol]:
    """The protocols that carried a node's messages."""
    names = {"MSG": Protocol.V1, "MESSAGE": Protocol.V2}
    return {names[frame["tag"]] for frame in lab.history.node(node).of("frame") if frame["tag"] in names}


def _expect_protocol(lab: Lab, node: str, protocol: Protocol) -> None:
    seen = _protocols_seen(lab, node)
    lab.require(seen == {protocol}, f"{node} spoke {', '.join(sorted(seen))}, {protocol} alone is expected")


@MX.scenario(
    "MX-01",
    "dual_bound_prefers_v2",
    ways=_EITHER,
    cases={
        f"{client} to {server}": {"client": client, "server": server, "protocol": protocol}
        for client, server, protocol in (
            ("v2", "v2 v1", "v2"),
            ("v1", "v2 v1", "v1"),
            ("v2 v1", "v2 v1", "v2"),
            ("none", "v2 v1", "v2"),
            ("v2 v1", "v1", "v1"),
            ("v2 v1", "v2", "v2"),
            ("none", "v1", "v1"),
        )
    },
)
def dual_bound_prefers_v2(lab: Lab, client: str, server: str, protocol: str) -> None:
    """Peers speak the best protocol that both have.

    One side listens for v1, for v2, for both or not at all, the other for one or both. The dial goes to the v2
    address if there is one, unless the connector listens for v1 alone; the pair has one session, whichever side
    dials.
    """
    listens = client != "none"
    lab.node("a", "osd.1", "lossless_peer", listens=listens, protocols=client if listens else "")
    lab.node("b", "osd.2", "lossless_peer" if listens else "stateful_server", protocols=server)
    lab.start()
    lab.connect("a", "b")
    lab.exchange(count=3)
    _expect_protocol(lab, "a", Protocol(protocol))
    lab.cut("a", "b")
    lab.exchange(count=3)
    _expect_protocol(lab, "a", Protocol(protocol))
    lab.settle()
    for name in "ab":
        lab.require(lab.snapshot(name)["links"] == 1, f"{name} has {lab.snapshot(name)['links']} links")


@MX.scenario("MX-02", "v1_only_filters_v2", priority=2, ways=_EITHER)
def v1_only_filters_v2(lab: Lab) -> None:
    """A messenger that listens for v1 only ignores the v2 addresses of peers.

    On v2 the peer could not dial it back, and a race would not be noticed. Both dial at the same time, and there
    is one session, on v1.
    """
    lab.node("a", "osd.1", "lossless_peer", protocols="v1")
    lab.node("b", "osd.2", "lossless_peer", protocols=_BOTH)
    lab.start()
    lab.dial("a", "b")
    lab.dial("b", "a")
    lab.exchange(count=4)
    _expect_protocol(lab, "a", Protocol.V1)
    lab.settle()
    for name in "ab":
        lab.require(lab.snapshot(name)["registry"] == 1, f"{name} has {lab.snapshot(name)['registry']} sessions")


@MX.scenario(
    "MX-03",
    "protocol_switch_existing",
    ways=ways("v2-crc", "v2-secure"),
    cases={"v1 to v2": {"before": "v1", "after": "v2"}, "v2 to v1": {"before": "v2", "after": "v1"}},
)
def protocol_switch_existing(lab: Lab, before: str, after: str) -> None:
    """A peer that dials by the other protocol ends its former session.

    Its addresses identify it as the same peer, and a peer has one session: the old one ends with a reset event,
    the new one carries messages, and only that one stays registered.
    """
    lab.node("b", "osd.2", "lossless_peer", protocols=_BOTH)
    lab.node("a", "osd.1", "lossless_peer", protocols=_BOTH)
    lab.start()
    all_of_b = lab.address("b")
    lab.learn("a", "b", _only(all_of_b, before))
    lab.connect("a", "b")
    lab.exchange(count=3)
    _expect_protocol(lab, "a", Protocol(before))
    lab.mark_down("a", "b")
    lab.learn("a", "b", _only(all_of_b, after))
    lab.send("a", "b", 3)
    lab.expect_delivered("a", "b", 6)
    lab.expect_event("b", "a", "reset")
    lab.wait(0.5)
    snapshot = lab.snapshot("b")
    lab.require((snapshot["registry"], snapshot["links"]) == (1, 1), f"b holds {snapshot}")


def _only(addrs: str, protocol: str) -> str:
    """The addresses of a node for one protocol."""
    return str(AddrVec(tuple(addr for addr in AddrVec.parse(addrs) if Protocol.of(addr) is Protocol(protocol))))


@MX.scenario(
    "MX-04",
    "v1_to_v2_port_and_back",
    priority=2,
    ways=ways("v2-crc", "v2-secure"),
    cases={
        "v1 to v2": {"listens": "v2", "dials": AddressType.LEGACY, "reason": "V2_PEER"},
        "v2 to v1": {"listens": "v1", "dials": AddressType.MSGR2, "reason": "V1_PEER"},
    },
)
def v1_to_v2_port_and_back(lab: Lab, listens: str, dials: AddressType, reason: str) -> None:
    """A dial to the other protocol's port is a clean fault.

    The banner shows the mistake. Both sides record the fault and close; the connector pauses before it dials
    again, and neither side waits for more bytes.
    """
    lab.node("b", "mds.2", "stateful_server", protocols=listens)
    lab.node("a", "client.7", "lossless_client", listens=False)
    lab.start()
    wrong = AddrVec(tuple(addr.with_type(dials) for addr in AddrVec.parse(lab.address("b"))))
    lab.learn("a", "b", str(wrong))
    lab.send("a", "b")
    lab.wait(1.0)
    lab.require(lab.delivered("a", "b") == 0, "a message came through")
    faults = {fault["reason"] for fault in lab.history.node("a").of("fault")}
    lab.require(reason in faults, f"a has met {faults}, {reason} is expected")
    lab.require(2 <= lab.dials("a") <= 5, f"{lab.dials('a')} dials within a second")
    lab.require(lab.snapshot("b")["links"] == 0, f"b keeps {lab.snapshot('b')['links']} links")


@MX.scenario(
    "MX-05",
    "learn_address_setting",
    cases={"from the peer": {"from_peer": True}, "from the socket": {"from_peer": False}},
)
def learn_address_setting(lab: Lab, from_peer: bool) -> None:  # noqa: FBT001 - a case
    """A client without an IP takes the one that its first peer sees, or that of its socket, and keeps it.

    The first peer announces that it sees the client at 10.9.8.7, as behind a NAT; the client's socket has another
    address. With ``ms_learn_addr_from_peer`` the client announces 10.9.8.7 from then on, otherwise the IP of its
    socket. Two servers that see it at its socket's address do not change that: the client announces the same
    address to both, and both find its session by it when it reconnects.
    """
    peer = lab.raw("r", "osd.3")
    lab.node("a", "client.7", "lossless_client", listens=False, ms_learn_addr_from_peer=from_peer)
    lab.node("b", "mds.1", "stateful_server")
    lab.node("c", "mds.2", "stateful_server")
    lab.start()
    lab.dial("a", "r")
    link = peer.accept("a")
    link.socket_addr = EntityAddr.from_host(_BEHIND_NAT, link.socket_addr.port, link.socket_addr.type)
    link.handshake()
    lab.expect_state("a", "r", "READY")
    first = AddrVec.parse(lab.own_address("a"))
    wanted = [_BEHIND_NAT] if from_peer else lab.hosts("a")
    lab.require(first.front.host in wanted, f"a took {first} for its own address, not one of {wanted}")
    for server in "bc":
        lab.connect("a", server)
        lab.exchange("a", server, 2)
    for server in "bc":
        lab.cut("a", server)
        lab.exchange("a", server, 2)
        lab.expect_events(server, "a", accept=2)
        learned = AddrVec.parse(lab.session(server, "a")["addrs"])
        lab.require(_place(learned) == _place(first), f"a announced itself to {server} as {learned}")
    now = AddrVec.parse(lab.own_address("a"))
    lab.require(now == first, f"a's address changed from {first} to {now}")
    lab.settle()


def _place(addrs: AddrVec) -> tuple[str, int, int]:
    """Host, port and nonce of the first address, without its type."""
    return addrs.front.host, addrs.front.port, addrs.front.nonce


@MX.scenario("MX-06", "blank_ip_and_any_type")
def blank_ip_and_any_type(lab: Lab) -> None:
    """A client of type ANY without a port is found again when it returns.

    Its address has type ANY and port 0, and it may learn its IP only now. Its nonce distinguishes it from other
    clients on the same host. Two such clients reconnect, and each finds its own session.
    """
    lab.node("server", "mds.1", "stateful_server")
    for name, entity in ("a", "client.1"), ("b", "client.2"):
        lab.node(name, entity, "lossless_client", listens=False)
    lab.start()
    for name in "ab":
        lab.connect(name, "server")
        lab.exchange(name, "server", 3)
    for turn in range(1, 4):
        for name in "ab":
            lab.cut(name, "server")
            lab.exchange(name, "server", 2)
            lab.expect_events("server", name, accept=1 + turn)
    lab.settle()
    lab.require(lab.snapshot("server")["registry"] == 2, f"{lab.snapshot('server')['registry']} sessions")


@MX.scenario(
    "MX-07",
    "ipv6_dual_stack",
    cases={
        f"{a} and {b}": {"host_a": hosts[a], "host_b": hosts[b]}
        for hosts in ({"v4": "127.0.0.1", "v6": "::1"},)
        for a in hosts
        for b in hosts
    },
)
def ipv6_dual_stack(lab: Lab, host_a: str, host_b: str) -> None:
    """Addresses of both families are distinguished, ordered and found again.

    Each node listens on IPv4 or IPv6. Both dial at the same time, so that the order of their addresses decides the
    race, and both resume that session after a cut.
    """
    lab.node("a", "osd.1", "lossless_peer", host=host_a)
    lab.node("b", "osd.2", "lossless_peer", host=host_b)
    lab.start()
    lab.dial("a", "b")
    lab.dial("b", "a")
    lab.exchange(count=3)
    lab.cut("a", "b")
    lab.exchange(count=3)
    lab.settle()
    for name in "ab":
        lab.require(lab.snapshot(name)["registry"] == 1, f"{name} has {lab.snapshot(name)['registry']} sessions")


@MX.scenario("MX-08", "address_change_client_reset", priority=2)
def address_change_client_reset(lab: Lab) -> None:
    """A client with a new nonce is a new peer.

    The client restarts with another nonce and without its session. The server opens a new session for it and keeps
    the old one, to which no client returns, until its application marks it down.
    """
    lab.node("b", "mds.1", "stateful_server")
    for name in ("before", "after"):
        lab.node(name, "client.7", "lossless_client", listens=False)
    lab.start("b", "before")
    lab.connect("before", "b")
    lab.exchange("before", "b", 3)
    lab.kill("before")
    lab.start_late("after")
    lab.connect("after", "b")
    lab.exchange("after", "b", 3)
    lab.expect_events("b", "after", accept=1)
    lab.expect_events("b", "before", accept=1)
    registered = lab.snapshot("b")["registry"]
    lab.require(registered == 2, f"b has {registered} sessions, one of them for the client that was")
    lab.mark_down("b", "before")
    lab.exchange("after", "b", 3)
    lab.settle()
    registered = lab.snapshot("b")["registry"]
    lab.require(registered == 1, f"b has {registered} sessions after the end of the old one")


@MX.scenario(
    "MX-09",
    "hunting_v1_v2",
    priority=2,
    ways=_EITHER,
    cases={
        f"{alive} lives": {"alive": alive, "protocols": protocols}
        for alive, protocols in (("m0", "v2"), ("m1", "v2 v1"), ("m2", "v1"))
    },
)
def hunting_v1_v2(lab: Lab, alive: str, protocols: str) -> None:
    """A client finds the running one of several monitors with mixed addresses.

    The client dials all of them. Two are dead; the third answers by its protocol. The client marks the other
    sessions down and is left with one connection.
    """
    listens = {"m0": "v2", "m1": "v2 v1", "m2": "v1"}
    for index, name in enumerate(listens):
        lab.node(name, f"mon.{index}", "stateless_server", protocols=listens[name])
    lab.node("client", "client.7", "lossy_client", listens=False)
    lab.start("client", alive)
    for name in listens:
        lab.send("client", name)
    lab.expect_delivered("client", alive, 1)
    for name in listens:
        if name != alive:
            lab.mark_down("client", name)
    lab.wait(2.0)
    _expect_protocol(lab, "client", Protocol(protocols.split(maxsplit=1)[0]))
    snapshot: dict[str, Any] = lab.snapshot("client")
    lab.require((snapshot["links"], snapshot["registry"]) == (1, 1), f"the client holds {snapshot}")
