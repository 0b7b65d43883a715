"""Captures that are damaged, crafted or no captures: every command ends in order, in bounded memory and time."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile import captures
from tests.hostile.confined import confined, msgrlab
from tests.support.packets import TIME_NS
from toolkit.capture.formats import open_capture
from toolkit.dissect.analysis import Analysis, Limits
from toolkit.dissect.analysis.history import HistoryMaker
from toolkit.dissect.capture import Capture
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import DecodedFrame, Verdict
from toolkit.dissect.stream import Stream

COMMANDS = {
    "decode": ("decode", "{}", "-o", "frames.json"),
    "columns": ("decode", "{}", "-o", "frames.parquet"),
    "analyze": ("analyze", "{}"),
    "analyze --json": ("analyze", "{}", "--json"),
    "chart": ("chart", "{}"),
    "page": ("chart", "{}", "-o", "page.html"),
    "wireshark": ("wireshark", "{}", "-o", "plain.pcapng"),
}


@pytest.mark.parametrize("name", captures.SMALL)
def test_every_command_exits_normally_on_hostile_captures(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(captures.SMALL[name]())
    commands = COMMANDS if name != "compression-bombs" else {"analyze": COMMANDS["analyze"]}
    for command in commands.values():
        outcome = msgrlab(tmp_path, *(word.format(path) for word in command))
        assert outcome.is_orderly, (command, outcome)


def found_in(path: Path, raw: bytes) -> Capture:
    path.write_bytes(raw)
    return Capture(path)


def test_content_of_a_bad_frame_is_not_shown(tmp_path: Path) -> None:
    hurt = found_in(tmp_path / "hurt", captures.one_wrong_byte())
    whole = Capture(captures.FOLDER / "pacific-crc" / "capture.pcapng.gz")
    assert hurt.problem == "1 frame with a wrong crc or signature"
    before, after = (capture.analysis.message_table() for capture in (whole, hurt))
    assert len(after) == len(before) - 1
    assert set(after["seq"]) <= set(before["seq"])
    assert after["tid"].max() == before["tid"].max()
    assert len(hurt.history()) == len(whole.history()) - 2
    results = {result.name: result for result in hurt.check()}
    assert [result for result in results.values() if not result.ok] == []
    assert results["wire_rules"].judged


def test_analysis_counts_huge_numbers_of_missing_seqs(tmp_path: Path) -> None:
    capture = found_in(tmp_path / "far", captures.seqs_far_apart())
    (session,) = capture.analysis.sessions
    highest = (1 << 64) - 1
    (sender,) = (party.outbox for party in session.parties if highest in party.outbox.messages)
    assert sender.gaps[-2:] == [range(7, 1 << 63), range((1 << 63) + 1, highest)]
    assert sender.missing == highest - 1 - 6 - 1
    assert capture.where(1 << 40).endswith(f"not in the capture, which lacks seqs 7 to {(1 << 63) - 1}")
    outcome = msgrlab(tmp_path, "analyze", capture.path, "--json")
    (row,) = json.loads(outcome.out)["sessions"]
    assert row["missing"] == sender.missing


def test_analyze_reports_a_capture_without_messenger_links(tmp_path: Path) -> None:
    path = tmp_path / "web.pcap"
    path.write_bytes(captures.no_ceph())
    outcome = msgrlab(tmp_path, "analyze", path)
    assert (outcome.code, outcome.out, outcome.err) == (0, "no messenger link in this capture\n", "")
    answer = json.loads(msgrlab(tmp_path, "analyze", path, "--json").out)
    tables = "sessions", "links", "latency", "batches", "traffic"
    assert [answer[name] for name in tables] == [[]] * len(tables)


@pytest.mark.parametrize("make", [lambda: captures.section_headers(150_000), lambda: captures.sections(15_000)])
def test_sections_are_read_in_linear_time(make: Callable[[], bytes], tmp_path: Path) -> None:
    path = tmp_path / "sections.pcapng"
    path.write_bytes(make())
    began_s = time.process_time()
    with open_capture(path) as reader:
        assert sum(map(len, reader)) in {0, 15_000}
        assert reader.problem is None
    assert time.process_time() - began_s < 20


# ---- limits of the analysis


def frames(count: int, per_link: int, tag: str = "HELLO") -> list[DecodedFrame]:
    """Frames of handshakes on as many links as it takes."""
    return [
        DecodedFrame(
            frame=number,
            time_ns=TIME_NS + number,
            packet=number,
            stream=Stream(
                number // per_link, f"10.0.0.1:{number // per_link}", "10.0.0.2:6800", opening_seen=True
            ),
            direction=Direction.TO_SERVER,
            protocol="v2.1",
            mode="crc",
            tag=tag,
            offset=0,
            length=60,
            crc=Verdict.OK,
            auth=Verdict.NONE,
            read_fields=lambda: {"gid": 7},
        )
        for number in range(count)
    ]


def test_analysis_stops_at_its_limit_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    analysis = Analysis.of(frames(10, 2), Limits(frames=7))
    assert analysis.left_out == "the analysis ends before frame 7, at its limit of 7 frames"
    assert (analysis.batch_table()["frames"].sum(), len(analysis.links)) == (7, 4)
    monkeypatch.setattr(Limits, "links", property(lambda _self: 3))
    analysis = Analysis.of(frames(10, 2))
    assert analysis.left_out == "the analysis ends before frame 6, at its limit of 3 links"
    monkeypatch.setattr(Limits, "history_frames", property(lambda _self: 4))
    analysis = Analysis()
    maker = HistoryMaker(analysis)
    for frame in frames(6, 2):
        analysis.take(frame)
        maker.take(frame)
    assert maker.left_out == "charts and invariants end before frame 4, at their limit of 4 frames"
    assert len(maker.history().of("frame")) == 8


@pytest.mark.parametrize(("memory_gib", "frames"), [(1, 1 << 20), (16, 1 << 22)])
def test_the_default_limit_is_half_of_the_memory(
    memory_gib: int, frames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": memory_gib << 18}
    monkeypatch.setattr("os.sysconf", pages.__getitem__)
    assert (Limits().frames, Limits().links) == (frames, 1 << 16)


def test_command_reports_the_end_of_the_analysis(tmp_path: Path) -> None:
    path = captures.FOLDER / "pacific-crc" / "capture.pcapng.gz"
    outcome = msgrlab(tmp_path, "analyze", path, "--limit", 20)
    assert outcome.code == 1
    assert "the analysis ends before frame 20, at its limit of 20 frames" in outcome.err
    assert outcome.is_orderly


@pytest.mark.parametrize(("per_link", "tag", "sessions"), [(1, "SERVER_IDENT", 30_000), (30_000, "HELLO", 0)])
def test_the_analysis_takes_linear_time(per_link: int, tag: str, sessions: int) -> None:
    began_s = time.process_time()
    analysis = Analysis.of(frames(30_000, per_link, tag))
    assert len(analysis.handshake_table()) == 30_000 // per_link
    assert len(analysis.session_table()) == sessions
    assert time.process_time() - began_s < 20


def test_long_tables_are_cut_on_the_terminal_only(tmp_path: Path) -> None:
    path = tmp_path / "banners.pcap"
    path.write_bytes(captures.connections(700, captures.BANNER))
    shown = msgrlab(tmp_path, "analyze", path).out
    assert "… and 200 more rows; --json has all" in shown
    assert len(json.loads(msgrlab(tmp_path, "analyze", path, "--json").out)["links"]) == 700


# ---- anything


def _problems(argument: tuple[int, int, Path]) -> int:
    from tests.hostile.mutations import problems

    found = list(problems(*argument))
    sys.stdout.write("\n".join(found))
    return int(bool(found))


def test_mutations_of_real_captures(tmp_path: Path) -> None:
    """``python -m tests.hostile`` tries thousands."""
    outcome = confined(tmp_path, _problems, (20060701, 16, tmp_path), memory_mib=1024, cpu_s=250)
    assert outcome.code == 0, outcome.out
