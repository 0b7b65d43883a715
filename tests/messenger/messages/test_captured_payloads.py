"""Payloads between daemons of four releases, as captures/ has them: read wholly, written alike, as logged."""

import gzip
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any

import pytest

from captures.expected import CAPTURE, HERE, KEYRING
from messenger.denc.codec import Decoder, Encoder
from messenger.errors import DecodeError
from messenger.messages.layout import Enveloped
from messenger.messages.message import Message, Payload
from messenger.messages.mgr_digest import OsdPgCount, PgMapDigest
from messenger.messages.osd_objects import EVersion
from messenger.messages.osd_repop import LogOp
from messenger.messages.pg_info import PastIntervals, PgInfo, PgNotify
from messenger.messages.registry import PAYLOADS, decode_payload
from messenger.messages.types import MessageType
from toolkit.dissect.decode import decode_capture
from toolkit.dissect.keys import KeyBook

RELEASES = ("nautilus", "pacific", "reef", "tentacle")
KINDS = ("osds", "osds-v1", "daemons")
CAPTURES = [f"{release}-{kind}" for release in RELEASES for kind in KINDS] + ["reef-compressed-lz4", "reef-files"]
OSDS = [name for name in CAPTURES if "osds" in name]
OF_EVERY_RELEASE = {
    MessageType.FS_MAP,
    MessageType.MGR_DIGEST,
    MessageType.MON_MGR_REPORT,
    MessageType.OSD_ALIVE,
    MessageType.OSD_BEACON,
    MessageType.OSD_BOOT,
    MessageType.OSD_REPOP,
    MessageType.OSD_REPOPREPLY,
    MessageType.PGSTATS,
}
UP_TO_NAUTILUS = {MessageType.OSD_PG_INFO, MessageType.OSD_PG_NOTIFY, MessageType.OSD_PG_QUERY}
LATER = {
    MessageType.OSD_PG_INFO2,
    MessageType.OSD_PG_LEASE,
    MessageType.OSD_PG_LEASE_ACK,
    MessageType.OSD_PG_NOTIFY2,
    MessageType.OSD_PG_QUERY2,
}
OF_FILE_SYSTEMS = {
    MessageType.CLIENT_CAPS,
    MessageType.CLIENT_QUOTA,
    MessageType.CLIENT_RECLAIM,
    MessageType.CLIENT_RECLAIM_REPLY,
    MessageType.CLIENT_RECONNECT,
    MessageType.CLIENT_REPLY,
    MessageType.CLIENT_REQUEST,
    MessageType.CLIENT_SESSION,
    MessageType.MDS_DIRUPDATE,
    MessageType.MDS_EXPORTDIR,
    MessageType.MDS_EXPORTDIRNOTIFY,
    MessageType.MDS_EXPORTDIRNOTIFYACK,
    MessageType.MDS_FRAGMENTNOTIFY,
    MessageType.MDS_OPENINO,
    MessageType.MDS_OPENINOREPLY,
    MessageType.MDS_RESOLVE,
    MessageType.OSD_FULL,
}
TAILS = {"FileSystem", "FSMap", "MdsInfo", "PgInfo", "PgStat"}
"""Structures whose newest fields are known to be kept as bytes."""


@dataclass(frozen=True)
class Sent:
    """A message of a capture."""

    kind: int
    version: int
    compat_version: int
    front: bytes
    features: int

    def cut(self, size: int) -> Payload | None:
        front = memoryview(self.front)[:size]
        message = Message(self.kind, front, version=self.version, compat_version=self.compat_version)
        return decode_payload(message, self.features)

    def read(self) -> Any:
        return self.cut(len(self.front))


@cache
def sent(name: str) -> tuple[Sent, ...]:
    """Every message of a capture that differs from all before."""
    found = {}
    for frame in decode_capture(HERE / name / CAPTURE, KeyBook.read([HERE / name / KEYRING])):
        if frame.message is not None:
            info, front = frame.message, bytes(frame.segments[1])
            found[Sent(info.type, info.version, info.compat_version, front, frame.features)] = None
    return tuple(found)


def of_type(name: str, kind: int) -> list[Any]:
    return [message.read() for message in sent(name) if message.kind == kind]


@cache
def log_of(name: str) -> str:
    return "".join(gzip.decompress(path.read_bytes()).decode() for path in sorted((HERE / name).glob("*.log.gz")))


def parts(value: Any) -> Iterator[Enveloped]:
    if isinstance(value, Enveloped):
        yield value
    if is_dataclass(value):
        for item in fields(value):
            yield from parts(getattr(value, item.name))
    elif isinstance(value, dict):
        yield from parts(list(value.items()))
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from parts(item)


@pytest.mark.parametrize("name", CAPTURES)
def test_every_message_is_read_to_its_end_and_written_alike(name):
    for message in sent(name):
        decoder = Decoder(message.front)
        payload = PAYLOADS[message.kind].decode(decoder, message.version, message.features)
        assert not decoder.remaining, payload
        again = Message.of(payload)
        again.encode_front(message.features)
        if again.version == message.version:
            assert bytes(again.front) == message.front, payload
        else:
            assert bytes(again.front).startswith(message.front), payload


@pytest.mark.parametrize("name", CAPTURES)
def test_only_known_structures_have_fields_that_are_not_known(name):
    kinds = OF_EVERY_RELEASE | UP_TO_NAUTILUS | LATER
    tails = {type(part).__name__ for kind in kinds for part in parts(of_type(name, kind)) if part.tail}
    assert tails <= TAILS


@pytest.mark.parametrize("release", RELEASES)
def test_each_release_has_every_kind_of_message(release):
    kinds = {message.kind for name in CAPTURES if name.startswith(release) for message in sent(name)}
    assert kinds >= OF_EVERY_RELEASE | (UP_TO_NAUTILUS if release == "nautilus" else LATER)


def test_file_systems_have_the_messages_of_their_daemons():
    assert {message.kind for message in sent("reef-files")} >= OF_FILE_SYSTEMS


@pytest.mark.parametrize("name", CAPTURES)
def test_cut_anywhere_they_are_refused(name):
    shortest: dict[int, Sent] = {}
    for message in sent(name):
        if message.kind in OF_EVERY_RELEASE | UP_TO_NAUTILUS | LATER:
            shortest[message.kind] = min(shortest.get(message.kind, message), message, key=lambda m: len(m.front))
    for message in shortest.values():
        for size in range(len(message.front)):
            with pytest.raises(DecodeError):
                message.cut(size)


# ---- as daemons logged


def shown_version(version: EVersion) -> str:
    return f"{version.epoch}'{version.version}"


def shown_info(info: PgInfo) -> str:
    """Return the text of a log of Octopus and newer, without the flags that only some releases print."""
    history = info.history
    return (
        f"{info.pgid}( v {shown_version(info.last_update)} ({shown_version(info.log_tail)},"
        f"{shown_version(info.last_update)}] local-lis/les={info.last_interval_started}/{info.last_epoch_started}"
        f" n={info.stats.stats.sum.num_objects} ec={history.epoch_created}/{history.epoch_pool_created}"
    )


def shown_notify(notify: PgNotify) -> str:
    return f"(query:{notify.query_epoch} sent:{notify.epoch_sent} {shown_info(notify.info)}"


def shown_past(past: PastIntervals) -> str:
    return "([0,0] " if past.intervals is None else f"([{past.intervals.first},{past.intervals.last}] "


@pytest.mark.parametrize("name", OSDS)
def test_placement_groups_are_as_daemons_logged_them(name):
    log = log_of(name)
    found = 0
    for kind in MessageType.OSD_PG_NOTIFY, MessageType.OSD_PG_INFO:
        for payload in of_type(name, kind):
            for notify, past in payload.pgs:
                assert shown_notify(notify) in log
                assert "=" + shown_past(past)[1:] in log.replace("=(", "=")
                found += 1
    for payload in of_type(name, MessageType.OSD_PG_NOTIFY2):
        line = f"pg_notify2({payload.pgid} {payload.pgid} {shown_notify(payload.notify)}"
        assert line in log
        assert shown_past(payload.notify.past_intervals) in log
        found += 1
    for payload in of_type(name, MessageType.OSD_PG_INFO2):
        line = f"pg_info2({payload.pgid} {payload.pgid} {shown_info(payload.info)}"
        assert line in log
        assert f"e{payload.epoch_sent}/{payload.min_epoch})" in log
        found += 1
    for payload in of_type(name, MessageType.OSD_PG_LEASE):
        spans = payload.lease.readable_until, payload.lease.readable_until_ub, payload.lease.interval
        logged = re.findall(rf"pg_lease\({payload.pgid} pg_lease\(ru (\S+)s ub (\S+)s int (\S+)s\)", log)
        sent_s = [span.sec + span.nsec / 1e9 for span in spans]
        assert any(list(map(float, each)) == pytest.approx(sent_s, abs=2e-6) for each in logged)
    assert found > 3


@pytest.mark.parametrize("name", OSDS)
def test_replicated_writes_are_as_daemons_logged_them(name):
    log = log_of(name)
    writes, replies = (of_type(name, kind) for kind in (MessageType.OSD_REPOP, MessageType.OSD_REPOPREPLY))
    assert len(writes) >= len(replies) > 3
    for payload in writes + replies:
        reqid = payload.reqid
        request = f"client.{reqid.num}.{reqid.incarnation}:{reqid.tid}"
        assert f"({request} {payload.pgid} e{payload.map_epoch}/{payload.min_epoch}" in log
    for payload in writes:
        assert payload.poid.oid.startswith("object")
        (entry,) = payload.log
        assert (entry.op, entry.soid, entry.version) == (LogOp.MODIFY, payload.poid, payload.version)
    for payload in replies:
        assert payload.result == 0


@pytest.mark.parametrize("name", OSDS)
def test_reports_of_osds_are_as_daemons_logged_them(name):
    log = log_of(name)
    for payload in of_type(name, MessageType.OSD_BOOT):
        line = f"osd_boot(osd.{payload.superblock.whoami} booted {payload.boot_epoch}"
        assert f"{line} features {payload.osd_features} v{payload.map_version})" in log
        assert payload.metadata["osd_objectstore"]
    for payload in of_type(name, MessageType.OSD_ALIVE):
        assert f"osd_alive(want up_thru {payload.want} have {payload.map_version})" in log
    for payload in of_type(name, MessageType.OSD_BEACON):
        line = f"osd_beacon(pgs [{','.join(map(str, payload.pgs))}] lec {payload.min_last_epoch_clean}"
        assert re.search(rf"{re.escape(line)} .*v{payload.map_version}\)", log)


@pytest.mark.parametrize("name", [name for name in CAPTURES if name.endswith("daemons")])
def test_digests_of_managers_are_read_to_their_end(name):
    for frame in decode_capture(HERE / name / CAPTURE, KeyBook.read([HERE / name / KEYRING])):
        if frame.message is None or frame.message.type != MessageType.MON_MGR_REPORT:
            continue
        decoder = Decoder(data := bytes(frame.segments[3]))
        digest = PgMapDigest.decode(decoder, frame.features)
        assert not decoder.remaining
        assert bool(digest.tail) == name.startswith("tentacle")
        encoder = Encoder()
        digest.encode(encoder, frame.features)
        assert len(encoder.getvalue()) == len(data)  # the order within maps is the sender's
        assert PgMapDigest.decode(Decoder(encoder.getvalue()), frame.features) == digest
        assert digest.num_pg == digest.num_pg_active == 3
        assert digest.num_pg_by_state == {6: 3}  # active+clean
        assert digest.num_pg_by_pool == {1: 1, 2: 1, 3: 1} == dict.fromkeys(digest.pg_pool_sum, 1)
        assert digest.num_pg_by_osd == {0: OsdPgCount(acting=3, primary=3)}
        assert digest.osd_sum.num_osds == len(digest.osd_last_seq) == 1
        assert digest.osd_sum.kb * 1024 == digest.osd_sum.statfs.total_bytes


@pytest.mark.parametrize("name", [name for name in CAPTURES if name.endswith("daemons")])
def test_summaries_are_as_the_cluster_was(name):
    counts = defaultdict(int)
    for payload in of_type(name, MessageType.MON_MGR_REPORT):
        assert all(check.summary for check in payload.health_checks.checks.values())
        counts["checks"] += len(payload.health_checks.checks)
    for payload in of_type(name, MessageType.FS_MAP):
        assert f"fsmap(e {payload.epoch})" in log_of(name)
        assert payload.fsmap.epoch == payload.epoch
        counts["filesystems"] += len(payload.fsmap.filesystems)
        for filesystem in payload.fsmap.filesystems:
            assert filesystem.mds_map.epoch <= payload.epoch
    for payload in of_type(name, MessageType.MGR_DIGEST):
        assert payload.mon_status_json.startswith('{"name":"a"')
    for payload in of_type(name, MessageType.PGSTATS):
        stat = payload.osd_stat
        assert stat.kb * 1024 == stat.statfs.total_bytes
        assert 0 < stat.num_pgs <= len(payload.pg_stat)
        assert all(pg.acting == [0] and pg.up_primary == 0 for pg in payload.pg_stat.values())
        counts["pgs"] += len(payload.pg_stat)
    assert all(counts[what] for what in ("checks", "filesystems", "pgs"))
