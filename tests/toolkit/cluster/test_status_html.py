"""The display of a cluster in a notebook."""

import copy
from typing import Any

import pytest

from toolkit.cluster.status_html import html_of

NODE = {"kind": "messenger", "entity": "osd.1", "state": "up", "address": "v2:127.0.0.1:6800/1", "last_words": ""}
NUMBERS = {"connect_seq": 1, "in_seq": 2, "out_seq": 3456, "queued": 0, "sent": 5}
STATUS: dict[str, Any] = {
    "name": "pair",
    "backend": "netns",
    "state": "hurt",
    "up_s": 3.21,
    "ready_s": 0.5,
    "nodes": {
        "a": NODE | {"sessions": [{"peer": "b", "state": "READY", **NUMBERS}, {"peer": "c", "state": "STANDBY"}]},
        "b": NODE | {"state": "dead", "address": "0.0.0.0:0/2", "last_words": "<no memory>"},
        "osd": {"kind": "osd", "state": "up", "address": "", "last_words": ""},
    },
    "lost": {"Docker at context://two": ["c", "d"]},
    "guests": {"guest0": {"network": "public", "address": "10.77.0.254"}},
    "links": [{"from": "a", "to": "b", "delay_ms": 20.0, "blocked": True}],
    "faults": ["partition a b --one-way"],
    "nemesis": {
        "seed": 7,
        "steps": 3,
        "done": ["x"],
        "next": "   2.000  kill a",
        "violations": ["V"],
        "problems": [],
    },
    "records": 98_765,
    "in_memory": 1000,
    "on_disk": 98_700,
    "unwritten_s": 11.5,
    "judged_until_s": 7.25,
    "not_judged_why": None,
    "full_s": 12.34,
    "captures": {"a": "/tmp/a.pcapng"},
    "proxies": ["a b"],
    "events": [{"time_s": 1.5, "node": "a", "kind": "event", "what": "session 1 with b: connect"}],
    "checks": {
        "judged": True,
        "not_judged": ["INV-6"],
        "passed": 28,
        "note": "",
        "failed": [{"id": "INV-1", "name": "x", "violations": ["lost"]}],
    },
}


@pytest.mark.parametrize(
    "shown",
    [
        "<b>pair</b> on netns",
        "ready in 0.50 s, up for 3.2 s",
        ">osd.1<",
        ">READY</span>",
        ">STANDBY</span>",
        ">3,456<",
        "does not listen",
        "last words of b",
        "&lt;no memory&gt;",
        "Docker at context://two does not answer: c, d",
        "a → b: nothing passes; delay 20ms",
        "full with 98,765 records: nothing since 12.3 s is in it",
        "judged up to 7.2 s, 98,765 records, 98,700 on disk, 1,000 in memory",
        "not on disk since 11.5 s",
        "partition a b --one-way",
        "1 of 3 steps, seed 7",
        "next 2.000  kill a",
        "guest0: 10.77.0.254 on public",
        "a: /tmp/a.pcapng",
        ">a → b</span>",
        "session 1 with b: connect",
        "28 hold",
        "1 not judged: INV-6",
        "INV-1: lost",
    ],
)
def test_html_shows_every_part_of_the_status(shown: str) -> None:
    assert shown in html_of(STATUS)


def test_a_row_has_a_cell_for_each_column() -> None:
    rows = html_of(STATUS).partition("<details>")[0].split("<tr>")[1:]
    assert len(rows) == 1 + 4  # titles, and a has two sessions
    assert len({row.count("</td>") + row.count("</th>") for row in rows}) == 1


def test_html_omits_empty_sections() -> None:
    quiet = copy.deepcopy(STATUS) | {"links": [], "faults": [], "nemesis": None, "captures": {}, "proxies": []}
    quiet |= {
        "lost": {},
        "guests": {},
        "events": [],
        "checks": {"judged": False, "failed": [], "note": "60000 records are too many"},
    }
    html = html_of(quiet)
    assert "60000 records are too many" in html
    titles = ("lost", "virtual machines", "links", "faults in force", "nemesis", "captures", "proxies", "details")
    assert [title for title in titles if title in html] == []
