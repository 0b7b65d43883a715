"""Options under Ceph's names: defaults and the mode matrix (docs/protocol.md §4.7, §7)."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from messenger.algorithms import Algorithm, CompressionMode
from messenger.cephx.exchange import ConMode
from messenger.config import FIXED_OPTIONS, Config, parse_modes
from messenger.denc.entity import EntityType
from messenger.denc.features import CLIENT_FEATURES
from messenger.errors import LocalError
from tests.support.node import new_node

MON, MGR, OSD, MDS, CLIENT, AUTH = (
    EntityType.MON,
    EntityType.MGR,
    EntityType.OSD,
    EntityType.MDS,
    EntityType.CLIENT,
    EntityType.AUTH,
)
SECURE_CRC = (ConMode.SECURE, ConMode.CRC)
CRC_SECURE = (ConMode.CRC, ConMode.SECURE)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("ms_initial_backoff", 0.2),
        ("ms_max_backoff", 15.0),
        ("ms_connection_ready_timeout", 10.0),
        ("ms_connection_idle_timeout", 900.0),
        ("ms_learn_addr_from_peer", True),
        ("ms_dispatch_throttle_bytes", 100 << 20),
        ("ms_mon_cluster_mode", "secure crc"),
        ("ms_mon_service_mode", "secure crc"),
        ("ms_mon_client_mode", "secure crc"),
        ("ms_cluster_mode", "crc secure"),
        ("ms_service_mode", "crc secure"),
        ("ms_client_mode", "crc secure"),
        ("ms_osd_compress_mode", "none"),
        ("ms_client_compress_mode", "none"),
        ("ms_osd_compress_min_size", 1024),
        ("ms_osd_compression_algorithm", "snappy"),
        ("ms_compress_secure", False),
        ("compressor_zlib_level", 5),
        ("compressor_zstd_level", 1),
        ("msgr2_features", 3),
        ("features_supported", CLIENT_FEATURES),
        ("ms_bind_msgr1", True),
        ("ms_bind_msgr2", True),
        ("ms_bind_ipv4", True),
        ("ms_bind_ipv6", False),
        ("ms_bind_prefer_ipv4", False),
        ("ms_bind_port_min", 6800),
        ("ms_bind_port_max", 7568),
        ("ms_bind_retry_count", 3),
        ("ms_bind_retry_delay", 5.0),
        ("ms_bind_before_connect", False),
        ("ms_tcp_nodelay", True),
        ("ms_tcp_rcvbuf", 0),
        ("ms_tcp_listen_backlog", 512),
        ("osd_client_message_size_cap", 500 << 20),
        ("osd_client_message_cap", 256),
        ("mon_client_bytes", 100 << 20),
        ("mon_daemon_bytes", 400 << 20),
        ("ms_pq_max_tokens_per_priority", 16 << 20),
        ("ms_pq_min_cost", 64 << 10),
        ("mon_client_ping_interval", 10.0),
        ("mon_client_ping_timeout", 30.0),
        ("ms_shutdown_timeout", 120.0),
        ("ms_inject_socket_failures", 0),
        ("ms_inject_internal_delays", 0.0),
        ("ms_inject_delay_type", ""),
        ("ms_inject_delay_probability", 0.0),
        ("ms_inject_delay_max", 1.0),
        ("ms_inject_network_congestion", 0),
        ("ms_blackhole_osd", False),
        ("ms_blackhole_mon", False),
        ("ms_blackhole_mds", False),
        ("ms_blackhole_mgr", False),
        ("ms_blackhole_client", False),
        ("ms_die_on_bad_msg", False),
        ("ms_die_on_unhandled_msg", False),
        ("ms_die_on_old_message", False),
        ("ms_die_on_skipped_message", False),
        ("ms_die_on_bug", False),
    ],
)
def test_defaults_are_those_of_ceph(option: str, value: object) -> None:
    assert getattr(Config(), option) == value


def test_limits_before_authentication_are_the_smaller_ones() -> None:
    config = Config()
    assert config.max_preauth_frame_bytes < config.max_preauth_bytes < config.max_frame_bytes


@pytest.mark.parametrize(
    ("me", "peer", "option"),
    [
        (CLIENT, MON, "ms_mon_client_mode"),
        (CLIENT, MGR, "ms_mon_client_mode"),
        (CLIENT, OSD, "ms_client_mode"),
        (CLIENT, MDS, "ms_client_mode"),
        (MON, MON, "ms_mon_cluster_mode"),
        (MON, MGR, "ms_mon_cluster_mode"),
        (MGR, MON, "ms_mon_cluster_mode"),
        (MON, OSD, "ms_mon_service_mode"),
        (MON, CLIENT, "ms_mon_service_mode"),
        (MGR, CLIENT, "ms_mon_service_mode"),
        (OSD, MON, "ms_mon_cluster_mode"),
        (MDS, MGR, "ms_mon_cluster_mode"),
        (OSD, OSD, "ms_cluster_mode"),
        (OSD, MDS, "ms_cluster_mode"),
        (OSD, CLIENT, "ms_service_mode"),
        (MDS, CLIENT, "ms_service_mode"),
    ],
    ids=lambda value: getattr(value, "label", value),
)
@pytest.mark.parametrize("connecting", [False, True])
def test_option_for_each_pair_of_entities(
    me: EntityType, peer: EntityType, option: str, *, connecting: bool
) -> None:
    """Every other option says crc, the ruling one secure; a client only ever connects."""
    if me is CLIENT and not connecting:
        option = "ms_service_mode"
    config = Config.only_mode(ConMode.CRC)
    setattr(config, option, "secure")
    assert config.connection_modes(me, peer, connecting=connecting) == (ConMode.SECURE,)


def test_preferences_keep_their_order() -> None:
    config = Config()
    assert config.connection_modes(CLIENT, MON, connecting=True) == SECURE_CRC
    assert config.connection_modes(CLIENT, OSD, connecting=True) == CRC_SECURE
    assert config.connection_modes(AUTH, MON, connecting=True) == SECURE_CRC


@pytest.mark.parametrize("mode", [ConMode.CRC, ConMode.SECURE])
def test_one_mode_everywhere(mode: ConMode) -> None:
    config = Config.only_mode(mode, ms_max_backoff=3.0)
    for me in MON, OSD, CLIENT:
        for peer in MON, OSD, CLIENT:
            for connecting in False, True:
                assert config.connection_modes(me, peer, connecting=connecting) == (mode,)
    assert config.ms_max_backoff == 3.0


@pytest.mark.parametrize(
    ("text", "modes"),
    [
        ("crc", (ConMode.CRC,)),
        ("secure", (ConMode.SECURE,)),
        ("secure crc", SECURE_CRC),
        ("crc, secure", CRC_SECURE),
        ("  crc\tsecure ", CRC_SECURE),
    ],
)
def test_mode_lists(text: str, modes: tuple[ConMode, ...]) -> None:
    assert parse_modes("ms_client_mode", text) == modes


@pytest.mark.parametrize("text", ["", " ", "CRC", "tls", "crc;secure", "crc none"])
def test_wrong_mode_list_is_an_error_where_it_is_given(text: str) -> None:
    with pytest.raises(LocalError, match=r"ms_client_mode = .*: give 'crc', 'secure' or both") as caught:
        Config(ms_client_mode=text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("ms_inject_delay_probability", 1.5),
        ("ms_inject_delay_probability", -0.5),
        ("ms_inject_delay_max", -1.0),
        ("ms_inject_socket_failures", -1),
        ("ms_inject_network_congestion", -1),
        ("ms_inject_internal_delays", -0.1),
    ],
)
def test_injection_values_out_of_range_are_refused(option: str, value: float) -> None:
    with pytest.raises(LocalError, match=option):
        Config(**{option: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("ms_bind_port_min", 65536),
        ("ms_bind_port_max", 65536),
        ("ms_tcp_rcvbuf", 1 << 31),
        ("ms_tcp_listen_backlog", 1 << 31),
    ],
)
def test_values_that_the_kernel_does_not_take_are_refused(option: str, value: int) -> None:
    with pytest.raises(LocalError, match=f"{option} = {value}: give 0 to {value - 1}"):
        Config(**{option: value})  # type: ignore[arg-type]


def test_time_to_which_no_other_can_be_added_is_refused() -> None:
    with pytest.raises(LocalError, match=r"ms_max_backoff = 1000.*: give a number, 0 or more"):
        Config(ms_max_backoff=10**400)


# ---- compression


@pytest.mark.parametrize("peer", [MON, MGR, MDS, CLIENT, AUTH])
def test_only_links_to_osds_are_compressed(peer: EntityType) -> None:
    config = Config(ms_osd_compress_mode="force", ms_compress_secure=True)
    assert config.compression(peer, secure=False) == (CompressionMode.NONE, ())
    assert config.compression(OSD, secure=False) == (CompressionMode.FORCE, (Algorithm.SNAPPY,))


def test_links_with_clients_are_compressed_by_an_option_of_their_own() -> None:
    config = Config(ms_client_compress_mode="force", ms_osd_compression_algorithm="lz4")
    assert config.compression(CLIENT, secure=False) == (CompressionMode.FORCE, (Algorithm.LZ4,))
    assert config.compression(CLIENT, secure=True)[0] is CompressionMode.NONE
    assert config.compression(OSD, secure=False)[0] is CompressionMode.NONE
    assert config.compression(MON, secure=False) == (CompressionMode.NONE, ())


def test_secure_links_are_compressed_only_if_that_is_allowed() -> None:
    config = Config(ms_osd_compress_mode="passive")
    assert config.compression(OSD, secure=True) == (CompressionMode.NONE, (Algorithm.SNAPPY,))
    config.ms_compress_secure = True
    assert config.compression(OSD, secure=True) == (CompressionMode.PASSIVE, (Algorithm.SNAPPY,))


@pytest.mark.parametrize("text", ["zstd lz4", "zstd,lz4", "zstd;lz4", "zstd=lz4", " zstd ;,\tlz4= "])
def test_algorithm_lists(text: str) -> None:
    config = Config(ms_osd_compression_algorithm=text)
    assert config.compression(OSD, secure=False)[1] == (Algorithm.ZSTD, Algorithm.LZ4)


@pytest.mark.parametrize(
    ("option", "value", "hint"),
    [
        ("ms_osd_compress_mode", "", "none, passive, aggressive, force"),
        ("ms_osd_compress_mode", "always", "none, passive, aggressive, force"),
        ("ms_client_compress_mode", "always", "none, passive, aggressive, force"),
        ("ms_osd_compression_algorithm", "", "snappy, zlib, zstd, lz4, brotli"),
        ("ms_osd_compression_algorithm", "snappy lzma", "snappy, zlib, zstd, lz4, brotli"),
        ("ms_osd_compression_algorithm", "none", "snappy, zlib, zstd, lz4, brotli"),
        ("compressor_zlib_level", 10, "0 to 9"),
        ("compressor_zlib_level", -1, "0 to 9"),
        ("compressor_zstd_level", 0, "1 to 22"),
        ("compressor_zstd_level", 23, "1 to 22"),
        ("msgr2_features", 4, "0 to 3"),
        ("msgr2_features", -1, "0 to 3"),
        ("ms_initial_backoff", "0.2", "a number, 0 or more"),
        ("ms_initial_backoff", -0.2, "a number, 0 or more"),
        ("ms_initial_backoff", float("nan"), "a number, 0 or more"),
        ("ms_dispatch_throttle_bytes", 1e6, "a whole number, 0 or more"),
        ("ms_dispatch_throttle_bytes", None, "a whole number, 0 or more"),
        ("ms_dispatch_throttle_bytes", -1, "a whole number, 0 or more"),
        ("ms_dispatch_throttle_bytes", True, "a whole number, 0 or more"),
        ("ms_crc_data", "no", "True or False"),
        ("ms_crc_data", 2, "True or False"),
        ("ms_client_mode", ConMode.CRC, "a text"),
    ],
)
def test_wrong_option_is_an_error_where_it_is_given(option: str, value: object, hint: str) -> None:
    with pytest.raises(LocalError, match=f"{option} = .*: give .*{hint}"):
        Config(**{option: value})


def test_unknown_or_bad_option_leaves_the_config_unchanged() -> None:
    endpoint = new_node().endpoint
    with pytest.raises(LocalError, match=r"^there is no option ms_foo$"):
        endpoint.configure(ms_foo=1, ms_max_backoff=1.0)
    with pytest.raises(LocalError, match=r"^ms_max_backoff = 'long': give a number, 0 or more$"):
        endpoint.configure(ms_max_backoff="long")
    assert endpoint.config == new_node().endpoint.config


def test_one_mode_everywhere_leaves_compression_alone() -> None:
    config = Config.only_mode(ConMode.SECURE, ms_osd_compress_mode="force")
    assert config.ms_osd_compress_mode == "force"


def test_the_table_of_options_is_up_to_date() -> None:
    docs = Path(__file__).parents[2] / "docs"
    spec = spec_from_file_location("options", docs / "options.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (docs / "options.md").read_text(encoding="utf-8") == module.page(), "run python docs/options.py"


@pytest.mark.parametrize("option", sorted(FIXED_OPTIONS))
def test_change_of_a_fixed_option_is_an_error(option: str) -> None:
    endpoint = new_node().endpoint
    with pytest.raises(LocalError, match=f"^{option}: fixed when the messenger is made$"):
        endpoint.configure(**{option: 1, "ms_max_backoff": 1.0})
    assert endpoint.config == new_node().endpoint.config


def test_options_override_the_only_mode() -> None:
    config = Config.only_mode(ConMode.CRC, ms_cluster_mode="secure crc", ms_max_backoff=3.0)
    assert (config.ms_client_mode, config.ms_cluster_mode, config.ms_max_backoff) == ("crc", "secure crc", 3.0)
