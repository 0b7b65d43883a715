"""The catalogue has every scenario planned for the simulator or for loopback, or names its replacement."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from toolkit.scenarios.catalogue import CATALOGUE

_ROWS = {
    "HS": (
        "1:1abcd 2:1abcd 3:1ab 4:1ab 5:1ab 6:1ab 7:1ab 8:1ab 9:1abcd 10:1abd 11:1abd 12:1ab 13:1abcd "
        "14:1abd 15:1ab 16:1abd 17:1ab 18:1abcd 19:2b 20:2abd"
    ),
    "LY": "1:1ab 2:1ab 3:1abcd 4:1abcd 5:1ab 6:1ab 7:1ab 8:1abc 9:2ab 10:1ab",
    "LC": "1:1ab 2:1ab 3:1ab 4:1ab 5:1abcd 6:1abcd 7:1abcd 8:2abcd 9:1ab 10:1ab",
    "LS": "1:1ab 2:1ab 3:1abcd 4:1abcd 5:1ab 6:2a 7:1abcd 8:1abcd 9:1ab 10:2ab 11:1a",
    "LP": (
        "1:1ab 2:1ab 3:1ab 4:1ab 5:1ab 6:1ab 7:1ab 8:1ab 9:1ab 10:1ab 11:1ab 12:1ab 13:1ab 14:1ab 15:1ab "
        "16:1abcd 17:1abc 18:1ac 19:1ab 20:1a 21:1abd 22:1a 23:1ab 24:1ab 25:1a 26:2ab 27:1ab"
    ),
    "SQ": (
        "1:1ab 2:1abd 3:1abd 4:1ab 5:2abd 6:1ab 7:1abd 8:1abd 9:1ab 10:2ab 11:1ab 12:1abcd 13:2ab 14:1ab "
        "15:1a 16:1ab 17:2a 18:1abd"
    ),
    "RS": "1:1abcd 2:1ab 3:1ab 4:1abcd 5:1a 6:1ab 7:2ab 8:2ab 9:1ab 10:1ab",
    "TH": "1:1abd 2:1abd 3:1ab 4:1ab 5:2ab 6:2ab 7:1abcd 8:1ab 9:1abd 10:2b 11:2ab",
    "KA": "1:1abcd 2:1ab 3:1a 4:1bcd 5:2abd 6:2a 7:2ab 8:2abd 9:2abc",
    "AU": (
        "1:1abcd 2:1abd 3:1abd 4:1abd 5:1abd 6:1abd 7:1abd 8:1ab 9:1abd 10:2ab 11:1ab 12:1ab 13:2ab "
        "14:1abd 15:2abd 16:3d 17:2abd 18:2abd 19:2ab 20:1abcd 21:2abd 22:2a 23:1abd 24:2d"
    ),
    "SE": (
        "1:1ab 2:1ab 3:1ab 4:1ab 5:1ab 6:1ab 7:1ab 8:1ab 9:1ab 10:2abd 11:2ab 12:1ab 13:2ab 14:2ab 15:2bcd 16:1ab"
    ),
    "CO": "1:1abd 2:1ab 3:1ab 4:2abd 5:1ab 6:2abd 7:1ab 8:1abd 9:2ab 10:2ab 11:2ab",
    "V1": (
        "1:1abd 2:2abd 3:1ab 4:1abd 5:1abd 6:1ab 7:1ab 8:1ab 9:1ab 10:1a 11:1ab 12:1ab 13:1a 14:2ab "
        "15:1abd 16:2a 17:2ab 18:1abd 19:2ab 20:2ab 21:2ab 22:1ab"
    ),
    "MX": "1:1abcd 2:2ab 3:1abd 4:2abd 5:1acd 6:1abd 7:1abcd 8:2ab 9:2acd 10:2c",
    "LG": "1:1abd 2:1abd 3:1abd 4:2a 5:2ab 6:1abd 7:2ab 8:1ab 9:2ab 10:3b",
    "NF": (
        "1:1c 2:1c 3:2c 4:2bc 5:2c 6:1c 7:1acd 8:1acd 9:2c 10:3c 11:2abd 12:2c 13:3c 14:2ac 15:2ac 16:2ac "
        "17:2b 18:1abd 19:2abd 20:2ab 21:2abd 22:2ab"
    ),
    "PK": "1:1bcd 2:1bcd 3:2bcd 4:2bcd 5:1bcd 6:2bcd 7:3cd 8:2b 9:2b 10:2bd",
    "CL": "1:1acd 2:1cd 3:1cd 4:3cd 5:3cd 6:3cd 7:3cd 8:3cd 9:3cd 10:3cd 11:3d 12:3cd 13:3bd",
    "RD": "1:2a 2:3ab 3:3c 4:3c 5:2a",
    "MF": (
        "1:2abd 2:1abd 3:1abd 4:2abd 5:1abd 6:2abd 7:2abd 8:1abd 9:1abd 10:1abd 11:1abd 12:2abd 13:1abd "
        "14:2abd 15:2ab 16:2abd 17:2abd 18:2abd 19:2abd 20:2abd 21:1ab 22:2bd"
    ),
    "SH": "1:1ab 2:1ab 3:1ab 4:1ab 5:1ab 6:1ab 7:2a 8:1ab 9:1ab 10:1ab 11:1b",
    "ST": "1:1ab 2:3cd 3:2bd 4:3b 5:2bcd",
    "IX": "1:1d 2:2d 3:3d 4:1ad 5:1bd 6:2abd",
}
"""By family: number, colon, priority, and where it was to run: a simulation, b loopback, c a network of namespaces
or containers, d a real daemon."""

_SHOWN_ELSEWHERE = {
    "LP-25": "msgrlab explore: every schedule of a small scope; tests/toolkit/exploration",
    "IX-01": "our client against ceph-mon and ceph-osd, also with links that break: test_live.py and "
    "test_live_failures.py of tests/toolkit/rados; a real monitor: tests/messenger/test_services_real.py",
    "IX-04": "captures of four releases: decoded in tests/captures, every frame built again byte for byte in "
    "tests/toolkit/dissect/layers/test_captures.py; payloads: tests/messenger/messages/test_registry.py",
    "AU-24": "caps of a real cluster: tests/toolkit/rados/test_live.py",
    "IX-02": "the crimson table in both roles, with our own nodes: toolkit/scenarios/crimson",
    "MF-22": "no decoder but ours and Ceph's dissector is at hand; MF-21 is the fuzz",
    "ST-03": "msgrlab bench, tests/toolkit/bench",
    "LG-04": "MF-05 announces 2^31 - 1, 2^31 and 2^32 - 1 bytes: refused by max_frame_bytes, nothing put aside",
    "LG-09": "there are no buffers of applications to receive into: the core owns them",
    "V1-21": "as LG-09",
}
"""Rows of priority 1 and 2 that are no scenarios of the catalogue; what has them instead, or why nothing does."""


class Row(NamedTuple):
    """A planned scenario."""

    id: str
    priority: int
    runs: str


def _rows() -> Iterator[Row]:
    for family, rows in _ROWS.items():
        for word in rows.split():
            number, _, rest = word.partition(":")
            yield Row(f"{family}-{int(number):02}", int(rest[0]), rest[1:])


PLANNED = {row.id: row for row in _rows()}
_DUE = [row for row in PLANNED.values() if row.priority == 1 or (row.priority == 2 and set(row.runs) & set("ab"))]


def test_the_plan_has_313_rows() -> None:
    assert len(PLANNED) == 313
    assert Counter(row.priority for row in PLANNED.values()) == {1: 195, 2: 97, 3: 21}


@pytest.mark.parametrize("row", _DUE, ids=lambda row: row.id)
def test_row_is_in_the_catalogue(row: Row) -> None:
    if row.id in _SHOWN_ELSEWHERE:
        assert row.id not in CATALOGUE, "it is a scenario by now"
    else:
        assert row.id in CATALOGUE
        assert CATALOGUE[row.id].priority == row.priority


@pytest.mark.parametrize("row", [row for row in PLANNED.values() if row.id in CATALOGUE], ids=lambda row: row.id)
def test_row_runs_on_its_planned_backends(row: Row) -> None:
    """On the simulator, on loopback and between namespaces, or it says why not."""
    scenario = CATALOGUE[row.id]
    for letter, backend in (("a", "sim"), ("b", "local"), ("c", "netns")):
        assert letter not in row.runs or backend in scenario.backends or scenario.only
