"""Runs of any length: the verdicts are those on the whole history, and memory stays small."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.folding import alarms, long_run
from tests.support.long_history import interrupted_history, long_history
from toolkit.checks.history import SCENARIO, History
from toolkit.checks.live import check_so_far
from toolkit.checks.long_run import LongRun, settled_until_s
from toolkit.checks.records import Record
from toolkit.scenarios.catalogue import find
from toolkit.scenarios.runner import run_scenario
from toolkit.simulation.swarm import live


def judged(records: list[Record], every: int, settled_s: float) -> tuple[dict[str, bool], int, LongRun]:
    """The verdicts of a long run, and the most records that were in memory."""
    history = History()
    run = long_run(history, every, settled_s)
    most = 0
    for begin in range(0, len(records), every):
        history.records += records[begin : begin + every]
        most = max(most, len(history))
        run.look()
    results = run.completed(check_so_far(history), [record.time_s for record in history])
    return {result.id: result.ok for result in results}, most, run


def whole(records: list[Record]) -> dict[str, bool]:
    return {result.id: result.ok for result in check_so_far(History(records))}


def twice(records: list[Record], part: float, *, much_later: bool = False) -> list[Record]:
    """A message is delivered again, at once or when the run is almost over."""
    place = nth(records, part, "deliver")
    at = nth(records, 0.9, "deliver") if much_later else place
    again = replace(records[place], time_s=records[at].time_s)
    return [*records[: at + 1], again, *records[at + 1 :]]


def lost(records: list[Record], part: float) -> list[Record]:
    """A message is not delivered."""
    place = nth(records, part, "deliver")
    return records[:place] + records[place + 1 :]


def other_bytes(records: list[Record], part: float) -> list[Record]:
    """A message arrives with other bytes."""
    place = nth(records, part, "deliver")
    wrong = replace(records[place], fields={**records[place].fields, "digest": "0badc0de"})
    return [*records[:place], wrong, *records[place + 1 :]]


def cut_out(records: list[Record], part: float) -> list[Record]:
    """A frame is missing in a stream."""
    place = nth(records, part, "frame")
    return records[:place] + records[place + 1 :]


def skipped(records: list[Record], part: float) -> list[Record]:
    """A seq is written that is not due."""
    place = nth(records, part, "frame", tags={"MESSAGE", "MSG"})
    inner = {**records[place]["fields"], "seq": records[place]["fields"]["seq"] + 5}
    wrong = replace(records[place], fields={**records[place].fields, "fields": inner})
    return [*records[:place], wrong, *records[place + 1 :]]


def nth(records: list[Record], part: float, kind: str, tags: set[str] | None = None, **fields: object) -> int:
    """Place of a record of a kind, with these fields, about so far into a history."""
    begin = int(len(records) * part)
    return next(
        place
        for place in range(begin, len(records))
        if records[place].kind == kind
        and (tags is None or records[place]["tag"] in tags)
        and fields.items() <= records[place].fields.items()
    )


@pytest.mark.parametrize("way", ["v2-crc", "v2-secure"])
def test_long_run_gets_the_verdict_of_its_whole_history_in_bounded_memory(way: str) -> None:
    records = long_history(way, 400)
    found, most, run = judged(records, 1000, settled_s=5.0)
    assert found == whole(records)
    assert [id_ for id_, ok in found.items() if not ok] == []
    assert most < 4000 < len(records) / 2
    assert run.judged_until_s == pytest.approx(records[-1].time_s, abs=25.0)


def often_frozen(records: list[Record], every_s: float, lasts_s: float) -> list[Record]:
    """Node b is frozen again and again; meanwhile nothing happens."""
    found: list[Record] = []
    frozen = 0
    for record in records:
        if record.time_s > (frozen + 1) * every_s:
            at_s = record.time_s + frozen * lasts_s
            found.append(Record(at_s, "b", "process", {"action": "freeze", "incarnation": 1}))
            found.append(Record(at_s + lasts_s, "b", "process", {"action": "thaw", "incarnation": 1}))
            frozen += 1
        found.append(replace(record, time_s=record.time_s + frozen * lasts_s))
    return found


def test_records_leave_memory_although_a_node_is_often_frozen() -> None:
    records = often_frozen(long_history("v2-crc", 400), every_s=2.0, lasts_s=1.0)
    found, most, run = judged(records, 1000, settled_s=5.0)
    assert found == whole(records)
    assert all(found.values())
    assert most < 4000 < len(records) / 2
    assert run.judged_until_s == pytest.approx(records[-1].time_s, abs=25.0)


@pytest.mark.parametrize(
    ("frozen", "until_s"),
    [
        ([], 90.0),
        ([(20.0, 30.0)], 90.0),  # long ago
        ([(95.0, 97.0)], 88.0),  # 2 s do not count
        ([(92.0, 94.0), (95.0, 97.0)], 86.0),
        ([(85.0, 95.0)], 80.0),
        ([(60.0, None)], 50.0),  # frozen now
        ([(5.0, None)], 0.0),
    ],
)
def test_time_in_which_a_node_is_frozen_does_not_settle_records(
    frozen: list[tuple[float, float | None]], until_s: float
) -> None:
    records = [Record(float(second), SCENARIO, "step", {"verb": "wait", "args": ""}) for second in range(101)]
    for began_s, ended_s in frozen:
        records.append(Record(began_s, "b", "process", {"action": "freeze", "incarnation": 1}))
        if ended_s is not None:
            records.append(Record(ended_s, "b", "process", {"action": "thaw", "incarnation": 1}))
    records.sort(key=lambda record: record.time_s)
    assert settled_until_s(records, 10.0) == until_s


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        *((twice, part) for part in (0.05, 0.5, 0.97)),
        *((lost, part) for part in (0.05, 0.5, 0.97)),
        (other_bytes, 0.05),
        (cut_out, 0.5),
        (skipped, 0.97),
    ],
)
def test_a_violation_is_found_whenever_it_happens(
    wrong: Callable[[list[Record], float], list[Record]], part: float
) -> None:
    records = wrong(long_history("v2-crc", 200), part)
    found, _, _ = judged(records, 800, settled_s=5.0)
    assert found == whole(records)
    assert not all(found.values())


def test_a_violation_across_folds_is_found() -> None:
    records = twice(long_history("v2-crc", 200), 0.05, much_later=True)
    found, _, _ = judged(records, 800, settled_s=5.0)
    assert not found["INV-1"]
    assert not whole(records)["INV-1"]


def test_an_hour_of_traffic() -> None:
    records = twice(long_history("v2-crc", 3600, every_s=1.0), 0.02)
    found, most, _ = judged(records, 10_000, settled_s=60.0)
    assert found == whole(records)
    assert not found["INV-1"]
    assert most < 15_000 < len(records) / 5


def of_one_end(records: list[Record]) -> list[Record]:
    """Return the records without those of one node, as with a daemon of Ceph."""
    return [record for record in records if record.node != "b"]


def by_address(records: list[Record]) -> list[Record]:
    """Applications know their peers by address, as the clients of Ceph do."""
    addresses = {"a": "v2:10.0.0.1:6800/1", "b": "v2:10.0.0.2:6800/2"}
    return [
        replace(record, fields={**record.fields, "peer": addresses[record["peer"]]})
        if record.kind in {"send", "deliver", "state", "event"} and record["peer"] in addresses
        else record
        for record in records
    ]


@pytest.mark.parametrize("known", [of_one_end, by_address])
@pytest.mark.parametrize("way", ["v2-crc", "v2-secure"])
def test_messages_of_peers_without_records_or_names_leave_memory(
    known: Callable[[list[Record]], list[Record]], way: str
) -> None:
    records = known(long_history(way, 400))
    found, most, _ = judged(records, 1000, settled_s=5.0)
    assert found == whole(records)
    assert most < 4000
    assert all(found.values())


@pytest.mark.parametrize("part", [0.05, 0.5, 0.97])
@pytest.mark.parametrize("wrong", [twice, cut_out, skipped])
def test_violations_at_one_end_are_found(
    wrong: Callable[[list[Record], float], list[Record]], part: float
) -> None:
    records = wrong(of_one_end(long_history("v2-crc", 200)), part)
    found, _, _ = judged(records, 400, settled_s=5.0)
    assert found == whole(records)
    assert not all(found.values())


@pytest.mark.parametrize("known", [list, of_one_end])
@pytest.mark.parametrize("tag", ["ACK", "MESSAGE"])
def test_messages_held_at_a_reconnect_raise_no_alarm_when_the_session_ends(
    known: Callable[[list[Record]], list[Record]], tag: str
) -> None:
    """The peer has delivered them and its ACK was lost: the sender's state still counts them."""
    run = run_scenario(find("reconnect"), cuts=[f"b:{tag}:1"])
    records = known([record for record in run.history if record.kind != "end"])
    last_s = records[-1].time_s
    records.append(Record(last_s + 1, "a", "process", {"action": "kill", "incarnation": 1}))
    records.append(Record(last_s + 100, SCENARIO, "step", {"verb": "wait", "args": ""}))
    found, _, _ = judged(records, len(records), settled_s=5.0)
    assert found == whole(records)
    assert found["INV-8"]


@pytest.mark.parametrize("seed", range(10))
def test_lives_full_of_faults_that_one_end_records_raise_no_alarm(seed: int) -> None:
    records = [record for record in live(seed).history if record.kind != "end"]
    nodes = sorted({record.node for record in records} - {"network", "scenario"})
    kept = [record for record in records if record.node != nodes[0]]
    found, _, _ = judged(kept, 20, settled_s=0.5)
    assert found == whole(kept)


@pytest.mark.parametrize("seed", range(20))
def test_lives_full_of_faults_raise_no_alarm(seed: int) -> None:
    assert alarms(seed, every=20) == []


@pytest.mark.parametrize("part", [0.2, 0.6])
@pytest.mark.parametrize("wrong", [twice, lost, other_bytes, cut_out, skipped])
def test_damage_among_held_messages_is_found(
    wrong: Callable[[list[Record], float], list[Record]], part: float
) -> None:
    records = wrong(interrupted_history("v2-crc", 30), part)
    found, _, _ = judged(records, 25, settled_s=0.5)
    assert found == whole(records)
    assert not all(found.values())


def test_count_of_a_state_that_held_messages_is_judged_before_they_leave() -> None:
    records = interrupted_history("v2-crc", 30)
    place = [place for place, record in enumerate(records) if record.kind == "state" and record["queued"] >= 5][9]
    fields = records[place].fields
    records[place] = replace(records[place], fields={**fields, "queued": fields["queued"] + 1})
    found, _, _ = judged(records, 25, settled_s=0.5)
    assert not found["INV-8"]
