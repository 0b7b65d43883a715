"""Devices, queue pairs and registered memory, by pyverbs, the Python binding of rdma-core.

pyverbs comes with the distribution and works with its Python only, because it must match the machine's libibverbs.
"""

import ctypes
import errno
import importlib
import importlib.util
import mmap
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from messenger.config import Config
from messenger.errors import LocalError
from messenger.transport.rdma.record import Record

_DEBIAN = Path("/usr/lib/python3/dist-packages/pyverbs")
"""Debian's folder of pyverbs, which is not on the path of a virtual environment."""
PACKAGES = ("python3-pyverbs", "ibverbs-providers")
_PORT_ACTIVE = 4
_MIN_RNR_TIMER = 0x12
_TIMEOUT = 0x12
"""1.07 s until a packet is sent again."""
_HOP_LIMIT = 6
_EVENT_FILE = "anon_inode:[infinibandevent]"
_opening = threading.Lock()
_Made = TypeVar("_Made")


@cache
def pyverbs() -> Any:  # noqa: ANN401 - a compiled package without types
    """Import the modules of pyverbs; returns them as attributes.

    Raises:
        LocalError: it is not installed, or for another version of Python.
    """
    if "pyverbs" not in sys.modules and importlib.util.find_spec("pyverbs") is None:
        _find_debian()
    names = ("addr", "cq", "device", "enums", "mr", "pd", "pyverbs_error", "qp", "wr")
    try:
        return SimpleNamespace(**{name: importlib.import_module(f"pyverbs.{name}") for name in names})
    except ImportError:
        sys.modules.pop("pyverbs", None)
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        detail = f"is there, but not for Python {version}" if _DEBIAN.exists() else "is not installed"
        raise LocalError(
            f"no RDMA: pyverbs {detail}. apt-get install {' '.join(PACKAGES)} brings that of the system's python3"
        ) from None


def _find_debian() -> None:
    init = _DEBIAN / "__init__.py"
    if not init.exists():
        return
    spec = importlib.util.spec_from_file_location("pyverbs", init, submodule_search_locations=[str(_DEBIAN)])
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["pyverbs"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


@contextmanager
def _os_errors(what: str) -> Iterator[None]:
    """Convert exceptions of pyverbs to OSError."""
    errors = pyverbs().pyverbs_error
    try:
        yield
    except errors.PyverbsRDMAError as error:
        code = error.error_code if error.error_code > 0 else errno.EIO
        raise OSError(code, f"{what}: {os.strerror(code)}") from None
    except errors.PyverbsError as error:
        raise OSError(errno.ENODEV, f"{what}: {error}") from None


def _event_files() -> set[int]:
    found = set()
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor of the listing itself
            if str(path.readlink()) == _EVENT_FILE:
                found.add(int(path.name))
    return found


def _with_event_file(make: Callable[[], _Made]) -> tuple[_Made, int]:
    """Create a pyverbs object that opens a file for events; returns it and the descriptor, which pyverbs hides."""
    with _opening:
        before = _event_files()
        made = make()
        (number,) = _event_files() - before
    os.set_blocking(number, False)
    return made, number


class Device:
    """An open device, with one port and its address. Streams share it; the last one closes it.

    Args:
        config: options ``ms_async_rdma_*``.

    Raises:
        OSError: there is no such device, its port is down, or it has no such address.
    """

    def __init__(self, config: Config) -> None:
        verbs = pyverbs()
        with _os_errors("RDMA devices"):
            known = [device.name.decode() for device in verbs.device.get_device_list()]
        name = config.ms_async_rdma_device_name or (known[0] if known else "")
        if name not in known:
            detail = f"there are {', '.join(known)}" if known else "there is none"
            raise OSError(errno.ENODEV, f"no RDMA device {name}: {detail}")
        self.name = name
        self.port_num, self.gid_index = config.ms_async_rdma_port_num, config.ms_async_rdma_gid_idx
        self.users = 0
        self._failed = ""
        with _os_errors(f"RDMA device {name}"):
            self.context, self.events_fd = _with_event_file(lambda: verbs.device.Context(name=name))
            try:
                self.lid = self.context.query_port(self.port_num).lid
                self.gid = self._address()
                self.domain = verbs.pd.PD(self.context)
            except BaseException:
                self.context.close()
                raise
        if not self._is_port_up():
            self.close()
            raise OSError(errno.ENETDOWN, f"port {self.port_num} of RDMA device {name} is down")
        if not any(self.gid):
            self.close()
            raise OSError(errno.EADDRNOTAVAIL, f"RDMA device {name} has no address (GID) {self.gid_index}")

    def failure(self) -> str:
        """Describe the failure of the device or its port; empty while there is none.

        An open device cannot be removed. Its pending removal shows by the state of its port or, if its interface
        is gone already, only by the change of its address.
        """
        verbs = pyverbs()
        enums = verbs.enums
        while not self._failed:
            try:
                event = self.context.get_async_event()
            except verbs.pyverbs_error.PyverbsError:  # no more
                break
            if event.event_type == enums.IBV_EVENT_PORT_ERR:
                self._failed = self._port_down
            elif event.event_type == enums.IBV_EVENT_DEVICE_FATAL:
                self._failed = f"RDMA device {self.name} failed"
            elif event.event_type == enums.IBV_EVENT_GID_CHANGE and self._address() != self.gid:
                self._failed = self._address_lost
            event.ack()
        return self._failed

    def cause(self) -> str:
        """Describe why a request on this device has failed; empty if the device is not the cause.

        A request may fail before the event arrives that :meth:`failure` reports.
        """
        if not self.failure():
            if not self._is_port_up():
                self._failed = self._port_down
            elif self._address() != self.gid:
                self._failed = self._address_lost
        return self._failed

    @property
    def _port_down(self) -> str:
        return f"port of RDMA device {self.name} went down"

    @property
    def _address_lost(self) -> str:
        return f"RDMA device {self.name} has lost its address"

    def _is_port_up(self) -> bool:
        try:
            return bool(self.context.query_port(self.port_num).state == _PORT_ACTIVE)
        except pyverbs().pyverbs_error.PyverbsError:
            return False

    def _address(self) -> bytes:
        try:
            gid = str(self.context.query_gid(self.port_num, self.gid_index))
        except pyverbs().pyverbs_error.PyverbsError:
            return bytes(16)
        return bytes.fromhex(gid.replace(":", ""))

    def close(self) -> None:
        """Close the device and all that still belongs to it."""
        # The context itself knows its domain by a weak reference only. The garbage collector clears that before it
        # calls the finalizer of a stream, which may be the device's last one.
        self.domain.close()
        self.context.close()


class Devices:
    """The open devices of a transport, with the number of streams that use them. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[Device] = []

    def acquire(self, config: Config) -> Device:
        """Open or share the device that the options name, for one more stream.

        Raises:
            OSError: as :class:`Device`, or all streams together would need too many buffers.
        """
        with self._lock:
            most = min(config.ms_async_rdma_send_buffers, config.ms_async_rdma_receive_buffers)
            if (sum(device.users for device in self._open) + 1) * config.rdma_queue_len > most:
                raise OSError(
                    errno.ENOBUFS,
                    f"{most} RDMA buffers are in use, {config.rdma_queue_len} of them by each connection "
                    "(ms_async_rdma_send_buffers, ms_async_rdma_receive_buffers)",
                )
            wanted = config.ms_async_rdma_device_name, config.ms_async_rdma_port_num, config.ms_async_rdma_gid_idx
            for device in self._open:
                mine = device.name, device.port_num, device.gid_index
                if mine[1:] == wanted[1:] and wanted[0] in {"", mine[0]} and not device.failure():
                    break
            else:
                device = Device(config)
                self._open.append(device)
            device.users += 1
            return device

    def release(self, device: Device) -> None:
        """Release a device after one of its streams has ended; the last one closes it."""
        with self._lock:
            device.users -= 1
            if not device.users:
                self._open.remove(device)
                device.close()


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished request of a queue pair."""

    is_receive: bool
    index: int
    """Index of the buffer; the number of buffers stands for the empty message that ends the stream."""
    size_bytes: int
    """Number of bytes received."""
    error: OSError | None


class QueuePair:
    """A reliable queue pair with registered buffers for both directions. All receive buffers are posted.

    Args:
        device: belongs to the caller; the queue pair must be closed before it.
        config: options ``ms_async_rdma_*`` and ``rdma_queue_len``.
        psn: first packet sequence number, 24 bits.

    Raises:
        OSError: the device has no more queue pairs, or the memory cannot be registered.
    """

    def __init__(self, device: Device, config: Config, psn: int) -> None:
        verbs = pyverbs()
        enums = verbs.enums
        self.device = device
        self.psn = psn
        self.buffer_bytes, self.count = config.ms_async_rdma_buffer_size, config.rdma_queue_len
        self._sl, self._traffic_class = config.ms_async_rdma_sl, config.ms_async_rdma_dscp
        self._retries, self._rnr_retries = config.rdma_retries, config.rdma_rnr_retries
        # Shared memory: after a fork, copy-on-write would separate this process from the pages the device writes
        # to.
        self._memory = mmap.mmap(-1, 2 * self.count * self.buffer_bytes)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._view = memoryview(self._memory)
        context = device.context
        with _os_errors(f"queue pair of RDMA device {device.name}"):
            self._region = verbs.mr.MR(
                device.domain, len(self._memory), enums.IBV_ACCESS_LOCAL_WRITE, address=self._address
            )
            self._channel, self.events_fd = _with_event_file(lambda: verbs.cq.CompChannel(context))
            self._queue = verbs.cq.CQ(context, 2 * self.count + 1, None, self._channel, 0)
            self._queue.req_notify()
            cap = verbs.qp.QPCap(max_send_wr=self.count + 1, max_recv_wr=self.count)
            wanted = verbs.qp.QPInitAttr(qp_type=enums.IBV_QPT_RC, scq=self._queue, rcq=self._queue, cap=cap)
            self._attributes = verbs.qp.QPAttr(port_num=device.port_num)
            self._attributes.qp_access_flags = enums.IBV_ACCESS_LOCAL_WRITE | enums.IBV_ACCESS_REMOTE_WRITE
            self._pair = verbs.qp.QP(device.domain, wanted, self._attributes)
        self.qpn: int = self._pair.qp_num
        for index in range(self.count):
            self.post_receive(index)

    def record(self, peer_qpn: int) -> Record:
        """The record that this end sends."""
        return Record(self.device.lid, self.qpn, self.psn, peer_qpn, self.device.gid)

    def activate(self, peer: Record) -> None:
        """Connect to the peer's queue pair: ready to receive, then ready to send (docs/protocol.md §8).

        Raises:
            OSError: the device refuses it.
        """
        verbs, attributes = pyverbs(), self._attributes
        with _os_errors(f"queue pair to {peer.qpn:#x}"):
            gid = peer.gid.hex()
            route = verbs.addr.GlobalRoute(
                dgid=verbs.addr.GID(":".join(gid[at : at + 4] for at in range(0, len(gid), 4))),
                sgid_index=self.device.gid_index,
                hop_limit=_HOP_LIMIT,
                traffic_class=self._traffic_class,
            )
            attributes.ah_attr = verbs.addr.AHAttr(
                dlid=peer.lid, sl=self._sl, is_global=1, port_num=self.device.port_num, gr=route
            )
            attributes.path_mtu = verbs.enums.IBV_MTU_1024
            attributes.dest_qp_num, attributes.rq_psn, attributes.sq_psn = peer.qpn, peer.psn, self.psn
            attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1
            attributes.min_rnr_timer, attributes.timeout = _MIN_RNR_TIMER, _TIMEOUT
            attributes.retry_cnt, attributes.rnr_retry = self._retries, self._rnr_retries
            self._pair.to_rtr(attributes)
            self._pair.to_rts(attributes)

    # ---- requests

    def receive_buffer(self, index: int) -> memoryview:
        """The receive buffer of that index; the device may write to it while it is posted."""
        return self._view[index * self.buffer_bytes : (index + 1) * self.buffer_bytes]

    def send_buffer(self, index: int) -> memoryview:
        """The send buffer of that index; the device reads it from :meth:`post_send` to its completion."""
        return self.receive_buffer(self.count + index)

    def post_receive(self, index: int) -> None:
        """Post a receive buffer for the device to fill.

        Raises:
            OSError: the device refuses it.
        """
        verbs = pyverbs()
        place = verbs.wr.SGE(self._address + index * self.buffer_bytes, self.buffer_bytes, self._region.lkey)
        with _os_errors("post of a receive buffer"):
            self._pair.post_recv(verbs.wr.RecvWR(index, 1, [place]))

    def post_send(self, index: int, size_bytes: int) -> None:
        """Send the first ``size_bytes`` of a send buffer.

        Raises:
            OSError: the device refuses it.
        """
        self._post(index, index, size_bytes)

    def post_fin(self) -> None:
        """Send the empty message that ends the stream.

        Raises:
            OSError: the device refuses it.
        """
        self._post(self.count, 0, 0)

    def _post(self, work: int, index: int, size_bytes: int) -> None:
        verbs = pyverbs()
        enums = verbs.enums
        address = self._address + (self.count + index) * self.buffer_bytes
        place = verbs.wr.SGE(address, size_bytes, self._region.lkey)
        # pyverbs requires a buffer even for an empty message.
        request = verbs.wr.SendWR(
            self.count + work, enums.IBV_WR_SEND, 1, sg=[place], send_flags=enums.IBV_SEND_SIGNALED
        )
        with _os_errors("post of a send buffer"):
            self._pair.post_send(request)

    # ---- completions

    def rearm(self) -> None:
        """Consume the event that made :attr:`events_fd` readable, and request the next one."""
        with _os_errors(f"completions of RDMA device {self.device.name}"):
            self._channel.get_cq_event(self._queue)
            self._queue.ack_events(1)
            self._queue.req_notify()

    def completions(self) -> list[Completion]:
        """The requests that have completed since the last call.

        Raises:
            OSError: the device is gone.
        """
        with _os_errors(f"completions of RDMA device {self.device.name}"):
            _, found = self._queue.poll(2 * self.count + 1)
        return [self._completion(each) for each in found]

    def _completion(self, work: Any) -> Completion:  # noqa: ANN401 - pyverbs.cq.WC
        is_receive = work.wr_id < self.count
        return Completion(
            is_receive=is_receive,
            index=work.wr_id if is_receive else work.wr_id - self.count,
            size_bytes=work.byte_len if is_receive and not work.status else 0,
            error=self._error(work.status),
        )

    def _error(self, status: int) -> OSError | None:
        verbs = pyverbs()
        enums = verbs.enums
        if status == enums.IBV_WC_SUCCESS:
            return None
        number = errno.ETIMEDOUT if status == enums.IBV_WC_RETRY_EXC_ERR else errno.ECONNABORTED
        return OSError(number, f"RDMA: {verbs.cq.cqe_status_to_str(status)} ({os.strerror(number)})")

    def fail(self) -> None:
        """Put the queue pair into its error state: posted requests complete with an error, finally at both ends.

        Raises:
            OSError: the device refuses it.
        """
        verbs = pyverbs()
        with _os_errors("queue pair"):
            self._pair.modify(verbs.qp.QPAttr(qp_state=verbs.enums.IBV_QPS_ERR), verbs.enums.IBV_QP_STATE)

    def close(self) -> None:
        """Destroy the queue pair and free its memory."""
        for each in (self._pair, self._queue, self._channel, self._region):
            each.close()
        self._view.release()
