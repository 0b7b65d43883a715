"""Failed authentication: the peer's answer, the application's event, and the session (family AU).

See docs/protocol.md §4.7.
"""

from random import Random

import pytest

from messenger.cephx.exchange import AuthClient, AuthMethod, AuthResult, AuthServer, AuthStep, ConMode
from messenger.cephx.exchange import AuthDone as AuthFinished
from messenger.cephx.negotiation import ClientAuth, ServerAuth
from messenger.cephx.none import NoneClient, NoneServer
from messenger.config import Config
from messenger.denc.address import AddrVec
from messenger.denc.entity import AuthName, EntityName, EntityType
from messenger.endpoint import Endpoint
from messenger.errors import AuthError, FaultReason
from messenger.outputs import EventKind
from messenger.session.policy import LOSSLESS_CLIENT, STATEFUL_SERVER, PolicySet
from messenger.session.session import Session, SessionState
from messenger.v2.wire import AuthBadMethod, AuthDone, AuthReplyMore, AuthRequest, AuthSignature
from tests.support.network import Network, Pair
from tests.support.node import (
    A_ADDR,
    B_ADDR,
    OTHER_KEY,
    WALL_OFFSET_S,
    Node,
    cephx_client,
    cephx_server,
    new_node,
)
from tests.support.raw_peer import RawPeer, meet

CLIENT = EntityName(EntityType.OSD, 1)
SERVER = EntityName(EntityType.OSD, 2)
NONE_CLIENT = NoneClient(AuthName(EntityType.OSD, "1"), 1)


def node(
    name: EntityName,
    addr: str,
    *,
    client: AuthClient | None = None,
    server: AuthServer | None = None,
    modes: str = "crc secure",
) -> Node:
    """An endpoint that only dials or only accepts."""
    config = Config(ms_cluster_mode=modes)
    endpoint = Endpoint(
        name,
        AddrVec.parse(addr),
        rng=Random(str(name)),
        auth_client=client,
        auth_server=server,
        policies=PolicySet(LOSSLESS_CLIENT),
        config=config,
        wall_offset_s=WALL_OFFSET_S,
        tracing=True,
    )
    return Node(endpoint)


def dial(client: Node, server: Node) -> Session:
    network = Network()
    network.add(client)
    network.add(server)
    session = client.connect(B_ADDR)
    client.send(session, 1)
    network.drive()
    return session


def refused(client: Node, server: Node, *, mine: FaultReason, theirs: FaultReason) -> str:
    """Both ends of a refused dial, with the events of the client's application."""
    session = dial(client, server)
    assert (client.faults, server.faults) == ([mine], [theirs, FaultReason.EOF])
    assert client.kinds == [EventKind.REFUSED]
    assert session.state is SessionState.CONNECTING
    assert client.endpoint.next_deadline() == pytest.approx(0.2)
    assert server.endpoint.sessions == []
    assert server.events == []
    assert server.endpoint.link_count == 0
    return str(client.events[0].fault)


def test_a_wrong_secret_is_refused() -> None:
    text = refused(
        node(CLIENT, A_ADDR, client=cephx_client(CLIENT, OTHER_KEY)),
        node(SERVER, B_ADDR, server=cephx_server(SERVER)),
        mine=FaultReason.AUTH_DENIED,
        theirs=FaultReason.AUTH_DENIED,
    )
    assert "cephx refused with EACCES" in text


def test_an_unknown_key_id_is_refused() -> None:
    refused(
        node(CLIENT, A_ADDR, client=cephx_client(CLIENT, secret_id=99)),
        node(SERVER, B_ADDR, server=cephx_server(SERVER)),
        mine=FaultReason.AUTH_DENIED,
        theirs=FaultReason.AUTH_DENIED,
    )


def test_a_method_that_is_not_allowed_is_refused_with_those_that_are() -> None:
    text = refused(
        node(CLIENT, A_ADDR, client=NONE_CLIENT),
        node(SERVER, B_ADDR, server=cephx_server(SERVER)),
        mine=FaultReason.AUTH_METHOD,
        theirs=FaultReason.AUTH_METHOD,
    )
    assert "none refused with EOPNOTSUPP; the peer allows cephx" in text


@pytest.mark.parametrize(("mine", "theirs"), [("crc", "secure"), ("secure", "crc")])
def test_disjoint_modes_are_refused_with_those_that_are_allowed(mine: str, theirs: str) -> None:
    text = refused(
        node(CLIENT, A_ADDR, client=cephx_client(CLIENT), modes=mine),
        node(SERVER, B_ADDR, server=cephx_server(SERVER), modes=theirs),
        mine=FaultReason.AUTH_METHOD,
        theirs=FaultReason.AUTH_METHOD,
    )
    assert f"the peer allows only connection mode {theirs}" in text


def test_secure_mode_is_not_possible_without_keys() -> None:
    refused(
        node(CLIENT, A_ADDR, client=NONE_CLIENT, modes="secure"),
        node(SERVER, B_ADDR, server=NoneServer(), modes="secure crc"),
        mine=FaultReason.AUTH_METHOD,
        theirs=FaultReason.AUTH_METHOD,
    )


@pytest.mark.parametrize(
    ("mine", "theirs", "agreed"),
    [
        ("crc secure", "secure crc", ConMode.CRC),
        ("secure crc", "crc secure", ConMode.SECURE),
        ("secure crc", "crc", ConMode.CRC),
    ],
)
def test_the_first_of_the_clients_modes_that_the_server_allows_is_taken(
    mine: str, theirs: str, agreed: ConMode
) -> None:
    session = dial(
        node(CLIENT, A_ADDR, client=cephx_client(CLIENT), modes=mine),
        node(SERVER, B_ADDR, server=cephx_server(SERVER), modes=theirs),
    )
    assert session.link is not None
    assert session.link.con_mode is agreed


def test_refused_client_tries_its_next_method() -> None:
    both = ClientAuth({AuthMethod.CEPHX: cephx_client(CLIENT), AuthMethod.NONE: NONE_CLIENT})
    server = node(SERVER, B_ADDR, server=NoneServer())
    session = dial(node(CLIENT, A_ADDR, client=both), server)
    assert session.state is SessionState.READY
    assert server.tids == [1]


def test_a_server_that_allows_several_methods() -> None:
    both = ServerAuth({AuthMethod.CEPHX: cephx_server(SERVER), AuthMethod.NONE: NoneServer()})
    server = node(SERVER, B_ADDR, server=both)
    assert dial(node(CLIENT, A_ADDR, client=NONE_CLIENT), server).state is SessionState.READY


class BusyServer:
    """A monitor before its first quorum."""

    allowed_methods = (AuthMethod.CEPHX,)

    def exchange(self, peer_type: EntityType, wall_time_s: float, rng: object) -> "BusyServer":
        return self

    def start(self, method: AuthMethod, con_mode: ConMode, payload: bytes) -> AuthStep:
        raise AuthError(FaultReason.AUTH_BUSY, "no quorum yet", errno=16)

    def more(self, payload: bytes) -> AuthStep:
        return AuthFinished(b"", AuthResult(1))


def test_a_busy_server_drops_the_link_without_a_word() -> None:
    client, server = node(CLIENT, A_ADDR, client=cephx_client(CLIENT)), node(SERVER, B_ADDR, server=BusyServer())
    dial(client, server)
    assert (client.faults, server.faults) == ([FaultReason.EOF], [FaultReason.AUTH_BUSY])
    assert client.events == []


# ---- the details of refusals, frame by frame


def asking(**options: object) -> RawPeer:
    """A peer that may send AUTH_REQUEST to a node."""
    peer = meet("acceptor", new_node(**options))
    peer.banner()
    peer.hello()
    return peer


def test_refusal_lists_the_allowed_methods_and_modes() -> None:
    peer = asking(auth="cephx", mode=ConMode.SECURE)
    peer.send(AuthRequest(AuthMethod.GSS, [ConMode.CRC], b""))
    assert peer.expect(AuthBadMethod) == AuthBadMethod(AuthMethod.GSS, -95, [AuthMethod.CEPHX], [ConMode.SECURE])
    peer.send(AuthRequest(AuthMethod.CEPHX, [ConMode.CRC], b""))
    assert peer.expect(AuthBadMethod) == AuthBadMethod(AuthMethod.CEPHX, -95, [AuthMethod.CEPHX], [ConMode.SECURE])


def test_a_refused_peer_may_try_again_on_the_same_link() -> None:
    peer = asking(auth="cephx")
    for _ in range(3):
        peer.send(AuthRequest(AuthMethod.NONE, [ConMode.CRC], b""))
        peer.expect(AuthBadMethod)
    peer.authenticate_by("cephx")
    for step in peer.steps[2:]:
        step()
    assert peer.node.kinds == [EventKind.ACCEPT]


@pytest.mark.parametrize("modes", [[], [0], [3, 4, 0xFFFFFFFF], list(range(100, 164))])
def test_missing_or_unknown_modes_are_refused(modes: list[int]) -> None:
    peer = asking()
    peer.send(AuthRequest(AuthMethod.NONE, modes, b""))
    assert peer.expect(AuthBadMethod).allowed_modes == [ConMode.CRC]
    assert peer.node.faults == [FaultReason.AUTH_METHOD]


@pytest.mark.parametrize("payload", [b"", b"\1", b"\xff" * 100])
@pytest.mark.parametrize("auth", ["none", "cephx"])
def test_a_malformed_opening_ends_the_link(auth: str, payload: bytes) -> None:
    peer = asking(auth=auth)
    method = AuthMethod.NONE if auth == "none" else AuthMethod.CEPHX
    peer.send(AuthRequest(method, [ConMode.CRC], payload))
    assert peer.node.faults[0] in {FaultReason.MALFORMED, FaultReason.AUTH_DENIED}
    assert peer.node.endpoint.sessions == []


# ---- servers that do not keep to the rules


def answering(**options: object) -> RawPeer:
    """A peer that has a node's AUTH_REQUEST before it."""
    peer = meet("connector", new_node(policy=LOSSLESS_CLIENT, **options), auth=str(options.get("auth", "none")))
    peer.banner()
    peer.hello()
    return peer


@pytest.mark.parametrize("con_mode", [ConMode.UNKNOWN, ConMode.CRC, 3, 0xFFFFFFFF])
def test_mode_that_was_not_offered_is_a_fault(con_mode: int) -> None:
    """Obeying would let a man in the middle strip encryption."""
    peer = answering(auth="cephx", mode=ConMode.SECURE)
    assert peer.expect(AuthRequest).preferred_modes == [ConMode.SECURE]
    peer.send(AuthDone(1, con_mode, b""))
    assert peer.node.faults == [FaultReason.AUTH_METHOD]
    assert peer.next() is None


def test_auth_done_without_the_nonce_of_the_ticket_is_a_fault() -> None:
    """AUTH_DONE without the nonce that only the holder of the service key can have read."""
    peer = answering(auth="cephx")
    peer.expect(AuthRequest)
    peer.send(AuthDone(1, ConMode.CRC, bytes(100)))
    assert peer.node.faults == [FaultReason.AUTH_REPLY]


def test_a_server_may_challenge_once() -> None:
    peer = answering(auth="cephx")
    peer.auth_answer()
    challenge = peer._step.payload
    peer.send(AuthReplyMore(challenge))
    assert peer.node.faults == [FaultReason.AUTH_REPLY]


@pytest.mark.parametrize("auth", ["none", "cephx"])
@pytest.mark.parametrize("role", ["connector", "acceptor"])
def test_a_wrong_signature_is_refused(role: str, auth: str) -> None:
    node_ = new_node(auth=auth, policy=LOSSLESS_CLIENT)
    peer = meet(role, node_, auth=auth)
    peer.handshake(until=peer.signature)
    peer.send(AuthSignature(b"\1" * 32))
    assert node_.faults == [FaultReason.AUTH_SIGNATURE]
    assert EventKind.CONNECT not in node_.kinds
    assert node_.endpoint.next_deadline() == (None if role == "acceptor" else pytest.approx(0.2))


def test_a_bad_method_with_many_modes_makes_a_short_fault() -> None:
    peer = answering()
    peer.expect(AuthRequest)
    peer.send(AuthBadMethod(1, -13, list(range(64)), list(range(1000, 1064))))
    assert peer.node.faults == [FaultReason.AUTH_METHOD]


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (-13, FaultReason.AUTH_DENIED),
        (-1, FaultReason.AUTH_DENIED),
        (-95, FaultReason.AUTH_METHOD),
        (7, FaultReason.AUTH_METHOD),
    ],
)
def test_result_of_the_server_decides_between_denied_and_unsupported(result: int, reason: FaultReason) -> None:
    peer = answering()
    peer.expect(AuthRequest)
    peer.send(AuthBadMethod(1, result, [2], [1]))
    assert peer.node.faults == [reason]
    assert peer.node.kinds == [EventKind.REFUSED]


def test_every_link_authenticates_anew() -> None:
    """Reconnecting uses new keys, so no nonce is used twice with one key (§4.6)."""
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER, auth="cephx", mode=ConMode.SECURE)
    mine, _ = pair.established()
    secrets = set()
    for _ in range(5):
        assert mine.link is not None
        assert mine.link.auth_result is not None
        secrets.add(mine.link.auth_result.connection_secret)
        pair.wire.cut()
        pair.drive()
    assert len(secrets) == 5
