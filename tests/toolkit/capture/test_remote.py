"""Captures of another machine: ssh and tcpdump are stand-ins that a test writes; the bytes are real packets."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from struct import pack

import pytest

from messenger.errors import LocalError
from tests.support.waiting import eventually
from toolkit.capture import capturing, open_capture
from toolkit.capture.ports import parse_ports, tcpdump_filter
from toolkit.capture.target import Target
from toolkit.errors import Unsupported

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "captures/tentacle-crc/capture.pcapng.gz"
SSH = """#!/bin/sh
# The machine is this one. Words: -T -e none -- HOST COMMAND
printf '%s\\n' "$@" > "$LAB/words"
exec sh -c "$6"
"""
TCPDUMP = """#!{python}
import os, sys, time
from pathlib import Path
lab = Path(os.environ["LAB"])
(lab / "filter").write_text(sys.argv[-1])
(lab / "pid").write_text(str(os.getpid()))
sys.stdout.buffer.write((lab / "stream").read_bytes())
sys.stdout.flush()
{then}
"""

Lab = Callable[..., Path]
Packets = list[tuple[int, bytes]]


def packets() -> Packets:
    with open_capture(SOURCE) as reader:
        return [
            (int(batch.times_ns[place]), bytes(batch.packet(place)))
            for batch in reader
            for place in range(len(batch))
        ]


def stream(order: str = "<") -> bytes:
    """The source's packets as tcpdump writes them."""
    written = [pack(f"{order}IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1)]
    for time_ns, data in packets():
        header = pack(f"{order}IIII", *divmod(time_ns, 1_000_000_000), len(data), len(data))
        written += [header, data]
    return b"".join(written)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Makes the other machine: what its tcpdump writes, and what it does then."""

    def make(what: bytes, then: str = "time.sleep(600)") -> Path:
        (tmp_path / "stream").write_bytes(what)
        for name, text in (("ssh", SSH), ("tcpdump", TCPDUMP.format(python=sys.executable, then=then))):
            program = tmp_path / name
            program.write_text(text)
            program.chmod(0o755)
        monkeypatch.setenv("LAB", str(tmp_path))
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return tmp_path

    return make


def taken(path: Path) -> Packets:
    with open_capture(path) as reader:
        return [
            (int(batch.times_ns[place]), bytes(batch.packet(place)))
            for batch in reader
            for place in range(len(batch))
        ]


@pytest.mark.parametrize("order", "<>")
def test_packets_and_times_of_the_other_machine_are_in_the_file(lab: Lab, tmp_path: Path, order: str) -> None:
    there = lab(stream(order))
    wanted = packets()
    with capturing("ssh:ceph@lab/eth0", tmp_path / "a.pcapng", ports="3300,6800-6810") as capture:
        eventually(lambda: capture.packets == len(wanted))
    assert taken(tmp_path / "a.pcapng") == wanted
    assert (there / "words").read_text().splitlines()[:5] == ["-T", "-e", "none", "--", "ceph@lab"]
    assert (there / "filter").read_text() == "tcp and (port 3300 or portrange 6800-6810) or udp dst port 4791"


def test_remote_capture_process_ends_with_the_block(lab: Lab, tmp_path: Path) -> None:
    there = lab(stream())
    with capturing("ssh:lab", tmp_path / "a.pcapng") as capture:
        eventually(lambda: capture.packets)
        pid = int((there / "pid").read_text())
        assert Path(f"/proc/{pid}").exists()
    eventually(lambda: not Path(f"/proc/{pid}").exists())


def test_end_of_the_remote_side_is_reported(lab: Lab, tmp_path: Path) -> None:
    lab(stream(), then="sys.exit('tcpdump: the interface disappeared')")
    with capturing("ssh:lab", tmp_path / "a.pcapng") as capture:
        eventually(lambda: capture.ended)
    assert capture.ended == "ssh:lab/any: tcpdump: the interface disappeared"
    assert taken(tmp_path / "a.pcapng") == packets()


@pytest.mark.parametrize(
    ("what", "then", "complaint"),
    [
        (
            b"",
            "sys.exit('tcpdump: eth9: No such device exists\\n(No such device exists)')",
            "eth9: No such device",
        ),
        (b"", "", "the login, or tcpdump there, failed"),
        (b"Welcome to this machine, stranger!", "", "no pcap with nanoseconds"),
    ],
)
def test_remote_capture_that_fails_to_start_raises_one_error(
    lab: Lab, tmp_path: Path, what: bytes, then: str, complaint: str
) -> None:
    lab(what, then)
    with pytest.raises(LocalError, match=complaint), capturing("ssh:lab", tmp_path / "a.pcapng"):
        pass
    assert not (tmp_path / "a.pcapng").exists()


def test_a_length_that_no_packet_has_ends_the_capture(lab: Lab, tmp_path: Path) -> None:
    lab(stream() + pack("<IIII", 1, 1, 1 << 31, 1 << 31))
    with capturing("ssh:lab", tmp_path / "a.pcapng") as capture:
        eventually(lambda: capture.ended)
    assert capture.ended == f"ssh:lab/any: a packet of {1 << 31} bytes is none"
    assert taken(tmp_path / "a.pcapng") == packets()


@pytest.mark.parametrize("target", ["ssh:-oProxyCommand=sh", "ssh:lab/-w", "ssh:", "ssh:lab/"])
def test_no_part_of_a_target_is_an_option(target: str) -> None:
    with pytest.raises(LocalError, match="no target"):
        Target.parse(target)


def test_without_ssh_it_is_unsupported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unsupported, match="no ssh in PATH"), capturing("ssh:lab", tmp_path / "a.pcapng"):
        pass


def test_filter_for_all_ports_excludes_ssh() -> None:
    assert tcpdump_filter(parse_ports("all")) == "tcp and not port 22 or udp dst port 4791"
