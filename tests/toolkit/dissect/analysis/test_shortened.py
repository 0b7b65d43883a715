"""Histories for charts: of a long capture, its beginning and its end."""

from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.crafted import Connection, Peers, Tape, exchange
from toolkit.dissect.capture import Capture
from toolkit.report.chart_data import event_values
from toolkit.report.folds import mark_silences
from toolkit.report.plain import plain_chart
from toolkit.report.rows import Gap
from toolkit.report.timeline import Timeline

MOST = 30


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sessions: one of many requests, then one of a few."""
    tape = Tape()
    for number, count in ((1, 40), (2, 3)):
        link = Connection(tape, f"10.0.0.{number}:40000").open()
        peers = Peers(client=f"10.0.0.{number}:0/{number}", gid=4100 + number, client_cookie=number)
        link.play(peers.begin(number))
        link.play(exchange(count))
        link.close()
    return tape.write(tmp_path_factory.mktemp("long") / "capture.pcap")


def numbers(timeline: Timeline) -> list[int]:
    return [row.frame for row in timeline.rows if getattr(row, "frame", None) is not None]


def test_a_shortened_history_has_the_beginning_and_the_end_and_says_what_is_omitted(path: Path) -> None:
    capture = Capture(path)
    every, some = Timeline(capture.history()), Timeline(capture.history(most_frames=MOST))
    shown = numbers(every)
    assert len(shown) > 2 * MOST
    assert numbers(some) == shown[:10] + shown[-20:]
    began_s = next(row.time_s for row in every.rows if getattr(row, "frame", None) == shown[10])
    gap = some.rows[10]
    assert isinstance(gap, Gap)
    assert (gap.time_s, gap.text) == (began_s, f"{len(shown) - MOST} more frames")
    assert sum(isinstance(row, Gap) for row in some.rows) == 1


def test_the_time_of_omitted_frames_is_no_silence(path: Path) -> None:
    rows = Timeline(Capture(path).history(most_frames=MOST)).rows
    gap = next(place for place, row in enumerate(rows) if isinstance(row, Gap))
    silence_s = rows[gap + 1].time_s - rows[gap].time_s
    assert silence_s > max(after.time_s - before.time_s for before, after in pairwise(rows[gap + 1 :]))
    marked = mark_silences(rows, silence_s)
    assert [row.text for row in marked if isinstance(row, Gap)] == [rows[gap].text]


def test_the_table_of_events_marks_the_omission(path: Path) -> None:
    history = Capture(path).history(most_frames=MOST)
    events = event_values(history)
    (gap,) = events["gaps"]
    began_s = history.records[gap].time_s
    assert began_s - history.records[gap - 1].time_s > 10 * (history.records[-1].time_s - began_s) / MOST
    assert event_values(Capture(path).history())["gaps"] == []


def test_a_session_is_shortened_by_its_own_frames(path: Path) -> None:
    capture = Capture(path)
    whole = capture.history(1)
    assert capture.history(1, most_frames=MOST) == whole
    assert capture.history(1, most_frames=6).omitted is not None
    assert len(numbers(Timeline(capture.history(0, most_frames=6)))) == 6


def test_a_text_chart_shows_the_omission_only_if_it_is_among_the_last_frames(path: Path) -> None:
    history = Capture(path).history(most_frames=MOST)
    assert not any("more frames" in line for line in plain_chart(history, 10))
    assert sum("more frames" in line for line in plain_chart(history, MOST)) == 1
