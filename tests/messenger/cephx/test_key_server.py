"""Entities, key types, global_ids and service keys of a cluster (docs/protocol.md §5.1, §5.5, §5.8)."""

from random import Random

import pytest

from messenger.cephx.ciphers import KeyType
from messenger.cephx.key_server import MON_NAME, CipherPolicy, KeyServer, Principal
from messenger.cephx.keyring import Keyring
from messenger.cephx.refusal import Refusal, RefusedError
from messenger.cephx.structures import NAMED_KEY_SECRET_ID
from messenger.cephx.tickets import open_ticket
from messenger.denc.codec import Decoder
from messenger.denc.entity import AuthName, EntityType
from messenger.errors import LocalError
from tests.support.cephx import ADMIN, AES, AES256K, GUEST, HOUR_S, NOW_S, Cluster

AUTH, MON, OSD, MDS, MGR = (EntityType[name] for name in ("AUTH", "MON", "OSD", "MDS", "MGR"))


def test_from_a_keyring() -> None:
    text = '[client.admin]\nkey = AQAA8VNlAAAAABAAAAECAwQFBgcICQoLDA0ODw==\ncaps mon = "allow *"\n'
    keys = KeyServer.from_keyring(Keyring.parse(text), Random(1))
    assert keys.usable_keys(ADMIN)[0].secret == bytes(range(16))
    assert (keys.caps(ADMIN, MON), keys.caps(ADMIN, OSD), keys.caps(GUEST, MON)) == ("allow *", "", "")


@pytest.mark.parametrize("preferred", [AES, AES256K])
def test_new_entities_get_keys_of_the_preferred_type(preferred: KeyType) -> None:
    keys = KeyServer({}, Random(1), policy=CipherPolicy(preferred=preferred))
    assert keys.add(ADMIN, {}, NOW_S).type == preferred
    assert keys.add(GUEST, {}, NOW_S, AES).type == AES


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"allowed": (AES,), "preferred": AES256K}, "aes256k is not among those allowed"),
        ({"allowed": ()}, "not among those allowed"),
        ({"allowed": (KeyType.NONE,), "preferred": KeyType.NONE}, "type 0 are not supported"),
        ({"service": KeyType.NONE}, "type 0 are not supported"),
    ],
)
def test_impossible_policies(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(LocalError, match=message):
        CipherPolicy(**arguments)


def test_usable_keys_follow_the_policy() -> None:
    cluster = Cluster(AES)
    old = cluster.key(ADMIN)
    new = cluster.keys.add(GUEST, {}, NOW_S, AES256K)
    cluster.set_principal(ADMIN, Principal(old, {}, pending_key=new))
    assert cluster.keys.usable_keys(ADMIN) == [old, new]
    cluster.keys.policy = CipherPolicy(allowed=(AES256K,), preferred=AES256K)
    assert cluster.keys.usable_keys(ADMIN) == [new]
    cluster.set_principal(ADMIN, Principal(old))
    with pytest.raises(RefusedError, match=r"client\.admin has keys of type 1; allowed: aes256k") as raised:
        cluster.keys.usable_keys(ADMIN)
    assert raised.value.refusal is Refusal.DISALLOWED_CIPHER


def test_commit_without_pending_key_is_refused() -> None:
    keys = Cluster().keys
    for name in (ADMIN, AuthName(EntityType.CLIENT, "nobody")):
        with pytest.raises(LocalError, match="has no pending key"):
            keys.commit_pending_key(name)


def test_global_ids_are_new_until_none_is_left() -> None:
    keys = KeyServer({}, Random(1), first_global_id=10, global_id_limit=12)
    assert [keys.new_global_id(), keys.new_global_id()] == [10, 11]
    with pytest.raises(RefusedError, match="no global_id below 12") as raised:
        keys.new_global_id()
    assert (raised.value.refusal, raised.value.errno) == (Refusal.BUSY, 16)


# ---- service keys


@pytest.mark.parametrize("service_type", [AES, AES256K])
@pytest.mark.parametrize("session_type", [AES, AES256K])
def test_tickets(service_type: KeyType, session_type: KeyType) -> None:
    cluster = Cluster(service=service_type)
    grants = cluster.keys.grant_all(0xFF, GUEST, 4101, session_type, NOW_S, Random(3))
    assert [grant.service_id for grant in grants] == [MON, MDS, OSD, MGR], "AUTH is not to be had like this"
    for grant in grants:
        assert grant.ticket.session_key.type == session_type
        assert grant.ticket.validity.to_seconds() == HOUR_S
        info = open_ticket(grant.blob, cluster.keys.secrets(EntityType(grant.service_id)))
        assert info.session_key == grant.ticket.session_key
        assert (info.ticket.name, info.ticket.global_id) == (GUEST, 4101)
        assert info.ticket.expires.to_seconds() == NOW_S + HOUR_S
        caps = info.ticket.caps.caps
        assert (Decoder(caps).string() if caps else "") == cluster.keys.caps(GUEST, EntityType(grant.service_id))
    auth = cluster.keys.grant(AUTH, GUEST, 4101, session_type, NOW_S, Random(3))
    assert auth.ticket.validity.to_seconds() == 72 * HOUR_S
    assert open_ticket(auth.blob, cluster.keys.secrets(AUTH)).ticket.caps.caps == b""


def test_only_monitors_have_a_named_key() -> None:
    keys = Cluster().keys
    keys.rotate(NOW_S)
    assert set(keys.secrets(MON)) == {1, 2, 3, NAMED_KEY_SECRET_ID}
    assert keys.secrets(MON)[NAMED_KEY_SECRET_ID] == keys.principals[MON_NAME].key
    assert set(keys.secrets(OSD)) == {1, 2, 3}
    assert keys.secrets(EntityType.CLIENT) == {}
    del keys.principals[MON_NAME]
    assert set(keys.secrets(MON)) == {1, 2, 3}


def test_wiping_spares_the_auth_keys() -> None:
    keys = Cluster().keys
    keys.rotate(NOW_S)
    before = {service: keys.secrets(service) for service in (AUTH, OSD, MGR)}
    keys.wipe(NOW_S)
    assert keys.secrets(AUTH) == before[AUTH]
    for service in (OSD, MGR):
        assert set(keys.secrets(service)) == {1, 2, 3}
        assert not set(map(str, keys.secrets(service).values())) & set(before[service].values())
        assert all(keys.secrets(service)[number] != before[service][number] for number in (1, 2, 3))


def test_new_lifetimes_apply_to_later_tickets_and_keys() -> None:
    keys = Cluster().keys
    keys.rotate(NOW_S)
    keys.set_lifetimes(service_ttl_s=60.0)
    for service, expected_s in ((OSD, 60.0), (MGR, 60.0), (AUTH, 72 * HOUR_S)):
        grant = keys.grant(service, GUEST, 4101, AES, NOW_S, Random(3))
        assert grant.ticket.validity.to_seconds() == expected_s
    assert not keys.rotate(NOW_S + HOUR_S), "keys stay for as long as they were made for"
    keys.set_lifetimes(auth_ttl_s=90.0)
    assert keys.grant(AUTH, GUEST, 4101, AES, NOW_S, Random(3)).ticket.validity.to_seconds() == 90.0
    assert keys.grant(OSD, GUEST, 4101, AES, NOW_S, Random(3)).ticket.validity.to_seconds() == 60.0
    keys.wipe(NOW_S)
    assert set(keys.secrets(OSD)) == {1, 2, 3}
    assert keys.rotate(NOW_S + 120.0), "new keys are current for as short a time as the tickets"


def test_no_rotating_keys_for_clients() -> None:
    with pytest.raises(RefusedError, match="client has no rotating keys") as raised:
        Cluster().keys.rotating_secrets(EntityType.CLIENT)
    assert raised.value.refusal is Refusal.NO_ROTATING_KEYS
