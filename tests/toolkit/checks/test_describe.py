"""Every kind of record in one line."""

import pytest

from toolkit.checks.describe import cut_point, describe, show, summary
from toolkit.checks.records import KINDS, Record

LINES = {
    "link": (
        {"link": "a/1", "action": "dial", "peer": "v2:10.0.0.2:1/2", "session": 1},
        "a/1 dial v2:10.0.0.2:1/2",
    ),
    "frame": (
        {"link": "a/1", "direction": "tx", "tag": "ACK", "length": 40, "fields": {"seq": 3}},
        "tx ACK on a/1, 40 bytes: seq 3",
    ),
    "state": (
        {
            **dict.fromkeys(("in_seq", "out_seq", "acked_seq", "sent", "queued"), 2),
            "session": 1,
            "peer": "b",
            "state": "READY",
            "policy": "lossless_peer",
            "why": "accept",
        },
        "session 1 with b READY (lossless_peer; in 2, out 2, acked 2; 2 to replay, 2 queued): accept",
    ),
    "decision": (
        {"link": "b/2", "session": 1, "verdict": "REUSE", "why": "it goes on"},
        "REUSE on b/2: it goes on",
    ),
    "event": ({"session": 1, "peer": "b", "event": "reset", "detail": ""}, "session 1 with b: reset"),
    "send": ({"session": 1, "peer": "b", "tid": 4, "size": 5}, "session 1 to b: tid 4, 5 bytes"),
    "deliver": (
        {"session": 1, "peer": "b", "tid": 4, "seq": 2, "size": 5},
        "session 1 from b: tid 4, seq 2, 5 bytes",
    ),
    "fault": ({"link": "a/1", "reason": "EOF", "detail": "gone"}, "a/1: EOF: gone"),
    "mark_down": ({"session": 1, "peer": "b"}, "session 1 with b marked down"),
    "unsent": (
        {"session": 3, "peer": "b", "tid": 7, "detail": "not for b"},
        "session 3 to b: tid 7 is dropped: not for b",
    ),
    "exhausted": ({"what": "accept", "detail": "Too many open files"}, "accept failed: Too many open files"),
    "unhandled": (
        {"session": 3, "peer": "b", "seq": 7, "type": 42},
        "session 3 from b: no dispatcher accepts type 42, seq 7",
    ),
    "inject": (
        {"link": "a/1", "option": "ms_inject_socket_failures", "detail": "read"},
        "ms_inject_socket_failures at a/1: read",
    ),
    "io": ({"session": 1, "link": "a/1", "shard": 2, "state": "open"}, "session 1 io open on shard 2"),
    "intercept": ({"link": "a/1", "point": "ACK READ", "action": "STALL"}, "STALL at ACK READ on a/1"),
    "throttle": ({"name": "bytes", "value": 1000, "limit": 2000}, "bytes holds 1,000 of 2,000"),
    "auth": (
        {
            "link": "a/1",
            "method": "cephx",
            "cipher": "aes",
            "mode": "secure",
            "modes": "secure crc",
            "ticket_left_s": 3599.9,
            "key": "0badc0de",
        },
        "a/1 authenticated by cephx, aes, secure of secure crc, ticket good for 3600 s, key 0badc0de",
    ),
    "usage": (
        {"link": "a/1", "tx_nonces": 1200, "rx_nonces": 3, "handshake_bytes": 860, "data_bytes": 0},
        "a/1 used 1,200 nonces to send, 3 to receive, 860 and 0 bytes of memory",
    ),
    "keepalive": (
        {"session": 1, "peer": "b", "interval_s": 10, "timeout_s": 30.0},
        "session 1 with b: keepalive every 10 s, silence of 30 s breaks the link",
    ),
    "exception": ({"where": "timer", "error": "ValueError: no"}, "ValueError: no escaped in timer"),
    "mangle": (
        {"a": "a", "b": "b", "at": {"sender": "a", "tag": "ACK", "nth": 2, "byte": 5}, "what": "flip"},
        "between a and b: flip at byte 5 of a's ACK 2",
    ),
    "path": ({"a": "a", "b": "b", "fault": "slow", "detail": "100 bytes/s"}, "slow a b: 100 bytes/s"),
    "leak": ({"a": "a", "b": "b", "detail": "message 7"}, "plain text between a and b: message 7"),
    "clock": ({"step_s": -3600}, "clock moved by -3600 s"),
    "expect": (
        {"of": "a", "peer": "b", "event": "reset", "count": 1},
        "a is to hear reset of b 1 times",
    ),
    "cut": (
        {"a": "a", "b": "b", "at": {"sender": "a", "tag": "MESSAGE", "nth": 3, "byte": 17}, "detail": "a:MESSAGE"},
        "a and b cut at byte 17 of a's MESSAGE 3",
    ),
    "wait": (
        {"link": "a/1", "name": "dispatch_bytes", "action": "begin"},
        "a/1 waits for dispatch_bytes: begin",
    ),
    "operation": (
        {"number": "1.7", "action": "unknown", "verb": "append", "object": "p/o", "value": "a;", "error": "late"},
        "unknown append p/o, operation 1.7: a;: late",
    ),
    "step": ({"verb": "connect", "args": "a b"}, "connect a b"),
    "settled": (
        {"incarnation": 2, "links": 40, "sessions": 3, "largest": {"b": 100}, "shards": 0},
        "incarnation 2: the records of 40 links were judged and left",
    ),
    "process": ({"action": "kill", "incarnation": 1}, "kill, incarnation 1"),
    "end": (
        {"registry": 1, "links": 2, "queued": 0, "sent": 0, "dispatch_bytes": 0},
        "at rest with 1 registered sessions, 2 links; 0 queued, 0 unacknowledged, 0 bytes held",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(kind):
    fields, line = LINES[kind]
    assert describe(Record(0, "a", kind, fields)) == line


def test_values_for_people():
    assert [show(v) for v in (True, None, 7, 2**40, [1, 2], "x")] == [
        "yes",
        "none",
        "7",
        "10000000000",
        "[1, 2]",
        "x",
    ]


def test_notable_fields():
    fields = {"name": "osd_op", "type": 42, "seq": 4, "tid": 9, "front": 100}
    assert summary("MESSAGE", fields) == "osd_op · seq 4 · tid 9"
    assert summary("SESSION_RECONNECT", {"connect_seq": 1, "msg_seq": 12, "addrs": "..."}) == (
        "connect_seq 1 · msg_seq 12"
    )
    assert summary("SERVER_IDENT", {"server_cookie": 0x1234_5678_9ABC_DEF0}) == "server_cookie 12345678…"
    assert summary("TAG_99", {"x": 1}) == ""


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ({}, ""),
        ({"sender": "a", "tag": "ACK", "nth": 2, "byte": None}, "after a's ACK 2"),
        ({"tag": "ACK", "byte": 0}, "at byte 0 of ACK"),
    ],
)
def test_cut_points(at, words):
    assert cut_point(at) == words


def test_cut_made_at_once():
    fields = {"a": "a", "b": "b", "at": {}, "detail": "now"}
    assert describe(Record(0, "network", "cut", fields)) == "a and b cut now"
