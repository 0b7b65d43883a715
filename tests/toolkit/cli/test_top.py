"""``msgrlab top`` as a user types it: real messengers on loopback, captures, and the screen on a terminal."""

import asyncio
import io
import itertools
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from messenger.cephx.exchange import ConMode
from messenger.link import Protocol
from tests.support.aio import on_loop
from tests.support.ports import low_port
from tests.support.quiet import own_network
from tests.toolkit.cli.test_capture import PINGS, meet
from toolkit.cli.main import run as msgrlab
from toolkit.cli.top_screen import Screen, keys_of
from toolkit.dissect.top import CaptureTop, LiveTop

pytestmark = pytest.mark.usefixtures("own_network")
__all__ = ["own_network"]
MAIN = "from toolkit.cli.main import main; main()"
FOLDER = Path(__file__).parents[3] / "captures" / "reef-osds"
CAPTURE, KEYRING = str(FOLDER / "capture.pcapng.gz"), str(FOLDER / "keyring")
TIMEOUT_S = 60


@pytest.mark.needs("capture")
@pytest.mark.parametrize(
    ("protocol", "mode"), [(Protocol.V2, ConMode.CRC), (Protocol.V2, ConMode.SECURE), (Protocol.V1, ConMode.CRC)]
)
@on_loop
async def test_snapshot_shows_the_traffic_of_a_live_link(
    protocol: Protocol, mode: ConMode, tmp_path: Path
) -> None:
    log = tmp_path / "keys"
    view = LiveTop("lo", key_log=log, ports="all", interval_s=0.05)
    with view.running() as live:
        port = await meet(mode, protocol, log)
        until_s = time.monotonic() + TIMEOUT_S
        while time.monotonic() < until_s:
            rows = live.snapshot().rows
            if rows and rows[0].messages >= PINGS and rows[0].state == "down":
                break
            live.over.wait(0.05)
    (row,) = rows
    named = protocol is Protocol.V2  # on v1 the header of a message names its sender, and osd.2 sends none
    assert (row.entity, row.peer) == ("osd.1", "osd.2" if named else row.peer_address)
    assert row.peer_address.endswith(f":{port}")
    assert row.messages == PINGS
    assert row.mode == ("secure" if mode is ConMode.SECURE else "crc")
    assert row.verdict == "ok"
    assert "closed it first (FIN)" in row.last or "reset it" in row.last
    assert view.ended == ""


@pytest.mark.needs("capture")
def test_json_is_an_object_a_line_until_a_signal(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", MAIN, "top", "lo", "--json", "--interval", "0.2", "--ports"]
    port = low_port()
    with out.open("wb") as file, subprocess.Popen([*command, str(port)], stdout=file) as running:
        try:
            wait_for(lambda: out.read_bytes().count(b"\n") >= 1)
            asyncio.run(meet(ConMode.CRC, port=port))
            wait_for(lambda: b'"messages": 5' in out.read_bytes())
            running.send_signal(signal.SIGINT)
            assert running.wait(TIMEOUT_S) == 0
        finally:
            running.kill()
    snapshots = [json.loads(line) for line in out.read_text().splitlines()]
    assert snapshots[0]["sessions"] == []
    (session,) = snapshots[-1]["sessions"]
    assert (session["entity"], session["messages"], session["state"]) == ("osd.1", PINGS, "down")
    assert snapshots[-1]["dropped"] == 0
    assert all(later["time_ns"] > before["time_ns"] for before, later in itertools.pairwise(snapshots))


@pytest.mark.needs("capture")
def test_on_a_terminal_it_fills_the_screen_until_q(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", MAIN, "top", "lo", "--interval", "0.1"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "150", "LINES": "20"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, env=environment) as running:
        try:
            os.close(theirs)
            shown = read_until(ours, b"now by bytes")
            os.write(ours, b"s")
            read_until(ours, b"now by frames")
            os.write(ours, b"q")
            rest = read_until(ours, b"\x1b[?1049l")  # the screen that was there before
            assert running.wait(TIMEOUT_S) == 0
        finally:
            running.kill()
            os.close(ours)
    assert b"\x1b[?1049h" in shown
    assert b"\x1b[?25h" in rest  # the cursor is back


def wait_for(holds: Callable[[], bool]) -> None:
    until_s = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < until_s
        time.sleep(0.02)


def read_until(descriptor: int, sign: bytes) -> bytes:
    shown = b""
    while sign not in shown:
        shown += os.read(descriptor, 1 << 16)
    return shown


def test_a_capture_prints_its_final_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["top", CAPTURE, "--keyring", KEYRING, "--sort", "reconnects", "--filter", "state=open"]) == 0
    heading, titles, *rows = capsys.readouterr().out.splitlines()
    assert f"; {len(rows)} sessions, {len(rows)} open; " in heading
    assert titles.split()[:3] == ["entity", "(global_id)", "peer"]
    assert rows[0].startswith("osd.1 (")
    assert rows[0].endswith("osd.0 reset it (RST)")


def test_a_capture_in_spans_prints_a_snapshot_for_each_up_to_the_count(capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["top", CAPTURE, "--interval", "0.1", "--count", "3", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [round(json.loads(line)["interval_s"], 6) for line in lines] == [0.1, 0.1, 0.1]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nowhere.pcapng"], "nowhere.pcapng: there is no such file"),
        (["lo", "--sort", "size"], "no order 'size'; rows are sorted by bytes, frames"),
        (["lo", "--filter", "size=3"], "no column 'size'; there are session, entity"),
        (["netns:nowhere"], "no network namespace 'nowhere'"),
        (["lo", "--key-log", "a", "--key-log", "b"], "one key log is followed"),
    ],
)
def test_mistakes_are_one_line(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["top", *words]) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1


# ---- the screen


def drawn(screen: Screen, height: int = 30) -> str:
    console = Console(width=220, height=height, file=io.StringIO())
    with console.capture() as shown:
        console.print(screen.drawn(height))
    return shown.get()


def test_arrows_choose_a_session_and_show_its_last_events() -> None:
    screen = Screen("reconnects", ["osd.0"])
    screen.take(next(iter(CaptureTop(Path(CAPTURE), [Path(KEYRING)]))))
    assert "stream 2" not in drawn(screen)
    screen.press("down")
    shown = drawn(screen)
    assert "reconnected" in shown
    assert "osd.0 reset it (RST)" in shown.split("osd.1 → osd.0:")[1]
    first = screen.chosen
    screen.press("down")
    assert screen.chosen != first
    screen.press("up")
    assert screen.chosen == first
    screen.press("none")
    assert "reconnected" not in drawn(screen)


def test_a_small_terminal_shows_the_rows_around_the_chosen_one() -> None:
    screen = Screen("entity")
    screen.take(next(iter(CaptureTop(Path(CAPTURE), [Path(KEYRING)]))))
    for _ in range(12):
        screen.press("down")
    last = screen.snapshot.rows[-1] if screen.snapshot else None
    assert last is not None
    assert screen.chosen == last.session
    assert len(drawn(screen, 16).splitlines()) <= 16
    assert last.title in drawn(screen, 16)


def test_keys_are_read_whole_and_others_are_left_out() -> None:
    assert keys_of(b"\x1b[A\x1bOBxs\x1bq") == ["up", "down", "sort", "none", "quit"]


@pytest.mark.needs("capture")
def test_signal_ends_it_although_nobody_reads_its_terminal() -> None:
    """As after Ctrl-S: a write waits for ever, and the restored terminal for the write."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", MAIN, "top", "lo", "--interval", "0.05"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "150", "LINES": "20"}
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=environment
    ) as running:
        try:
            read_until(ours, b"now by bytes")
            wait_for(lambda: not select.select([], [theirs], [], 0)[1])
            running.send_signal(signal.SIGTERM)
            remark = running.communicate(timeout=TIMEOUT_S)[1]
            # The terminal may have room for the last screen still.
            assert (running.returncode, remark) in [(0, b""), (2, b"msgrlab: standard output: it is not read\n")]
        finally:
            running.kill()
            os.close(ours)
            os.close(theirs)


@pytest.mark.needs("capture")
def test_terminal_that_has_gone_is_one_line() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", MAIN, "top", "lo", "--interval", "0.05"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE) as running:
        try:
            os.close(theirs)
            read_until(ours, b"now by bytes")
            os.close(ours)
            assert running.communicate(timeout=TIMEOUT_S)[1] == b"msgrlab: standard output: Input/output error\n"
            assert running.returncode == 2
        finally:
            running.kill()
