"""Rules as texts and as values."""

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from messenger.errors import LocalError
from toolkit.dissect.stream import Ending
from toolkit.faults.dials import Refuse
from toolkit.faults.edits import Inject, SetFields, Sign
from toolkit.faults.mangle import (
    Drop,
    Duplicate,
    Flip,
    Insert,
    Join,
    Reflect,
    Replace,
    Replay,
    Rewrite,
    Swap,
    Truncate,
)
from toolkit.faults.script import VERBS, Cut, Rule, Where, as_rules, parse_script, read_script, strikes
from toolkit.faults.strike import ALL, Passes
from toolkit.faults.timing import Delay, Hold, Log, Pieces, Slow

TEXTS = {
    "<- MESSAGE osd_op_reply #3: cut after": Rule(
        Where("<-", "MESSAGE", "osd_op_reply", Passes(3, 3)), Cut(byte=None)
    ),
    "-> HELLO: cut at -4": Rule(Where("->", "HELLO"), Cut(-4)),
    "* : close": Rule(Where(), Cut(0, Ending.FIN)),
    "<-> SERVER_IDENT: hold ident for 2s": Rule(Where("<->", "SERVER_IDENT"), Hold("ident", 2.0)),
    "client MESSAGE mon_* every 2: hold m alone": Rule(
        Where("client", "MESSAGE", "mon_*", Passes(2, None, 2)), Hold("m", alone=True)
    ),
    "-> KEEPALIVE2 #3+ every 5: delay 200ms": Rule(
        Where("->", "KEEPALIVE2", passes=Passes(3, None, 5)), Delay(0.2)
    ),
    "-> ACK #2-4 per link: drop": Rule(Where("->", "ACK", passes=Passes(2, 4), per_link=True), Drop()),
    "-> SESSION_* link 2: drop rest": Rule(Where("->", "SESSION_*", links=Passes(2, 2)), Drop(rest=True)),
    "MESSAGE if message.tid == 5 and fields.oid == 'a:b': duplicate after 1s": Rule(
        Where(tag="MESSAGE", filter="message.tid == 5 and fields.oid == 'a:b'"), Duplicate(1.0)
    ),
    "-> MESSAGE #2: replay HELLO #1 instead": Rule(
        Where("->", "MESSAGE", passes=Passes(2, 2)), Replay("HELLO", 1, instead=True)
    ),
    "<- SERVER_IDENT: set features_required=0x10 flags=1 unfixed": Rule(
        Where("<-", "SERVER_IDENT"), SetFields((("features_required", "0x10"), ("flags", "1")), fix=False)
    ),
    "-> CLIENT_IDENT: corrupt global_seq byte 2 mask 0x80 fixed": Rule(
        Where("->", "CLIENT_IDENT"), Flip(2, 0x80, "", fix_crc=True, field="global_seq")
    ),
    "MESSAGE: corrupt byte -1 of segment 2": Rule(Where(tag="MESSAGE"), Flip(-1, 1, "segment 2")),
    "<- MESSAGE #1 link 2+: inject ACK seq=7 before back": Rule(
        Where("<-", "MESSAGE", passes=Passes(1, 1), links=Passes(2)),
        Inject("ACK", (("seq", "7"),), before=True, back=True),
    ),
    "* #1: log it begins": Rule(Where(passes=Passes(1, 1)), Log("it begins")),
    "* : trickle rest": Rule(Where(), Pieces(1, rest=True)),
    "* : slow 10KB/s": Rule(Where(), Slow(10_000.0)),
    "-> dial #2+: refuse": Rule(Where("->", "dial", passes=Passes(2)), Refuse()),
    "dial: delay 0.5s": Rule(Where(tag="dial"), Delay(0.5)),
    "AUTH_SIGNATURE: sign": Rule(Where(tag="AUTH_SIGNATURE"), Sign()),
    "BANNER: replace 00ff": Rule(Where(tag="BANNER"), Replace(b"\x00\xff")),
    "CONNECT: insert - at 3": Rule(Where(tag="CONNECT"), Insert(b"", 3)),
}


@pytest.mark.parametrize(("text", "rule"), TEXTS.items())
def test_texts_and_values_are_the_same(text: str, rule: Rule) -> None:
    assert Rule.parse(text) == rule
    assert Rule.parse(str(rule)) == rule


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "rule, column 1: the ':' between where and what is missing; a rule is WHERE: WHAT"),
        ("-> HELLO", "rule, column 9: the ':' between"),
        ("-> HELO: drop", "rule, column 4: no tag 'HELO'; did you mean HELLO"),
        ("-> MESSAGE osd_opp: drop", "rule, column 4: unknown message 'osd_opp'; did you mean osd_op"),
        ("-> ACK osd_op: drop", "ACK is no message, so it has no message name 'osd_op'"),
        ("-> HELLO #0: drop", "rule, column 10: '#0' is not #N, #N-M or #N[+]"),
        ("-> HELLO #5-3: drop", "rule, column 10: #5-3: the last comes before the first"),
        ("-> HELLO #1 twice: drop", "rule, column 13: 'twice' does not belong here; WHERE is "),
        ("-> HELLO: explode", "rule, column 11: no verb 'explode'; known: close, corrupt, cut"),
        ("-> HELLO: ", "rule, column 11: it ends too early; expected here: a verb: one of cut"),
        ("-> HELLO: delay soon", "rule, column 17: 'soon' is not a time like 200ms or 1.5s"),
        ("-> HELLO: drop all", "rule, column 16: 'all' does not belong here; it is drop .rest."),
        ("-> HELLO: cut at noon", "rule, column 18: 'noon' is not a number of a byte"),
        ("-> HELLO: set entity_type", "rule, column 15: 'entity_type' is not FIELD=VALUE"),
        ("-> MESSAGE if  1 < message.sec: drop", "rule, column 20: a message has no 'sec'"),
        ("-> MESSAGE if tag == : drop", "rule, column 21: it ends too early"),
        ("Client! HELLO: drop", "rule, column 1: no tag .Client!.; known: ACK"),
        ("client! HELLO: drop", "rule, column 1: 'client!' is not a sender: ->, <-, <-> or the name of a party"),
        ("-> MESSAGE if 'a: drop", "rule, column 23: the ' of a text is missing"),
        ("-> dial if tag == 'HELLO': refuse", "a dial is no frame"),
        ("-> HELLO: refuse", "rule, column 10: a dial can be refused, held or delayed"),
        ("dial: drop", "rule, column 6: a dial can be refused"),
        ("HELLO\x1b: drop", "rule, column 6: a control character"),
    ],
)
def test_errors_have_place_and_accepted_words(text: str, complaint: str) -> None:
    with pytest.raises(LocalError, match=complaint):
        Rule.parse(text)


_passes = st.one_of(
    st.just(ALL),
    st.builds(
        lambda first, more, every: Passes(first, None if more is None else first + more, every),
        st.integers(1, 99),
        st.none() | st.integers(0, 9),
        st.integers(1, 5),
    ),
)
_names = st.from_regex(r"[a-z][a-z0-9_.-]{0,5}", fullmatch=True)
_times = st.floats(0, 86_400).map(abs)
_assignments = st.lists(
    st.tuples(
        st.from_regex(r"[a-z_][a-z0-9_.]{0,5}", fullmatch=True), st.from_regex(r"[!-~]{1,9}", fullmatch=True)
    ),
    max_size=3,
).map(tuple)
_whats = st.one_of(
    st.builds(Cut, st.none() | st.integers(-999, 999), st.sampled_from(Ending)),
    st.builds(Hold, _names, st.none() | _times, st.booleans()),
    st.builds(Delay, _times, st.booleans()),
    st.builds(Drop, st.booleans()),
    st.builds(Duplicate, st.none() | _times),
    st.builds(Replay, st.sampled_from(["ACK", "MSG", "BANNER"]), st.integers(1, 99), st.booleans()),
    st.sampled_from([Swap(), Join(), Sign()]),
    st.builds(Reflect, st.booleans()),
    st.builds(Truncate, st.integers(-99, 99)),
    st.builds(
        Flip,
        st.integers(-99, 99),
        st.integers(1, 255),
        st.sampled_from(["", "segment 0", "crc 0", "preamble"]),
        st.booleans(),
    ),
    st.builds(Flip, st.integers(-99, 99), st.integers(1, 255), st.just(""), st.booleans(), _names),
    st.builds(SetFields, _assignments.filter(bool), st.booleans()),
    st.builds(Inject, st.sampled_from(["ACK", "MESSAGE", "CONNECT"]), _assignments, st.booleans(), st.booleans()),
    st.builds(Insert, st.binary(max_size=9), st.none() | st.integers(-9, 9)),
    st.builds(Replace, st.binary(max_size=9)),
    st.builds(Slow, st.floats(0.001, 1e9), st.booleans()),
    st.builds(Pieces, st.integers(1, 9999), st.booleans()),
    st.builds(Log, st.from_regex(r"([!-~]{1,5}( [!-~]{1,5}){0,2})?", fullmatch=True)),
)
_wheres = st.builds(
    Where,
    st.sampled_from(["->", "<-", "<->"]) | _names.filter(lambda name: name != "dial"),
    st.sampled_from(["*", "MESSAGE", "M*"]),
    st.sampled_from(["", "osd_op", "mon_*"]),
    _passes,
    st.booleans(),
    st.builds(Passes, st.integers(1, 9)) | st.just(ALL),
    st.sampled_from(["", "message.seq > 5", "fields.name == 'x: y'", 'error != "a\\":"']),
)
_rules = st.one_of(
    st.builds(Rule, _wheres, _whats),
    st.builds(
        Rule,
        st.builds(Where, st.sampled_from(["->", "<-", "<->"]), st.just("dial"), passes=_passes),
        st.one_of(st.builds(Refuse), st.builds(Delay, _times), st.builds(Hold, _names, st.none() | _times)),
    ),
)


@given(_rules)
def test_text_of_a_rule_parses_to_the_rule(rule: Rule) -> None:
    text = str(rule)
    assert Rule.parse(text) == rule
    assert str(Rule.parse(text)) == text


_pieces = st.sampled_from(
    ["->", "<-", "MESSAGE", "*", "#1", "#", ":", " ", "if ", "every", "link", "'", "message.seq", "==", "dial"]
    + [f" {verb} " for verb in VERBS]
    + ["at", "-1", "0x10", "1e400s", "NaNs", "byte", "of", "segment", "a=b", "=", "after", "9" * 30, "é", "\\"]
)


@given(
    st.text(max_size=60)
    | st.lists(_pieces, max_size=12).map("".join)
    | st.lists(_pieces, max_size=12).map(" ".join)
)
@example("-> HELLO: slow 1e400B/s")
@example("-> HELLO: delay NaNs")
@example("-> HELLO: hold x for 1e9s")
def test_any_text_is_a_rule_or_one_error(text: str) -> None:
    complaint = ""
    try:
        rule = Rule.parse(text)
    except LocalError as error:
        complaint = str(error)
    if complaint:
        assert re.fullmatch(r"rule, column \d+: .+", complaint)
        return
    assert Rule.parse(str(rule)) == rule
    if rule.where.sender in {"->", "<-", "<->"}:
        rule.strike("client", "server")


def test_scripts_have_comments_and_errors_have_lines(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text("# how it ends\n\n-> HELLO: drop\r\n  <- HELLO: cut\n")
    assert [str(rule) for rule in read_script(path)] == ["-> HELLO: drop", "<- HELLO: cut before"]
    with pytest.raises(LocalError, match="script, line 2: rule, column 9: "):
        parse_script("* : drop\nnonsense")
    with pytest.raises(LocalError, match="No such file"):
        read_script(tmp_path / "none")


def test_texts_and_values_may_be_mixed() -> None:
    rule = Rule(Where(), Drop())
    assert as_rules([rule, "* : drop\n* : swap"]) == [rule, rule, Rule(Where(), Swap())]


def test_rule_refuses_an_unknown_party() -> None:
    with pytest.raises(LocalError, match=r"no party 'c' here; there are a \(->\) and b \(<-\)"):
        strikes("c HELLO: drop", "a", "b")


def test_functions_have_no_text() -> None:
    with pytest.raises(LocalError, match="Rewrite has no text"):
        str(Rule(Where(), Rewrite(lambda frame: frame)))
