"""Histories of real runs on the simulator: clean as they are, caught when they are damaged."""

from collections.abc import Callable, Iterator
from random import Random

import pytest

from messenger.link import Protocol
from toolkit.checks.history import History
from toolkit.checks.index import Index
from toolkit.checks.invariants import INVARIANTS, check
from toolkit.checks.records import Record
from toolkit.lab.ways import Way
from toolkit.scenarios.catalogue import select
from toolkit.scenarios.runner import run_scenario

SEEDS = range(3)
SCENARIOS = {scenario.id: scenario for scenario in select("TOUR")}


def recorded(scenario: str, seed: int = 1, mode: str = "crc") -> History:
    return run_scenario(SCENARIOS[scenario], "sim", Way(mode=mode), seed).history


def places(history: History, kind: str, **fields: object) -> list[int]:
    return [
        place
        for place, record in enumerate(history)
        if record.kind == kind and all(record.fields.get(name) == value for name, value in fields.items())
    ]


def broken(history: History) -> set[str]:
    return {result.id for result in check(history) if not result.ok}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("mode", "protocol"), [("crc", "v2"), ("secure", "v2"), ("crc", "v1")])
@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_real_runs_are_clean_and_wholly_judged(scenario: str, mode: str, protocol: str, seed: int) -> None:
    results = check(run_scenario(SCENARIOS[scenario], "sim", Way(Protocol(protocol), mode), seed).history)
    assert [(result.id, result.violations) for result in results] == [(name, []) for name in INVARIANTS]
    assert [result.id for result in results if result.note] == ["linearizable"]  # there are no objects


def test_links_of_real_runs_find_their_other_ends() -> None:
    links = Index(recorded("reconnect")).links.values()
    assert links
    for link in links:
        assert link.far is not None
        assert link.far.far is link
        assert link.far.key.node != link.key.node


def test_a_real_run_survives_the_disk(tmp_path) -> None:
    history = recorded("reconnect")
    history.save(tmp_path / "h")
    assert History.load(tmp_path / "h").dump() == history.dump()


def drop(history: History, place: int) -> None:
    del history.records[place]


def repeat(history: History, place: int) -> None:
    history.records.insert(place, history.records[place])


def change(**fields: object) -> Callable[[History, int], None]:
    def apply(history: History, place: int) -> None:
        record = history.records[place]
        history.records[place] = Record(record.time_s, record.node, record.kind, {**record.fields, **fields})

    return apply


def after(kind: str, **fields: object) -> Callable[[History, int], None]:
    """Put a record of the same node and session behind one."""

    def apply(history: History, place: int) -> None:
        record = history.records[place]
        session = {"session": record["session"], "peer": record["peer"]}
        history.records.insert(place + 1, Record(record.time_s, record.node, kind, {**session, **fields}))

    return apply


DAMAGE = [
    ("a delivery is missing", "deliver", {}, drop, {"INV-1", "INV-8"}),
    ("a delivery comes twice", "deliver", {}, repeat, {"INV-1", "INV-8"}),
    ("bytes are changed", "deliver", {}, change(digest="00"), {"INV-1"}),
    ("a delivery nobody sent", "deliver", {}, change(tid=99_999), {"INV-1"}),
    ("a session is marked down, but goes on", "event", {"event": "connect"}, after("mark_down"), {"INV-3"}),
    ("global_seq falls", "state", {"state": "READY"}, change(global_seq=-1), {"INV-7"}),
    ("the replay list is short", "state", {"state": "READY"}, change(out_seq=10**6), {"INV-8"}),
    ("something stays queued", "end", {}, change(queued=1), {"INV-6"}),
    ("the registry forgets", "end", {}, change(registry=0), {"INV-5"}),
    ("the registry keeps too much", "end", {}, change(registry=9), {"INV-5"}),
    ("dispatched bytes stay", "end", {}, change(dispatch_bytes=5), {"INV-9"}),
    ("a throttle goes below zero", "throttle", {}, change(value=-1), {"INV-9"}),
]


def damaged(kind: str, fields: dict[str, object], harm: Callable[[History, int], None]) -> Iterator[set[str]]:
    """Every invariant broken by doing harm to each of five records of a kind."""
    whole = recorded("reconnect")
    found = places(whole, kind, **fields)
    for place in Random(0).sample(found, min(5, len(found))):
        history = History(whole.records)
        harm(history, place)
        yield broken(history)


@pytest.mark.parametrize(
    ("kind", "fields", "harm", "expected"), [row[1:] for row in DAMAGE], ids=[row[0] for row in DAMAGE]
)
def test_damage_to_a_real_run_is_caught(kind, fields, harm, expected) -> None:
    caught = list(damaged(kind, fields, harm))
    assert caught
    for ids in caught:
        assert expected <= ids


@pytest.mark.parametrize(
    ("kind", "fields", "harm", "expected"),
    [
        ("event", {"event": "accept"}, drop, {"INV-4"}),
        ("state", {"state": "READY"}, change(connect_seq=77), {"INV-7"}),
    ],
)
def test_damage_to_the_beginning_of_a_session_is_caught(kind, fields, harm, expected) -> None:
    history = recorded("reconnect")
    harm(history, places(history, kind, **fields)[0])
    assert expected <= broken(history)


def test_unreported_reset_is_found() -> None:
    """Without the event nothing explains what the client's queue lost."""
    history = recorded("session-reset")
    (place,) = places(history, "event", event="remote_reset")
    drop(history, place)
    assert "INV-1" in broken(history)
