"""The policy table (docs/protocol.md §3.8)."""

import pytest

from messenger.config import Config
from messenger.denc.entity import EntityType
from messenger.errors import LocalError
from messenger.session.policy import (
    LOSSLESS_CLIENT,
    LOSSY_CLIENT,
    MESSENGERS,
    POLICIES,
    STATELESS_SERVER,
    Policy,
    PolicySet,
    ThrottleLimit,
)

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


# ---- the messengers of Ceph's daemons

LUMINOUS, OSD_REQUIRED, REPLYMUX = 1 << 21, 1 << 0 | 1 << 9 | 1 << 13, 1 << 12
MESSENGER_TABLE = {
    "mon": (
        ("stateless_server", 0),
        {
            "mon": ("lossless_peer_reuse", LUMINOUS),
            "osd": ("stateless_server", LUMINOUS),
            "client": ("stateless_server", 0),
            "mds": ("stateless_server", 0),
        },
    ),
    "osd public": (
        ("stateless_registered_server", 0),
        {"mon": ("lossy_client", OSD_REQUIRED), "mgr": ("lossy_client", OSD_REQUIRED)},
    ),
    "osd cluster": (
        ("stateless_server", 0),
        {"mon": ("lossy_client", 0), "osd": ("lossless_peer", OSD_REQUIRED), "client": ("stateless_server", 0)},
    ),
    "osd heartbeat client": (("lossless_client", 0), {"osd": ("lossy_client", 0)}),
    "osd heartbeat server": (("lossless_client", 0), {"osd": ("stateless_server", 0)}),
    "osd objecter": (("lossy_client", REPLYMUX), {}),
    "mds": (
        ("lossy_client", REPLYMUX),
        {
            "mon": ("lossy_client", 1 << 0 | 1 << 9),
            "mds": ("lossless_peer", 1 << 0),
            "client": ("stateful_server", 0),
        },
    ),
    "mgr": (
        ("stateless_server", 0),
        {
            "osd": ("stateless_server", LUMINOUS),
            "mon": ("lossy_client", 1 << 0 | 1 << 9),
            "mds": ("stateless_server", LUMINOUS),
        },
    ),
    "librados": (("lossy_client", REPLYMUX), {}),
    "mon client bootstrap": (("lossless_client", 0), {}),
}
"""Per messenger: the default and the rows, each a preset and the required features (docs/protocol.md §3.8)."""


def test_every_messenger_of_the_table_is_there() -> None:
    assert set(MESSENGERS) == set(MESSENGER_TABLE)


@pytest.mark.parametrize("messenger", MESSENGER_TABLE)
@pytest.mark.parametrize("peer", ["mon", "osd", "mds", "mgr", "client"])
def test_policies_of_daemons_are_those_of_the_table(messenger: str, peer: str) -> None:
    default, rows = MESSENGER_TABLE[messenger]
    preset, features = rows.get(peer, default)
    policy = PolicySet.for_messenger(messenger).towards(EntityType.from_label(peer))
    assert policy == POLICIES[preset].requiring(features)


def test_a_messenger_that_no_daemon_has() -> None:
    with pytest.raises(LocalError, match="no messenger 'osd back'; known: mon, osd public"):
        PolicySet.for_messenger("osd back")


def test_the_text_of_a_set_names_policies_or_a_messenger() -> None:
    policies = PolicySet.parse("lossless_peer client=stateless_server mon=lossy_client")
    assert policies.default is POLICIES["lossless_peer"]
    assert policies.towards(EntityType.CLIENT) is POLICIES["stateless_server"]
    assert policies.towards(EntityType.MON) is POLICIES["lossy_client"]
    config = Config(osd_client_message_cap=3)
    assert PolicySet.parse("osd public", config) == PolicySet.for_messenger("osd public", config)
    assert PolicySet.parse("osd public") == PolicySet.for_messenger("osd public")


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", "unknown policy ''; known: stateful_server"),
        ("osd back", "unknown policy 'osd'"),
        ("lossless_peer osd=lossy", "unknown policy 'lossy'"),
        ("lossless_peer cat=lossy_client", "'cat'"),
    ],
)
def test_the_text_of_a_set_with_an_unknown_name(text: str, mistake: str) -> None:
    with pytest.raises(LocalError, match=mistake):
        PolicySet.parse(text)


def test_throttles_take_their_limits_from_the_options() -> None:
    config = Config(
        mon_client_bytes=1, mon_daemon_bytes=2, osd_client_message_cap=3, osd_client_message_size_cap=4
    )
    mon = PolicySet.for_messenger("mon", config)
    assert mon.towards(EntityType.CLIENT).throttle_bytes == ThrottleLimit("mon_client_bytes", 1)
    assert mon.towards(EntityType.OSD).throttle_bytes == ThrottleLimit("mon_daemon_bytes", 2)
    assert mon.towards(EntityType.MDS).throttle_bytes == ThrottleLimit("mon_daemon_bytes", 2)
    assert mon.towards(EntityType.MON).throttle_bytes is None
    client = PolicySet.for_messenger("osd public", config).towards(EntityType.CLIENT)
    assert client.throttle_messages == ThrottleLimit("osd_client_messages", 3)
    assert client.throttle_bytes == ThrottleLimit("osd_client_bytes", 4)


def test_throttles_towards_a_type_without_a_row_are_the_defaults() -> None:
    """Clients have no row of their own at an OSD's public messenger."""
    policies = PolicySet.for_messenger("osd public", Config())
    assert policies.towards(EntityType.MDS).throttle_bytes is not None
    assert policies.towards(EntityType.MON).throttle_bytes is None
