"""Records a capture: packets from a source to a pcapng file with key log and notes, and to an observer."""

import contextlib
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from messenger.errors import LocalError
from messenger.files import new_file
from toolkit.capture.formats import PcapngWriter
from toolkit.capture.key_log import GrowingKeyLog
from toolkit.capture.ports import ALL, parse_ports
from toolkit.capture.sources import Packet, PacketSource, open_source
from toolkit.capture.target import Target

STANDARD_OUTPUT = Path("-")
_TURN_S = 0.2
"""Longest time between two reads of the key log, and between two calls of the observer."""
_TURN_BYTES = 8 << 20
_KEY_PATIENCE_S = 0.25
"""Longest delay of a link's key in the key log after the link's first sealed packet."""
_MOST_HELD_PACKETS = 10_000
_DRAIN_S = 2.0
"""Longest time for the kernel to release packets that it has counted already."""


@dataclass(slots=True)
class Taken:
    """Counters of a capture."""

    path: Path | None
    """Path of its file; None without one."""
    target: str
    packets: int = 0
    size_bytes: int = 0
    """Size of these packets on the wire."""
    dropped: int = 0
    """Packets lost because they came faster than they could be written."""
    key_log_lines: int = 0
    ended: str = ""
    """Why the capture ended, unless the user ended it."""


class Recorder:
    """A capture in progress: :meth:`run` records until :meth:`stop`.

    Args:
        source: source of packets.
        taken: counters, which are kept up to date.
        writer: writes the packets; None if they are not stored.
        watch: called with the packets of each turn and the new text of the key log; both are empty if none came.
        key_log: key log that is written into the file as it grows.
        count: number of packets after which the capture ends.
        duration_s: number of seconds after which the capture ends.
    """

    def __init__(
        self,
        source: PacketSource,
        taken: Taken,
        *,
        writer: PcapngWriter | None = None,
        watch: Callable[[Sequence[Packet], str], None] | None = None,
        key_log: GrowingKeyLog | None = None,
        count: int | None = None,
        duration_s: float | None = None,
    ) -> None:
        self.taken = taken
        self._source = source
        self._writer = writer
        self._watch = watch
        self._key_log = key_log
        self._count = count
        self._deadline_s = None if duration_s is None else time.monotonic() + duration_s
        self._stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._held: deque[tuple[float, list[Packet]]] = deque()
        """Packets that wait for their keys, with the time of their capture."""
        self._held_packets = 0
        self._interfaces: dict[tuple[int, int], int] = {}
        """Numbers of interfaces in the file, by the kernel's numbers and link types."""

    def close(self) -> None:
        """Release the resources that :meth:`stop` needs; call it after :meth:`run`."""
        os.close(self._stop)

    def stop(self) -> None:
        """End the capture after all packets that were on the wire until now.

        May be called from any thread and from signal handlers.
        """
        with contextlib.suppress(BlockingIOError):
            os.eventfd_write(self._stop, 1)

    def run(self) -> None:
        """Record packets until the end.

        Raises:
            LocalError: the file cannot be written.
        """
        only = self._source.only_interface()
        if self._writer is not None and only is not None:
            self._write(self._writer, (), "", only)  # so that a capture without packets shows its interface, too
        if self._listen():
            self._drain()
        self._hand_on(last=True)

    def _listen(self) -> bool:
        """Record packets until the end; returns True if some may be left."""
        poll = select.poll()
        poll.register(self._stop, select.POLLIN)
        poll.register(self._source.fileno(), select.POLLIN)
        while True:
            left_s = _TURN_S if self._deadline_s is None else min(_TURN_S, self._deadline_s - time.monotonic())
            ready = dict(poll.poll(max(0, int(left_s * 1000) + 1)))
            if self._stop in ready or left_s <= 0:
                return True
            self._turn()
            if self._is_full():
                return False
            if not ready.get(self._source.fileno(), 0) & select.POLLIN:
                self.taken.ended = self._source.obstacle()
                if self.taken.ended:
                    return False

    def _drain(self) -> None:
        """Record the packets that the kernel had counted, but not yet released, at the end."""
        until, wanted = time.monotonic() + _DRAIN_S, self._source.received
        while not self._is_full():
            self._turn()
            left_s = until - time.monotonic()
            if self._source.read >= wanted or left_s <= 0:
                return
            select.select([self._source], [], [], min(left_s, _TURN_S))

    def _turn(self) -> None:
        """Record the available packets."""
        packets = self._some()
        self.taken.packets += len(packets)
        self.taken.size_bytes += sum(packet.length for packet in packets)
        self.taken.dropped = self._source.dropped
        if packets:
            self._held.append((time.monotonic(), packets))
            self._held_packets += len(packets)
        self._hand_on(last=self._key_log is None)

    def _hand_on(self, *, last: bool) -> None:
        """Pass packets to file and observer once the key log had time to get their keys.

        The end that logs a link's key may learn it only from the packet directly before the first sealed one.
        """
        until_s = time.monotonic() - _KEY_PATIENCE_S
        packets: list[Packet] = []
        while self._held and (last or self._held[0][0] <= until_s or self._held_packets > _MOST_HELD_PACKETS):
            taken = self._held.popleft()[1]
            self._held_packets -= len(taken)
            packets += taken
        secrets = ""
        if self._key_log is not None:
            secrets, self.taken.key_log_lines = self._key_log.new_text(), self._key_log.lines
        if self._writer is not None:
            self._write(self._writer, packets, secrets)
        if self._watch is not None:
            self._watch(packets, secrets)

    def _some(self) -> list[Packet]:
        """Return a limited number of packets: the kernel fills the ring while they are written."""
        packets: list[Packet] = []
        size = 0
        while size < _TURN_BYTES and (block := self._source.block()):
            packets += block
            size += sum(len(packet.data) for packet in block)
        return packets if self._count is None else packets[: self._count - self.taken.packets]

    def _is_full(self) -> bool:
        return self._count is not None and self.taken.packets >= self._count

    def _write(
        self,
        writer: PcapngWriter,
        packets: Sequence[Packet],
        secrets: str,
        interface: tuple[int, int] | None = None,
    ) -> None:
        try:
            if interface is not None:
                self._number(writer, *interface)
            if secrets:
                writer.secrets(secrets)
            for packet in packets:
                number = self._number(writer, packet.interface, packet.link_type)
                writer.packet(packet.time_ns, packet.data, number, original_bytes=packet.length)
            writer.flush()
        except OSError as error:
            raise not_written(self.taken.path, error) from None

    def _number(self, writer: PcapngWriter, index: int, link_type: int) -> int:
        """Return the number of an interface in the file."""
        known = self._interfaces.get((index, link_type))
        if known is None:
            known = writer.interface(self._source.interface_name(index), link_type)
            self._interfaces[index, link_type] = known
        return known


@contextlib.contextmanager
def capturing(
    target: Target | str,
    path: Path | str | BinaryIO,
    *,
    ports: str = ALL,
    key_log: Path | str | None = None,
    notes: Sequence[str] = (),
    count: int | None = None,
) -> Iterator[Taken]:
    """Capture all packets that pass while the ``with`` block runs.

    ::

        with capturing("lo", "meeting.pcapng", ports="3300,6800-6810") as taken:
            ...
        taken.packets, taken.dropped

    Args:
        target: an interface (``lo``, ``eth0``, ``any``); one of another network namespace: ``netns:NAME[/IFACE]``,
            ``docker:CONTAINER[/IFACE]``, ``pid:N[/IFACE]``; or one of another machine: ``ssh:HOST[/IFACE]``.
        path: path of the pcapng file to write, which must not exist; or an open file, which stays open.
        ports: TCP ports of either end, such as ``3300,6789,6800-7568``, or ``all``.
        key_log: key log of a messenger or proxy; it is embedded in the file while it grows.
        notes: comments to embed in the capture.
        count: limit of the number of packets; None: no limit.

    Raises:
        Unsupported: the privilege to capture is missing.
        LocalError: there is no such target, or the file exists or cannot be written.
    """
    file = Path(path) if isinstance(path, str) else path
    target = Target.parse(target) if isinstance(target, str) else target
    taken = Taken(file if isinstance(file, Path) else None, target.text)
    log = None if key_log is None else GrowingKeyLog(Path(key_log))
    with (
        open_source(target, parse_ports(ports)) as source,
        new_capture(file, notes) as writer,
        contextlib.closing(Recorder(source, taken, writer=writer, key_log=log, count=count)) as recorder,
    ):
        failures: list[Exception] = []
        thread = threading.Thread(target=_run, args=(recorder, failures), name="capture", daemon=True)
        thread.start()
        try:
            yield taken
        finally:
            recorder.stop()
            thread.join()
        if failures:
            raise failures[0]


def _run(recorder: Recorder, failures: list[Exception]) -> None:
    try:
        recorder.run()
    except Exception as error:  # noqa: BLE001 - raised again in the caller's thread
        failures.append(error)


@contextlib.contextmanager
def new_capture(path: Path | BinaryIO, notes: Sequence[str] = ()) -> Iterator[PcapngWriter]:
    """Create a file for packets and secrets, readable by its owner only; ``-`` is standard output.

    A file that is open already stays open.

    Raises:
        LocalError: the file exists, or cannot be written.
    """
    known = path if isinstance(path, Path) else None
    with opened(path) as file:
        writer = PcapngWriter(file)
        try:
            for note in notes:
                writer.note(note)
            yield writer
        finally:
            try:
                writer.close()
            except OSError as error:
                raise not_written(known, error) from None


@contextlib.contextmanager
def opened(path: Path | BinaryIO) -> Iterator[BinaryIO]:
    """Create a file for a capture, and close it after the ``with`` block; an open file stays open.

    Raises:
        LocalError: the file exists, or cannot be written.
    """
    if not isinstance(path, Path):
        yield path
        return
    if path == STANDARD_OUTPUT:
        yield sys.stdout.buffer
        return
    try:
        file = new_file(path)
    except FileExistsError:
        raise LocalError(f"{path} exists already, and nothing is overwritten") from None
    except OSError as error:
        raise not_written(path, error) from None
    try:
        yield file
    finally:
        try:
            file.close()
        except OSError as error:
            with contextlib.suppress(OSError):  # the same one
                file.close()
            if not path.stat().st_size:
                path.unlink()  # it would only be in the way of the next attempt
            raise not_written(path, error) from None


def not_written(path: Path | None, error: OSError) -> Exception:
    """Return the error to raise for a failed write; a pipe that its reader closed is no error of the user."""
    if isinstance(error, BrokenPipeError):
        return error
    return LocalError(f"{'standard output' if path == STANDARD_OUTPUT else path or 'capture'}: {error.strerror}")
