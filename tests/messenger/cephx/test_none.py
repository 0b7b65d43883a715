import random

import pytest

from messenger.cephx.exchange import AuthDone, AuthMethod, AuthOpening, AuthResult, ConMode
from messenger.cephx.none import NoneClient, NoneServer
from messenger.denc.entity import AuthName, EntityType
from messenger.errors import AuthError, DecodeError, FaultReason

ADMIN = AuthName(EntityType.CLIENT, "admin")
RNG = random.Random(0)


def test_with_a_monitor() -> None:
    client, server = NoneClient(ADMIN), NoneServer()
    for _ in range(2):
        mine = client.exchange(EntityType.MON, 0.0, RNG)
        opening = mine.start()
        step = server.exchange(EntityType.CLIENT, 0.0, RNG).start(opening.method, ConMode.CRC, opening.payload)
        assert step == AuthDone(b"", AuthResult(4100, name=ADMIN))
        assert mine.done(4100, ConMode.CRC, b"") == AuthResult(4100)
    assert client.global_id == 4100


def test_with_a_service() -> None:
    opening = NoneClient(ADMIN, 4105).exchange(EntityType.OSD, 0.0, RNG).start()
    wire = "01 08000000 05000000 61646d696e 0910000000000000"
    assert opening == AuthOpening(AuthMethod.NONE, bytes.fromhex(wire))
    step = NoneServer().exchange(EntityType.CLIENT, 0.0, RNG).start(opening.method, ConMode.CRC, opening.payload)
    assert step == AuthDone(b"", AuthResult(4105, name=ADMIN))


def test_service_does_not_give_global_ids() -> None:
    client = NoneClient(ADMIN, 7)
    exchange = client.exchange(EntityType.OSD, 0.0, RNG)
    exchange.start()
    assert exchange.done(99, ConMode.CRC, b"").global_id == client.global_id == 7


def test_exchange_keeps_the_global_id_that_it_sent() -> None:
    client = NoneClient(ADMIN, 7)
    exchange = client.exchange(EntityType.OSD, 0.0, RNG)
    exchange.start()
    client.global_id = 8  # a monitor has assigned another one in the meantime
    assert exchange.done(0, ConMode.CRC, b"") == AuthResult(7)


def test_secure_mode_has_no_keys() -> None:
    client = NoneClient(ADMIN).exchange(EntityType.OSD, 0.0, RNG)
    with pytest.raises(AuthError, match="no keys for secure mode"):
        client.done(1, ConMode.SECURE, b"")
    server = NoneServer().exchange(EntityType.CLIENT, 0.0, RNG)
    with pytest.raises(AuthError, match="no keys for secure mode") as raised:
        server.start(AuthMethod.NONE, ConMode.SECURE, client.start().payload)
    assert raised.value.errno == 95


def test_there_is_one_round() -> None:
    with pytest.raises(AuthError, match="no second round"):
        NoneClient(ADMIN).exchange(EntityType.OSD, 0.0, RNG).more(b"")
    with pytest.raises(AuthError, match="no second round"):
        NoneServer().exchange(EntityType.CLIENT, 0.0, RNG).more(b"")


def test_refusal() -> None:
    with pytest.raises(AuthError, match="none refused with EOPNOTSUPP; the peer allows cephx") as raised:
        NoneClient(ADMIN).exchange(EntityType.OSD, 0.0, RNG).bad_method(-95, [2])
    assert raised.value.reason is FaultReason.AUTH_METHOD


def test_malformed_introductions() -> None:
    server = NoneServer().exchange(EntityType.CLIENT, 0.0, RNG)
    wire = NoneClient(ADMIN).exchange(EntityType.OSD, 0.0, RNG).start().payload
    for size in range(len(wire)):
        with pytest.raises(DecodeError):
            server.start(AuthMethod.NONE, ConMode.CRC, wire[:size])
    with pytest.raises(DecodeError, match="auth mode 5"):
        server.start(AuthMethod.NONE, ConMode.CRC, b"\5" + wire[1:])
