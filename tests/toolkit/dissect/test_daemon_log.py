"""Lines of real daemons and clients of four releases, and what is read from them."""

import gzip

import pytest

from messenger.messages.types import MessageType, message_name
from toolkit.dissect.daemon_log import addresses, entries, parse_entry, parse_log, printed_name, read_log

NAUTILUS_SENT = (
    "2026-11-21 18:42:50.323 7f685a95a700  1 -- [v2:127.0.0.1:6810/19451,v1:127.0.0.1:6811/19451] --> "
    "[v2:127.0.0.1:6802/19450,v1:127.0.0.1:6803/19450] -- osd_repop(client.4124.0:3 1.0 e16/15 "
    "1:444c70ea:::object:head v 16'4) v2 -- 0x558a5a453800 con 0x558a5a484000"
)
NAUTILUS_RECEIVED = (
    "2026-11-21 18:42:50.411 7f8206251700  1 -- [v2:127.0.0.1:6802/19450,v1:127.0.0.1:6803/19450] <== osd.1 "
    "v2:127.0.0.1:6810/19451 9 ==== osd_repop(client.4124.0:5 1.0 e16/15) v2 ==== 1023+0+1015 (secure 0 0 0) "
    "0x558b1536e800 con 0x558b15390d80"
)
PACIFIC_V1 = (
    "2026-11-21T18:43:02.035+0000 7f86dedd16c0  1 -- v1:127.0.0.1:6800/20992 <== client.4113 "
    "v1:127.0.0.1:0/2340523057 1 ==== osd_op(client.4113.0:1 1.0 1.e59e945d (undecoded) "
    "ondisk+write+known_if_redirected e9) v8 ==== 217+0+18000 (unknown 1150008040 0 1912974247) 0x7f86d00053d0 "
    "con 0x7f86d4004b80"
)
TENTACLE_SENT = (
    "2026-11-21T18:35:09.083+0000 7f16ab9bc6c0  1 -- 127.0.0.1:0/4057735306 --> "
    "[v2:127.0.0.1:3300/0,v1:127.0.0.1:6789/0] -- mon_subscribe({config=0+,monmap=0+}) -- 0x7140e50 con 0x7362600"
)
TENTACLE_BEFORE = (
    "2026-11-21T18:35:09.079+0000 7f16af7ba200  1 --  --> [v2:127.0.0.1:3300/0,v1:127.0.0.1:6789/0] -- "
    "mon_getmap magic: 0 -- 0x71c6d10 con 0x7362600"
)
TENTACLE_RECEIVED = (
    "2026-11-21T18:35:09.083+0000 7f9b877f46c0  1 -- [v2:127.0.0.1:3300/0,v1:127.0.0.1:6789/0] <== client.? "
    "127.0.0.1:0/4057735306 1 ==== mon_getmap magic: 0 ==== 0+0+0 (crc 0 0 0) 0x561cf70f8c80 con 0x561cf7196400"
)
REEF_ACK = (
    "2026-11-21T18:35:12.655+0000 7f64f1d0b6c0  1 -- 127.0.0.1:0/942354259 <== mon.0 v2:127.0.0.1:3300/0 6 ==== "
    'mon_command_ack([{"prefix": "osd stat", "format": "json"}]=0  v10) v1 ==== 74+0+130 (crc 0 0 0) '
    "0x7f8284036dc0 con 0x75f1210"
)
TO_ITSELF = (
    "2026-11-21 18:37:30.075 7f424d843700  1 --  -->  -- log(1 entries from seq 1 at 2026-11-21 18:37:30.081145) "
    "v1 -- 0x559eb7991200 con 0x559eb6b75b00"
)
OTHER = (
    "2026-11-21T18:37:13.559+0000 7f8e603926c0  1 --2- [v2:127.0.0.1:6810/8635,v1:127.0.0.1:6811/8635] >> "
    "[v2:127.0.0.1:6802/8636,v1:127.0.0.1:6803/8636] conn(0x7f8e38007b70 0x7f8e3800a920 unknown :-1 s=READY pgs=2 "
    "cs=0 l=0 rev1=1 rx=0 tx=0)._fault initiating reconnect"
)


def test_parse_entry_reads_a_sent_message():
    message = parse_entry(NAUTILUS_SENT)
    assert message.sent
    assert (message.name, message.version, message.con) == ("osd_repop", 2, "0x558a5a484000")
    assert message.text.endswith("v 16'4)")
    assert message.own == {"127.0.0.1:6810/19451", "127.0.0.1:6811/19451"}
    assert message.peer == {"127.0.0.1:6802/19450", "127.0.0.1:6803/19450"}
    assert (message.seq, message.lengths, message.mode) == (None, None, "")


@pytest.mark.parametrize(
    ("line", "entity", "name", "version", "seq", "lengths", "mode"),
    [
        (NAUTILUS_RECEIVED, "osd.1", "osd_repop", 2, 9, (1023, 0, 1015), "secure"),
        (PACIFIC_V1, "client.4113", "osd_op", 8, 1, (217, 0, 18000), "unknown"),
        (REEF_ACK, "mon.0", "mon_command_ack", 1, 6, (74, 0, 130), "crc"),
        (TENTACLE_RECEIVED, "client.?", "mon_getmap", None, 1, (0, 0, 0), "crc"),
    ],
)
def test_parse_entry_reads_a_received_message(line, entity, name, version, seq, lengths, mode):
    message = parse_entry(line)
    assert not message.sent
    assert (message.peer_entity, message.name, message.version) == (entity, name, version)
    assert (message.seq, message.lengths, message.mode) == (seq, lengths, mode)


def test_times_have_a_zone_or_are_utc():
    assert parse_entry(NAUTILUS_SENT).time_ns == 1795286570_323_000_000
    assert parse_entry(REEF_ACK).time_ns == 1795286112_655_000_000
    assert parse_entry(REEF_ACK.replace("+0000", "+0200")).time_ns == 1795278912_655_000_000


def test_tentacle_prints_no_versions():
    assert parse_entry(TENTACLE_SENT).version is None
    assert parse_entry(TENTACLE_SENT).text == "mon_subscribe({config=0+,monmap=0+})"


def test_a_client_that_does_not_know_its_address_yet_has_that_of_its_next_line():
    (first, second) = parse_log([TENTACLE_BEFORE, TENTACLE_SENT])
    assert first.own == second.own == {"127.0.0.1:0/4057735306"}


def test_a_connection_object_that_is_used_again_is_another_peer():
    elsewhere = TENTACLE_SENT.replace("3300/0", "3301/0").replace("6789/0", "6790/0")
    assert parse_log([TENTACLE_BEFORE, elsewhere])[0].own == frozenset()


def test_other_lines_are_skipped():
    assert parse_log([OTHER, "", "no log at all", NAUTILUS_SENT]) == parse_log([NAUTILUS_SENT])
    assert parse_entry(TO_ITSELF) is None


def test_messages_of_several_lines_are_one_entry():
    command = REEF_ACK.replace("osd stat", "osd\nstat")
    lines = f"{command}\n{OTHER}\n".splitlines(keepends=True)
    assert list(entries(lines)) == [command, OTHER]
    assert parse_log(lines)[0].name == "mon_command_ack"


def test_logs_inside_gzip(tmp_path):
    path = tmp_path / "osd.0.log.gz"
    path.write_bytes(gzip.compress(f"{NAUTILUS_SENT}\n{NAUTILUS_RECEIVED}\n".encode()))
    assert [message.sent for message in read_log(path)] == [True, False]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[v2:10.0.0.1:6800/7,v1:10.0.0.1:6801/7]", {"10.0.0.1:6800/7", "10.0.0.1:6801/7"}),
        ("v2:[fd00::1]:6800/7", {"[fd00::1]:6800/7"}),
        ("10.0.0.1:0/77", {"10.0.0.1:0/77"}),
        ("-", set()),
    ],
)
def test_addresses(text, expected):
    assert addresses(text) == expected


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("log(1 entries from seq 28 at 2026-11-21T18:43:15.583897+0000)", MessageType.LOG),
        ("log(last 29)", MessageType.LOGACK),
        ("mon_map magic: 0", MessageType.MON_MAP),
        ("watch-notify(notify (1) cookie 123765696 notify 42949672960 ret 0)", MessageType.WATCH_NOTIFY),
        ("osd pg remove(epoch 48; pg5.0; )", MessageType.OSD_PG_REMOVE),
        ("fsmap.user(e 4)", MessageType.FS_MAP_USER),
        ("HB", MessageType.MDS_HEARTBEAT),
        ("peer_request(client.4128:31.0 authpin)", MessageType.MDS_PEER_REQUEST),
        ("slave_request(client.4128:31.0 authpin)", MessageType.MDS_PEER_REQUEST),
        (
            "PGlog(1.0 log log((0'0,0'0], crt=0'0) pi ([0,0] all_participants= intervals=) e13/13)",
            MessageType.OSD_PG_LOG,
        ),
    ],
)
def test_printed_forms_begin_with_names(text, kind):
    assert printed_name(text) == message_name(kind)
