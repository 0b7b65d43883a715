"""The language of ``msgrlab decode --filter``."""

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.errors import LocalError
from tests.support.refusals import read_or_refused
from toolkit.dissect.direction import Direction
from toolkit.dissect.filters import NAMES, compile_filter
from toolkit.dissect.frames import DecodedFrame, MessageInfo, Verdict
from toolkit.dissect.stream import Stream

FIELDS = {"what": {"osdmap": {"start": 3}}, "hosts": ["a", "b"], "flags": 5, "name": "Ö"}


def message_frame(**changes: object) -> DecodedFrame:
    info = MessageInfo(15, "mon_subscribe", 7, 4, "client.4112", 3, 1, 127, 56, 0, 0, 2)
    return DecodedFrame(
        **{
            "frame": 12,
            "time_ns": 1_700_000_000_250_000_000,
            "packet": 30,
            "stream": Stream(2, "10.0.0.2:40112", "10.0.0.1:3300", opening_seen=True),
            "direction": Direction.TO_SERVER,
            "protocol": "v2.1",
            "mode": "secure",
            "tag": "MESSAGE",
            "offset": 1234,
            "length": 310,
            "crc": Verdict.OK,
            "auth": Verdict.NO_KEY,
            "message": info,
            "read_fields": lambda: {
                "what": {"osdmap": {"start": 3}},
                "hosts": ["a", "b"],
                "flags": 5,
                "name": "Ö",
            },
        }
        | changes
    )


ACK = message_frame(tag="ACK", message=None, auth=Verdict.OK, crc=Verdict.BAD, error="crc", read_fields=dict)


@pytest.mark.parametrize(
    "text",
    [
        'tag == "MESSAGE" and message.name == "mon_subscribe" and message.seq > 5',
        "stream == 2",
        'src.startswith("10.0.0.2")',
        'src.startswith(("1.", "10."))',
        'dst.endswith(":3300")',
        '"mess" in tag.lower()',
        'tag in ("ACK", "MESSAGE")',
        'tag not in ["ACK", "HELLO"]',
        'crc == "ok" and auth == "no-key"',
        "error is None",
        "not error",
        "message",
        "message is not None",
        "5 < message.seq <= 7",
        "message.ack_seq == message.seq - 5",
        "time - 1700000000 < 0.5",
        "time >= 1700000000.25",
        "fields.what.osdmap.start == 3",
        'fields["what"]["osdmap"]',
        'fields.hosts[1] == "b" and fields.hosts[-1] == "b"',
        '"a" in fields.hosts',
        '"flags" in fields',
        "fields.flags & 4",
        "not fields.flags & 2",
        "-fields.flags < 0",
        'fields.name == "Ö"',
        'direction == "to_server" and packet == 30 and not compressed',
        'mode == "secure" or frame == 0',
        "\n  length == 310\n and offset == 1234  ",
        'protocol == "v2.1"',
        "frame == 12",
    ],
)
def test_filter_matches_and_its_negation_does_not(text: str) -> None:
    assert compile_filter(text)(message_frame())
    assert not compile_filter(f"not ({text})")(message_frame())


@pytest.mark.parametrize(
    "text",
    [
        "message.seq > 0",
        "message.seq < 0",
        "message.seq == 0",
        "message",
        "fields.cookie == 1",
        "fields.cookie.deeper[3] < 9",
        "fields[0] == 1",
        '"x" in fields.cookie',
        "tag[0]",
        "tag.lower().startswith(5)",
        "length < 'x'",
        "'x' in length",
        "error < None",
        "fields.frame",
        "fields + 1",
        "time & 1",
        f"{'9' * 400} + 0.5",
    ],
)
def test_filter_on_a_missing_field_or_another_type_does_not_match(text: str) -> None:
    assert not compile_filter(text)(ACK)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('tag = "X"', ["column 5", "=="]),
        ("tag == MESSAGE", ["column 8", "'MESSAGE'", "quotes", "stream, src"]),
        ("seq > 5", ["column 1", "message.seq"]),
        ('stream == 1 and "é" == naam', ["column 24", "'naam'"]),
        ("message.nmae == 1", ["column 1", "'nmae'", "name, seq"]),
        ("src.host == 1", ["column 1", ".host"]),
        ("(stream == 1", ["column 1", "never closed"]),
        ('tag == "MESSAGE" and', ["column 21", "ends too early"]),
        ("a && b", ["column 4", "and/or/not"]),
        ("tag.replace('a', 'b')", ["cannot be called", "startswith()"]),
        ("open('/etc/passwd')", ["column 1", "cannot be called"]),
        ("tag.startswith()", ["takes 1 argument"]),
        ("tag.lower(1)", ["takes no arguments"]),
        ("tag.startswith(prefix='a')", ["takes 1 argument"]),
        ('"x" * 1000000000', ["this operator"]),
        ("2 ** 99", ["this operator"]),
        ("1 if tag else 2", ["if/else"]),
        ("[x for x in src]", ["this cannot be used"]),
        ("lambda: 1", ["a function"]),
        ('f"{tag}"', ["a formatted text"]),
        ("b'a' == tag", ["a literal of this kind"]),
        ("fields[0:1]", ["a slice"]),
        ("fields.__class__.__init__.__globals__()", ["cannot be called"]),
        ('tag in "a", "b"', ["brackets"]),
        ('crc == "wrong"', ["column 8", "'ok', 'bad', 'none', 'no-key'"]),
        ('mode != "encrypted"', ["'crc', 'secure'"]),
        ('tag == "message"', ["column 8", "did you mean 'MESSAGE'?"]),
        ('tag != "osd_op"', ["known: 'ACK', 'AUTH_BAD_METHOD'"]),
        ("tag == \x00", ["column 8", "control character"]),
        ("", ["empty"]),
        ("   ", ["empty"]),
        ("(" * 300, ["nested"]),
        ("-" * 3000 + "1", ["levels deep" if sys.version_info >= (3, 13) else "recursion"]),  # by Python's parser
        ("not " * 100 + "tag", ["levels deep"]),
        ("tag " * 2000, ["column 4097", "7999 characters"]),
    ],
)
def test_mistake_is_an_error_with_place_and_accepted_words(text: str, words: list[str]) -> None:
    with pytest.raises(LocalError) as caught:
        compile_filter(text)
    assert re.match(r"filter, column \d+: ", str(caught.value))
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_names_are_the_record_of_json_and_some_more() -> None:
    assert list(NAMES)[:17] == list(message_frame().as_json())
    for name, value in message_frame().as_json().items():
        if not isinstance(value, dict):
            assert NAMES[name](message_frame()) == value


_leaves = st.sampled_from(
    [*NAMES, "message.seq", "message.name", "fields.flags", "fields.hosts[0]", "None", "3", "-1", "'ok'", "2.5"]
)


_BINARY = ("and", "or", "<", ">=", "==", "in", "not in", "+", "-", "&", ",")


def _grown(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} {} {})".format, parts, st.sampled_from(_BINARY), parts),
        st.builds("{}[{}]".format, parts, parts),
        st.builds("{}.startswith({})".format, parts, parts),
        parts.map("(not {})".format),
        parts.map("{}.lower()".format),
    )


@given(st.recursive(_leaves, _grown, max_leaves=12))
def test_compiled_filter_never_raises(text: str) -> None:
    try:
        wanted = compile_filter(text)
    except LocalError:
        return
    assert wanted(message_frame()) in (True, False)
    assert wanted(ACK) in (True, False)


@given(st.text(max_size=60))
def test_any_text_compiles_or_is_a_local_error(text: str) -> None:
    assert read_or_refused(lambda: compile_filter(text)(ACK), LocalError) in {True, False, None}


def test_the_examples_of_the_guide_compile() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "decode.md").read_text(encoding="utf-8")
    examples = guide.partition("### Filters")[2].split("```")[1].strip().splitlines()
    assert len(examples) == 5
    for example in examples:
        assert compile_filter(example)(message_frame()) in (True, False)


def test_parts_of_fields_that_no_frame_had_are_known() -> None:
    wanted = compile_filter('fields.seq == 7 and fields["seq"] < 8 and fields.ops[0].sequel == 1')
    assert wanted.absent == ["fields.seq", "fields['seq']", "fields.ops"]
    assert not wanted(message_frame(tag="ACK", message=None, read_fields=lambda: {"seq": 7}))
    assert wanted.absent == ["fields.ops"]
