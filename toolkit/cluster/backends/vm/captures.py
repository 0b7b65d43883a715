"""Captures of hosts in the guest of a cluster: the guest writes pcapng, and the file is here."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from messenger.errors import LocalError
from toolkit.capture.recorder import Taken, not_written, opened
from toolkit.cluster.backends.base import CaptureWish
from toolkit.cluster.backends.vm.guest import Guest


class _Stream:
    """Writes to a file what the guest sends."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.failure: OSError | None = None
        """Why the file is incomplete; None if it is not."""

    def put(self, output: bytes) -> None:
        """Write a piece of the capture."""
        if self.failure is None:
            try:
                self._file.write(output)
                self._file.flush()
            except OSError as error:
                self.failure = error

    def exit(self, *_how: Any) -> None:  # noqa: ANN401 - see Receiver
        """Do nothing: the end of the guest ends the file."""


@contextmanager
def capturing(guest: Guest, host: str, file: Path | BinaryIO, wish: CaptureWish) -> Iterator[Taken]:
    """Capture the packets of a host while the ``with`` block runs.

    Counters are known after the end of the block.

    Args:
        guest: the guest.
        host: name of the host.
        file: path of the file to write, or an open file.
        wish: what it records.

    Raises:
        LocalError: the file exists, or cannot be written.
    """
    path = file if isinstance(file, Path) else None
    taken = Taken(path, f"node {host}")
    with ExitStack() as undo:
        stream = _Stream(undo.enter_context(opened(file)))
        number = guest.register(stream)
        undo.callback(guest.forget, number)
        guest.call("captures.start", number=number, host=host, wish=asdict(wish))
        try:
            yield taken
        finally:
            _end(guest, number, taken)
        if stream.failure is not None:
            raise not_written(path, stream.failure)


def _end(guest: Guest, number: int, taken: Taken) -> None:
    """End a capture and note its counters; a capture whose guest has ended has what came until then."""
    try:
        for name, value in guest.call("captures.end", number=number).items():
            setattr(taken, name, value)
    except LocalError as error:
        taken.ended = str(error)
