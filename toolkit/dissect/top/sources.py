"""Sources of the live view: capture files, and capture targets in a thread."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from messenger.compat import override
from messenger.errors import LocalError
from toolkit.capture.formats import PacketBatch, open_capture
from toolkit.capture.key_log import GrowingKeyLog
from toolkit.capture.ports import CEPH_PORTS, parse_ports
from toolkit.capture.recorder import Recorder, Taken
from toolkit.capture.sources import Packet, PacketSource, open_source
from toolkit.capture.target import Target
from toolkit.dissect.decode import KeysInside
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.live import batch_of
from toolkit.dissect.top.model import Limits, Top
from toolkit.dissect.top.snapshot import SORTED_BY, Snapshot

INTERVAL_S = 1.0
_NANO = 1_000_000_000
_SUFFIXES = (".pcap", ".pcapng", ".gz")


class _View:
    """Base of both views: displays its last snapshot, or the first one if there was none."""

    def __init__(self) -> None:
        self.last: Snapshot | None = None
        """The newest snapshot; None before the first."""
        self.ended = ""
        """Why the packets ended, unless the user stopped them."""

    def __iter__(self) -> Iterator[Snapshot]:
        raise NotImplementedError

    def _shown(self) -> Snapshot:
        if self.last is None:
            for _ in self:
                if self._is_enough():
                    break
        return (self.last or Top().snapshot()).sorted(SORTED_BY)

    def _is_enough(self) -> bool:
        return True

    def __repr__(self) -> str:
        return str(self._shown())

    def _repr_html_(self) -> str:
        return self._shown()._repr_html_()


class CaptureTop(_View):
    """The view of a capture file. Iterating reads it from the start, in the time of its packets.

    Args:
        source: path of the file; or an open file, which can be read once only.
        keyrings: files with keys of clients, daemons or services.
        key_logs: files with keys of links; key logs inside the capture are always used.
        interval_s: seconds of the capture between snapshots, with one more at its end; None: only that one, with
            rates over the whole capture.
        limits: limits of memory.

    Raises:
        LocalError: a keyring or key log cannot be read or is malformed.
    """

    def __init__(
        self,
        source: Path | BinaryIO,
        keyrings: Sequence[Path] = (),
        key_logs: Sequence[Path] = (),
        *,
        interval_s: float | None = None,
        limits: Limits | None = None,
    ) -> None:
        super().__init__()
        KeyBook.read(keyrings, key_logs)
        self._source = source
        self._files = keyrings, key_logs
        self._interval_ns = None if interval_s is None else max(1, round(interval_s * _NANO))
        self._due_ns: int | None = None
        """Time of the next snapshot, in the time of the packets."""
        self._limits = limits or (Limits(float("inf"), float("inf")) if interval_s is None else Limits())

    def __iter__(self) -> Iterator[Snapshot]:
        """Yield snapshots, the last one at the end of the capture.

        Raises:
            LocalError: the file cannot be read, or is no capture.
        """
        keys = KeyBook.read(*self._files)
        top = Top(keys, limits=self._limits)
        self._due_ns = None
        with open_capture(self._source) as reader:
            inside = KeysInside(reader, keys)
            for batch in reader:
                inside.learn()
                for part, due_ns in self._parts(batch):
                    if due_ns is not None:
                        yield self._keep(top.snapshot(due_ns))
                    top.feed(part)
            top.finish()
            self.ended = reader.problem or ""
            yield self._keep(top.snapshot())

    def _parts(self, batch: PacketBatch) -> Iterator[tuple[PacketBatch, int | None]]:
        """Split the batch where snapshots are due; yields each part with the time of the snapshot before it.

        The time is None if no snapshot is due. A span without packets gives a single snapshot.
        """
        if self._interval_ns is None or not len(batch):
            yield batch, None
            return
        times_ns = np.maximum.accumulate(batch.times_ns)
        at = 0
        while at < len(batch):
            now_ns, due_ns = int(times_ns[at]), self._due_ns
            if due_ns is None:
                self._due_ns = now_ns + self._interval_ns
            elif now_ns >= due_ns:
                self._due_ns = due_ns + self._interval_ns
                if now_ns >= self._due_ns:
                    self._due_ns = now_ns + self._interval_ns
            assert self._due_ns is not None
            stop = max(int(np.searchsorted(times_ns, self._due_ns, side="left")), at + 1)
            yield batch.part(at, stop), due_ns if due_ns is not None and now_ns >= due_ns else None
            at = stop

    def _keep(self, snapshot: Snapshot) -> Snapshot:
        self.last = snapshot
        return snapshot

    @override
    def _is_enough(self) -> bool:
        return False  # the last snapshot is that of the whole capture


class LiveTop(_View):
    """The view of a capture target. Requires root.

    Args:
        target: target as for ``msgrlab capture``: ``lo``, ``any``, ``netns:NAME``, ``docker:CONTAINER``,
            ``pid:N``, ``ssh:HOST``.
        keyrings: files with keys of clients, daemons or services.
        key_log: key log of a messenger or proxy; it is followed while it grows.
        ports: TCP ports of either end, or ``all``.
        interval_s: seconds between snapshots.
        count: number of snapshots after which iteration ends; None: it ends with the target or by the caller.
        limits: limits of memory.

    Raises:
        LocalError: there is no such target, or a keyring or key log cannot be read or is malformed.
        Unsupported: this machine has no Docker.
    """

    def __init__(
        self,
        target: str,
        keyrings: Sequence[Path] = (),
        key_log: Path | None = None,
        *,
        ports: str = CEPH_PORTS,
        interval_s: float = INTERVAL_S,
        count: int | None = None,
        limits: Limits | None = None,
    ) -> None:
        super().__init__()
        self.target = Target.parse(target)
        self.interval_s = interval_s
        self._count = count
        self._ports = parse_ports(ports)
        self._keys = KeyBook.read(keyrings)
        self._key_log = None if key_log is None else GrowingKeyLog(key_log)
        self._limits = limits
        self._over: threading.Event | None = None

    def stop(self) -> None:
        """Stop the running view; may be called from any thread and from signal handlers."""
        if self._over is not None:
            self._over.set()

    @contextmanager
    def running(self) -> Iterator["Live"]:
        """Capture packets in a thread while the context is open.

        Raises:
            LocalError: there is no such interface.
            Unsupported: we may not capture here.
        """
        with open_source(self.target, self._ports) as source:
            live = Live(source, Top(self._keys, limits=self._limits), self.target.text, self._key_log)
            self._over = live.over
            try:
                yield live
            finally:
                live.stop()
                self.ended = live.taken.ended

    def __iter__(self) -> Iterator[Snapshot]:
        """Yield a snapshot after each interval.

        Raises:
            LocalError: there is no such interface.
            Unsupported: we may not capture here.
        """
        made = 0
        with self.running() as live:
            due_s = time.monotonic()
            while (self._count is None or made < self._count) and not live.over.is_set():
                due_s += self.interval_s
                live.over.wait(max(0.0, due_s - time.monotonic()))
                self.last = live.snapshot()
                made += 1
                yield self.last


class Live:
    """A running view: a thread captures packets until :meth:`stop`.

    Args:
        source: source of packets.
        top: processes the packets.
        target: name of the target.
        key_log: key log to follow; None without one.
    """

    def __init__(self, source: PacketSource, top: Top, target: str, key_log: GrowingKeyLog | None) -> None:
        self.taken = Taken(None, target)
        self.over = threading.Event()
        """Set when no packets come any more."""
        self._top = top
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        self._recorder = Recorder(source, self.taken, watch=self._take, key_log=key_log)
        self._thread = threading.Thread(target=self._run, name="top", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._recorder.run()
        except BaseException as error:  # noqa: BLE001 - snapshot() raises it
            self._failure = error
        finally:
            self.over.set()

    def _take(self, packets: Sequence[Packet], secrets: str) -> None:
        with self._lock:
            if packets or secrets:
                self._top.feed(batch_of(packets, self._top.packets), secrets)

    def snapshot(self) -> Snapshot:
        """Return all sessions now.

        Raises:
            LocalError: the packets cannot be read any more.
        """
        if self._failure is not None:
            raise self._failure
        with self._lock:
            return self._top.snapshot(time.time_ns(), self.taken.dropped)

    def stop(self) -> None:
        """Stop the thread and close the source."""
        self._recorder.stop()
        self._thread.join()
        self._recorder.close()


def open_top(
    target: str,
    keyrings: Sequence[Path] = (),
    key_logs: Sequence[Path] = (),
    *,
    ports: str = CEPH_PORTS,
    interval_s: float | None = None,
    count: int | None = None,
) -> CaptureTop | LiveTop:
    """Return the view of a capture file, if there is one of that name, or of a capture target.

    Args:
        target: path of a file, or a capture target.
        keyrings: files with keys of clients, daemons or services.
        key_logs: files with keys of links; for a capture target at most one, which is followed.
        ports: TCP ports of a capture target.
        interval_s: seconds between snapshots; None: 1 s for a target, a single snapshot for a file.
        count: number of snapshots of a capture target.

    Raises:
        LocalError: there is neither, or keys cannot be read.
        Unsupported: this machine has no Docker.
    """
    if is_capture_file(target):
        return CaptureTop(Path(target), keyrings, key_logs, interval_s=interval_s)
    if len(key_logs) > 1:
        raise LocalError("of a capture target one key log is followed, not several")
    log = key_logs[0] if key_logs else None
    return LiveTop(target, keyrings, log, ports=ports, interval_s=interval_s or INTERVAL_S, count=count)


def is_capture_file(target: str) -> bool:
    """True if a target is the path of a file, False if it is an interface.

    Raises:
        LocalError: the target looks like a path, but there is no such file.
    """
    path = Path(target)
    if path.is_file():
        return True
    if target.endswith(_SUFFIXES) or (":" not in target and "/" in target):
        raise LocalError(f"{target}: there is no such file")
    return False
