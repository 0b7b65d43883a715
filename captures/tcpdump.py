"""Captures packets on the loopback interface with tcpdump."""

import re
import socket
import subprocess
import time
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
MARKER_PORT = 9
TIMEOUT_S = 20.0
QUIET_S = 0.3
"""How long a capture continues after the workload, so that it has the packets of all messages logged by then."""
_POLL_S = 0.01

_SNAPSHOT_BYTES = 1 << 17
"""More than the largest packet of the loopback interface; each slot of the buffer has this size."""
_BUFFER_KIB = 256 << 10
_TCPDUMP = (
    *("tcpdump", "--interface", "lo", "--immediate-mode", "--packet-buffered"),
    *("--snapshot-length", str(_SNAPSHOT_BYTES), "--buffer-size", str(_BUFFER_KIB)),
)
_LOST = re.compile(r"^([1-9]\d*) packets? dropped by kernel", re.MULTILINE)
_FILTER = f"tcp or udp port {MARKER_PORT}"


class Tcpdump:
    """A capture of all TCP packets on the loopback interface, from entering the ``with`` block to leaving it."""

    def __init__(self, path: Path) -> None:
        """Create the capture; ``path`` is the file to write."""
        self._path = path
        self.began_ns = self.ended_ns = 0
        """Unix times between which the workload ran."""

    def __enter__(self) -> Self:
        command = ["setpriv", "--pdeathsig", "KILL", *_TCPDUMP, "-w", str(self._path), _FILTER]
        with self._path.with_suffix(".err").open("wb") as errors:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=errors)
        self._wait_for_marker()
        self.began_ns = time.time_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.ended_ns = time.time_ns()
                time.sleep(QUIET_S)
                self._wait_for_marker()  # then all earlier packets are in the file as well
        finally:
            self._process.terminate()
            self._process.wait()
        if lost := _LOST.search(self._output()):
            raise RuntimeError(f"the capture lacks {lost[1]} packets")

    def _output(self) -> str:
        return self._path.with_suffix(".err").read_text()

    def _wait_for_marker(self) -> None:
        """Send datagrams until one of them is in the file."""
        marker = uuid.uuid4().bytes
        deadline_s = time.monotonic() + TIMEOUT_S
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            while not (self._path.exists() and marker in self._path.read_bytes()):
                if self._process.poll() is not None or time.monotonic() > deadline_s:
                    raise RuntimeError(f"no capture: {self._output()}")
                sender.sendto(marker, (HOST, MARKER_PORT))
                time.sleep(_POLL_S)
