"""Options and the forms of their values, as a monitor of Ceph 16.2.15 has them."""

import pytest

from toolkit.embedded.known_options import SPECIAL, canonical, default, known_options, limits_of, type_of


def test_options_have_the_types_of_ceph() -> None:
    assert len(known_options()) == 1808
    kinds = {"addr", "addrvec", "bool", "float", "int", "millisecs", "secs", "size", "str", "uint", "uuid"}
    assert set(known_options().values()) == kinds
    assert [type_of(name) for name in ("rbd_cache", "osd_max_backfills", "debug_ms", "nonsense")] == [
        "bool",
        "uint",
        "str",
        None,
    ]
    assert [type_of(name) for name in ("mgr/balancer/mode", "mgr/balancer")] == ["str", None]
    assert known_options().keys() >= SPECIAL


@pytest.mark.parametrize(
    ("option", "given", "kept"),
    [
        ("rbd_cache", "TRUE", "true"),
        ("rbd_cache", "2", "true"),
        ("rbd_cache", "0", "false"),
        ("osd_max_backfills", "1K", "1000"),
        ("osd_max_backfills", "+5", "5"),
        ("compressor_zlib_winsize", "-12", "-12"),
        ("osd_recovery_max_active", "1T", "1000000000000"),
        ("osd_max_object_size", "4G", "4294967296"),
        ("osd_max_object_size", "10KB", "10240"),
        ("osd_max_object_size", "1Ki", "1024"),
        ("osd_max_object_size", "1B", "1"),
        ("osd_backfill_retry_interval", "1e3", "1000.000000"),
        ("osd_backfill_retry_interval", ".5", "0.500000"),
        ("osd_backfill_retry_interval", "inf", "inf"),
        ("rados_osd_op_timeout", "5", "5"),
        ("rados_osd_op_timeout", "1h30m", "5400"),
        ("rados_osd_op_timeout", "2 hours", "7200"),
        ("rados_osd_op_timeout", "1mo", "2592000"),
        ("rados_osd_op_timeout", "", "0"),
        ("public_addr", "1.2.3.4:5", "v2:1.2.3.4:5/0"),
        ("public_addrv", "[v2:1.2.3.4:5/0,v1:1.2.3.4:6/0]", "[v2:1.2.3.4:5/0,v1:1.2.3.4:6/0]"),
        ("rbd_default_pool", "a b", "a b"),
        ("debug_ms", "1/5", "1/5"),
        ("debug_ms", "20", "20/20"),
        ("mgr/balancer/mode", "upmap", "upmap"),
    ],
)
def test_values_are_kept_in_one_form(option: str, given: str, kept: str) -> None:
    assert canonical(option, given) == kept


@pytest.mark.parametrize(
    ("option", "given"),
    [
        *(("rbd_cache", value) for value in ("yes", "off", "", "maybe", "1_0")),
        *(
            ("osd_max_backfills", value)
            for value in ("abc", "-5", "1k", "1Ki", "5.0", "", "5 ", "9" * 20, "99E", "1B")
        ),
        *(("osd_max_object_size", value) for value in ("4X", "1KiB", "1k", "-5", "0x10", "")),
        *(("osd_backfill_retry_interval", value) for value in ("abc", "1K", "", "1_0")),
        *(("rados_osd_op_timeout", value) for value in ("x", "-5", "1.5", "5ms")),
        *(("public_addr", value) for value in ("x", "")),
        ("public_addrv", ""),
        ("osd_uuid", "x"),
        *(("debug_ms", value) for value in ("x", "/5", "-1", "", "100")),
    ],
)
def test_values_of_another_type_are_refused(option: str, given: str) -> None:
    kind = "level" if option == "debug_ms" else type_of(option)
    with pytest.raises(ValueError, match=rf"^'.*' is no {kind}: {option} takes "):
        canonical(option, given)


@pytest.mark.parametrize(
    ("option", "given", "words"),
    [
        ("osd_heartbeat_interval", "0", "Value '0' is below minimum 1"),
        ("osd_heartbeat_interval", "61", "Value '61' exceeds maximum 60"),
        ("mon_osd_laggy_weight", "-0.5", "Value '-0.500000' is below minimum 0.000000"),
        ("osd_op_queue", "nope", "'nope' is not one of the permitted values: wpq, mclock_scheduler, debug_random"),
        ("bluestore_compression_algorithm", "x", "permitted values: snappy, zlib, zstd, lz4"),
    ],
)
def test_values_beyond_the_limits_of_an_option_are_refused(option: str, given: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        canonical(option, given)


def test_limits_permit_their_bounds_and_the_defaults() -> None:
    for option, given in (
        ("osd_heartbeat_interval", "1"),
        ("osd_heartbeat_interval", "60"),
        ("osd_op_queue", "wpq"),
    ):
        assert canonical(option, given) == given
    for option, kind in known_options().items():
        value = default(option, of_daemon=True)
        if value and option != "rgw_rados_pool_recovery_priority":  # Ceph's own limits exclude every value of it
            limits_of(option).check(value, kind)
