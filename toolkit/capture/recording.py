"""Recording of a capture: packets from a socket to a pcapng file, with key log and notes, and to an observer."""

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
"""Longest time between two looks at the key log and calls of the watcher."""
_TURN_BYTES = 8 << 20
_KEY_PATIENCE_S = 0.25
"""How much later than its first sealed packet the key of a link may be in the key log."""
_MOST_HELD_PACKETS = 10_000
_DRAIN_S = 2.0
"""How long the kernel may take to hand over what it has counted already."""


@dataclass(slots=True)
class Taken:
    """What a capture has so far."""

    path: Path | None
    """Its file."""
    target: str
    packets: int = 0
    size_bytes: int = 0
    """Of these packets on the wire."""
    dropped: int = 0
    """Packets that came faster than they could be written."""
    key_log_lines: int = 0
    ended: str = ""
    """Why the capture ended, unless the user ended it."""


class Recording:
    """A capture that is being taken, by :meth:`run`, until :meth:`stop`.

    Args:
        source: of packets.
        taken: is kept up to date.
        writer: where they go, if they are kept.
        watch: is given the packets of each turn and the new text of the key log; an empty turn means that time
            goes by.
        key_log: is put into the file as it grows.
        count: ends it after so many packets.
        duration_s: ends it after so many seconds.
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
        """Packets that wait for their keys, with the time when they were taken."""
        self._held_packets = 0
        self._interfaces: dict[tuple[int, int], int] = {}
        """Of the file, by the kernel's numbers and link types."""

    def close(self) -> None:
        """Give back what :meth:`stop` needs; after :meth:`run`."""
        os.close(self._stop)

    def stop(self) -> None:
        """End it after what has been on the wire until now. From any thread, and from signal handlers."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_write(self._stop, 1)

    def run(self) -> None:
        """Take packets until the end.

        Raises:
            LocalError: the file cannot be written.
        """
        only = self._source.only_interface()
        if self._writer is not None and only is not None:
            self._write(self._writer, (), "", only)  # which is worth knowing of a capture without packets, too
        if self._listen():
            self._drain()
        self._hand_on(last=True)

    def _listen(self) -> bool:
        """Take packets until the end; whether there may be some left."""
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
        """Take what the kernel had counted when the end came, but has not handed over yet."""
        until, wanted = time.monotonic() + _DRAIN_S, self._source.received
        while not self._is_full():
            self._turn()
            left_s = until - time.monotonic()
            if self._source.read >= wanted or left_s <= 0:
                return
            select.select([self._source], [], [], min(left_s, _TURN_S))

    def _turn(self) -> None:
        """Take what is there."""
        packets = self._some()
        self.taken.packets += len(packets)
        self.taken.size_bytes += sum(packet.length for packet in packets)
        self.taken.dropped = self._source.dropped
        if packets:
            self._held.append((time.monotonic(), packets))
            self._held_packets += len(packets)
        self._hand_on(last=self._key_log is None)

    def _hand_on(self, *, last: bool) -> None:
        """Pass packets to file and watcher once the key log had time to get their keys.

        The end that logs a link's key may learn it from the very packet before the first sealed one.
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
        """Not too much: while it is being written, the kernel fills the ring."""
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
            raise _not_written(self.taken.path, error) from None

    def _number(self, writer: PcapngWriter, index: int, link_type: int) -> int:
        """What an interface is in the file."""
        known = self._interfaces.get((index, link_type))
        if known is None:
            known = writer.interface(self._source.interface_name(index), link_type)
            self._interfaces[index, link_type] = known
        return known


@contextlib.contextmanager
def capturing(
    target: Target | str,
    path: Path | str,
    *,
    ports: str = ALL,
    key_log: Path | str | None = None,
    notes: Sequence[str] = (),
    count: int | None = None,
) -> Iterator[Taken]:
    """A capture of what happens inside the ``with`` block, from its first packet to its last.

    ::

        with capturing("lo", "meeting.pcapng", ports="3300,6800-6810") as taken:
            ...
        taken.packets, taken.dropped

    Args:
        target: an interface (``lo``, ``eth0``, ``any``), or those of another network namespace:
            ``netns:NAME[/IFACE]``, ``docker:CONTAINER[/IFACE]``, ``pid:N[/IFACE]``; or those of another
            machine, ``ssh:HOST[/IFACE]``.
        path: of the pcapng file to write; must not exist.
        ports: TCP ports of either end, like ``3300,6789,6800-7568``, or ``all``.
        key_log: of a messenger or proxy; is embedded, also what is written into it meanwhile.
        notes: to embed as comments of the capture.
        count: take no more packets than these.

    Raises:
        Unsupported: we may not capture here.
        LocalError: there is no such target, the file exists or cannot be written.
    """
    path = Path(path)
    target = Target.parse(target) if isinstance(target, str) else target
    taken = Taken(path, target.text)
    log = None if key_log is None else GrowingKeyLog(Path(key_log))
    with (
        open_source(target, parse_ports(ports)) as source,
        new_capture(path, notes) as writer,
        contextlib.closing(Recording(source, taken, writer=writer, key_log=log, count=count)) as recording,
    ):
        failures: list[Exception] = []
        thread = threading.Thread(target=_run, args=(recording, failures), name="capture", daemon=True)
        thread.start()
        try:
            yield taken
        finally:
            recording.stop()
            thread.join()
        if failures:
            raise failures[0]


def _run(recording: Recording, failures: list[Exception]) -> None:
    try:
        recording.run()
    except Exception as error:  # noqa: BLE001 - raised again in the caller's thread
        failures.append(error)


@contextlib.contextmanager
def new_capture(path: Path, notes: Sequence[str] = ()) -> Iterator[PcapngWriter]:
    """A file for packets and secrets, readable for its owner only; ``-`` is standard output.

    Raises:
        LocalError: it exists, or cannot be written.
    """
    file = _new_file(path)
    writer = PcapngWriter(file)
    try:
        for note in notes:
            writer.note(note)
        yield writer
    finally:
        try:
            writer.close()
            if path != STANDARD_OUTPUT:
                file.close()
        except OSError as error:
            raise _not_written(path, error) from None


def _new_file(path: Path) -> BinaryIO:
    if path == STANDARD_OUTPUT:
        return sys.stdout.buffer
    try:
        return new_file(path)
    except FileExistsError:
        raise LocalError(f"{path} exists already, and nothing is overwritten") from None
    except OSError as error:
        raise _not_written(path, error) from None


def _not_written(path: Path | None, error: OSError) -> Exception:
    """The error to raise; a pipe whose reader is gone is no error of the user's."""
    if isinstance(error, BrokenPipeError):
        return error
    return LocalError(f"{'standard output' if path == STANDARD_OUTPUT else path}: {error.strerror}")
