"""Options of pools that have no effect here: kept in the map and shown as by a real monitor."""

import errno

import pytest

from toolkit.embedded.mon import pool_opts
from toolkit.embedded.mon.answers import CommandError
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.pool_commands import pool_get, pool_ls
from toolkit.embedded.mon.pool_options import pool_set

SET = {
    "scrub_min_interval": "1.5",
    "recovery_priority": "-4",
    "compression_mode": "aggressive",
    "compression_required_ratio": ".5",
    "csum_type": "crc32c",
    "target_size_bytes": "1G",
    "pg_num_max": "64",
}
OF_CEPH = bytes.fromhex(
    "02017a000000070000000000000002000000000000000000f83f0300000001000000fcffffffffffffff06000000000000000a000000"
    "616767726573736976650800000002000000000000000000e03f0b000000010000000400000000000000100000000100000000000040"
    "0000000017000000010000004000000000000000"
)
"""What the OSD map of a monitor of Ceph 16.2.15 has after these settings."""


def put(cluster: Cluster, name: str, value: str) -> None:
    pool_set(cluster, {"pool": "objects", "var": name, "val": value})


def get(cluster: Cluster, name: str) -> str:
    return pool_get(cluster, {"pool": "objects", "var": name}).render("plain").decode()


def line(cluster: Cluster) -> str:
    return pool_ls(cluster, {"detail": "detail"}).render("plain").decode()


def in_map(cluster: Cluster) -> bytes:
    (pool,) = cluster.maps.osdmap.pools.values()
    return pool.opts


def test_the_map_has_the_bytes_of_a_real_monitor(cluster: Cluster) -> None:
    for name, value in SET.items():
        put(cluster, name, value)
    assert in_map(cluster) == OF_CEPH
    assert pool_opts.write(pool_opts.read(OF_CEPH)) == OF_CEPH


def test_values_are_shown(cluster: Cluster) -> None:
    for name, value in SET.items():
        put(cluster, name, value)
    assert get(cluster, "target_size_bytes") == "target_size_bytes: 1073741824\n"
    assert get(cluster, "csum_type") == "csum_type: crc32c\n"
    assert "compression_required_ratio: 0.5\n" in get(cluster, "all")
    assert (
        "stripe_width 0 compression_mode aggressive compression_required_ratio 0.5 csum_type 4 pg_num_max 64"
        " recovery_priority -4 scrub_min_interval 1.5 target_size_bytes 1073741824"
    ) in line(cluster)


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [("compression_mode", "force", "unset"), ("recovery_priority", "3", "0"), ("target_size_ratio", "0.2", "0")],
)
def test_unset_and_zero_remove_an_option(cluster: Cluster, name: str, first: str, last: str) -> None:
    before = in_map(cluster)
    put(cluster, name, first)
    assert in_map(cluster) != before
    put(cluster, name, last)
    assert in_map(cluster) == before
    with pytest.raises(CommandError, match=f"option '{name}' is not set on pool 'objects'") as unset:
        get(cluster, name)
    assert unset.value.errno == errno.ENOENT


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression_mode", "wild"),
        ("compression_algorithm", "rar"),
        ("compression_required_ratio", "2"),
        ("csum_type", "md5"),
        ("recovery_priority", "99"),
        ("pg_num_min", "100"),
        ("target_size_ratio", "-1"),
        ("target_size_bytes", "x"),
        ("scrub_min_interval", "x"),
        ("scrub_min_interval", "nan"),
        ("scrub_min_interval", "inf"),
        ("compression_max_blob_size", "1_000"),
        ("compression_max_blob_size", str(1 << 63)),
    ],
)
def test_wrong_values_are_refused_and_change_nothing(cluster: Cluster, name: str, value: str) -> None:
    before = in_map(cluster)
    with pytest.raises(CommandError) as refused:
        put(cluster, name, value)
    assert (refused.value.errno, in_map(cluster)) == (errno.EINVAL, before)


def test_a_flag_of_the_pool_is_set(cluster: Cluster) -> None:
    put(cluster, "write_fadvise_dontneed", "1")
    assert get(cluster, "write_fadvise_dontneed") == "write_fadvise_dontneed: true\n"
    assert "flags hashpspool,write_fadvise_dontneed" in line(cluster)
