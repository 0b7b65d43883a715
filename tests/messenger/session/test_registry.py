"""The sessions of a messenger, by the addresses of their peers (docs/protocol.md §3.5, §4.9)."""

import pytest

from messenger.denc.address import AddrVec
from messenger.denc.entity import EntityName, EntityType
from messenger.session.policy import LOSSLESS_PEER
from messenger.session.registry import Registry
from messenger.session.session import Session

DIALLED = AddrVec.parse("v2:10.0.0.2:6802/0")
ANNOUNCED = AddrVec.parse("v2:10.0.0.2:6802/2")


def dialled(registry: Registry, addrs: AddrVec = DIALLED, peer_type: EntityType = EntityType.OSD) -> Session:
    session = registry.new(peer_type, addrs, addrs.front, LOSSLESS_PEER, accepted=False)
    registry.register(session)
    return session


def test_a_peer_is_found_under_the_addresses_that_it_announces() -> None:
    registry = Registry()
    session = dialled(registry)
    registry.rename_peer(session, ANNOUNCED, 2)
    assert session.peer_name == EntityName(EntityType.OSD, 2)
    assert registry.registered == {ANNOUNCED: session}
    assert registry.lookup_place(ANNOUNCED.front) is session
    assert registry.lookup_place(DIALLED.front) is None


def test_a_session_that_is_not_registered_is_renamed_only() -> None:
    registry = Registry()
    session = registry.new(EntityType.OSD, DIALLED, DIALLED.front, LOSSLESS_PEER, accepted=True)
    registry.rename_peer(session, ANNOUNCED, 2)
    assert session.peer_addrs == ANNOUNCED
    assert len(registry) == 0


@pytest.mark.parametrize("ends_first", ["the session that is renamed", "the one that was there"])
def test_addresses_of_another_session_stay_with_it(ends_first: str) -> None:
    """A peer may announce any address, also that of another entity."""
    registry = Registry()
    other = dialled(registry, ANNOUNCED, EntityType.MDS)
    session = dialled(registry)
    registry.rename_peer(session, ANNOUNCED, 2)
    assert registry.lookup(ANNOUNCED) is other
    assert registry.lookup(DIALLED) is None
    first, second = (session, other) if ends_first.startswith("the session") else (other, session)
    registry.remove(first)
    assert registry.lookup(ANNOUNCED) is (other if first is session else None)
    registry.remove(second)
    assert len(registry) == 0
    assert registry.sessions == {}
