"""The guest's side of captures: sends what it captures as pcapng to the cluster."""

import os
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, BinaryIO

from toolkit.cluster.backends.base import Backend, CaptureWish
from toolkit.cluster.backends.vm.channel import Channel, Kind

if TYPE_CHECKING:  # numpy takes an emulated processor three seconds
    from toolkit.capture.recorder import Taken

_CHUNK_BYTES = 1 << 16


class AgentCaptures:
    """Captures of hosts in the guest, by number.

    Args:
        channel: stream to the cluster.
        backend: has the hosts.
    """

    def __init__(self, channel: Channel, backend: Backend) -> None:
        self._channel = channel
        self._backend = backend
        self._open: dict[int, tuple[ExitStack, Taken]] = {}

    def do_start(self, number: int, host: str, wish: Mapping[str, Any]) -> None:
        """Start a capture."""
        with ExitStack() as undo:
            reading, writing = os.pipe()
            stream = undo.enter_context(os.fdopen(reading, "rb", buffering=0))
            thread = threading.Thread(target=self._forward, args=(number, stream), daemon=True)
            thread.start()
            undo.callback(thread.join)
            file = undo.enter_context(os.fdopen(writing, "wb"))
            taken = undo.enter_context(self._backend.hosts[host].capturing(file, CaptureWish(**wish)))
            self._open[number] = undo.pop_all(), taken

    def do_end(self, number: int) -> dict[str, Any]:
        """End a capture once all packets until now are sent; returns its counters."""
        undo, taken = self._open.pop(number)
        undo.close()
        counters = asdict(taken)
        del counters["path"], counters["target"]
        return counters

    def _forward(self, number: int, stream: BinaryIO) -> None:
        with suppress(OSError):
            while chunk := stream.read(_CHUNK_BYTES):
                self._channel.send(Kind.OUTPUT, number, chunk)
