"""Captures that are taken in the background: what is in their files."""

import contextlib
import os
import stat
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.conftest import require
from tests.support.limits import files_limited_to
from tests.toolkit.capture.conftest import converse
from tests.toolkit.capture.test_key_log import LINES
from toolkit.capture import capturing, open_capture
from toolkit.capture import recorder as recorder_module
from toolkit.capture.formats import PcapngWriter
from toolkit.capture.packet_socket import PacketSocket
from toolkit.capture.recorder import Recorder, Taken, new_capture
from toolkit.capture.target import Target

pytestmark = pytest.mark.needs("capture")
PAYLOAD = b"a word that nobody else says " * 3


def payloads(path: Path) -> list[bytes]:
    with open_capture(path) as reader:
        found = [bytes(batch.packet(place)) for batch in reader for place in range(len(batch))]
        assert reader.problem is None
    return found


def test_capture_file_contains_every_packet_of_the_block(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    with capturing("lo", path) as taken:
        for _ in range(20):
            converse(PAYLOAD)
    found = payloads(path)
    assert sum(PAYLOAD in packet for packet in found) == 20
    assert taken.packets == len(found)
    assert taken.size_bytes == sum(map(len, found))
    assert (taken.dropped, taken.ended) == (0, "")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_capture_refuses_an_existing_file_and_a_missing_folder(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    path.write_text("mine")
    with pytest.raises(LocalError, match="exists already"), capturing("lo", path):
        pass
    assert path.read_text() == "mine"
    with pytest.raises(LocalError, match="No such file"), capturing("lo", tmp_path / "none" / "a.pcapng"):
        pass


def test_key_log_and_notes_are_inside(tmp_path: Path) -> None:
    path, log = tmp_path / "a.pcapng", tmp_path / "keys"
    log.write_text(LINES[0])
    with capturing("lo", path, key_log=log, notes=["first", "second: ü"]) as taken:
        converse(PAYLOAD)
        with log.open("a") as file:
            file.write(LINES[1])
    with open_capture(path) as reader:
        assert sum(map(len, reader))
        assert reader.notes == ["first", "second: ü"]
        assert "".join(reader.secrets) == LINES[0] + LINES[1]
    assert taken.key_log_lines == 2


def test_packets_wait_for_a_key_that_is_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "_KEY_PATIENCE_S", 60.0)
    path, log = tmp_path / "a.pcapng", tmp_path / "keys"
    with capturing("lo", path, key_log=log) as taken:
        converse(PAYLOAD)
        while not taken.packets:
            time.sleep(0.01)
        log.write_text(LINES[0])
    content = path.read_bytes()
    assert content.index(LINES[0].encode()) < content.index(PAYLOAD)


def test_a_count_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    with capturing("lo", path, count=3) as taken:
        converse(PAYLOAD)
    assert taken.packets == len(payloads(path)) == 3


def test_an_error_of_the_block_is_the_callers_and_the_file_is_good(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    with contextlib.suppress(ZeroDivisionError), capturing("lo", path):
        converse(PAYLOAD)
        raise ZeroDivisionError
    assert any(PAYLOAD in packet for packet in payloads(path))


def test_capture_without_packets_is_readable(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    with capturing("lo", path, ports="1"):
        pass
    assert payloads(path) == []


def test_capture_of_which_nothing_can_be_written_is_not_left_behind(tmp_path: Path) -> None:
    path = tmp_path / "mine.pcapng"
    with files_limited_to(0), pytest.raises(LocalError, match="File too large"), new_capture(path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_full_disk_is_an_error() -> None:
    full = Path("/dev/full")
    with PacketSocket(Target.parse("lo")) as source, full.open("wb", buffering=0) as file:
        converse(PAYLOAD)
        recorder = Recorder(source, Taken(full, "lo"), writer=PcapngWriter(file), count=1)
        with closing(recorder), pytest.raises(LocalError, match="/dev/full: No space left"):
            recorder.run()


def test_watcher_gets_packets_and_new_keys(tmp_path: Path) -> None:
    packets_seen: list[bytes] = []
    secrets: list[str] = []
    taken = Taken(None, "lo")
    with PacketSocket(Target.parse("lo")) as source:
        recorder = Recorder(
            source,
            taken,
            watch=lambda packets, text: (
                packets_seen.extend(packet.data for packet in packets),
                secrets.append(text),
            ),
        )
        with closing(recorder):
            converse(PAYLOAD)
            recorder.stop()
            recorder.run()
    assert sum(PAYLOAD in packet for packet in packets_seen) == 1
    assert set(secrets) == {""}


def test_a_duration_ends_it() -> None:
    source = PacketSocket(Target.parse("lo"))
    with source, closing(Recorder(source, Taken(None, "lo"), duration_s=0.0)) as recorder:
        thread = threading.Thread(target=recorder.run)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()


def test_a_namespace(namespace: str, tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    with capturing(f"netns:{namespace}", path):
        converse(PAYLOAD, inside=Target.parse(f"netns:{namespace}"))
    assert sum(PAYLOAD in packet for packet in payloads(path)) == 1


def test_wireshark_reads_it(tmp_path: Path) -> None:
    require("tshark")
    path = tmp_path / "a.pcapng"
    with capturing("any", path, notes=["a note"]):
        port = converse(PAYLOAD)
    command = [
        "tshark",
        "-r",
        str(path),
        "-Y",
        f"tcp.port == {port}",
        "-T",
        "fields",
        "-e",
        "frame.interface_name",
    ]
    command += ["-e", "tcp.payload"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C.UTF-8"}
    )
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert {row[0] for row in rows} == {"lo"}
    assert [row[1] for row in rows if row[1]] == [PAYLOAD.hex()]


def test_capture_may_be_written_to_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with new_capture(Path("-"), ["a note"]) as writer:
        writer.interface("lo")
    written = capfdbinary.readouterr().out
    assert b"a note" in written
    assert written.startswith(b"\x0a\x0d\x0d\x0a")
