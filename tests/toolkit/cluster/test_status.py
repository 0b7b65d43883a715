"""The status that records of a cluster give."""

import pytest

from toolkit.checks.history import History
from toolkit.checks.records import Record
from toolkit.cluster.status import Races, record_json


def fault(time_s: float, node: str, reason: str, state: str) -> Record:
    values = {"session": None, "link": f"{node}/2", "reason": reason, "detail": f"went in {state}: reset by peer"}
    return Record(time_s, node, "fault", values)


def opened(time_s: float, node: str) -> Record:
    return Record(time_s, node, "event", {"session": 1, "peer": "b", "event": "connect", "detail": ""})


@pytest.mark.parametrize(
    ("record", "is_race"),
    [
        (fault(1.0, "a", "SOCKET", "SESSION_ACCEPTING"), True),
        (fault(1.0, "a", "EOF", "HELLO_ACCEPTING"), True),
        (fault(1.0, "c", "RACE", "SESSION_CONNECTING"), True),
        (fault(1.0, "c", "SOCKET", "SESSION_ACCEPTING"), False),
        (fault(9.0, "a", "SOCKET", "SESSION_ACCEPTING"), False),
        (fault(1.0, "a", "SOCKET", "SESSION_CONNECTING"), False),
        (fault(1.0, "a", "SOCKET", "READY"), False),
        (fault(1.0, "a", "PREAMBLE_CRC", "SESSION_ACCEPTING"), False),
    ],
)
def test_link_that_lost_a_connection_race_is_marked_as_such(record: Record, *, is_race: bool) -> None:
    races = Races(History([opened(1.3, "a"), record]))
    assert (record in races) == is_race
    assert ("connection race" in record_json(record, races)["what"]) == is_race
