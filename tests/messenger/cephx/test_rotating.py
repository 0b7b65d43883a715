"""Rotating service keys (docs/protocol.md §5.6)."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.cephx.ciphers import KeyType
from messenger.cephx.rotating import RotatingKeyring, RotatingKeys
from messenger.cephx.structures import RotatingSecrets
from messenger.denc.entity import EntityType

NOW_S = 1_700_000_000.0
TTL_S = 3600.0
AES = KeyType.AES


def new_keys(seed: int = 1) -> RotatingKeys:
    keys = RotatingKeys(TTL_S)
    assert keys.rotate(NOW_S, AES, Random(seed))
    return keys


def expirations(keys: RotatingKeys) -> dict[int, float]:
    return {number: e.expiration.to_seconds() - NOW_S for number, e in keys.exported().secrets.items()}


def test_three_keys_that_expire_one_after_the_other() -> None:
    keys = new_keys()
    assert expirations(keys) == {1: TTL_S, 2: 2 * TTL_S, 3: 3 * TTL_S}
    assert keys.exported().max_ver == 3
    assert not keys.rotate(NOW_S, AES, Random(2))
    service_key, validity_s = keys.sealing_key(NOW_S)
    assert (service_key.secret_id, validity_s) == (2, TTL_S)
    assert service_key.key == keys.secrets[2]


def test_a_new_one_when_the_current_one_expires() -> None:
    keys = new_keys()
    before = keys.secrets
    assert not keys.rotate(NOW_S + 2 * TTL_S - 1, AES, Random(2))
    assert keys.rotate(NOW_S + 2 * TTL_S, AES, Random(2))
    assert expirations(keys) == {2: 2 * TTL_S, 3: 3 * TTL_S, 4: 4 * TTL_S}
    assert keys.sealing_key(NOW_S + 2 * TTL_S)[0].secret_id == 3
    assert {number: keys.secrets[number] for number in (2, 3)} == {number: before[number] for number in (2, 3)}


def test_long_after_all_expired() -> None:
    keys = new_keys()
    later_s = NOW_S + 1000 * TTL_S
    assert keys.rotate(later_s, AES, Random(2))
    assert all(e.expiration.to_seconds() > later_s for e in list(keys.exported().secrets.values())[1:])
    assert len(keys.secrets) == 3
    assert keys.sealing_key(later_s)[1] == TTL_S


def test_seeded_generation() -> None:
    assert new_keys(7).exported() == new_keys(7).exported()
    assert new_keys(7).secrets != new_keys(8).secrets


def test_a_raised_ttl_does_not_outlive_the_keys() -> None:
    keys = new_keys()
    keys.ttl_s = 100 * TTL_S
    assert keys.sealing_key(NOW_S)[1] == 3 * TTL_S


def test_another_type_comes_with_the_next_rotation() -> None:
    keys = new_keys()
    keys.rotate(NOW_S + 2 * TTL_S, KeyType.AES256KRB5, Random(2))
    assert {number: key.type for number, key in keys.secrets.items()} == {2: 1, 3: 1, 4: 2}


@given(st.lists(st.floats(0, 5 * TTL_S), max_size=20))
def test_sealed_ticket_can_be_opened_for_its_whole_validity(pauses_s: list[float]) -> None:
    """A ticket sealed now can be opened for its whole validity, and always by a daemon that keeps up."""
    keys, rng, now_s = new_keys(), Random(3), NOW_S
    for pause_s in pauses_s:
        now_s += pause_s
        keys.rotate(now_s, AES, rng)
        assert len(keys.secrets) == 3
        service_key, validity_s = keys.sealing_key(now_s)
        assert validity_s == TTL_S
        keyring = RotatingKeyring(EntityType.OSD, TTL_S)
        keyring.install(keys.exported())
        assert keyring.secrets[service_key.secret_id] == service_key.key
        assert not keyring.needs_refresh(now_s)
        expiry = new_keys()
        expiry._keys, expiry._max_ver = dict(keys._keys), keys._max_ver
        expiry.rotate(now_s + validity_s - 0.001, AES, Random(4))
        assert service_key.secret_id in expiry.secrets


# ---- a daemon's keyring


def filled(ttl_s: float = TTL_S) -> RotatingKeyring:
    keyring = RotatingKeyring(EntityType.OSD, ttl_s)
    keyring.install(new_keys().exported())
    return keyring


@pytest.mark.parametrize(("ttl_s", "grace_s"), [(TTL_S, 30.0), (120.0, 30.0), (40.0, 10.0)])
def test_refresh_when_the_current_key_expired_a_while_ago(ttl_s: float, grace_s: float) -> None:
    keyring = filled(ttl_s)
    assert not keyring.needs_refresh(NOW_S + 2 * TTL_S)
    assert not keyring.needs_refresh(NOW_S + 2 * TTL_S + grace_s - 0.1)
    assert keyring.needs_refresh(NOW_S + 2 * TTL_S + grace_s)


def test_refresh_when_keys_are_missing() -> None:
    keyring = RotatingKeyring(EntityType.OSD)
    assert keyring.needs_refresh(NOW_S)
    exported = new_keys().exported()
    for missing in (1, 2, 3):
        keyring.install(RotatingSecrets({n: e for n, e in exported.secrets.items() if n != missing}, 3))
        assert keyring.needs_refresh(NOW_S)


def test_installing_replaces_all_in_place() -> None:
    keyring = filled()
    mapping = keyring.secrets
    keyring.install(RotatingSecrets({}, 0))
    assert mapping is keyring.secrets
    assert mapping == {}
