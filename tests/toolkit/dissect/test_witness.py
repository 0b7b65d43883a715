"""A decoded capture against the logs of its messengers: handmade frames, lines as daemons write them."""

import pytest

from toolkit.dissect.daemon_log import parse_log
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import DecodedFrame, MessageInfo, Verdict
from toolkit.dissect.stream import Stream
from toolkit.dissect.witness import compare

UP, DOWN = Direction.TO_SERVER, Direction.TO_CLIENT
CLIENT = "127.0.0.1:0/77"
OSD = "[v2:127.0.0.1:6800/5,v1:127.0.0.1:6801/5]"
PEER = "[v2:127.0.0.1:6810/6,v1:127.0.0.1:6811/6]"
FIRST = Stream(0, "127.0.0.1:40000", "127.0.0.1:6800", opening_seen=True)
SECOND = Stream(1, "127.0.0.1:40001", "127.0.0.1:6800", opening_seen=True)


def frame(stream, direction, tag, message=None, /, **fields):
    return DecodedFrame(
        frame=0, time_ns=0, packet=0, stream=stream, direction=direction, protocol="v2.1", mode="crc", tag=tag,
        offset=0, length=0, crc=Verdict.OK, auth=Verdict.NONE, message=message, read_fields=lambda: fields,
    )  # fmt: skip


def message(name, seq, front=10, data=0):
    return MessageInfo(
        type=0, name=name, seq=seq, tid=0, src="client.4", version=8, compat_version=1, priority=127, front=front,
        middle=0, data=data, ack_seq=0,
    )  # fmt: skip


def greeting(stream=FIRST, client=f"v2:{CLIENT}"):
    """The entity types of both sides, as in HELLO of msgr v2."""
    return [
        frame(stream, UP, "CLIENT_IDENT", addrs=client, target_addr="v2:127.0.0.1:6800/5"),
        frame(stream, DOWN, "SERVER_IDENT", addrs=OSD),
    ]


def sent(own, peer, name, version=" v8"):
    return f"2026-11-21T18:43:02.035+0000 7f86dedd16c0  1 -- {own} --> {peer} -- {name}(1){version} -- 0x1 con 0x2"


def received(own, peer, name, seq, front=10, data=0, version=" v8"):
    return (
        f"2026-11-21T18:43:02.035+0000 7f86dedd16c0  1 -- {own} <== client.4 {peer} {seq} ==== {name}(1){version} "
        f"==== {front}+0+{data} (crc 0 0 0) 0x1 con 0x2"
    )


def logs(client=(), osd=()):
    return [parse_log(client), parse_log(osd)]


CLIENT_LOG = [sent(CLIENT, OSD, "osd_op"), received(CLIENT, "v2:127.0.0.1:6800/5", "osd_op_reply", 1, 152)]
OSD_LOG = [received(OSD, CLIENT, "osd_op", 1, data=300), sent(OSD, CLIENT, "osd_op_reply")]
EXCHANGE = [
    *greeting(),
    frame(FIRST, UP, "MESSAGE", message("osd_op", 1, data=300)),
    frame(FIRST, DOWN, "MESSAGE", message("osd_op_reply", 1, 152)),
]


def test_agreement_counts_both_ends_of_each_message():
    result = compare(EXCHANGE, logs(CLIENT_LOG, OSD_LOG))
    assert (result.sent, result.received, result.differences) == (2, 2, [])
    assert (result.unwitnessed, result.uncaptured) == ([], set())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            received(OSD, CLIENT, "osd_op", 2, data=300),
            "the capture lacks osd_op v8 seq 2 of 10+0+300 bytes",
        ),
        (
            received(OSD, CLIENT, "osd_op", 1, data=299),
            "the capture lacks osd_op v8 seq 1 of 10+0+299 bytes",
        ),
        (received(OSD, CLIENT, "osd_ping", 1, data=300), "the capture lacks osd_ping v8 seq 1"),
        (received(OSD, CLIENT, "osd_op", 1, data=300, version=" v7"), "the capture lacks osd_op v7 seq 1"),
    ],
)
def test_every_number_of_a_received_message_counts(line, words):
    result = compare(EXCHANGE, logs(CLIENT_LOG, [line, OSD_LOG[1]]))
    assert any(words in text for text in result.differences), result.differences


def test_message_missing_in_the_capture_is_reported():
    client_log = [sent(CLIENT, OSD, "osd_backoff"), *CLIENT_LOG]
    result = compare(EXCHANGE, logs(client_log, OSD_LOG))
    assert result.differences == [
        "127.0.0.1:0/77 to 127.0.0.1:6800/5: the capture lacks osd_backoff, which the sender logged"
    ]


def test_message_queued_last_may_stay_unsent():
    result = compare(EXCHANGE, logs([*CLIENT_LOG, sent(CLIENT, OSD, "osd_backoff")], OSD_LOG))
    assert (result.sent, result.unsent, result.differences) == (2, 1, [])


def test_queued_message_without_frames_is_unsent():
    result = compare(greeting(), logs(CLIENT_LOG[:1], []))
    assert (result.sent, result.unsent, result.differences, result.uncaptured) == (0, 1, [], set())


def test_a_message_that_only_the_capture_has():
    extra = frame(FIRST, DOWN, "MESSAGE", message("osd_map", 1))
    reply = frame(FIRST, DOWN, "MESSAGE", message("osd_op_reply", 2, 152))
    client_log = [CLIENT_LOG[0], received(CLIENT, "v2:127.0.0.1:6800/5", "osd_op_reply", 2, 152)]
    result = compare([*EXCHANGE[:3], extra, reply], logs(client_log, OSD_LOG))
    pair = "127.0.0.1:6800/5 to 127.0.0.1:0/77"
    assert result.differences == [
        f"{pair}: the sender did not log osd_map",
        f"{pair}: the receiver did not log osd_map v8 seq 1 of 10+0+0 bytes",
    ]


def test_last_messages_may_stay_unread():
    late = [frame(FIRST, DOWN, "MESSAGE", message("osd_map", seq)) for seq in (2, 3)]
    osd_log = [*OSD_LOG, *[sent(OSD, CLIENT, "osd_map")] * 2]
    result = compare([*EXCHANGE, *late], logs(CLIENT_LOG, osd_log))
    assert (result.sent, result.received, result.unread, result.differences) == (4, 2, 2, [])


def test_logs_without_versions_are_compared_without():
    lines = [line.replace(" v8", "") for line in OSD_LOG]
    assert compare(EXCHANGE, logs(CLIENT_LOG, lines)).differences == []


def test_a_sender_prints_a_version_that_may_not_be_that_of_the_wire():
    osd_log = [OSD_LOG[0], sent(OSD, CLIENT, "osd_op_reply", version=" v9")]
    assert compare(EXCHANGE, logs(CLIENT_LOG, osd_log)).differences == []


def test_missing_log_is_reported_with_its_owner():
    result = compare(EXCHANGE, [parse_log(CLIENT_LOG)])
    assert result.differences == []
    assert [text.rpartition(": ")[2] for text in result.unwitnessed] == ["127.0.0.1:6800/5 left no log"] * 2


def test_logged_messages_without_a_captured_link_are_reported():
    line = received(OSD, PEER, "osd_repop", 1)
    result = compare(EXCHANGE, logs(CLIENT_LOG, [*OSD_LOG, line]))
    ((own, peer),) = result.uncaptured
    assert "127.0.0.1:6800/5" in own
    assert "127.0.0.1:6810/6" in peer


def test_message_resent_on_a_resumed_session_is_logged_once():
    frames = [
        *greeting(client=PEER),
        frame(FIRST, UP, "MESSAGE", message("osd_repop", 1)),
        frame(SECOND, UP, "SESSION_RECONNECT", addrs=PEER),
        frame(SECOND, DOWN, "SESSION_RECONNECT_OK", msg_seq=0),
        frame(SECOND, UP, "MESSAGE", message("osd_repop", 1)),
        frame(SECOND, UP, "MESSAGE", message("osd_repop", 2)),
    ]
    lines = [received(OSD, "v2:127.0.0.1:6810/6", "osd_repop", seq) for seq in (1, 2)]
    result = compare(frames, [parse_log(lines)])
    assert (result.received, result.repeated, result.differences) == (2, 1, [])


def test_a_link_that_lost_a_race_changes_nothing():
    lost = Stream(2, "127.0.0.1:40002", "127.0.0.1:6800", opening_seen=True)
    frames = [
        *greeting(client=PEER),
        frame(FIRST, UP, "MESSAGE", message("osd_repop", 1)),
        frame(lost, UP, "CLIENT_IDENT", addrs=PEER, target_addr="v2:127.0.0.1:6800/5"),
        frame(lost, DOWN, "WAIT"),
        frame(SECOND, UP, "SESSION_RECONNECT", addrs=PEER),
        frame(SECOND, DOWN, "SESSION_RECONNECT_OK", msg_seq=0),
        frame(SECOND, UP, "MESSAGE", message("osd_repop", 1)),
    ]
    result = compare(frames, [parse_log([received(OSD, "v2:127.0.0.1:6810/6", "osd_repop", 1)])])
    assert (result.received, result.repeated, result.differences) == (1, 1, [])


def test_seqs_restart_with_a_new_session():
    frames = [
        *greeting(),
        frame(FIRST, UP, "MESSAGE", message("osd_op", 1)),
        *greeting(SECOND),
        frame(SECOND, UP, "MESSAGE", message("osd_op", 1)),
    ]
    result = compare(frames, [parse_log([received(OSD, CLIENT, "osd_op", 1)] * 2)])
    assert (result.received, result.repeated, result.differences) == (2, 0, [])


def test_v1_parties_are_known_from_the_first_frames():
    def v1_link(stream, connect_seq, seqs):
        return [
            frame(stream, DOWN, "IDENTIFY", server_addr="v1:127.0.0.1:6801/5", client_addr="v1:127.0.0.1:40000/0"),
            frame(stream, UP, "IDENTIFY", client_addr="v1:127.0.0.1:6811/6"),
            frame(stream, UP, "CONNECT", connect_seq=connect_seq),
            *[frame(stream, UP, "MSG", message("osd_repop", seq)) for seq in seqs],
        ]

    lines = [received("v1:127.0.0.1:6801/5", "v1:127.0.0.1:6811/6", "osd_repop", seq) for seq in (1, 2, 3)]
    result = compare([*v1_link(FIRST, 0, [1, 2]), *v1_link(SECOND, 1, [2, 3])], [parse_log(lines)])
    assert (result.received, result.repeated, result.differences) == (3, 1, [])
