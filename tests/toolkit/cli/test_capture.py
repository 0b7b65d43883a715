"""``msgrlab capture`` as a user types it: real messengers on loopback, and what is in the file afterwards."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from messenger.cephx.exchange import ConMode
from messenger.denc.entity import EntityType
from messenger.inbox import Inbox
from messenger.link import Protocol
from messenger.messages.ping import MPing
from tests.support.aio import messenger, on_loop
from tests.support.ports import low_port
from tests.support.quiet import own_network
from toolkit.capture import capturing, open_capture
from toolkit.cli.main import run as msgrlab
from toolkit.dissect.decode import decode_capture
from toolkit.dissect.frames import Verdict

pytestmark = pytest.mark.usefixtures("own_network")
__all__ = ["own_network"]
MAIN = "from toolkit.cli.main import main; main()"
PINGS = 5
TIMEOUT_S = 60


async def meet(mode: ConMode, protocol: Protocol = Protocol.V2, key_log: Path | None = None, port: int = 0) -> int:
    """Two messengers, and pings from one to the other; returns the listener's port."""
    inbox = Inbox()
    async with (
        messenger(1, mode=mode, key_log=key_log) as client,
        messenger(2, inbox, mode=mode) as server,
    ):
        address = await server.bind(port=port, protocol=protocol)
        connection = await client.connect(address, EntityType.OSD).ready(10.0)
        for _ in range(PINGS):
            connection.send(MPing())
        for _ in range(PINGS):
            await asyncio.wait_for(inbox.get(), 10.0)
    return int(address.port)


WAYS = [(Protocol.V2, ConMode.CRC), (Protocol.V2, ConMode.SECURE), (Protocol.V1, ConMode.CRC)]


@pytest.mark.needs("capture")
@pytest.mark.parametrize(("protocol", "mode"), WAYS)
@on_loop
async def test_file_contains_the_traffic_and_its_keys(protocol: Protocol, mode: ConMode, tmp_path: Path) -> None:
    path, log = tmp_path / "a.pcapng", tmp_path / "keys"
    with capturing("lo", path, key_log=log) as taken:
        port = await meet(mode, protocol, log)
    log.unlink()  # it is inside
    assert taken.key_log_lines == 1
    frames = [frame for frame in decode_capture(path) if str(port) in frame.src + frame.dst]
    assert [frame.error for frame in frames if frame.error] == []
    pings = [frame.message for frame in frames if frame.message]
    assert [(ping.name, ping.seq, ping.src) for ping in pings] == [
        ("ping", seq, "osd.1") for seq in range(1, PINGS + 1)
    ]
    assert {frame.auth for frame in frames if frame.message} == {
        Verdict.NONE if (protocol, mode) == (Protocol.V2, ConMode.CRC) else Verdict.OK
    }


class Command:
    """The command in a process of its own, listening already."""

    def __init__(self, *arguments: str) -> None:
        environment = {**os.environ, "COLUMNS": "80"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", MAIN, "capture", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def end(self, number: signal.Signals | None = signal.SIGINT) -> tuple[int, str, str]:
        """End it; its exit code, output and messages."""
        if number is not None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, out, err


def wait_for_file(path: Path) -> None:
    """Until the capture has begun: its file has a section and an interface then."""
    until_s = time.monotonic() + TIMEOUT_S
    while not path.exists() or path.stat().st_size < 60:
        assert time.monotonic() < until_s
        time.sleep(0.01)


@pytest.mark.needs("capture")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_the_file_is_good(number: signal.Signals, tmp_path: Path) -> None:
    path, port = tmp_path / "a.pcapng", low_port()
    command = Command("lo", "-o", str(path), "--ports", str(port), "--note", "first", "--note", "second")
    wait_for_file(path)
    asyncio.run(meet(ConMode.CRC, port=port))
    code, out, err = command.end(number)
    assert (code, out) == (0, "")
    assert err.startswith(f"{path}: ")
    assert err.endswith(", 0 dropped\n")
    frames = list(decode_capture(path))
    assert sum(frame.message is not None for frame in frames) == PINGS
    with open_capture(path) as reader:
        assert sum(map(len, reader)) == int(err.removeprefix(f"{path}: ").split()[0].replace(",", ""))
        assert reader.notes == ["first", "second"]
        assert reader.problem is None


@pytest.mark.needs("capture")
def test_frames_are_printed_as_they_pass(tmp_path: Path) -> None:
    path, log, port = tmp_path / "a.pcapng", tmp_path / "keys", low_port()
    command = Command(
        *("lo", "-o", str(path), "--ports", str(port), "--decode", "--key-log", str(log)),
        *("--filter", 'message.name == "ping"'),
    )
    wait_for_file(path)
    asyncio.run(meet(ConMode.SECURE, key_log=log, port=port))
    assert command.process.stdout is not None
    seen: list[str] = []
    while sum(" ping " in line for line in seen) < PINGS:  # its end has not been requested
        seen.append(command.process.stdout.readline())
    code, _, err = command.end()
    assert code == 0
    assert err.startswith(f"{path}: ")
    assert seen[0].split()[:3] == ["frame", "time", "link"]
    assert f":{port}" in seen[1]
    assert "gcm✓" in seen[2]
    assert "seq 1" in seen[2]


@pytest.mark.needs("capture")
def test_capture_pipes_into_decode() -> None:
    port = low_port()
    shell = '"$1" -c "$2" capture lo -o - --ports "$3" | "$1" -c "$2" decode - --format json --limit 2'
    command = ["sh", "-c", shell, "sh", sys.executable, MAIN, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as pipe:
        while pipe.poll() is None:  # until decode has had enough, and capture found out
            asyncio.run(meet(ConMode.CRC, port=port))
        assert pipe.stdout is not None
        rows = [json.loads(line) for line in pipe.stdout]
    assert [row["frame"] for row in rows] == [0, 1]


@pytest.mark.needs("capture")
def test_a_duration_and_a_count_end_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.pcapng"
    assert msgrlab(["capture", "lo", "-o", str(path), "--duration", "0", "--ports", "1"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"{path}: 0 packets, 0 bytes, 0 dropped",
        "no packet of TCP ports 1 passed lo during the capture; --ports all captures every port",
    ]
    with open_capture(path) as reader:
        assert list(reader) == []
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.needs("capture")
def test_capture_does_not_overwrite_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.pcapng"
    path.write_text("mine")
    assert msgrlab(["capture", "lo", "-o", str(path), "--duration", "0"]) == 2
    assert capsys.readouterr() == ("", f"msgrlab: {path} exists already, and nothing is overwritten\n")
    assert path.read_text() == "mine"


def test_missing_permission_is_an_error_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    path = tmp_path / "a.pcapng"
    monkeypatch.setattr(socket, "socket", refuse)
    assert msgrlab(["capture", "lo", "-o", str(path)]) == 3
    assert capsys.readouterr() == (
        "",
        "msgrlab: capturing needs CAP_NET_RAW; run it as root: sudo msgrlab ...\n",
    )
    assert not path.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lo"], "give -o FILE, or --decode to print frames without writing a file"),
        (["lo", "-o", "{}", "--keyring", "x"], "--keyring needs --decode"),
        (["lo", "-o", "{}", "--filter", "frame"], "--filter needs --decode"),
        (["lo", "--decode", "--filter", "frame ="], "filter, column"),
        (["lo", "--decode", "--keyring", "/no/such"], "/no/such: No such file"),
        (["lo", "-o", "{}", "--ports", "70000"], "'70000' is no port or range"),
        (["lo", "-o", "{}", "--key-log", "/etc/passwd"], "/etc/passwd:1: neither"),
        (["lo", "-o", "{}", "--count", "0"], "--count"),
        (["bus:7", "-o", "{}"], "no target 'bus:7'; give eth0, any, netns:NAME"),
        (["netns:none-such", "-o", "{}"], "no network namespace 'none-such'"),
        (["pid:999999999", "-o", "{}"], "there is no such process"),
        ([], "Missing argument 'TARGET'"),
    ],
)
def test_capture_reports_a_usage_error_in_one_line(
    arguments: Sequence[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.pcapng"
    assert msgrlab(["capture", *(argument.format(path) for argument in arguments)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert words in err
    assert not path.exists()


@pytest.mark.needs("capture")
def test_capture_refuses_an_unknown_interface(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["capture", "eht0", "-o", str(tmp_path / "a.pcapng")]) == 2
    assert "no interface 'eht0'; there are lo" in capsys.readouterr().err
