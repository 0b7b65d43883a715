"""The policy table (protocol.md §3.8)."""

import pytest

from messenger.denc.entity import EntityType
from messenger.session.policy import LOSSLESS_CLIENT, LOSSY_CLIENT, POLICIES, STATELESS_SERVER, Policy, PolicySet

TABLE = """
stateful_server              0 1 1 1 1
stateless_registered_server  1 1 0 0 1
stateless_server             1 1 0 0 0
lossless_peer                0 0 1 0 1
lossless_peer_reuse          0 0 1 1 1
lossy_client                 1 0 0 0 1
lossless_client              0 0 0 1 1
"""
"""lossy, server, standby, resetcheck, register_lossy_clients"""


@pytest.mark.parametrize("row", TABLE.strip().splitlines(), ids=lambda row: row.split()[0])
def test_presets_are_those_of_the_table(row: str) -> None:
    name, *flags = row.split()
    lossy, server, standby, resetcheck, register = (flag == "1" for flag in flags)
    policy = POLICIES[name]
    assert policy.name == name
    assert (policy.lossy, policy.server, policy.standby) == (lossy, server, standby)
    assert (policy.resetcheck, policy.register_lossy_clients) == (resetcheck, register)
    assert policy.features_required == 0


def test_there_are_no_other_presets() -> None:
    assert set(POLICIES) == {row.split()[0] for row in TABLE.strip().splitlines()}


def test_unset_is_lossless_with_resetcheck() -> None:
    """The default row of the table."""
    policy = PolicySet().towards(EntityType.MDS)
    assert (policy.lossy, policy.server, policy.standby, policy.resetcheck) == (False, False, False, True)


def test_a_type_of_peer_may_have_a_policy_of_its_own() -> None:
    policies = PolicySet(STATELESS_SERVER, {EntityType.MON: LOSSY_CLIENT})
    assert policies.towards(EntityType.MON) is LOSSY_CLIENT
    assert policies.towards(EntityType.OSD) is STATELESS_SERVER


def test_required_features_add_up() -> None:
    policy = LOSSLESS_CLIENT.requiring(0b01).requiring(0b10)
    assert policy.features_required == 0b11
    assert LOSSLESS_CLIENT.features_required == 0
    assert isinstance(policy, Policy)
    assert policy.name == "lossless_client"
