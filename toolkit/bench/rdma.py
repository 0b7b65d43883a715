"""Measures the messenger over RDMA beside the messenger over TCP, on two soft-RoCE devices of this machine."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from toolkit.bench.cell import Cell
from toolkit.bench.measure import Pair, Peer, Run, warm_up
from toolkit.machine.leases import Lease, lab_name
from toolkit.network.rdma.fabric import GID_INDEX, Fabric

RDMA_SIZES = (4096, 65_536)


@dataclass(slots=True, kw_only=True)
class RdmaResult:
    """Medians over the rounds of one cell."""

    cell: Cell
    ops_per_s: float
    """Rate over RDMA."""
    tcp_ops_per_s: float
    cpu_us_per_op: float
    """User and system time of both processes together, over RDMA."""
    tcp_cpu_us_per_op: float

    @property
    def ratio(self) -> float:
        """Rate over RDMA divided by that over TCP."""
        return self.ops_per_s / self.tcp_ops_per_s

    def as_json(self) -> dict[str, Any]:
        """Return the row of the JSON object."""
        return {
            **asdict(self.cell),
            "ops_per_s": round(self.ops_per_s, 1),
            "tcp_ops_per_s": round(self.tcp_ops_per_s, 1),
            "ratio": round(self.ratio, 3),
            "cpu_us_per_op": round(self.cpu_us_per_op, 2),
            "tcp_cpu_us_per_op": round(self.tcp_cpu_us_per_op, 2),
        }


@contextmanager
def devices() -> Iterator[tuple[str, str]]:
    """Make two soft-RoCE devices on a bridge, for the time of a ``with`` block; yields their names.

    Raises:
        LocalError: the kernel rejects it.
        Unsupported: the kernel has no soft-RoCE, pyverbs is missing, or this user may not make devices.
    """
    Fabric.check("bench rdma", "msgrlab vm run -- CMD")
    with ExitStack() as undo:
        lease = Lease.take(lab_name())
        undo.callback(lease.journal.undo)
        undo.enter_context(lease.held())
        fabric = Fabric(lease)
        undo.callback(fabric.close)
        fabric.open()
        yield fabric.plug("a"), fabric.plug("b")


def measure_rdma(
    cells: Sequence[Cell], seconds: float, rounds: int, finished: Callable[[RdmaResult], None]
) -> list[RdmaResult]:
    """Measure every cell over RDMA and over TCP in turns, in separate processes.

    Args:
        cells: the cells to measure.
        seconds: duration of the runs over RDMA in each cell, all rounds together.
        rounds: number of turns of RDMA and TCP.
        finished: called with each result as soon as it is complete.

    Raises:
        LocalError: a process exited or did not answer, or there are no devices.
        Unsupported: the kernel has no soft-RoCE, or this user may not make devices.
    """
    results = []
    with devices() as names:
        for cell in cells:
            results.append(asyncio.run(_measure_cell(cell, names, seconds, rounds)))
            finished(results[-1])
    return results


async def _measure_cell(cell: Cell, names: tuple[str, str], seconds: float, rounds: int) -> RdmaResult:
    sender, receiver = (
        {"ms_type": "async+rdma", "ms_async_rdma_device_name": name, "ms_async_rdma_gid_idx": GID_INDEX}
        for name in names
    )
    async with AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(Peer()) for _ in range(4)]
        over_rdma = await Pair.start(cell, *peers[:2], floor=False, options=(sender, receiver))
        over_tcp = await Pair.start(cell, *peers[2:], floor=False)
        count = await warm_up(over_rdma.run, cell, seconds / rounds)
        await over_tcp.run(count)
        turns = [(await over_rdma.run(count), await over_tcp.run(count)) for _ in range(rounds)]
    (ops_per_s, cpu_us), (tcp_ops_per_s, tcp_cpu_us) = (_medians(runs, count) for runs in zip(*turns, strict=True))
    return RdmaResult(
        cell=cell,
        ops_per_s=ops_per_s,
        tcp_ops_per_s=tcp_ops_per_s,
        cpu_us_per_op=cpu_us,
        tcp_cpu_us_per_op=tcp_cpu_us,
    )


def _medians(runs: Sequence[Run], count: int) -> tuple[float, float]:
    """Return the messages per second, and the microseconds of CPU time for each."""
    return count / median(run.elapsed_s for run in runs), median(run.cpu_s for run in runs) / count * 1e6
