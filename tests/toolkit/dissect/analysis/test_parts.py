"""A capture that is judged in parts, and whose frames wait for that in a temporary file."""

import gc
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from messenger.denc.entity import EntityType
from messenger.errors import LocalError
from messenger.v2.wire import KeepAlive2, KeepAlive2Ack
from tests.support.crafted import TO_CLIENT, TO_SERVER, Connection, Peers, Tape, control, exchange, msg
from toolkit.checks import carried
from toolkit.checks.audit.table import audit
from toolkit.checks.history import History
from toolkit.checks.index import Index
from toolkit.checks.invariants import check
from toolkit.checks.parts import audit_parts, check_parts
from toolkit.checks.records import FOLDED, dump_record
from toolkit.dissect import capture as capture_module
from toolkit.dissect.analysis import Analysis, seen, spool
from toolkit.dissect.analysis.history import HistoryMaker
from toolkit.dissect.capture import Capture
from toolkit.dissect.decode import decode_capture

LINKS = 40
PART_FRAMES = 64


def many_links(path: Path, links: int = LINKS) -> Path:
    """Every second link resumes the session before it; every fifth one acknowledges an unsent seq."""
    tape = Tape()
    for number in range(links):
        session, again = divmod(number, 2)
        peers = Peers(
            client=f"10.0.0.{session % 7 + 1}:0/{session + 1}",
            gid=4100 + session,
            client_cookie=session + 1,
            server_cookie=1000 + session,
        )
        link = Connection(tape, f"10.0.0.{session % 7 + 1}:{40_000 + number}").open()
        link.play(peers.resume(number + 1, 1, (2, 2)) if again else peers.begin(number + 1))
        if not again:
            link.play(exchange(2))
        if number % 5 == 0:
            link.play([(TO_CLIENT, msg(3, ack=99))])
        link.close()
    return tape.write(path)


def made(path: Path) -> tuple[Analysis, HistoryMaker]:
    analysis = Analysis()
    maker = HistoryMaker(analysis)
    for frame in decode_capture(path):
        analysis.take(frame)
        maker.take(frame)
    return analysis, maker


def sessions_of(history: History) -> set[int]:
    return {record["session"] for record in history.records}


def test_parts_have_all_records_and_whole_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = many_links(tmp_path / "many.pcap")
    _, whole = made(path)
    monkeypatch.setattr(seen, "_BLOCK_FRAMES", 50)
    monkeypatch.setattr(spool, "_MOST_BYTES_IN_MEMORY", 1000)
    _, maker = made(path)
    assert maker.history() == whole.history()
    parts = list(maker.parts(PART_FRAMES))
    assert len(parts) > 5
    assert all(len(part.of("frame")) <= 2 * PART_FRAMES for part in parts)
    sessions = [sessions_of(part) for part in parts]
    assert sum(map(len, sessions)) == len(set().union(*sessions)) == LINKS // 2
    records = Counter(dump_record(record) for part in parts for record in part.records)
    assert records == Counter(map(dump_record, whole.history(unbroken=True).records))


def test_parts_have_the_violations_of_the_whole(tmp_path: Path) -> None:
    _, maker = made(many_links(tmp_path / "many.pcap"))
    whole = maker.history(unbroken=True)
    expected = {result.id: [each.text for each in result.violations] for result in check(whole)}
    assert len(expected["wire_rules"]) >= LINKS // 5
    results = check_parts(maker.parts(PART_FRAMES))
    assert {result.id: [each.text for each in result.violations] for result in results} == expected
    found, due = audit_parts(maker.parts(PART_FRAMES)), audit(Index(whole))
    assert [(each.rule, each.frame, each.text) for each in found.broken] == [
        (each.rule, each.frame, each.text) for each in due.broken
    ]
    assert found.judged == due.judged


def test_sessions_of_different_parts_are_compared(tmp_path: Path) -> None:
    """One client has too many sessions for a part; its last one repeats numbers of its first and of another's."""
    tape = Tape()
    for number in range(24):
        is_last = number == 23
        peers = Peers(
            client="10.0.0.1:0/1" if number else "10.0.0.2:0/2",
            gid=4101 if number else 4100,
            client_cookie=2 if is_last else number + 1,
            server_cookie=1000 if is_last else 1000 + number,
        )
        link = Connection(tape, f"10.0.0.{1 if number else 2}:{40_000 + number}").open()
        link.play(peers.begin(7 if is_last else number + 10))
        link.play(exchange(2))
        link.close()
    _, maker = made(tape.write(tmp_path / "one-client.pcap"))
    found = audit_parts(maker.parts(PART_FRAMES))
    assert len(list(maker.parts(PART_FRAMES))) > 3
    assert sorted((each.rule.id, each.text.partition(" of ")[0]) for each in found.broken) == [
        ("fresh_client_cookie", "client_cookie 2"),
        ("fresh_server_cookie", "server_cookie 3e8 was granted before"),
        ("global_seq", "global_seq 7 is not above 32"),
    ]
    results = check_parts(maker.parts(PART_FRAMES))
    assert {result.name: len(result.violations) for result in results if not result.ok} == {"wire_rules": 3}
    whole = audit(Index(maker.history(unbroken=True)))
    assert (found.counts, [each.frame for each in found.broken]) == (
        whole.counts,
        [each.frame for each in whole.broken],
    )


def test_memory_of_the_judgement_does_not_grow_with_the_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_module, "_PART_FRAMES", 1000)
    monkeypatch.setattr("toolkit.checks.parts._SMALL", 0)
    used = []
    for links in (100, 100, 400):  # what is loaded once does not count
        capture = Capture(many_links(tmp_path / f"{len(used)}.pcap", links), each_request=False)
        assert len(capture.analysis.links) == links
        gc.collect()
        tracemalloc.start()
        try:
            assert [result.id for result in capture.check() if not result.ok] == ["wire_rules"]
            used.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    # The numbers by which sessions are compared stay: 1.4 times as much. If parts stayed, it would be 3.3 times.
    assert used[2] < 2 * used[1]


def long_session(path: Path, rounds: int) -> Path:
    """One session on three links: its frames are many times those of a part, and some of them break rules."""
    tape = Tape()
    peers = Peers(client_type=EntityType.OSD, client_cookie=0xC0, server_cookie=0x5E)
    seq = 0
    for number in range(3):
        link = Connection(tape, f"10.0.0.1:{40_000 + number}").open()
        link.play(peers.resume(number + 1, number, (seq, seq)) if number else peers.begin(1))
        for turn in range(rounds):
            seq += 1 + (turn == 2 * rounds // 3)  # a seq is left out
            wrong = 2 * (turn == rounds // 2)  # two messages are acknowledged before they are sent
            link.play(
                [(TO_SERVER, msg(seq, tid=seq, ack=seq - 1)), (TO_CLIENT, msg(seq, tid=seq, ack=seq + wrong))]
            )
            tape.wait(0.2 if wrong else 0)
            if turn % 10 == 0:
                link.play([(TO_SERVER, control(KeepAlive2(turn, number)))])
                link.play([(TO_CLIENT, control(KeepAlive2Ack(turn, number)))])
        link.play([(TO_CLIENT, control(KeepAlive2Ack(0, number)))])  # answered long ago
        tape.wait(0.01)
        link.close()
    return tape.write(path)


@pytest.mark.parametrize("part_frames", [30, 100, 400])
def test_a_session_of_several_parts_has_the_violations_of_the_whole(tmp_path: Path, part_frames: int) -> None:
    _, maker = made(long_session(tmp_path / "long.pcap", 200))
    whole = maker.history(unbroken=True)
    due = audit(Index(whole))
    assert {each.rule.id for each in due.broken} == {"ack_back", "ack_known", "keepalive_echo", "seq_step"}
    parts = list(maker.parts(part_frames))
    assert len(parts) > 1200 // part_frames - 1
    # A part has a fourth of the frames before it, too, and the handshake: 10 frames at both ends, and FOLDED ones.
    assert max(len(part.of("frame")) for part in parts) < 2 * 1.5 * (1.5 * part_frames + 20)
    found = audit_parts(maker.parts(part_frames))
    assert [str(each) for each in found.broken] == [str(each) for each in due.broken]
    assert [each.frame for each in found.broken] == [each.frame for each in due.broken]
    lost = due.counts.keys() - found.counts.keys()  # the link on which the session began may have left
    assert {rule.id for rule in lost} <= {"resumed_cookies"}
    assert {rule: count for rule, count in due.counts.items() if rule.id != "resumed_cookies"} == {
        rule: count for rule, count in found.counts.items() if rule.id != "resumed_cookies"
    }
    expected = {result.id: [each.text for each in result.violations] for result in check(whole)}
    results = check_parts(maker.parts(part_frames))
    assert {result.id: [each.text for each in result.violations] for result in results} == expected


def test_unacknowledged_messages_of_a_part_stay_until_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carried, "_MOST_AWAITING", 20)
    tape = Tape()
    link = Connection(tape).open().play(Peers(client_type=EntityType.OSD, client_cookie=1).begin())
    link.play([(TO_SERVER, msg(seq, tid=seq)) for seq in range(1, 600)])
    _, maker = made(tape.write(tmp_path / "unacknowledged.pcap"))
    *_, last = maker.parts(60)
    seqs = [
        record["fields"]["seq"]
        for record in last.records[: last.judged_since]
        if record.fields.get("tag") == "MESSAGE"
    ]
    first = last[last.judged_since]["fields"]["seq"]
    assert sorted(set(seqs)) == list(range(first - 20, first))
    (folded,) = [record for record in last.of("frame") if record["tag"] == FOLDED and record["direction"] == "tx"]
    assert folded["fields"]["last_seq"] == first - 21


def test_a_session_takes_the_memory_of_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_module, "_PART_FRAMES", 500)
    monkeypatch.setattr(seen, "_BLOCK_FRAMES", 100)
    monkeypatch.setattr("toolkit.checks.parts._SMALL", 0)
    used = []
    for rounds in (400, 400, 1600):  # what is loaded once does not count
        capture = Capture(long_session(tmp_path / f"{len(used)}.pcap", rounds), each_request=False)
        assert len(capture.analysis.sessions) == 1
        gc.collect()
        tracemalloc.start()
        try:
            assert "wire_rules" in [result.id for result in capture.check() if not result.ok]
            used.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert used[2] < 1.5 * used[1]


def test_a_missing_folder_for_temporary_files_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = many_links(tmp_path / "many.pcap")
    monkeypatch.setattr(seen, "_BLOCK_FRAMES", 50)
    monkeypatch.setattr(spool, "_MOST_BYTES_IN_MEMORY", 1000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(LocalError, match=r"the temporary file for frames in .*gone: No such file or directory"):
        made(path)
