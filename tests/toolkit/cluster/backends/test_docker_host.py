"""A host that is a container: programs, their streams and ends, files, terminals."""

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.docker import opened
from toolkit.cluster.backends.base import HostWish, NetworkWish
from toolkit.errors import Unsupported

pytestmark = pytest.mark.needs("docker")

TIMEOUT_S = 20


@pytest.fixture(scope="module")
def host():
    with opened([NetworkWish("public")], [HostWish("a", ("public",))]) as backend:
        yield backend.hosts["a"]


@pytest.fixture(params=["here", "far"])
def anywhere(request, host, monkeypatch):
    """The host as its own machine sees it, and as another one would."""
    if request.param == "far":
        monkeypatch.setattr(host, "namespace", None)
    elif host.namespace is None:
        pytest.skip("needs root, and an engine of this machine")
    return host


@contextmanager
def piped(host, *argv, **options):
    """A program with pipes, which are closed in the end."""
    program = host.start(argv, piped=True, **options)
    try:
        yield program
    finally:
        program.stdout.close()
        with suppress(BrokenPipeError):
            program.stdin.close()


def test_run_returns_the_output_of_a_program(host):
    assert host.run("cat", stdin="in\n") == "in\n"
    big = "x" * (1 << 20)
    assert host.run("cat", stdin=big) == big


def test_failed_program_is_an_error(host):
    with pytest.raises(LocalError, match="a: sh ended with exit code 3: why"):
        host.run("sh", "-c", "echo why >&2; exit 3")
    with pytest.raises(LocalError, match="nonsense: no such program in the container"):
        host.run("nonsense")
    with pytest.raises(LocalError, match="nonsense: no such program in the container"):
        host.start(["nonsense"])


def test_a_program_that_does_not_end_is_ended(anywhere):
    with pytest.raises(LocalError, match=r"a: sleep did not end within 0.2 s"):
        anywhere.run("sleep", "77", timeout_s=0.2)
    deadline_s = time.monotonic() + TIMEOUT_S
    while "sleep\x0077" in anywhere.run("sh", "-c", "cat /proc/[0-9]*/cmdline"):
        assert time.monotonic() < deadline_s


def test_pipes_carry_lines_both_ways(host):
    with piped(host, "sh", "-c", "echo to the log >&2; exec cat", log="cat.log") as program:
        for line in (b"one\n", b"two\n"):
            program.stdin.write(line)
            program.stdin.flush()
            assert program.stdout.readline() == line
        assert program.poll() is None
        program.stdin.close()
        assert program.stdout.read() == b""
        assert program.wait(TIMEOUT_S) == program.poll() == 0
        assert program.errors() == "to the log\n"
        assert host.read("cat.log") == b"to the log\n"


def test_without_pipes_everything_is_in_the_log(host):
    program = host.start(["sh", "-c", "echo out; echo err >&2; cat; exit 4"], log="all.log")
    assert (program.stdin, program.stdout) == (None, None)
    assert program.wait(TIMEOUT_S) == 4
    assert sorted(host.read("all.log").split()) == [b"err", b"out"]


def test_signals_reach_what_a_program_has_started(anywhere):
    with piped(anywhere, "sh", "-c", "sleep 88 & echo begun; wait") as program:
        assert program.stdout.readline() == b"begun\n"
        assert bool(program.pid) == (anywhere.namespace is not None)
        program.signal(signal.SIGSTOP)
        with pytest.raises(TimeoutError):
            program.wait(0.05)
        program.signal(signal.SIGCONT)
        program.signal(signal.SIGKILL)
        assert program.wait(TIMEOUT_S) == 128 + signal.SIGKILL
        program.signal(signal.SIGKILL)  # too late, and no harm
        deadline_s = time.monotonic() + TIMEOUT_S
        while "sleep\x0088" in anywhere.run("sh", "-c", "cat /proc/[0-9]*/cmdline"):
            assert time.monotonic() < deadline_s


def test_write_to_an_ended_program_is_an_error(host):
    with piped(host, "true") as program:
        program.wait(TIMEOUT_S)
        with pytest.raises((BrokenPipeError, ValueError)):  # noqa: PT012 - the first may be taken
            for _ in range(100):
                program.stdin.write(b"x")
                program.stdin.flush()
                time.sleep(0.01)


def test_files(host):
    assert host.write("conf", b"a = 1\n") == host.directory / "conf"
    assert host.read("conf") == b"a = 1\n"
    assert host.run("cat", str(host.directory / "conf")) == "a = 1\n"
    with pytest.raises(LocalError, match="a: no file /var/lib/msgrlab/none in its container"):
        host.read("none")
    host.run("mkdir", str(host.directory / "directory"))
    with pytest.raises(LocalError, match="a: /var/lib/msgrlab/directory in its container is no file"):
        host.read("directory")


@pytest.mark.needs("netns")
def test_sockets_are_opened_inside(host):
    shown = host.inside(Path("/proc/thread-self/ns/net").readlink)
    assert shown == host.namespace.readlink()
    assert shown != Path("/proc/self/ns/net").readlink()


def test_inside_is_unsupported_on_another_machine(host, monkeypatch):
    monkeypatch.setattr(host, "namespace", None)
    monkeypatch.setattr(host, "place", "tcp://far:2376")
    with pytest.raises(Unsupported, match="node a: the network namespace of its container is on another machine"):
        host.inside(lambda: None)


def entering(host, *argv):
    return subprocess.run(
        host.entering(argv), input=b"typed\n", capture_output=True, timeout=TIMEOUT_S, check=False
    )


def test_a_command_line_enters_the_container(host):
    done = entering(host, "sh", "-c", "hostname; cat; echo bad >&2; exit 5")
    assert (done.stdout, done.stderr, done.returncode) == (b"a\ntyped\n", b"bad\n", 5)


def test_command_line_of_a_missing_program_fails_in_one_line(host):
    done = entering(host, "nonsense")
    assert (done.stdout, done.returncode) == (b"", 2)
    assert done.stderr == b"msgrlab: nonsense: no such program in the container\n"


def test_command_line_passes_the_terminal_on(host):
    """A shell in a container, as a user at a terminal has it."""
    ours, theirs = pty.openpty()
    command = host.entering(["sh", "-c", "test -t 0 && stty size; read word; echo got $word"])
    command[0] = sys.executable
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as running:
        os.close(theirs)
        shown = bytearray()

        def look():
            try:
                while piece := os.read(ours, 4096):
                    shown.extend(piece)
            except OSError:
                return  # the last one has closed it

        reader = threading.Thread(target=look)
        reader.start()
        deadline_s = time.monotonic() + TIMEOUT_S
        while b"\r\n" not in shown and time.monotonic() < deadline_s:
            time.sleep(0.01)
        os.write(ours, b"word\n")
        assert running.wait(TIMEOUT_S) == 0
        reader.join()
        os.close(ours)
    assert b"got word" in shown
