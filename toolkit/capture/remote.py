"""Packets of another machine: tcpdump there, by ssh, and its pcap stream here as it grows."""

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
"""ssh may ask for a password or a touch of a key in that time."""

_FILE_HEADER = Struct("I16xI")
_PACKET_HEADERS = {"little": Struct("<IIII"), "big": Struct(">IIII")}
_MAGIC = 0xA1B23C4D
"""Of a pcap file whose times have nanoseconds."""
_WITH_US = "exec 3<&0; %s & it=$!; (cat; kill $it) <&3 >/dev/null 2>&1 & wait $it"
"""A command that ends with our ssh, also where it has nothing to write and so does not notice."""
_MOST_PACKET_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 20
_NO_COMPLAINTS = ("tcpdump: listening", "tcpdump: data link type", "(")
_MOST_COMPLAINT = 300
_ENDING_TIMEOUT_S = 5.0


class RemoteCapture:
    """TCP packets of the wanted ports from another machine's interface. Use it as a context manager.

    There it takes tcpdump and the right to capture; here ssh, whose configuration says how to log in. What leaves
    tcpdump later than :meth:`close` is lost.

    Args:
        host: as ssh takes it: ``HOST``, ``USER@HOST``, or a name of its configuration.
        interface: of that machine, or ``any``.
        ports: which, either end's; all but ssh's if there are none.

    Raises:
        Unsupported: there is no ssh.
        LocalError: the login failed, or tcpdump did not start: what it says.
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
        # A session of its own: Ctrl-C is for us, who then take what has come until then.
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
        """Readable when there are packets, or when no more will come."""
        return self._out

    def close(self) -> None:
        """Receive nothing any more."""
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
        """0: tcpdump says only at its end what its kernel has dropped."""
        return 0

    @property
    def received(self) -> int:
        """Packets that came so far, those that have not been read yet included."""
        self._receive()
        return self._read + len(self._packets)

    @property
    def read(self) -> int:
        """Packets that :meth:`block` has returned."""
        return self._read

    def block(self) -> list[Packet]:
        """The packets that have come; none if there are none."""
        self._receive()
        packets = list(self._packets)
        self._packets.clear()
        self._read += len(packets)
        return packets

    def interface_name(self, index: int) -> str:  # noqa: ARG002 - there is one
        """What the interface is called there."""
        return self._interface

    def only_interface(self) -> tuple[int, int]:
        """Number and link type of the interface."""
        return 0, self._link_type

    def obstacle(self) -> str:
        """Why nothing will come any more; empty while something may."""
        self._receive()
        return self._ended

    def _receive(self) -> None:
        """Take what has come."""
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
        """Byte order and link type; tcpdump says them when it has opened the interface."""
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
            f"{self._text}: what comes is no pcap with nanoseconds; does a shell there print something?"
        )

    def _complaint(self, otherwise: str) -> str:
        """The last line that ssh or tcpdump wrote, as an error."""
        with contextlib.suppress(subprocess.TimeoutExpired):  # its output has ended: so will it
            self._process.wait(_ENDING_TIMEOUT_S)
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        told = [line for line in lines if not line.startswith(_NO_COMPLAINTS)]
        return f"{self._text}: {told[-1][:_MOST_COMPLAINT] if told else otherwise}"
