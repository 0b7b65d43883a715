"""Captures packets on another machine: runs tcpdump there by ssh, and reads its pcap stream."""

import contextlib
import os
import select
import shlex
import shutil
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from struct import Struct

from messenger.errors import LocalError
from toolkit.capture.ports import tcpdump_filter
from toolkit.capture.sources import Packet
from toolkit.errors import Unsupported

LOGIN_TIMEOUT_S = 60.0
"""Time in seconds in which ssh may prompt for a password or the touch of a key."""

_FILE_HEADER = Struct("I16xI")
_PACKET_HEADERS = {"little": Struct("<IIII"), "big": Struct(">IIII")}
_MAGIC = 0xA1B23C4D
"""Magic number of a pcap file with times in nanoseconds."""
_WITH_US = "exec 3<&0; %s & it=$!; (cat; kill $it) <&3 >/dev/null 2>&1 & wait $it"
"""Shell command that ends with this side's ssh, even while it has nothing to write and cannot notice the end."""
_MOST_PACKET_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 20
_NO_COMPLAINTS = ("tcpdump: listening", "tcpdump: data link type", "(")
_MOST_COMPLAINT = 300
_ENDING_TIMEOUT_S = 5.0


class RemoteCapture:
    """Receives TCP packets of some ports from another machine's interface. A context manager.

    It requires tcpdump and the privilege to capture there, and here ssh, whose configuration defines the login.
    Packets that tcpdump writes after :meth:`close` are lost.

    Args:
        host: host as for ssh: ``HOST``, ``USER@HOST``, or a name of its configuration.
        interface: interface of that machine, or ``any``.
        ports: ports of which either end must have one; all but ssh's if empty.

    Raises:
        Unsupported: there is no ssh.
        LocalError: the login failed, or tcpdump did not start; the text has its message.
    """

    def __init__(self, host: str, interface: str, ports: Sequence[range] = ()) -> None:
        self._text = f"ssh:{host}/{interface}"
        self._interface = interface
        self._unread = bytearray()
        self._packets: deque[Packet] = deque()
        self._read = 0
        self._ended = ""
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._process = self._started(host, ports)
        assert self._process.stdout is not None
        self._out = self._process.stdout.fileno()
        os.set_blocking(self._out, False)
        try:
            self._order, self._link_type = self._header()
        except BaseException:
            self.close()
            raise

    def _started(self, host: str, ports: Sequence[range]) -> "subprocess.Popen[bytes]":
        if shutil.which("ssh") is None:
            self._complaints.close()
            raise Unsupported(f"{self._text}: there is no ssh in PATH")
        options = ("-i", self._interface, "-n", "-U", "-s", "0", "--time-stamp-precision=nano", "-w", "-")
        there = _WITH_US % shlex.join(("tcpdump", *options, tcpdump_filter(ports)))
        # Its own session, so that Ctrl-C reaches this process only, which then reads what has come.
        return subprocess.Popen(
            ("ssh", "-T", "-e", "none", "--", host, shlex.join(("sh", "-c", there))),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            bufsize=0,
            start_new_session=True,
        )

    def __enter__(self) -> "RemoteCapture":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def fileno(self) -> int:
        """Return the descriptor, readable if there are packets, or if no more will come."""
        return self._out

    def close(self) -> None:
        """Stop receiving."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            self._process.wait(_ENDING_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._complaints.close()

    @property
    def dropped(self) -> int:
        """Always 0: tcpdump reports dropped packets at its end only."""
        return 0

    @property
    def received(self) -> int:
        """Number of packets received so far, including those not read yet."""
        self._receive()
        return self._read + len(self._packets)

    @property
    def read(self) -> int:
        """Number of packets that :meth:`block` has returned."""
        return self._read

    def block(self) -> list[Packet]:
        """Return the packets that have come; empty if there are none."""
        self._receive()
        packets = list(self._packets)
        self._packets.clear()
        self._read += len(packets)
        return packets

    def interface_name(self, index: int) -> str:  # noqa: ARG002 - there is one
        """Return the name of the interface there."""
        return self._interface

    def only_interface(self) -> tuple[int, int]:
        """Return number and link type of the interface."""
        return 0, self._link_type

    def obstacle(self) -> str:
        """Return why no more packets will come; empty if some may."""
        self._receive()
        return self._ended

    def _receive(self) -> None:
        """Read all available data."""
        while not self._ended:
            try:
                chunk = os.read(self._out, _CHUNK_BYTES)
            except BlockingIOError:
                return
            if not chunk:
                self._ended = self._complaint("the capture there has ended")
                return
            self._unread += chunk
            self._parse()

    def _parse(self) -> None:
        header = _PACKET_HEADERS[self._order]
        at = 0
        while len(self._unread) - at >= header.size:
            seconds, nanoseconds, size, length = header.unpack_from(self._unread, at)
            if size > _MOST_PACKET_BYTES:
                self._ended = f"{self._text}: a packet of {size} bytes is none"
                break
            end = at + header.size + size
            if end > len(self._unread):
                break
            data = bytes(self._unread[at + header.size : end])
            self._packets.append(Packet(seconds * 1_000_000_000 + nanoseconds, 0, self._link_type, data, length))
            at = end
        del self._unread[:at]

    def _header(self) -> tuple[str, int]:
        """Return byte order and link type, which tcpdump writes once it has opened the interface."""
        deadline_s = time.monotonic() + LOGIN_TIMEOUT_S
        raw = b""
        while len(raw) < _FILE_HEADER.size:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not select.select([self._out], [], [], left_s)[0]:
                raise LocalError(f"{self._text}: no capture begins within {LOGIN_TIMEOUT_S:g} s")
            chunk = os.read(self._out, _FILE_HEADER.size - len(raw))
            if not chunk:
                raise LocalError(self._complaint("the login, or tcpdump there, failed"))
            raw += chunk
        for order in _PACKET_HEADERS:
            magic, link_type = Struct(("<" if order == "little" else ">") + _FILE_HEADER.format).unpack(raw)
            if magic == _MAGIC:
                return order, link_type & 0xFFFF
        raise LocalError(
            f"{self._text}: the output is no pcap with nanoseconds; a shell there may print something"
        )

    def _complaint(self, otherwise: str) -> str:
        """Return the last line that ssh or tcpdump wrote, as an error."""
        with contextlib.suppress(subprocess.TimeoutExpired):  # its output has ended, so it will end, too
            self._process.wait(_ENDING_TIMEOUT_S)
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        complaints = [line for line in lines if not line.startswith(_NO_COMPLAINTS)]
        return f"{self._text}: {complaints[-1][:_MOST_COMPLAINT] if complaints else otherwise}"
