"""The syntax of faults."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.errors import LocalError
from messenger.interception import Action
from toolkit.faults.language import Fault, Undo, parse, words
from toolkit.faults.language.messengers import Arm, Proxy, Release, Unblock
from toolkit.faults.language.network import Block, Flap, Heal, ImpairLink, Partition, Refuse
from toolkit.faults.language.processes import Clock, Descriptors, Kill, Restart
from toolkit.network.state import LinkState

NODES = st.from_regex("[a-z][a-z0-9]{0,7}", fullmatch=True)
PAIRS = st.tuples(NODES, NODES).filter(lambda pair: pair[0] != pair[1])


@pytest.mark.parametrize("word", words(), ids=lambda word: word.word)
def test_examples_print_as_they_are_parsed(word) -> None:
    fault = parse(word.example)
    assert word.word == fault.WORD
    assert parse(str(fault)) == fault
    assert str(parse(str(fault))) == str(fault)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("kill b", Kill("b")),
        ("restart b --wiped --new-nonce", Restart("b", new_nonce=True, wiped=True)),
        ("clock b +3600", Clock("b", 3600.0)),
        ("clock b -0.5", Clock("b", -0.5)),
        ("descriptors b 3", Descriptors("b", 3)),
        ("partition --one-way a b", Partition("a", "b", one_way=True)),
        ("flap a b --period-s=2 --up 0.25", Flap("a", "b", 2.0, 0.25)),
        ("link a b delay-ms=50 loss=1", ImpairLink("a", "b", LinkState.from_words(["delay-ms=50", "loss=1"]))),
        ("link a b --delay-ms 50 --loss=1", ImpairLink("a", "b", LinkState.from_words(["delay-ms=50", "loss=1"]))),
        (
            "link a b --both-ways rate=1mbit",
            ImpairLink("a", "b", LinkState(rate_bits_per_s=10**6), both_ways=True),
        ),
        ("link a b clear", ImpairLink("a", "b", LinkState())),
        ("link a b loss=0", ImpairLink("a", "b", LinkState())),
        ("block a b 6800", Block("a", "b", 6800)),
        ("refuse a b", Refuse("a", "b")),
        ("refuse a b 3300", Refuse("a", "b", 3300)),
        ("heal", Heal()),
        ("heal a b", Heal("a", "b")),
        ("arm a 'MESSAGE WRITE' block", Arm("a", "MESSAGE WRITE", Action.BLOCK)),
        ("arm a BANNER_READ FAULT 7", Arm("a", "BANNER_READ", Action.FAULT, 7)),
        ("unblock a", Unblock("a")),
        ("proxy a b '-> MESSAGE #3: cut'", Proxy("a", "b", "-> MESSAGE #3: cut before")),
        ("undo partition a b", Undo(Partition("a", "b"))),
    ],
)
def test_text_parses_to_its_fault(text: str, fault: Fault) -> None:
    assert parse(text) == fault
    assert parse(str(fault)) == fault


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "fault, column 1: it ends too early; expected here: a fault: one of arm, black-hole"),
        ("kil b", "fault, column 1: no fault 'kil'; did you mean kill?"),
        ("xyzzy", "no fault 'xyzzy'; known: arm, black-hole, block"),
        ("kill", "fault, column 5: NODE is missing; the syntax is kill NODE"),
        ("kill a b", "fault, column 8: 'b' is one argument too many; the syntax is kill NODE"),
        ("kill B", "fault, column 6: NODE 'B' must be the name of a node"),
        ("kill 'b", "fault, column 6: no closing quotation"),
        ("partition a", "fault, column 12: B is missing; the syntax is partition A B [--one-way]"),
        ("partition a a", "fault, column 1: a and a must be two nodes; the syntax is partition A B"),
        ("partition a b --oneway", "fault, column 15: no option --oneway; did you mean --one-way?"),
        ("partition a b --one-way --one-way", "fault, column 25: --one-way is given twice"),
        ("partition a b --one-way=1", "--one-way takes no value"),
        ("flap a b --period-s", "fault, column 20: it ends too early; expected here: SECONDS of --period-s"),
        ("flap a b --up 1", "fault, column 15: --up '1' must be a number above 0 and of at most 0.99"),
        ("clock a soon", "SECONDS 'soon' must be a number"),
        ("clock a nan", "SECONDS 'nan' must be a number"),
        ("block a b 70000", "PORT '70000' must be a whole number from 1 to 65535"),
        ("block a b", "PORT is missing"),
        ("link a b", "KEY=VALUE… is missing"),
        ("link  a 'b' dely=5", "fault, column 13: KEY=VALUE… 'dely=5' is invalid: no 'dely'; there is delay-ms"),
        ("link a b loss=200", "loss"),
        ("link a b ' '", "is empty; clear is a link without impairments"),
        ("heal a", "heal: which two nodes?"),
        ("arm a 'X Y' FAULT", "'X Y' is no point"),
        ("arm a 'HELLO READ' EXPLODE", "ACTION 'EXPLODE' must be one of CONTINUE, FAULT, BLOCK, STALL"),
        ("proxy a b 'cut it'", "RULE 'cut it' is invalid: rule, column"),
        ("undo", "fault, column 5: it ends too early; expected here: a fault"),
        ("undo reset a b", "fault, column 6: reset a b does not last"),
        ("undo undo partition a b", "does not last"),
    ],
)
def test_parse_reports_mistakes_in_one_line(text: str, complaint: str) -> None:
    with pytest.raises(LocalError) as caught:
        parse(text)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


@given(PAIRS, st.booleans(), st.floats(0.01, 3600), st.floats(0.001, 0.99), st.integers(1, 65535))
def test_any_fault_is_read_as_it_is_written(pair, flag, period_s, up, port) -> None:
    a, b = pair
    for fault in (
        Partition(a, b, flag),
        Flap(a, b, period_s, up),
        Refuse(a, b, port if flag else 0),
        Restart(a, wiped=flag),
        Clock(a, period_s),
        Release(a, b, f"{a} {b}"),
    ):
        assert parse(str(fault)) == fault


@given(
    PAIRS,
    st.builds(
        LinkState,
        delay_ms=st.sampled_from((0.5, 1.0, 20.25)),
        jitter_ms=st.sampled_from((0.0, 3.5)),
        duplicate_percent=st.sampled_from((0.0, 0.1)),
        rate_bits_per_s=st.sampled_from((0, 8, 1_500_000)),
        seed=st.sampled_from((None, 0, 7)),
    ),
)
def test_any_link_is_read_as_it_is_written(pair, state) -> None:
    fault = ImpairLink(*pair, state)
    assert parse(str(fault)) == fault


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60))
def test_any_text_parses_or_raises_a_local_error(text: str) -> None:
    for word in ("", "kill ", "link a b ", "arm a ", "flap a b ", "undo "):
        try:
            fault = parse(word + text)
        except LocalError:
            continue
        assert parse(str(fault)) == fault


def test_every_word_is_explained() -> None:
    explained = words()
    assert len({word.word for word in explained}) == len(explained) == 35
    assert all(word.about.endswith(".") and word.usage.startswith(word.word) for word in explained)
