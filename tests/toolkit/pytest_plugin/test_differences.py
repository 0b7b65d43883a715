"""pytest's output for histories, records and messages that are not equal."""

import pytest

from messenger.messages.message import Message
from toolkit.checks.history import History
from toolkit.pytest_plugin.differences import pytest_assertrepr_compare


def history(*deliveries: tuple[int, int]) -> History:
    made = History()
    for tid, size in deliveries:
        made.append(0.5, "a", "deliver", session=1, peer="b", tid=tid, seq=tid, digest="00", size=size)
    return made


def test_histories_are_equal_by_their_records() -> None:
    assert history((1, 10)) == history((1, 10))
    assert history((1, 10)) != history((1, 11))
    assert history() != []


def test_the_first_record_that_differs_is_shown_by_its_fields(pytestconfig: pytest.Config) -> None:
    left, right = history((1, 10), (2, 10)), history((1, 10), (2, 11))
    lines = pytest_assertrepr_compare(pytestconfig, "==", left, right)
    text = "0.500000 a deliver session 1 from b: tid 2, seq 2, "
    assert lines == [
        "2 records == 2 records",
        f"record 1 is the first that differs: {text}10 bytes",
        "  size: 10 != 11",
        f"-{text}10 bytes",
        f"+{text}11 bytes",
    ]
    assert pytest_assertrepr_compare(pytestconfig, "==", left.records[1], right.records[1]) is not None
    lines = pytest_assertrepr_compare(pytestconfig, "==", left.records, right.records[:1])
    assert lines is not None
    assert lines[1].startswith("record 1 is missing on the right: 0.500000 a deliver")


def test_messages_are_compared_by_fields_and_bytes(pytestconfig: pytest.Config) -> None:
    left, right = Message(15, b"abc", tid=1), Message(15, b"abd", tid=2)
    lines = pytest_assertrepr_compare(pytestconfig, "==", left, right)
    assert lines is not None
    assert [line.rstrip() for line in lines[1:]] == [
        "-tid 1",
        "+tid 2",
        f"-front 000000  {'61 62 63':<48}abc",
        f"+front 000000  {'61 62 64':<48}abd",
    ]


@pytest.mark.parametrize(("op", "left"), [("!=", history()), ("==", 1), ("==", [1]), ("==", [])])
def test_other_comparisons_are_left_to_pytest(pytestconfig: pytest.Config, op: str, left: object) -> None:
    assert pytest_assertrepr_compare(pytestconfig, op, left, history((1, 1))) is None
