"""Addresses that peers give for themselves (docs/protocol.md §4.9)."""

import pytest

from messenger.denc.address import EntityAddr
from messenger.errors import FaultReason, PeerError
from messenger.rules import RuleOptions
from messenger.session.identity import check_v2_addr

RULES = RuleOptions(peer_addresses="same_host")
REMOTE = EntityAddr.parse("v2:10.1.2.3:40000/0")
V2 = EntityAddr.parse("v2:10.1.2.3:6800/5")
V1 = EntityAddr.parse("v1:10.1.2.3:6800/5")
ANY = EntityAddr.parse("any:10.1.2.3:6800/5")


@pytest.mark.parametrize("addr", [V2, ANY])
def test_a_v2_peer_may_repeat_its_address(addr: EntityAddr) -> None:
    check_v2_addr(addr, REMOTE, None, RULES)
    check_v2_addr(addr, REMOTE, addr, RULES)


@pytest.mark.parametrize(("addr", "before", "text"), [(V1, None, "no address for v2"), (V2, ANY, "before")])
def test_other_addresses_are_malformed(addr: EntityAddr, before: EntityAddr | None, text: str) -> None:
    with pytest.raises(PeerError, match=text) as caught:
        check_v2_addr(addr, REMOTE, before, RULES)
    assert caught.value.reason is FaultReason.MALFORMED
