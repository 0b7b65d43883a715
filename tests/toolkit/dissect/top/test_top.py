"""The view of sessions: of captures of Ceph, of links with a known course, and what it keeps of many of them."""

import gc
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import toolkit
from messenger.errors import LocalError
from tests.support.crafted import TO_CLIENT, TO_SERVER, Connection, Peers, Tape, exchange, msg
from toolkit.capture.formats import LinkType, PacketBatch
from toolkit.dissect.capture import Capture
from toolkit.dissect.direction import Direction
from toolkit.dissect.top import CaptureTop, Limits, Row, Snapshot, Top

CAPTURES = Path(__file__).parents[4] / "captures"
LOSSLESS = Peers(client_cookie=0xC1, server_cookie=0x51)


def batch(tape: Tape) -> PacketBatch:
    """The packets of a tape, which is empty then."""
    sizes = np.array([len(packet) for _, packet in tape.packets])
    times_ns = np.array([time_ns for time_ns, _ in tape.packets])
    made = PacketBatch(
        memoryview(b"".join(packet for _, packet in tape.packets)),
        *(0, times_ns, np.cumsum(sizes) - sizes, sizes, sizes, np.full(len(sizes), LinkType.RAW)),
    )
    tape.packets = []
    return made


def seen(tape: Tape) -> Snapshot:
    top = Top()
    top.feed(batch(tape))
    return top.snapshot()


def only(snapshot: Snapshot) -> Row:
    (row,) = snapshot.rows
    return row


# ---- captures of Ceph


def test_totals_latencies_and_reconnects_are_those_of_the_analysis() -> None:
    folder = CAPTURES / "reef-osds"
    capture = Capture.folder(folder)
    snapshot = next(iter(CaptureTop(folder / "capture.pcapng.gz", [folder / "keyring"])))
    analysis = capture.analysis
    expected = []
    for session in analysis.sessions:
        frames = sum(len(analysis.volume(link, way)) for link in session.links for way in Direction)
        messages = sum(link.messages for link in session.links)
        latencies_ms = [e.latency_ns / 1e6 for e in analysis.exchanges if e.session == session.index]
        p50_ms = round(float(np.percentile(latencies_ms, 50)), 6) if latencies_ms else -1
        names = (party.name for party in session.parties)
        expected.append((*names, len(session.links) - 1, frames, messages, len(latencies_ms), p50_ms))
    assert sorted(expected) == sorted(
        (r.entity, r.peer, r.reconnects, r.frames, r.messages, r.requests, round(r.p50_ms or -1, 6))
        for r in snapshot.rows
    )
    again = next(row for row in snapshot.rows if row.reconnects)
    assert again.last == "osd.0 reset it (RST)"
    assert {row.verdict for row in snapshot.rows} == {"ok"}
    assert {row.cipher for row in snapshot.rows} == {"AES-128-GCM"}


def test_without_keys_an_encrypted_session_has_its_rates_and_no_verdict() -> None:
    folder = CAPTURES / "nautilus-secure"
    opened = next(iter(CaptureTop(folder / "capture.pcapng.gz", [folder / "keyring"])))
    sealed = next(iter(CaptureTop(folder / "capture.pcapng.gz")))
    assert sorted(row.bytes for row in sealed.rows) == sorted(row.bytes for row in opened.rows)
    assert {(row.mode, row.cipher, row.verdict) for row in sealed.rows} == {
        ("secure", "AES-128-GCM", "not judged: no key")
    }
    assert {row.global_id for row in sealed.rows} == {row.global_id for row in opened.rows}


def test_snapshots_of_a_file_are_one_for_each_span_and_add_up() -> None:
    path = CAPTURES / "tentacle-crc" / "capture.pcapng.gz"
    whole = toolkit.top(path)
    parts = list(toolkit.top(path, interval_s=0.002))
    assert len(parts) > 2
    passed = sum((row.bytes_out_per_s + row.bytes_in_per_s) * s.interval_s for s in parts for row in s.rows)
    assert passed == pytest.approx(sum(row.bytes for row in parts[-1].rows), rel=1e-6)
    assert {row.entity: row.frames for row in parts[-1].rows} == {
        row.entity: row.frames for row in next(iter(whole)).rows
    }
    assert "client.4113" in repr(whole)
    assert "client.4113" in whole._repr_html_()


# ---- links with a known course


def test_rates_are_means_since_the_last_snapshot() -> None:
    tape, top = Tape(), Top()
    connection = Connection(tape).open().play(LOSSLESS.begin())
    top.feed(batch(tape))
    top.snapshot()
    began_ns = top.now_ns
    connection.play([(TO_SERVER, msg(seq)) for seq in range(1, 11)])
    top.feed(batch(tape))
    row = only(top.snapshot(began_ns + 2_000_000_000))
    assert (row.frames_out_per_s, row.frames_in_per_s) == (5.0, 0.0)
    assert row.bytes_out_per_s == pytest.approx(10 * len(msg(1)) / 2)
    assert row.state == "open"
    assert only(top.snapshot(began_ns + 3_000_000_000)).bytes_out_per_s == 0


def test_messages_in_flight_are_those_without_an_acknowledgement() -> None:
    tape = Tape()
    script = [(TO_SERVER, msg(seq)) for seq in range(1, 6)] + [(TO_CLIENT, msg(1, ack=3))]
    Connection(tape).open().play(LOSSLESS.begin()).play(script)
    row = only(seen(tape))
    assert (row.in_flight_out, row.in_flight_in) == (2, None)


def test_latencies_are_from_the_request_to_its_reply() -> None:
    tape = Tape(step_ns=1_000_000)
    Connection(tape).open().play(LOSSLESS.begin()).play(exchange(20))
    row = only(seen(tape))
    assert (row.requests, row.p50_ms, row.p99_ms) == (20, 2.0, 2.0)  # an ACK of TCP is between


def test_a_session_that_reconnects_is_one_row_whichever_side_opens_the_link() -> None:
    tape = Tape()
    first = Connection(tape).open().play(LOSSLESS.begin()).play([(TO_SERVER, msg(1))])
    first.reset(TO_CLIENT)
    other_side = Peers(LOSSLESS.server, LOSSLESS.client, client_cookie=0xC1, server_cookie=0x51)
    back = Connection(tape, "10.0.0.2:40001", "10.0.0.1:6801").open().play(other_side.resume(2, 1, (1, 0)))
    back.play([(TO_SERVER, msg(1)), (TO_CLIENT, msg(2))])
    row = only(seen(tape))
    assert (row.reconnects, row.state, row.messages) == (1, "open", 3)
    assert row.last.endswith("reset it (RST)")
    assert "stream 1 reconnected" in [event.text for event in row.events]


def test_session_with_an_ended_link_is_down_and_names_the_ender() -> None:
    tape = Tape()
    Connection(tape).open().play(LOSSLESS.begin()).close(TO_CLIENT)
    row = only(seen(tape))
    assert (row.state, row.verdict) == ("down", "ok")
    assert row.last.startswith(row.peer)


@pytest.mark.parametrize(
    ("script", "following", "verdict"),
    [
        ([(TO_SERVER, msg(1)), (TO_SERVER, msg(3))], 4, "order: seq does not follow the one before"),
        ([(TO_SERVER, msg(1)), (TO_CLIENT, msg(1, ack=5))], 2, "acknowledged: more than was sent"),
        ([(TO_SERVER, msg(1, front=b"a" * 90).replace(b"a" * 9, b"b" * 9))], 2, "crc: MESSAGE is wrong"),
    ],
)
def test_verdict_names_the_violated_rule(
    script: list[tuple[Direction, bytes]], following: int, verdict: str
) -> None:
    tape = Tape()
    link = Connection(tape).open().play(LOSSLESS.begin()).play(script)
    tape.wait(2.0)
    link.play([(TO_SERVER, msg(following))])
    row = only(seen(tape))
    assert row.verdict == verdict
    assert row.last == row.events[-1].text


def test_an_acknowledgement_of_what_was_not_captured_is_no_violation() -> None:
    tape = Tape()
    link = Connection(tape).open().play(LOSSLESS.begin()).play([(TO_SERVER, msg(1))])
    link.sequences[TO_SERVER] += len(msg(2))
    link.play([(TO_CLIENT, msg(1, ack=2))])
    tape.wait(2.0)
    link.play([(TO_SERVER, msg(seq)) for seq in range(3, 40)])
    top = Top()
    top.feed(batch(tape))
    top.finish()
    assert only(top.snapshot()).verdict == f"ok, {len(msg(2))} bytes not captured"


def test_top_shows_unreadable_links_on_ceph_ports() -> None:
    tape = Tape()
    noise = bytes(range(1, 200)) * 5
    Connection(tape).play([(TO_SERVER, noise)] * 40)
    Connection(tape, server="10.0.0.2:8080").play([(TO_SERVER, noise)] * 40)
    row = only(seen(tape))
    assert (row.state, row.peer_address, row.bytes) == ("unread", "10.0.0.2:6800", 40 * len(noise))


# ---- bounds


def reachable(root: object) -> int:
    """Return the number of objects that are reachable from one, without code and types."""
    known, waiting = {id(root)}, [root]
    while waiting:
        for each in gc.get_referents(waiting.pop()):
            if id(each) not in known and gc.is_tracked(each) and not isinstance(each, _SHARED):
                known.add(id(each))
                waiting.append(each)
    return len(known)


_SHARED = (type, types.ModuleType, types.FunctionType, types.CodeType, types.BuiltinFunctionType)


def short_links(tape: Tape, count: int) -> Iterator[Tape]:
    """So many clients, a tenth of a second after each other: a new session, an operation, and the end."""
    for number in range(count):
        peers = Peers(client_cookie=1000 + number, server_cookie=2000 + number)
        link = Connection(tape, f"10.0.0.1:{40000 + number % 500}").open().play(peers.begin(number + 1))
        link.play(exchange(1)).close()
        tape.wait(0.1)
        if number % 10 == 0:
            yield tape
    yield tape


def test_memory_for_many_short_links_is_bounded() -> None:
    top = Top(limits=Limits(ended_s=3.0, links=100))
    tape, sizes = Tape(), []
    for _ in range(3):
        for part in short_links(tape, 1000):
            top.feed(batch(part))
            snapshot = top.snapshot()
            assert len(snapshot.rows) <= 41  # of 3 s, and of the interval
        gc.collect()
        sizes.append(reachable(top))
    assert snapshot.folded + len(snapshot.rows) == 3000
    assert snapshot.folded_frames == snapshot.folded * 12
    assert sizes[2] < sizes[1] * 1.05


def test_of_too_many_sessions_those_that_are_silent_longest_are_folded() -> None:
    top = Top(limits=Limits(sessions=20))
    tape = Tape()
    for part in short_links(tape, 200):
        top.feed(batch(part))
    rows = top.snapshot().rows
    assert [row.session for row in rows] == list(range(180, 200))


def test_memory_for_a_reconnecting_session_is_bounded() -> None:
    top, tape, sizes = Top(limits=Limits(links=100)), Tape(), []
    Connection(tape).open().play(LOSSLESS.begin()).reset(TO_CLIENT)
    for number in range(1, 1501):
        link = Connection(tape, f"10.0.0.1:{40001 + number % 500}").open()
        link.play(LOSSLESS.resume(number + 1, number, (0, 0))).reset(TO_CLIENT)
        if number % 10 == 0:
            top.feed(batch(tape))
            snapshot = top.snapshot()
        if number % 500 == 0:
            gc.collect()
            sizes.append(reachable(top))
    assert only(snapshot).reconnects == 1500
    assert sizes[2] < sizes[1] * 1.05


# ---- order and choice


def test_rows_are_sorted_and_chosen_by_their_columns() -> None:
    folder = CAPTURES / "reef-osds"
    snapshot = next(iter(CaptureTop(folder / "capture.pcapng.gz", [folder / "keyring"])))
    assert [row.reconnects for row in snapshot.sorted("reconnects").rows][:2] == [1, 0]
    names = [row.entity for row in snapshot.sorted("entity").rows]
    assert names == sorted(names)
    assert {row.peer for row in snapshot.only(["peer=mon", "state=down"]).rows} == {"mon.0"}
    assert all("osd.1" in f"{row.entity} {row.peer} {row.last}" for row in snapshot.only(["osd.1"]).rows)
    with pytest.raises(LocalError, match="sorted by bytes, frames"):
        snapshot.sorted("size")
