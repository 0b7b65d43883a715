"""From records to the rows of a chart."""

from toolkit.checks.history import History
from toolkit.checks.records import KINDS
from toolkit.report.rows import Arrow, Cut, Fate, Marks, Steps
from toolkit.report.timeline import Timeline


def arrows(timeline, tag):
    return [row for row in timeline.rows if isinstance(row, Arrow) and row.tag == tag]


def chips(timeline, node):
    return [
        [chip.text for chip in row.chips] for row in timeline.rows if isinstance(row, Marks) and row.node == node
    ]


def test_each_frame_is_one_arrow(reconnect):
    timeline = Timeline(reconnect)
    sent = [record for record in reconnect.of("frame") if record["direction"] == "tx"]
    assert sum(isinstance(row, Arrow) for row in timeline.rows) == len(sent)
    (ident,) = arrows(timeline, "CLIENT_IDENT")
    assert (ident.source, ident.target, ident.fate) == ("a", "b", Fate.ARRIVED)
    assert ident.detail == "global_seq 1 · client_cookie 192"
    assert ident.tip.splitlines() == [
        "CLIENT_IDENT a → b",
        "sent at 0.008500 s, received 500 µs later",
        "link a/1 and b/1, session 1, frame 4, byte 400, 100 bytes",
        "global_seq: 1",
        "client_cookie: 192",
    ]


def test_messages_without_arrival_are_lost(reconnect):
    messages = arrows(Timeline(reconnect), "MESSAGE")
    assert [arrow.fate for arrow in messages] == [Fate.ARRIVED] * 12 + [Fate.LOST] * 8 + [Fate.ARRIVED] * 8
    assert "sent at" in messages[12].tip
    assert messages[12].tip.splitlines()[1].endswith(", never received")


def test_timeline_lists_the_states_and_events_of_each_node(reconnect):
    timeline = Timeline(reconnect)
    assert chips(timeline, "a") == [
        ["started"],
        ["CONNECTING"],
        ["READY", "connect"],
        ["SOCKET", "CONNECTING"],
        ["READY", "connect"],
    ]
    assert chips(timeline, "b") == [
        ["started"],
        ["accept"],
        ["READY"],
        ["SOCKET", "STANDBY"],
        ["REUSE", "accept"],
        ["READY"],
    ]


def test_fault_is_shown_once(reconnect):
    notes = [row.note for row in Timeline(reconnect).rows if isinstance(row, Marks) and row.note]
    assert notes == [
        "the application connects",
        "connection reset by peer; dialling again",
        "connection reset by peer; nothing to send",
        "the session goes on",
    ]


def test_cuts_and_steps(reconnect):
    timeline = Timeline(reconnect)
    (cut,) = [row for row in timeline.rows if isinstance(row, Cut)]
    assert (cut.a, cut.b, cut.text) == ("a", "b", "cut at byte 40 of a's MESSAGE 13")
    (steps,) = [row for row in timeline.rows if isinstance(row, Steps)]
    assert steps.lines == ["connect a, b", "send a, b, count=20"]


def test_sessions_are_numbered_where_there_are_several(run):
    run.add_record("a", "event", session=2, peer="c", event="connect", detail="")
    run.add_record("a", "mark_down", session=2, peer="c")
    run.add_record("b", "event", session=1, peer="c", event="reset", detail="over")
    timeline = Timeline(run.history)
    assert chips(timeline, "a") == [["connect · 2", "mark_down · 2"]]
    assert chips(timeline, "b") == [["reset"]]


def test_decisions_about_existing_sessions_are_shown(run):
    run.add_record("b", "decision", link="b/1", session=None, verdict="OPEN", why="no session with this peer")
    run.add_record("b", "decision", link="b/2", session=1, verdict="REUSE", why="the session goes on")
    assert chips(Timeline(run.history), "b") == [["REUSE"]]


def test_restarts(run):
    run.add_record("a", "process", action="kill", incarnation=1)
    run.now_s = 1
    run.add_record("a", "process", action="start", incarnation=2)
    assert chips(Timeline(run.history), "a") == [["killed"], ["started again (2)"]]


def test_a_peer_without_a_history_has_a_lifeline(run):
    run.add_record("a", "link", link="a/1", action="dial", peer="v2:10.0.0.9:3300/0", session=1)
    for direction in ("tx", "rx"):
        body = {"tag": "BANNER", "index": 0, "offset": 0, "length": 26, "fields": {}}
        run.add_record("a", "frame", link="a/1", session=1, direction=direction, **body)
    timeline = Timeline(run.history)
    assert timeline.lifelines() == ["a", "v2:10.0.0.9:3300/0"]
    assert [(row.source, row.fate) for row in timeline.rows] == [
        ("a", Fate.UNKNOWN),
        ("v2:10.0.0.9:3300/0", Fate.UNKNOWN),
    ]


def test_concurrent_links_are_distinguished(run):
    run.dial()
    run.frame("a", "BANNER")
    run.dial()
    for number in (2, 1):
        run.link = number
        run.frame("b", "HELLO", entity_type="osd", port=number)
        run.frame("a", "HELLO", entity_type="osd")
    run.message("a", 1)
    timeline = Timeline(run.history)
    assert [(row.tag, row.detail) for row in timeline.rows] == [
        ("BANNER", "link 1"),
        ("HELLO", "entity_type osd · link 2"),
        ("HELLO", "entity_type osd · link 2"),
        ("HELLO", "entity_type osd · link 1"),
        ("HELLO", "entity_type osd · link 1"),
        ("MESSAGE", "ping · seq 1 · tid 1"),
    ]


def test_links_one_after_the_other_are_not_numbered(reconnect):
    assert all("link" not in arrow.detail for arrow in arrows(Timeline(reconnect), "HELLO"))


def test_refusal_is_shown_once(run):
    detail = "connection refused in START_CONNECT: 10.0.0.2:6800"
    run.add_record("a", "fault", session=1, link="a/1", reason="REFUSED", detail=detail)
    run.event("a", "refused", detail)
    run.state("a", "CONNECTING", f"{detail}; dialling again in 0.2 s")
    run.event("a", "reset", "for another reason")
    first, second = Timeline(run.history).rows
    assert [chip.text for chip in first.chips] == ["REFUSED", "refused", "CONNECTING"]
    assert first.note == "10.0.0.2:6800; dialling again in 0.2 s"
    assert second.note == "for another reason"


def test_everything_that_happens_to_a_process_has_a_chip():
    actions = sorted(KINDS["process"]["action"].choices)
    for action in actions:
        history = History()
        history.append(1.0, "a", "process", action=action, incarnation=1)
        assert len(chips(Timeline(history), "a")) == 1, action
