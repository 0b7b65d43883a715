"""The choice among methods (docs/protocol.md §4.7)."""

import random

import pytest

from messenger.cephx.ciphers import KeyType
from messenger.cephx.exchange import AuthDone, AuthMethod, AuthMore, ConMode
from messenger.cephx.keys import CryptoKey
from messenger.cephx.minting import MintingClient
from messenger.cephx.negotiation import ClientAuth, ServerAuth
from messenger.cephx.none import NoneClient, NoneServer
from messenger.cephx.service import CephxService
from messenger.cephx.tickets import ServiceKey
from messenger.denc.entity import AuthName, EntityType
from messenger.errors import AuthError, FaultReason, LocalError

NOW_S = 1_700_000_000.0
ADMIN = AuthName(EntityType.CLIENT, "admin")
KEY = CryptoKey(KeyType.AES, bytes(range(16)))
RNG = random.Random(3)
NONE, CEPHX, GSS = AuthMethod.NONE, AuthMethod.CEPHX, AuthMethod.GSS
MON, OSD = EntityType.MON, EntityType.OSD


def identity(*methods: AuthMethod) -> ClientAuth:
    keys = {service: ServiceKey(1, KEY) for service in (MON, OSD)}
    known = {NONE: NoneClient(ADMIN, 5), CEPHX: MintingClient(ADMIN, 5, keys)}
    return ClientAuth({method: known[method] for method in methods})


def judge(*methods: AuthMethod) -> ServerAuth:
    known = {NONE: NoneServer(), CEPHX: CephxService(OSD, {1: KEY})}
    return ServerAuth({method: known[method] for method in methods})


def exchange(auth: ClientAuth, peer: EntityType = OSD):
    return auth.exchange(peer, NOW_S, RNG)


def test_preferred_method_first() -> None:
    assert exchange(identity(CEPHX, NONE)).start().method is CEPHX
    assert exchange(identity(NONE, CEPHX)).start().method is NONE


@pytest.mark.parametrize("result", [-95, -13])
def test_next_own_method_that_the_peer_allows(result: int) -> None:
    client = exchange(identity(CEPHX, NONE))
    client.start()
    assert client.bad_method(result, [GSS, NONE]).method is NONE


def test_methods_before_the_refused_one_are_not_tried_again() -> None:
    client = exchange(identity(NONE, CEPHX))
    client.start()
    assert client.bad_method(-95, [CEPHX]).method is CEPHX
    with pytest.raises(AuthError):
        client.bad_method(-95, [NONE, CEPHX])


@pytest.mark.parametrize(
    ("result", "allowed", "reason", "message"),
    [
        (-95, [GSS], FaultReason.AUTH_METHOD, "cephx refused with EOPNOTSUPP; the peer allows gss"),
        (-95, [], FaultReason.AUTH_METHOD, "the peer allows nothing"),
        (-13, [CEPHX], FaultReason.AUTH_DENIED, "cephx refused with EACCES; the peer allows cephx"),
        (-1, [CEPHX], FaultReason.AUTH_DENIED, "cephx refused with EPERM"),
        (5, [77], FaultReason.AUTH_METHOD, "result 5; the peer allows method 77"),
        (-(1 << 31), [0], FaultReason.AUTH_METHOD, "result -2147483648; the peer allows unknown"),
        (-95, list(range(100, 9999)), FaultReason.AUTH_METHOD, "method 107 and 9891 more"),
    ],
)
def test_no_allowed_method_left_is_an_auth_error(
    result: int, allowed: list[int], reason: FaultReason, message: str
) -> None:
    client = exchange(identity(CEPHX, NONE))
    client.start()
    with pytest.raises(AuthError) as raised:
        client.bad_method(result, allowed)
    assert raised.value.reason is reason
    assert message in raised.value.detail


def test_the_method_a_monitor_agreed_to_is_used_with_services() -> None:
    auth = identity(CEPHX, NONE)
    with_monitor = exchange(auth, MON)
    with_monitor.start()
    with_monitor.bad_method(-95, [NONE])
    with_monitor.done(4100, ConMode.CRC, b"")
    with_service = exchange(auth, OSD)
    assert with_service.start().method is NONE
    with pytest.raises(AuthError):
        with_service.bad_method(-95, [CEPHX])
    assert exchange(auth, MON).start().method is CEPHX


def test_method_of_one_service_does_not_apply_to_others() -> None:
    auth = identity(CEPHX, NONE)
    first = exchange(auth)
    first.start()
    first.bad_method(-95, [NONE])
    first.done(0, ConMode.CRC, b"")
    assert exchange(auth).start().method is CEPHX


def test_server_accepts_any_allowed_method_and_a_later_change_of_method() -> None:
    server = judge(CEPHX, NONE).exchange(EntityType.CLIENT, NOW_S, RNG)
    assert server.allowed_methods == (CEPHX, NONE)
    client = exchange(identity(CEPHX, NONE))
    opening = client.start()
    step = server.start(opening.method, ConMode.CRC, opening.payload)
    assert isinstance(step, AuthMore)
    done = server.more(client.more(step.payload))
    assert isinstance(done, AuthDone)
    assert client.done(5, ConMode.CRC, done.payload).session_key == done.result.session_key

    opening = exchange(identity(NONE)).start()
    step = server.start(opening.method, ConMode.CRC, opening.payload)
    assert isinstance(step, AuthDone)
    assert step.result.name == ADMIN


def test_server_refuses_other_methods_and_rounds_of_nothing() -> None:
    server = judge(CEPHX).exchange(EntityType.CLIENT, NOW_S, RNG)
    with pytest.raises(AuthError, match="none is not allowed here") as raised:
        server.start(NONE, ConMode.CRC, b"")
    assert (raised.value.reason, raised.value.errno) == (FaultReason.AUTH_METHOD, 95)
    with pytest.raises(AuthError, match="another round of no exchange"):
        server.more(b"")


def test_no_methods() -> None:
    with pytest.raises(LocalError, match="at least one"):
        ClientAuth({})
    with pytest.raises(LocalError, match="at least one"):
        ServerAuth({})
