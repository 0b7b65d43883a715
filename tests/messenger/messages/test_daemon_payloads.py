"""Messages between daemons of four releases, as failures, recovery, scrubbing and elections make them."""

import lzma
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from messenger.denc.codec import Decoder
from messenger.errors import DecodeError
from messenger.messages.mds_metrics import MetricType
from messenger.messages.message import Message
from messenger.messages.registry import PAYLOADS, decode_payload
from messenger.messages.types import MessageType

FRONTS = Path(__file__).parent / "data" / "fronts-daemons.txt.xz"
RELEASES = ("nautilus", "pacific", "reef", "tentacle")
OF_EVERY_RELEASE = {
    MessageType.OSD_FAILURE,
    MessageType.OSD_MARK_ME_DOWN,
    MessageType.OSD_PG_LOG,
    MessageType.OSD_PG_TRIM,
    MessageType.OSD_PG_PUSH,
    MessageType.OSD_PG_BACKFILL,
    MessageType.OSD_REP_SCRUB,
    MessageType.OSD_EC_WRITE,
    MessageType.OSD_EC_READ_REPLY,
    MessageType.OSD_PG_CREATE2,
    MessageType.CLIENT_CAPS,
    MessageType.CLIENT_SNAP,
    MessageType.MDS_LOCK,
    MessageType.MDS_PEER_REQUEST,
    MessageType.MDS_RESOLVE,
    MessageType.MDS_CACHEREJOIN,
    MessageType.MDS_DISCOVERREPLY,
    MessageType.MDS_CACHEEXPIRE,
    MessageType.MDS_FRAGMENTNOTIFY,
    MessageType.MDS_EXPORTCAPS,
    MessageType.MDS_EXPORTCAPSACK,
    MessageType.MDS_INODEFILECAPS,
    MessageType.MDS_RESOLVEACK,
    MessageType.MON_HEALTH_CHECKS,
}
EXPORT = 3


class Row(NamedTuple):
    """One message as a daemon sent it."""

    release: str
    kind: int
    version: int
    compat_version: int
    features: int
    front: bytes

    def message(self, size: int | None = None) -> Message:
        front = memoryview(self.front)[:size]
        return Message(self.kind, front, version=self.version, compat_version=self.compat_version)


@cache
def rows() -> tuple[Row, ...]:
    lines = lzma.decompress(FRONTS.read_bytes()).decode().splitlines()
    split = [line.split() for line in lines if not line.startswith("#")]
    return tuple(
        Row(r, int(k), int(v), int(c), int(f, 16), bytes.fromhex(front)) for r, k, v, c, f, front in split
    )


def of_type(kind: int) -> list:
    return [decode_payload(row.message(), row.features) for row in rows() if row.kind == kind]


@pytest.mark.parametrize("release", RELEASES)
def test_messages_are_read_to_their_end_and_written_alike(release):
    for row in rows():
        if row.release != release:
            continue
        decoder = Decoder(row.front)
        payload = PAYLOADS[row.kind].decode(decoder, row.version, row.features)
        assert not decoder.remaining, payload
        again = Message.of(payload)
        again.encode_front(row.features)
        if again.version == row.version:
            assert bytes(again.front) == row.front, payload
        else:
            assert bytes(again.front).startswith(row.front), payload


@pytest.mark.parametrize("release", RELEASES)
def test_each_release_has_every_kind_of_message(release):
    assert {row.kind for row in rows() if row.release == release} >= OF_EVERY_RELEASE


def test_cut_anywhere_they_are_refused():
    shortest: dict[tuple[int, int], Row] = {}
    for row in rows():
        key = row.kind, row.version
        shortest[key] = min(shortest.get(key, row), row, key=lambda each: len(each.front))
    for row in shortest.values():
        for size in range(0, len(row.front), max(1, len(row.front) // 100)):
            with pytest.raises(DecodeError):
                decode_payload(row.message(size), row.features)


def test_failures_name_the_osd_and_how_it_failed():
    failures = of_type(MessageType.OSD_FAILURE)
    assert {payload.target_osd for payload in failures} <= {0, 1, 2, 3}
    assert {1, 3} & {payload.flags for payload in failures}
    for payload in failures:
        assert payload.epoch > 0
        assert payload.target_addrs.addrs
        assert 0 <= payload.failed_for_s < 60


def test_the_entries_of_a_log_lie_between_its_ends():
    seen = 0
    for payload in of_type(MessageType.OSD_PG_LOG):
        log = payload.log
        for entry in log.entries:
            assert (log.log_tail.epoch, log.log_tail.version) < (entry.version.epoch, entry.version.version)
            assert (entry.version.epoch, entry.version.version) <= (log.head.epoch, log.head.version)
            seen += 1
    assert seen > 3


def test_pushed_objects_are_as_long_as_the_ranges_they_hold():
    pushes = [push for payload in of_type(MessageType.OSD_PG_PUSH) for push in payload.pushes]
    assert any(push.data for push in pushes)
    for push in pushes:
        assert len(push.data) == sum(push.data_included.values())
        assert push.recovery_info.soid == push.soid


def test_capabilities_that_move_have_no_file_attributes():
    by_op = defaultdict(list)
    for payload in of_type(MessageType.CLIENT_CAPS):
        by_op[payload.head.op].append(payload)
    assert any(payload.file.layout.pool for payloads in by_op.values() for payload in payloads)
    for payload in by_op[EXPORT]:
        assert not payload.file.mtime.sec
        assert payload.head.ino


def test_clients_have_addresses_and_properties_when_their_capabilities_move():
    for payload in of_type(MessageType.MDS_EXPORTCAPS):
        assert payload.client_map.keys() == payload.client_metadata.keys()
        for client, entity in payload.client_map.items():
            assert (entity.name.num, entity.addr.host) == (client, "127.0.0.1")
            assert "entity_id" in payload.client_metadata[client].metadata


def test_directories_of_a_recovering_mds_enclose_those_of_others():
    resolved = [payload.subtrees for payload in of_type(MessageType.MDS_RESOLVE)]
    assert any(bounds for subtrees in resolved for _, bounds in subtrees)
    assert all(frag.ino for subtrees in resolved for _, bounds in subtrees for frag in bounds)


def test_names_in_rejoined_caches_are_those_that_the_client_has_made():
    names = {
        name.name
        for payload in of_type(MessageType.MDS_CACHEREJOIN)
        for _, entries in payload.strong_dentries
        for name, _ in entries
    }
    assert names == {"y"}


def test_metrics_of_clients_have_the_values_of_their_type():
    for payload in of_type(MessageType.CLIENT_METRICS):
        by_type = {metric.type: metric.value for metric in payload.updates}
        assert by_type[MetricType.CAP_INFO].hits + by_type[MetricType.CAP_INFO].misses > 0
        assert by_type[MetricType.OPENED_FILES].count <= by_type[MetricType.OPENED_FILES].total


def test_health_checks_count_monitors_since_octopus():
    checks = {
        row.release: decode_payload(row.message(), row.features).health_checks.checks["MON_DISK_LOW"]
        for row in rows()
        if row.kind == MessageType.MON_HEALTH_CHECKS
    }
    assert {release: check.count for release, check in checks.items()} == {
        "nautilus": 0,
        "pacific": 1,
        "reef": 1,
        "tentacle": 1,
    }
    for check in checks.values():
        assert re.fullmatch(r"mon\.mon[12] has \d+% avail", check.detail[0])


def test_a_monitor_replies_with_the_snapshots_purged_while_the_osd_was_down():
    replies = of_type(MessageType.MON_GET_PURGED_SNAPS_REPLY)
    for payload in replies:
        assert all(payload.start <= epoch <= payload.last for epoch in payload.purged_snaps)
    purged = [dict(of_pool) for payload in replies for of_pool in payload.purged_snaps.values()]
    assert purged.count({1: {2: 1}}) == purged.count({1: {4: 1}}) == 3  # by three releases
    for payload in of_type(MessageType.MON_GET_PURGED_SNAPS):
        assert 1 <= payload.start < payload.last < 60


def test_placement_groups_are_created_at_one_time_in_their_epoch():
    for payload in of_type(MessageType.OSD_PG_CREATE):
        assert payload.pgs.keys() == payload.ctimes.keys()
        for pgid, creation in payload.pgs.items():
            assert (creation.created, creation.parent, creation.split_bits) == (4, pgid, 0)
        assert len(set(payload.ctimes.values())) == 1


def test_replicas_learn_the_version_that_all_have_committed():
    for payload in of_type(MessageType.OSD_PG_PCT):
        assert 0 < payload.min_epoch <= payload.map_epoch
        assert payload.min_epoch < payload.pg_committed_to.epoch <= payload.map_epoch


def test_an_mds_commits_or_aborts_the_renames_of_another():
    answers = of_type(MessageType.MDS_RESOLVEACK)
    for payload in answers:
        for request in [*(request for request, _ in payload.commit), *payload.abort]:
            assert (request.type, request.num) == (8, 4120)  # the client that renamed
    assert any(payload.commit for payload in answers)
    assert any(payload.abort for payload in answers)


def test_replicas_want_to_read_and_cache_the_files_that_clients_opened():
    wanted = of_type(MessageType.MDS_INODEFILECAPS)
    assert {payload.caps for payload in wanted} <= {0, 0xD00}  # the clients opened files to read, or closed them
    acknowledged = of_type(MessageType.MDS_EXPORTCAPSACK)
    assert {payload.ino for payload in [*wanted, *acknowledged]} <= {
        start + number for start in (1 << 40, 2 << 40) for number in range(1 << 10)
    }
    assert all(payload.caps for payload in acknowledged)


def test_an_unknown_version_is_refused():
    row = next(row for row in rows() if row.kind == MessageType.OSD_FAILURE)
    with pytest.raises(DecodeError, match="MOSDFailure of version 3, at least 4 is known"):
        decode_payload(row._replace(version=3, compat_version=3).message(), row.features)
