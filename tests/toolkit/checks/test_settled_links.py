"""Closed links and ended sessions leave memory, and later records are judged as on the whole history."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from tests.support.folding import alarms, long_run, remaining
from tests.support.long_history import chaotic_history, interrupted_history
from tests.toolkit.checks.test_long_run import judged, nth, whole
from toolkit.checks.history import History
from toolkit.checks.invariants import check
from toolkit.checks.live import check_so_far
from toolkit.checks.records import Record
from toolkit.lab.sim.sim_lab import SimLab

ROUNDS = 60
SETTLED_S = 5.0


@cache
def chaos(way: str, rounds: int = ROUNDS, seed: int = 1) -> tuple[Record, ...]:
    """A history of chaos, made once."""
    return tuple(chaotic_history(way, rounds, seed))


def old(records: list[Record], until_s: float) -> int:
    return sum(record.time_s <= until_s for record in records)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("way", ["v2-crc", "v2-secure", "v1"])
def test_the_verdict_on_long_chaos_is_that_on_its_whole_history(way: str, seed: int) -> None:
    records = list(chaos(way, seed=seed))
    found, _, run = judged(records, 400, SETTLED_S)
    assert not run.error
    assert found == whole(records)
    assert [id_ for id_, ok in found.items() if not ok] == []


@pytest.mark.parametrize("way", ["v2-crc", "v1"])
def test_memory_does_not_grow_with_the_length_of_chaos(way: str) -> None:
    history = History()
    run = long_run(history, 200, SETTLED_S)
    left = []
    for record in chaos(way, 240):
        history.records.append(record)
        if run.look() and run.judged_until_s is not None:
            left.append(old(history.records, run.judged_until_s))
    assert len(left) > 20
    assert max(left[-10:]) < 500  # one link of a session that goes on has some 70 records at its two ends
    assert not [each.id for each in run.results if not each.ok]


@pytest.mark.parametrize("way", ["v2-crc", "v2-secure", "v1"])
def test_links_that_break_leave(way: str) -> None:
    records = interrupted_history(way, 30)
    kept = History(remaining(records, records[-1].time_s - 1.0))
    assert len(kept) < len(records) / 10
    assert len(kept.of("link")) < 30
    assert [result.id for result in check_so_far(kept) if not result.ok] == []


def test_dials_that_fail_for_hours_leave() -> None:
    records = unreachable(100)
    kept = remaining(records, records[-1].time_s - 1.0)
    assert len(records) > 500
    assert len(kept) < 60
    held = [record["tid"] for record in kept if record.kind == "send" and record.node == "a"]
    received = [record["tid"] for record in kept if record.kind == "deliver" and record.node == "b"]
    assert (held, received) == ([1, 2, 3, 4], [1, 2])  # a has no acknowledgement of the first two yet
    assert [result.id for result in check_so_far(History(kept)) if not result.ok] == []


@cache
def _outage(dials: int) -> tuple[tuple[Record, ...], float]:
    lab = SimLab("v2-crc", 1)
    lab.two()
    lab.exchange(count=2)
    lab.refuse("a", "b")
    lab.refuse("b", "a")
    lab.cut("a", "b")
    lab.send("a", "b", 2)
    lab.wait(15.0 * dials)
    until_s = lab.history[-1].time_s
    lab.heal()
    lab.exchange(count=2)
    return tuple(record for record in lab.history if record.kind != "end"), until_s


def outage(dials: int) -> tuple[list[Record], float]:
    """A peer that refuses so many dials, while two messages wait for it; and when the refusals end."""
    records, until_s = _outage(dials)
    return list(records), until_s


def unreachable(dials: int) -> list[Record]:
    """The first part of an outage, which has not ended yet."""
    records, until_s = outage(dials)
    return [record for record in records if record.time_s <= until_s]


def test_session_goes_on_after_its_earlier_links_have_left() -> None:
    """The peer has messages that it did not acknowledge: it announces them when the session is resumed."""
    records, until_s = outage(30)
    before = [record for record in records if record.time_s <= until_s]
    later = [record for record in records if record.time_s > until_s]
    kept = remaining(before, until_s - 1.0)
    assert len(kept) < len(before) / 2
    for count in range(len(later) + 1):
        assert failed([*kept, *later[:count]]) == failed([*before, *later[:count]]), count
    assert failed([*kept, *later]) == []
    again = next(record for record in later if record.kind == "deliver" and record.node == "b")
    again = replace(again, time_s=until_s, fields={**again.fields, "seq": 2})
    assert "INV-8" in failed([*kept, again])


def failed(records: list[Record]) -> list[str]:
    return [result.id for result in check_so_far(History(records)) if not result.ok]


def test_end_of_a_receiver_stays_while_it_explains_a_loss() -> None:
    """A process may end after it has acknowledged a message, and before it records that it delivered it."""
    lab = SimLab("v2-crc", 1)
    lab.two()
    lab.exchange(count=3)
    lab.wait(2.0)
    lab.kill("b")
    lab.wait(100.0)
    lab.revive("b")
    lab.exchange(count=3)
    lab.wait(100.0)
    lab.exchange(count=1)
    records = [record for record in lab.history if record.kind != "end"]
    killed = nth(records, 0.0, "process", action="kill")
    last = max(at for at in range(killed) if records[at].kind == "deliver" and records[at].node == "b")
    records = records[:last] + records[last + 1 :]
    found, _, run = judged(records, 20, SETTLED_S)
    assert run.judged_until_s is not None
    assert found == whole(records)
    assert found["INV-1"]


def frame_with(**changes: object) -> Callable[[list[Record], int], list[Record]]:
    """Return a change of numbers of the first frame after a place that has them."""

    def change(records: list[Record], place: int) -> list[Record]:
        at = next(
            at
            for at in range(place, len(records))
            if records[at].kind == "frame" and changes.keys() <= records[at]["fields"].keys()
        )
        inner = {**records[at]["fields"], **changes}
        wrong = replace(records[at], fields={**records[at].fields, "fields": inner})
        return [*records[:at], wrong, *records[at + 1 :]]

    return change


def state_with(name: str, add: int) -> Callable[[list[Record], int], list[Record]]:
    """Return a change of a number of the first READY state after a place."""

    def change(records: list[Record], place: int) -> list[Record]:
        at = next(
            at
            for at in range(place, len(records))
            if records[at].kind == "state" and records[at]["state"] == "READY"
        )
        fields = {**records[at].fields, name: records[at][name] + add}
        return [*records[:at], replace(records[at], fields=fields), *records[at + 1 :]]

    return change


def without(kind: str, **fields: object) -> Callable[[list[Record], int], list[Record]]:
    """Return a change that removes the first record of a kind, with these fields, after a place."""

    def change(records: list[Record], place: int) -> list[Record]:
        at = next(
            at
            for at in range(place, len(records))
            if records[at].kind == kind and fields.items() <= records[at].fields.items()
        )
        return records[:at] + records[at + 1 :]

    return change


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(
    "wrong",
    [
        frame_with(connect_seq=1_000_000),
        frame_with(msg_seq=1_000_000),
        frame_with(seq=1_000_000),
        frame_with(server_cookie=12345),
        frame_with(global_seq=1_000_000),
        state_with("in_seq", 1),
        state_with("connect_seq", 5),
        state_with("queued", 7),
        without("deliver"),
        without("event", event="connect"),
        without("state", state="READY"),
        without("frame"),
        without("send"),
    ],
)
def test_damage_is_found_at_any_time_of_chaos(
    wrong: Callable[[list[Record], int], list[Record]], part: float
) -> None:
    records = list(chaos("v2-crc"))
    records = wrong(records, int(len(records) * part))
    found, _, run = judged(records, 200, SETTLED_S)
    assert not run.error
    assert [id_ for id_, ok in whole(records).items() if not ok]
    assert [id_ for id_, ok in found.items() if not ok]


def test_message_that_waits_since_before_the_cut_must_arrive() -> None:
    lost = unreachable(100)
    kept = remaining(lost, lost[-1].time_s - 1.0)
    nothing = dict.fromkeys(("registry", "dispatch_bytes", "links", "queued", "sent"), 0)
    ends = [Record(lost[-1].time_s, node, "end", dict(nothing)) for node in ("a", "b")]
    assert "INV-1" in {each.id for each in check(History([*kept, *ends])) if not each.ok}


@pytest.mark.parametrize("seed", range(20, 40))
def test_lives_full_of_faults_and_resets_raise_no_alarm(seed: int) -> None:
    assert alarms(seed, every=60) == []


def test_links_stay_until_the_application_gets_their_messages() -> None:
    """In this life messages wait for their delivery while the session opens its next link."""
    assert alarms(1030, every=45) == []


def test_end_of_a_session_stays_while_its_messages_may_come_again() -> None:
    """In this life a session is marked down, the next one gets its messages again, and then the process ends."""
    assert alarms(3629, every=110) == []


def test_a_session_that_is_marked_down_with_unacknowledged_messages_raises_no_alarm() -> None:
    """In this life messages are delivered, but their ACK does not arrive; the session's last state counts them."""
    assert alarms(2719, every=25) == []


def test_a_session_that_opens_as_its_process_is_killed_keeps_the_frames_that_open_it() -> None:
    """In this life a kill ends a link right before the record of its session's READY state."""
    assert alarms(21086, every=40) == []


def test_an_accept_event_waits_for_the_answer_that_names_its_link() -> None:
    """In this life an injector holds the answer for ten seconds, and the history is judged meanwhile."""
    assert alarms(22154, every=60) == []


def test_an_ended_session_that_the_application_still_uses_stays_ended() -> None:
    lab = SimLab("v2-crc", 1)
    lab.two()
    lab.exchange(count=2)
    lab.wait(5.0)  # until everything is acknowledged
    lab.mark_down("a", "b")
    lab.wait(1.0)
    records = [record for record in lab.history if record.kind != "end"]
    sent = next(record for record in records if record.kind == "send" and record.node == "a")
    late = replace(
        sent, time_s=records[-1].time_s + 100.0, fields={**sent.fields, "tid": 99, "digest": "0badc0de"}
    )
    kept = [*remaining(records, records[-1].time_s), late]
    nothing = dict.fromkeys(("dispatch_bytes", "links", "queued", "sent"), 0)
    ends = [Record(late.time_s, node, "end", {**nothing, "registry": node == "b"}) for node in ("a", "b")]
    assert len(kept) < 30
    assert [each.id for each in check(History([*kept, *ends])) if not each.ok] == []


def test_history_without_settled_records_is_read_and_written_as_any_other() -> None:
    records = list(chaos("v2-crc"))
    kept = History(remaining(records, records[-1].time_s - SETTLED_S))
    assert {record.kind for record in kept} >= {"settled", "state"}
    again = History.parse(kept.dump())
    assert again == kept
    assert [each.ok for each in check_so_far(again)] == [each.ok for each in check_so_far(kept)]
