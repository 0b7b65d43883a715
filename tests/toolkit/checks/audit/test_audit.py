"""The rules of the wire on hand-made conversations: sound ones, and each with one thing wrong."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.audit import page
from tests.toolkit.checks.audit import sound
from tests.toolkit.checks.audit.sound import (
    Damage,
    Step,
    Steps,
    bears,
    becomes,
    broken,
    has,
    judged,
    lacks,
    repeats,
)
from toolkit.checks.audit.preambles import layout_problem, undefined_late_status
from toolkit.checks.audit.table import RULES

V2: list[tuple[str, Damage]] = [
    ("handshake_order", repeats(2, "a", "HELLO")),
    ("handshake_order", lacks(2, "b", "COMPRESSION_DONE")),
    ("handshake_order", lacks(6, "a", "CLIENT_IDENT")),
    ("banner_features", has(1, "a", "BANNER", required=4)),
    ("auth_mode", has(2, "b", "AUTH_DONE", con_mode=2)),
    ("auth_refusal", has(1, "b", "AUTH_BAD_METHOD", method=1)),
    ("auth_refusal", has(1, "b", "AUTH_BAD_METHOD", result=13)),
    ("auth_retry", has(1, "a", "AUTH_REQUEST", 1, method=4)),
    ("auth_retry", has(1, "a", "AUTH_REQUEST", 1, method=1)),
    ("compression_asked", has(2, "b", "BANNER", supported=1)),
    ("compression_agreed", has(2, "a", "COMPRESSION_REQUEST", is_compress=False)),
    ("compression_agreed", has(2, "b", "COMPRESSION_DONE", method=3)),
    ("compression_agreed", has(2, "b", "COMPRESSION_DONE", is_compress=False)),
    ("dialled_address", has(6, "a", "HELLO", peer_addr="v2:10.0.0.2:6801/13")),
    ("target_address", has(2, "b", "SERVER_IDENT", addrs="v2:10.0.0.2:6801/13")),
    ("features", has(2, "a", "CLIENT_IDENT", features_supported=sound.FEATURES | 1 << 62)),
    ("features_met", has(2, "a", "CLIENT_IDENT", features_supported=0)),
    ("features_missing", has(1, "b", "IDENT_MISSING_FEATURES", features=0)),
    ("features_missing", has(1, "b", "IDENT_MISSING_FEATURES", features=sound.ADDR2)),
    ("flags", has(2, "a", "CLIENT_IDENT", flags=2)),
    ("client_cookie", has(6, "a", "CLIENT_IDENT", flags=0)),
    ("client_cookie", has(6, "a", "CLIENT_IDENT", client_cookie=0xC2)),
    ("server_cookie", has(6, "b", "SERVER_IDENT", flags=0)),
    ("server_cookie", has(6, "b", "SERVER_IDENT", server_cookie=0x60)),
    ("fresh_server_cookie", has(4, "b", "SERVER_IDENT", server_cookie=0x5E)),
    ("resumed_cookies", has(3, "a", "SESSION_RECONNECT", client_cookie=0xCC)),
    ("resumed_cookies", has(3, "a", "SESSION_RECONNECT", server_cookie=0x55)),
    ("ident_order", becomes(3, "a", "SESSION_RECONNECT", "CLIENT_IDENT")),
    ("session_answers", becomes(2, "b", "SERVER_IDENT", "SESSION_RESET", full=True)),
    ("session_answers", becomes(3, "b", "SESSION_RETRY", "SERVER_IDENT")),
    ("session_answers", repeats(3, "b", "SESSION_RECONNECT_OK")),
    ("retry", has(3, "b", "SESSION_RETRY", connect_seq=1)),
    ("retried", has(3, "a", "SESSION_RECONNECT", 1, connect_seq=4)),
    ("retried", has(3, "a", "SESSION_RECONNECT", 2, global_seq=7)),
    ("wait_race", has(5, "a", "HELLO", peer_addr="v2:10.0.0.1:6800/12")),
    ("global_seq", has(3, "a", "SESSION_RECONNECT", global_seq=2)),
    ("connect_seq", has(3, "a", "SESSION_RECONNECT", connect_seq=0)),
    ("connect_seq", has(4, "a", "SESSION_RECONNECT", connect_seq=5)),
    ("seq_step", has(2, "a", "MESSAGE", 1, seq=3)),
    ("seq_step", repeats(2, "a", "MESSAGE", 1)),
    ("first_seq", has(2, "b", "MESSAGE", seq=2)),
    ("replay", has(3, "a", "MESSAGE", seq=2)),
    ("replay", has(3, "b", "MESSAGE", seq=3)),
    ("ack_known", has(2, "b", "ACK", seq=2)),
    ("ack_known", has(3, "a", "MESSAGE", ack_seq=2)),
    ("ack_back", has(2, "b", "MESSAGE", ack_seq=0)),
    ("ack_new", repeats(2, "b", "ACK")),
    ("ack_lossy", becomes(6, "b", "MESSAGE", "ACK", seq=0)),
    ("in_seq", has(3, "b", "SESSION_RECONNECT_OK", msg_seq=1)),
    ("in_seq", has(3, "a", "SESSION_RECONNECT", msg_seq=2)),
    ("keepalive_echo", has(2, "b", "KEEPALIVE2_ACK", nanoseconds=3)),
    ("keepalive_echo", repeats(2, "b", "KEEPALIVE2_ACK")),
    ("compressed", has(3, "b", "COMPRESSION_DONE", is_compress=False, method=0)),
    ("preamble", bears(3, "b", "MESSAGE", preamble="it has 5 segments")),
]
V1: list[tuple[str, Damage]] = [
    ("handshake_order", repeats(1, "a", "CONNECT", 1)),
    ("handshake_order", lacks(1, "b", "SEQ")),
    ("v1_protocol_version", has(1, "a", "CONNECT", protocol_version=11)),
    ("v1_protocol_version", has(5, "b", "CONNECT_REPLY", protocol_version=10)),
    ("v1_connect_seq", has(2, "b", "CONNECT_REPLY", 2, connect_seq=2)),
    ("v1_reply_features", has(1, "b", "CONNECT_REPLY", features=0)),
    ("v1_challenge", has(1, "a", "CONNECT", 1, global_seq=2)),
    ("v1_reset", has(3, "a", "CONNECT", 1, connect_seq=3)),
    ("v1_reset", has(1, "b", "CONNECT_REPLY", tag="RESETSESSION")),
    ("flags", has(2, "b", "CONNECT_REPLY", flags=4)),
    ("retry", has(2, "b", "CONNECT_REPLY", connect_seq=1)),
    ("retried", has(2, "a", "CONNECT", 1, connect_seq=3)),
    ("retried", has(2, "a", "CONNECT", 2, global_seq=5)),
    ("wait_race", has(4, "b", "IDENTIFY", server_addr="v1:10.0.0.9:6802/12")),
    ("global_seq", has(2, "a", "CONNECT", global_seq=1)),
    ("connect_seq", has(3, "a", "CONNECT", connect_seq=1)),
    ("seq_step", has(1, "a", "MSG", 1, seq=1)),
    ("replay", has(2, "a", "MSG", seq=4)),
    ("ack_known", has(1, "b", "ACK", 1, seq=3)),
    ("ack_back", has(1, "b", "ACK", 1, seq=0)),
    ("ack_new", has(1, "b", "ACK", 1, seq=1)),
    ("keepalive_echo", has(1, "b", "KEEPALIVE2_ACK", 1, seconds=8)),
    ("signed", bears(1, "a", "MSG", 1, signed=False)),
]


@pytest.mark.parametrize("conversation", [sound.v1, sound.v2])
def test_valid_conversations_violate_no_rule(conversation) -> None:
    found = judged(conversation())
    assert found.broken == []
    assert len(found.judged) >= 20


@pytest.mark.parametrize(("rule", "damage"), V2)
def test_a_rule_of_v2_notices(rule: str, damage: Damage) -> None:
    steps = sound.v2()
    damage(steps)
    assert rule in broken(steps)


@pytest.mark.parametrize(("rule", "damage"), V1)
def test_a_rule_of_v1_notices(rule: str, damage: Damage) -> None:
    steps = sound.v1()
    damage(steps)
    assert rule in broken(steps)


def test_two_sessions_with_one_client_cookie(story) -> None:
    for session in (1, 2):
        story.link("a", f"a/{session}", "dial", "b", session)
        story.frame("a", f"a/{session}", "tx", "BANNER", 0, session=session)
        story.frame("a", f"a/{session}", "tx", "CLIENT_IDENT", 1, session=session, client_cookie=0xC0, flags=0)
    assert [text for text in story.texts("wire_rules") if "client_cookie" in text] == [
        "a/2: client_cookie c0 of session 2 is that of session 1 (fresh_client_cookie)"
    ]


def test_each_rule_has_a_conversation_that_breaks_it() -> None:
    here = {rule for rule, _ in (*V1, *V2)} | {"fresh_client_cookie"}
    assert here == {rule.id for rule in RULES}
    assert len(RULES) == len(here), "an id is used twice"


def test_the_page_of_rules_is_up_to_date() -> None:
    written = Path(__file__).parents[4] / "docs" / "audit.md"
    assert written.read_text(encoding="utf-8") == page(), "run python docs/audit.py"


def test_rule_without_verdict_gives_a_reason() -> None:
    found = judged(sound.v1())
    assert {"client_cookie", "resumed_cookies", "compressed"} <= {rule.id for rule in found.not_judged}
    assert all(rule.needs for rule in found.not_judged)
    assert not set(found.judged) & set(found.not_judged)


def test_messages_after_missing_bytes_are_not_judged(story) -> None:
    steps = sound.v2()
    has(2, "a", "MESSAGE", 1, seq=7)(steps)
    assert "seq_step" in broken(steps)
    story.wire()
    for tag in ("BANNER", "HELLO"):
        story.pass_frame("a", tag)
        story.pass_frame("b", tag)
    story.pass_frame("a", "MESSAGE", seq=1)
    story.frames[1]["a"][1] += 100  # bytes that were not captured
    story.pass_frame("a", "MESSAGE", seq=9)
    assert [text for text in story.texts("wire_rules") if "seq_step" in text] == []


@given(counts=st.lists(st.integers(0, 4), max_size=12), known=st.integers(0, 9))
def test_any_sequence_of_messages_and_acks_violates_no_rule(counts: list[int], known: int) -> None:
    """Each side sends what it likes, and acknowledges at times what has come."""
    steps: Steps = sound.v2()[:]
    del steps[sound.place(steps, 2, "a", "MESSAGE") :]
    sent, acked = {"a": 0, "b": 0}, {"a": 0, "b": 0}
    for turn, count in enumerate(counts):
        sender, peer = ("a", "b") if turn % 2 else ("b", "a")
        for _ in range(count):
            sent[sender] += 1
            acked[sender] = sent[peer] if known > 4 else acked[sender]
            steps.append(Step(2, sender, "MESSAGE", {"seq": sent[sender], "ack_seq": acked[sender]}))
        if acked[sender] < sent[peer] and known % 2:
            acked[sender] = sent[peer]
            steps.append(Step(2, sender, "ACK", {"seq": acked[sender]}))
    assert broken(steps) == set()


# ---- the layout of frames; the vectors are those of docs/protocol.md §10

_HELLO = (
    "010124000000080000000000000000000000000000000000000000003fbd6b06080101011c0000000200000000000000100000000200"
    "0ce47f00000100000000000000007d883e07"
)
_MESSAGE = (
    "11042900000008000200000008000000000008000500000000100000ed91176a020000000000000009000000000000000f007f0003"
    "0000000000000001000000000000000301000000cf82fe0d414264617461210e15bb6b42ffffffffa61b425e"
)
_KEEPALIVE_REV0 = (
    "12010800000008000000000000000000000000000000000000000000d8d5f5990000006515cd5b070092ae1e3a00000000000000000000"
    "0000"
)


@pytest.mark.parametrize(("frame", "revision"), [(_HELLO, 1), (_MESSAGE, 1), (_KEEPALIVE_REV0, 0)])
def test_valid_layouts_have_no_problem(frame: str, revision: int) -> None:
    raw = bytes.fromhex(frame)
    assert (layout_problem(raw), undefined_late_status(raw, revision=revision)) == ("", None)


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [
        (1, 0, "it has 0 segments"),
        (1, 5, "it has 5 segments"),
        (20, 0, "the last of its 4 segments is empty"),
        (1, 3, "the last of its 3 segments is empty"),
        (1, 2, "a slot after its 2 segments is not zero"),
        (6, 16, "its alignments are [16, 8, 8, 4096]"),
        (25, 0, "its alignments are [8, 8, 8, 0]"),
        (26, 2, "its flags are 0x2, its reserved byte is 0x0"),
        (27, 1, "its flags are 0x0, its reserved byte is 0x1"),
    ],
)
def test_frames_with_a_wrong_byte(at: int, value: int, words: str) -> None:
    frame = bytearray.fromhex(_MESSAGE)
    frame[at] = value
    assert layout_problem(frame) == words


@pytest.mark.parametrize("value", [0, 0x0F, 0x2E, 0xF1])
def test_an_undefined_late_status_is_found(value: int) -> None:
    frame = bytearray.fromhex(_MESSAGE)
    frame[-13] = value
    assert (layout_problem(frame), undefined_late_status(frame, revision=1)) == ("", value)


@given(st.integers(0, 80), st.binary(max_size=80), st.integers(0, 1))
def test_any_bytes_are_judged(sound_bytes: int, rest: bytes, revision: int) -> None:
    frame = bytes.fromhex(_MESSAGE)[:sound_bytes] + rest
    late = None if layout_problem(frame) else undefined_late_status(frame, revision=revision)
    assert late is None or 0 <= late <= 255


@pytest.mark.parametrize(("second", "is_broken"), [(0x2E, True), (0x4E, False)])
def test_late_status_is_judged_if_its_sender_repeats_it(second: int, *, is_broken: bool) -> None:
    steps = sound.v2()
    bears(2, "a", "MESSAGE", 0, late_status=0x2E)(steps)
    assert broken(steps) == set()
    bears(2, "a", "MESSAGE", 1, late_status=second)(steps)
    assert ("preamble" in broken(steps)) is is_broken
