"""Distribute calls over processes of this machine, or over the workers of a Dask cluster."""

import os
import secrets
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from queue import Empty, SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from toolkit.errors import Unsupported
from toolkit.extras import require
from toolkit.machine.interpreters import PACKAGES, safe_workers

if TYPE_CHECKING:
    from distributed import Client, Future

LOCAL = "local"
"""Stands for a temporary scheduler on this machine, with a worker process for each core."""
_ANSWER_S = 10.0
_WORKERS_S = 5.0
_ABSENT_S = 60.0
"""A run ends if its cluster has had no worker for that long. A lost worker that is restarted is back earlier."""
_LOOK_S = 2.0
_DESERTED = "the Dask cluster has lost all its workers"
_RETRIES = 2
"""Retries of a call whose worker was lost; by itself, Dask fails a call that loses several workers."""
_SOURCES = ("messenger", "toolkit")

_Unit = TypeVar("_Unit")
_Result = TypeVar("_Result")
_alone = Lock()


@dataclass(frozen=True, slots=True)
class Line:
    """A line that a call reports while it runs. A call that is restarted on another worker reports again."""

    text: str


@dataclass(frozen=True, slots=True)
class Done(Generic[_Unit, _Result]):
    """A call that has returned."""

    unit: _Unit
    result: _Result


@dataclass(frozen=True, slots=True)
class Lost(Generic[_Unit]):
    """A call without a result, because its workers or the scheduler were lost."""

    unit: _Unit
    reason: str


def begin_worker() -> None:
    """Ignore Ctrl-C, which the terminal sends to all processes; the parent ends this one.

    Likewise for SIGTERM, which ``timeout`` sends to all of them, if the parent handles it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def by_processes(work: Callable[[_Unit], _Result], units: Sequence[_Unit], processes: int) -> Iterator[_Result]:
    """Yield the results in the order of the units, computed by that many processes of this machine.

    Args:
        work: a module-level function, or a partial of one, so that it can be pickled.
        units: its arguments, one per call.
        processes: number of processes.
    """
    from concurrent.futures import ProcessPoolExecutor

    with safe_workers():
        pool = ProcessPoolExecutor(processes, initializer=begin_worker)
        try:
            yield from pool.map(work, units)
        finally:
            pool.shutdown(cancel_futures=True)


def by_dask(work: Callable[[_Unit], _Result], units: Sequence[_Unit], address: str) -> Iterator[_Result]:
    """Yield the results in the order of the units, computed by the workers of a Dask cluster.

    Calls of a lost worker are repeated by another one. A worker runs one call at a time, however many threads it
    has.

    Args:
        work: as for :func:`by_processes`.
        units: its arguments, one per call.
        address: address of the scheduler, ``tcp://HOST:PORT`` or ``HOST:PORT``; :data:`LOCAL` starts a cluster on
            this machine and stops it afterwards.

    Raises:
        MissingExtra: ``distributed`` is not installed.
        Unsupported: no scheduler answers there, it has no workers or loses all of them, or a worker has another
            version of msgrlab.
    """
    with _workers(address) as client:
        futures = deque(client.map(partial(_one_at_a_time, work), units, pure=False, retries=_RETRIES))
        arrived, absence = SimpleQueue[Any](), _Absence(client)
        try:
            while futures:
                futures[0].add_done_callback(arrived.put)
                if _arrival(arrived, absence) is None:
                    raise Unsupported(f"{address}: {_DESERTED}")
                yield futures[0].result()
                futures.popleft()  # the scheduler forgets the result
        finally:
            client.cancel(list(futures))


def stream_by_dask(
    work: Callable[[_Unit, Callable[[str], None]], _Result], units: Sequence[_Unit], address: str
) -> Iterator[Line | Done[_Unit, _Result] | Lost[_Unit]]:
    """Yield the lines and results of calls as they arrive from the workers of a Dask cluster.

    A call whose worker is lost is restarted on another worker. A call that has lost several workers is
    :class:`Lost`, and the other calls go on; all are if no worker is left and none returns. The scheduler never
    has more calls than workers: Dask counts the loss of a worker against all calls that were assigned to it,
    including those that had not started.

    Args:
        work: as for :func:`by_processes`; its second argument takes the lines that it reports.
        units: its first arguments, one per call.
        address: as for :func:`by_dask`.

    Raises:
        MissingExtra: as :func:`by_dask`.
        Unsupported: as :func:`by_dask`.
    """
    require("distributed")
    from distributed import Future

    arrived: SimpleQueue[str | Future[Any]] = SimpleQueue()
    with _workers(address) as client:
        topic = f"msgrlab-{secrets.token_hex(8)}"
        client.subscribe_topic(topic, lambda event: arrived.put(event[1]))
        call = partial(_one_at_a_time, partial(_reporting, work, topic))
        left, waiting = deque(units), dict[Future[Any], _Unit]()
        absence = _Absence(client)
        try:
            while left or waiting:
                while left and len(waiting) < max(1, len(client.nthreads())):
                    unit = left.popleft()
                    future = client.submit(call, unit, pure=False)
                    waiting[future] = unit
                    future.add_done_callback(arrived.put)
                event = _arrival(arrived, absence)
                if event is None:
                    yield from (Lost(unit, _DESERTED) for unit in (*waiting.values(), *left))
                    return
                yield Line(event) if isinstance(event, str) else _ended(event, waiting.pop(event))
        finally:
            client.cancel(list(waiting))


class _Absence:
    """Notices that a Dask cluster has no workers."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._since_s: float | None = None

    def lasts(self) -> bool:
        """True if the cluster has had no worker for a time in which a lost one would have been restarted."""
        if self._client.nthreads():
            self._since_s = None
            return False
        now_s = time.monotonic()
        self._since_s = now_s if self._since_s is None else self._since_s
        return now_s - self._since_s >= _ABSENT_S


def _arrival(arrived: "SimpleQueue[_Result]", absence: _Absence) -> _Result | None:
    """Take the next line or call from the queue; none if all workers are gone."""
    while True:
        try:
            return arrived.get(timeout=_LOOK_S)
        except Empty:
            if absence.lasts():
                return None


def _ended(future: "Future[_Result]", unit: _Unit) -> Done[_Unit, _Result] | Lost[_Unit]:
    from concurrent.futures import CancelledError

    from distributed import KilledWorker

    try:
        return Done(unit, future.result())
    except KilledWorker as error:
        return Lost(unit, f"each of {error.allowed_failures + 1} workers was lost that had it")
    except CancelledError:
        return Lost(unit, "the Dask scheduler is gone")


def _reporting(work: Callable[[_Unit, Callable[[str], None]], _Result], topic: str, unit: _Unit) -> _Result:
    """On a worker: run a call that sends its lines to the topic."""
    from distributed import get_worker

    worker = get_worker()
    return work(unit, lambda line: worker.log_event(topic, line))


@contextmanager
def _workers(address: str) -> "Iterator[Client]":
    client = _client(address)
    try:
        _require_same_source(client, address)
        yield client
    finally:
        client.close()


def _client(address: str) -> "Client":
    require("distributed")
    from distributed import Client

    if address == LOCAL:
        # Workers are processes of one thread each; there is no dashboard that others could open.
        return Client(n_workers=os.cpu_count(), threads_per_worker=1, dashboard_address=None, set_as_default=False)
    try:
        client = Client(address, timeout=_ANSWER_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise Unsupported(f"no Dask scheduler answers at {address}: {error}") from None
    try:
        client.wait_for_workers(1, timeout=_WORKERS_S)
    except TimeoutError:
        client.close()
        remedy = f"dask worker {address} --nthreads 1"
        raise Unsupported(f"the Dask scheduler at {address} has no workers: {remedy}") from None
    return client


def _require_same_source(client: "Client", address: str) -> None:
    """Check that all workers have the same code, without which a seed does not repeat a run."""
    own = source_digest()
    for worker, found in client.run(source_digest, on_error="return").items():
        if isinstance(found, ModuleNotFoundError):
            raise Unsupported(f"worker {worker} of {address} has no msgrlab: {found}")
        if isinstance(found, BaseException):
            raise Unsupported(f"worker {worker} of {address}: {found}")
        if found != own:
            raise Unsupported(f"worker {worker} of {address} has another msgrlab than this machine: {found}")


def source_digest() -> str:
    """Return a short digest of our packages' source."""
    digest = sha256()
    for package in _SOURCES:
        for path in sorted((PACKAGES / package).rglob("*.py")):
            digest.update(f"{path.relative_to(PACKAGES)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _one_at_a_time(work: Callable[[_Unit], _Result], unit: _Unit) -> _Result:
    """Run one call at a time in this process, since runs measure its time and control its garbage collector."""
    with _alone:
        return work(unit)
