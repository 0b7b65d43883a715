"""Invariants of histories that grow: no false alarms, each violation once, in time that is in proportion."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.toolkit.checks.conftest import Story
from toolkit.checks.history import SCENARIO, History
from toolkit.checks.invariants import INVARIANTS, check
from toolkit.checks.live import LIVE, LiveChecker, Sighting, check_so_far, check_standing
from toolkit.checks.records import Record
from toolkit.lab.sim.sim_lab import SimLab
from toolkit.simulation.swarm import live


def grown(history: History, parts: int = 20) -> list[History]:
    """Prefixes of a history."""
    size = len(history)
    return [History(history.records[: size * part // parts]) for part in range(1, parts + 1)]


def looks(history: History, parts: int = 20, **options: Any) -> list[Sighting]:
    """Return what a checker sees that looks repeatedly while a history grows."""
    growing = History()
    checker = LiveChecker(growing, settle_s=0.0, **options)
    for prefix in grown(history, parts):
        growing.records += prefix.records[len(growing) :]
        checker.look()
    checker.look(float("inf"))
    return checker.sightings


@pytest.mark.parametrize("seed", range(12))
def test_live_checker_reports_nothing_in_simulated_runs(seed: int) -> None:
    outcome = live(seed)
    assert outcome.passed
    assert looks(outcome.history, 8) == []


def again(story: Story) -> int:
    """a sends two messages, and b delivers the first one twice."""
    story.pair()
    for tid in (1, 2):
        story.send("a", tid)
        story.deliver("b", tid)
    return story.deliver("b", 1, seq=3)


def test_violation_is_reported_once_with_the_step_before(story: Story) -> None:
    story.history.append(0.0, SCENARIO, "step", verb="partition", args="a b")
    wrong = again(story)
    reported: list[Sighting] = []
    found = looks(story.history, found=reported.append)
    assert reported == found
    assert [one.id for one in found] == ["INV-1"]
    assert found[0].record is story.history[wrong]
    assert found[0].step == "partition a b at 0.000 s"
    assert "delivered again" in found[0].text
    assert str(found[0]).endswith("after partition a b at 0.000 s")


def test_live_checker_waits_for_records_that_arrive_late(story: Story) -> None:
    """The record of a send comes in behind that of its delivery, from another process."""
    story.pair()
    send = story.history[story.send("a", 1)]
    story.deliver("b", 1)
    story.history.records.remove(send)
    checker = LiveChecker(story.history, settle_s=5.0)
    assert checker.look() == []
    story.history.records.append(send)
    assert checker.look(float("inf")) == []


@pytest.mark.parametrize("after_s", [0.0, 1.0])
def test_records_after_rest_are_not_judged(story: Story, after_s: float) -> None:
    """A cluster at rest still sends keepalives, and a sender's record may come after its receiver's."""
    at_s = story.history[again(story)].time_s
    complete_until_s = at_s - 0.5 + after_s
    checker = LiveChecker(story.history, settle_s=5.0)
    assert bool(checker.stop(complete_until_s)) is (after_s > 0)
    wrong = [one.id for one in check_so_far(story.history, ends(), complete_until_s) if not one.ok]
    assert ("INV-1" in wrong) is (after_s > 0)


def test_violation_is_reported_after_a_delay(story: Story) -> None:
    again(story)
    now_s = 0.5
    checker = LiveChecker(story.history, settle_s=2.0, silence_s=0.0, now=lambda: now_s)
    assert checker.look() == []
    now_s = 10.0
    assert len(checker.look()) == 1
    assert checker.look() == []


def test_checker_waits_for_incomplete_records_of_a_node(story: Story) -> None:
    wrong = again(story)
    at_s = story.history[wrong].time_s
    fields = {"session": 1, "peer": "", "event": "", "detail": ""}
    now_s = at_s + 5.0
    checker = LiveChecker(story.history, settle_s=2.0, silence_s=10.0, now=lambda: now_s)
    assert checker.look() == []
    story.history.append(at_s + 0.5, "b", "event", **fields)
    assert checker.look() == []
    story.history.append(at_s + 0.5, "a", "event", **fields)
    assert len(checker.look()) == 1


def test_checker_does_not_wait_long_for_a_silent_node(story: Story) -> None:
    at_s = story.history[again(story)].time_s
    now_s = at_s + 11.9
    checker = LiveChecker(story.history, settle_s=2.0, silence_s=10.0, now=lambda: now_s)
    assert checker.look() == []
    now_s = at_s + 12.1
    assert len(checker.look()) == 1


def test_settle_time_does_not_pass_while_a_node_is_frozen(story: Story) -> None:
    again(story)
    story.process("a", "freeze")
    now_s = 100.0
    checker = LiveChecker(story.history, settle_s=2.0, now=lambda: now_s)
    assert checker.look() == []
    story.history.append(100.0, "a", "process", action="thaw", incarnation=1)
    assert checker.look() == []
    now_s = 102.0
    assert len(checker.look()) == 1


def test_check_so_far_does_not_judge_obligations_due_at_rest(story: Story) -> None:
    story.pair()
    story.send("a", 1)
    assert looks(story.history) == []
    results = {one.id: one for one in check_so_far(story.history)}
    assert results["INV-6"].ok
    assert "not at rest" in results["INV-6"].note


def ends(**fields: int) -> dict[str, dict[str, int]]:
    empty = dict.fromkeys(("registry", "dispatch_bytes", "links", "queued", "sent"), 0)
    return {"a": {**empty, "registry": 1, "links": 1, **fields}, "b": {**empty, "registry": 1, "links": 1}}


def test_check_so_far_judges_all_obligations_at_rest(story: Story) -> None:
    story.pair()
    story.send("a", 1)
    wrong = [one.id for one in check_so_far(story.history, ends(), 99.0) if not one.ok]
    assert "INV-1" in wrong
    assert "INV-6" in [one.id for one in check_so_far(story.history, ends(queued=1), 99.0) if not one.ok]


def test_check_so_far_ignores_earlier_rest_records(story: Story) -> None:
    """A cluster that has been at rest goes on."""
    story.pair()
    story.rest("a", "b", registry=1, links=1)
    story.send("a", 1)
    assert looks(story.history) == []
    assert all(one.ok for one in check_so_far(story.history))


def test_live_checks_exclude_invariants_about_the_end() -> None:
    ids = {invariant.id for invariant in LIVE}
    assert ids.isdisjoint({"INV-6", "quiescence", "liveness_after_heal"})
    judges = {judge for invariant in LIVE for judge in invariant.judges}
    left_out = {invariant.id for invariant in INVARIANTS.values() if not judges.issuperset(invariant.judges)}
    assert left_out == {"INV-6", "liveness_after_heal"}


def test_live_checker_thread_reports_a_violation(story: Story) -> None:
    found = threading.Event()
    checker = LiveChecker(story.history, lambda _sighting: found.set(), settle_s=0.0, silence_s=0.0)
    checker.start()
    again(story)
    assert found.wait(20)
    assert len(checker.stop()) == 1


def test_stop_raises_if_the_live_checks_failed(story: Story) -> None:
    story.history.records.append(Record(0.0, "a", "frame", {}))
    checker = LiveChecker(story.history)
    checker.start()
    deadline_s = time.monotonic() + 20
    while checker._error is None and time.monotonic() < deadline_s:
        time.sleep(0.01)
    with pytest.raises(RuntimeError, match="live checks ended early: KeyError"):
        checker.stop()


def counted_reads(history: History) -> tuple[History, Callable[[], int]]:
    """The same history, and how often a field of its records was read."""
    reads = 0

    class Counted(Record):
        __slots__ = ()

        def __getitem__(self, name: str) -> Any:
            nonlocal reads
            reads += 1
            return self.fields[name]

    return History(Counted(one.time_s, one.node, one.kind, one.fields) for one in history), lambda: reads


def test_live_checks_read_a_number_of_records_linear_in_the_history() -> None:
    """Records of a history are looked at a bounded number of times, and judgements leave time for others."""
    lab = SimLab("v2-crc", 1)
    lab.two()
    for _ in range(12):
        lab.exchange(count=50)
    small, large = grown(lab.history, 4)[0], lab.history
    counts = []
    for history in (small, large):
        counted, reads = counted_reads(history)
        LiveChecker(counted).look(float("inf"))
        counts.append(reads() / len(history))
    assert counts[1] < counts[0] * 1.5
    assert all(one.ok for one in check(large))


def test_live_checker_stops_reading_a_history_that_does_not_grow() -> None:
    lab = SimLab("v2-crc", 1)
    lab.two()
    lab.exchange(count=5)
    now_s = end_s = lab.history.records[-1].time_s
    counted, reads = counted_reads(lab.history)
    checker = LiveChecker(counted, now=lambda: now_s)
    seen = []
    for now_s in (end_s + 1.0, end_s + 100.0, end_s + 101.0):  # noqa: B007 - read above
        checker.look()
        seen.append(reads())
    counted.append(end_s + 101.5, "a", "clock", step_s=1.0)
    now_s = end_s + 200.0
    checker.look()
    assert 0 < seen[0] < seen[1] == seen[2] < reads()


@pytest.mark.parametrize("is_late", [True, False])
def test_check_standing_reports_only_violations_that_persist(story: Story, *, is_late: bool) -> None:
    """The record of a message that was sent may come after that of its delivery."""
    story.pair()
    sent = story.history.records[story.send("a", 1)]
    story.deliver("b", 1)
    growing = History(record for record in story.history if record is not sent)
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if is_late:
            growing.records.append(sent)

    wrong = [result.id for result in check_standing(growing, settle_s=3.0, wait=wait) if not result.ok]
    assert waited == [3.0]
    assert bool(wrong) is not is_late


def test_check_standing_does_not_wait_without_violations(story: Story) -> None:
    story.pair()
    assert all(result.ok for result in check_standing(story.history, wait=pytest.fail))


class Cut(History):
    """A history that came to an end while the cluster went on."""

    @property
    def is_whole(self) -> bool:
        return False


@pytest.mark.parametrize("later_s", [0.0, 5.0])
def test_violations_at_the_end_of_a_truncated_history_are_not_judged(story: Story, later_s: float) -> None:
    """What would excuse it may have come when nothing was taken any more; of what is older, that is certain."""
    again(story)
    story.history.put(later_s, "b", "event", {"session": 1, "peer": "a", "event": "connect", "detail": ""})
    cut = Cut(story.history)
    wrong = {result.id for result in check_so_far(cut) if not result.ok}
    assert ("INV-1" in wrong) is bool(later_s)
    checker = LiveChecker(cut, now=lambda: 1000.0)
    assert bool(checker.look()) is bool(later_s)
    assert bool(checker.stop()) is bool(later_s)
