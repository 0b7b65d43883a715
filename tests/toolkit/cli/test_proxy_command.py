"""``msgrlab proxy`` as a program: what it prints, what can be typed, how it ends."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from messenger.v2.framing import CrcWriter
from messenger.v2.wire import Ack, encode_banner
from toolkit.checks.history import History
from toolkit.cli.main import run

BANNER = encode_banner(1, 0)
ACKS = [CrcWriter().control(Ack.TAG, Ack(seq).encode()) for seq in range(1, 6)]


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """A listening socket on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(20)
        yield listening


@contextlib.contextmanager
def started(server: socket.socket, *options: str, listen: str = "127.0.0.1:0") -> Iterator[subprocess.Popen[str]]:
    """The program, standing before a server; ended in any case."""
    host, port = server.getsockname()
    command = [sys.executable, "-m", "toolkit.cli.main", "proxy", listen, f"{host}:{port}", *options]
    command[1:3] = ["-c", "from toolkit.cli.main import main; main()"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=os.environ | {"COLUMNS": "200"}, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.kill()


def _line(process: subprocess.Popen[str], beginning: str) -> str:
    """The next line that begins so."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(beginning):
            return line.strip()
    assert process.stderr is not None
    raise AssertionError(f"no line {beginning!r}; {process.stderr.read()}")


def _dial(place: str) -> socket.socket:
    host, port = place.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=60)


def test_frames_hits_and_orders_are_shown_and_ctrl_c_ends_it(server: socket.socket, tmp_path: Path) -> None:
    story = tmp_path / "history.ndjson"
    with started(server, "--rule", "-> ACK #1: hold it", "--history", str(story)) as process:
        place = _line(process, "127.0.0.1").split()[0]
        with _dial(place) as client, server.accept()[0] as accepted:
            accepted.sendall(BANNER)
            client.sendall(BANNER + ACKS[0])
            assert "ACK of client: -> ACK #1: hold it" in _line(process, "* link 1")
            assert process.stdin is not None
            process.stdin.write("nonsense\nrelease it\n-> ACK #2: drop\n")
            process.stdin.flush()
            assert "is missing; a rule is WHERE: WHAT; type a rule, or: release NAME" in _line(process, "rule")
            assert _line(process, "1 released")
            assert _line(process, "added -> ACK #2: drop")
            client.sendall(ACKS[1] + ACKS[2] + ACKS[3])
            wanted = BANNER + ACKS[0] + ACKS[1] + ACKS[3]
            received = b""
            while len(received) < len(wanted):
                received += accepted.recv(1000)
            assert received == wanted
            process.send_signal(signal.SIGINT)
            assert _line(process, "1 links, 2 hits of rules")
            assert process.wait(20) == 0
    assert [record["fault"] for record in History.load(story) if record.kind == "path"] == ["rule", "rule"]


def test_json_and_once(server: socket.socket, tmp_path: Path) -> None:
    script = tmp_path / "rules"
    script.write_text("# the end\n-> ACK: close after\n")
    with started(server, "--json", "--once", "--script", str(script), listen="0") as process:
        assert process.stdout is not None
        place = json.loads(process.stdout.readline())["proxy"]
        with _dial(place) as client, server.accept()[0] as accepted:
            accepted.sendall(BANNER)
            assert client.recv(100) == BANNER
            client.sendall(BANNER + ACKS[0])
            assert client.recv(100) == b""
            while accepted.recv(1000):
                pass
        lines = [json.loads(line) for line in process.stdout]
        assert process.wait(20) == 0
    assert [line["tag"] for line in lines if "tag" in line] == ["BANNER", "BANNER", "ACK"]
    assert [line["hit"]["rule"] for line in lines if "hit" in line] == ["-> ACK: close after"]
    assert lines[-1]["links"] == 1


def test_port_in_use_is_an_error(server: socket.socket, capsys: pytest.CaptureFixture[str]) -> None:
    port = server.getsockname()[1]
    assert run(["proxy", f"127.0.0.1:{port}", "127.0.0.1:1"]) == 2
    assert f"cannot listen at 127.0.0.1 port {port}: Address already in use" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "LISTEN and TARGET are needed"),
        (["0", "somewhere"], "'somewhere' is no HOST:PORT, as in 10.0.0.1:3300, [::1]:3300 or localhost:0"),
        (["::1:0", "1.2.3.4:1"], "'::1:0' is no HOST:PORT"),
        (["0", "no.such.host.invalid:1"], "target no.such.host.invalid port 1: "),
        (["0", "127.0.0.1:1", "--rule", "-> HELO: drop"], "rule, column 4: no tag 'HELO'"),
        (["0", "127.0.0.1:1", "--script", "/none"], "/none: No such file or directory"),
        (["0", "127.0.0.1:1", "--keyring", "/none"], "/none: No such file or directory"),
        (["0", "127.0.0.1:1", "--script", "/dev/zero"], "/dev/zero: is a device, not a file"),
        (["0", "127.0.0.1:1", "--blind", "--history", "x"], "a blind proxy decodes no frames"),
        (["0", "127.0.0.1:1", "--history", __file__], "exists already, and nothing is overwritten"),
        (["0", "127.0.0.1:1", "--key-log", "/dev/null"], "/dev/null: is a device, not a file"),
        (["0.0.0.0:0", "127.0.0.1:1", "--pretend"], "--pretend needs a specific address; 0.0.0.0 is a wildcard"),
        (["--grid", "127.0.0.1:1"], "--grid needs exactly one --keyring"),
    ],
)
def test_error_is_one_line(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["proxy", *arguments]) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1
