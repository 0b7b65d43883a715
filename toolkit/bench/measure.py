"""Measures cells: starts the processes, runs messenger and floor in turns, and takes medians."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from random import SystemRandom
from statistics import median
from time import time
from typing import Any, Self

from messenger.cephx.keys import CryptoKey
from toolkit.bench.cell import Cell, Pattern, Result
from toolkit.bench.process import BenchProcess
from toolkit.bench.spec import PeerRun, PeerSpec

_WARM_UP_S = 0.05
"""The number of messages is raised until a run takes this long; those runs are the warm-up."""


def measure(
    cells: Sequence[Cell], seconds: float, rounds: int, finished: Callable[[Result], None]
) -> list[Result]:
    """Measure every cell in turn, in separate processes.

    Args:
        cells: the cells to measure.
        seconds: duration of the messenger's runs in each cell, all rounds together.
        rounds: number of turns of messenger and floor.
        finished: called with each result as soon as it is complete.

    Raises:
        LocalError: a process exited or did not answer.
    """
    return asyncio.run(_measure(cells, seconds, rounds, finished))


async def _measure(
    cells: Sequence[Cell], seconds: float, rounds: int, finished: Callable[[Result], None]
) -> list[Result]:
    results = []
    for cell in cells:
        results.append(await measure_cell(cell, seconds, rounds))
        finished(results[-1])
    return results


async def measure_cell(cell: Cell, seconds: float, rounds: int) -> Result:
    """Measure one cell; see :func:`measure`."""
    async with AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(Peer()) for _ in range(4)]
        messenger = await Pair.start(cell, *peers[:2], floor=False)
        floor = await Pair.start(cell, *peers[2:], floor=True)
        count = await warm_up(messenger.run, cell, seconds / rounds)
        await floor.run(count)
        turns = [(await messenger.run(count), await floor.run(count)) for _ in range(rounds)]
    return Result(
        cell=cell,
        ops_per_s=count / median(run.elapsed_s for run, _ in turns),
        floor_ops_per_s=count / median(run.elapsed_s for _, run in turns),
        cpu_us_per_op=median(run.cpu_s for run, _ in turns) / count * 1e6,
        floor_cpu_us_per_op=median(run.cpu_s for _, run in turns) / count * 1e6,
        peak_rss_mib=max(run.peak_rss_mib for run, _ in turns),
    )


async def warm_up(run: "Callable[[int], Awaitable[Turn]]", cell: Cell, seconds: float) -> int:
    """Return the number of messages that take ``seconds``; raise the number until a run takes _WARM_UP_S."""
    count = cell.rounded(0)
    while True:
        elapsed_s = (await run(count)).elapsed_s
        if elapsed_s >= _WARM_UP_S:
            return cell.rounded(count * seconds / elapsed_s)
        count = cell.rounded(count * 4)


@dataclass(slots=True)
class Turn:
    """One run of a sender and a receiver."""

    elapsed_s: float
    cpu_s: float
    """CPU time of both processes together."""


@dataclass(slots=True)
class Run(Turn):
    """One run of both of our processes."""

    peak_rss_mib: float
    """Peak memory of the larger process since it started."""


class Pair:
    """A sender and a receiver, connected."""

    def __init__(self, cell: Cell, sender: "Peer", receiver: "Peer") -> None:
        self.cell = cell
        self._sender = sender
        self._receiver = receiver

    @classmethod
    async def start(
        cls,
        cell: Cell,
        sender: "Peer",
        receiver: "Peer",
        *,
        floor: bool,
        options: tuple[dict[str, Any], dict[str, Any]] = ({}, {}),
    ) -> Self:
        """Send both processes their specs, and connect them.

        Args:
            cell: the cell to measure.
            sender: the process that connects and sends.
            receiver: the other process.
            floor: True for plain sockets instead of messengers.
            options: options of both messengers, the sender's first.
        """
        sender_cpu, receiver_cpu = cpus(cell.cores)
        key = CryptoKey.generate(SystemRandom(), time()).to_base64()
        spec = PeerSpec(cell=cell, floor=floor, cpu=receiver_cpu, key=key, options=options[1])
        addr = await receiver.become(spec)
        await sender.become(replace(spec, cpu=sender_cpu, addr=addr, options=options[0]))
        return cls(cell, sender, receiver)

    async def run(self, count: int) -> Run:
        """Send ``count`` messages and measure the run."""
        await self._receiver.begin(count)
        await self._sender.begin(count)
        received, sent = await self._receiver.ended(), await self._sender.ended()
        last = sent if self.cell.pattern is Pattern.REQUEST else received
        return Run(
            last.ended_s - sent.started_s,
            received.cpu_s + sent.cpu_s,
            max(received.peak_rss_mib, sent.peak_rss_mib),
        )


class Peer(BenchProcess):
    """A ``toolkit.bench.peer`` process; it loads its modules before it receives its spec."""

    def __init__(self) -> None:
        super().__init__("toolkit.bench.peer", "new")

    async def become(self, spec: PeerSpec) -> str:
        """Make the process one side of a connection; return the receiver's address.

        Raises:
            LocalError: the process could not listen or connect.
        """
        self.role = f"{'sending' if spec.sends else 'receiving'} {'plain socket' if spec.floor else 'messenger'}"
        self.write(spec.as_json())
        addr: str = await self.answer("ready")
        return addr

    async def begin(self, count: int) -> None:
        """Start a run."""
        self.write(json.dumps({"run": count}))
        await self.answer("began")

    async def ended(self) -> PeerRun:
        """Wait for the end of the run, and return its figures."""
        return PeerRun(**await self.answer("ended"))


def possible_cores() -> tuple[int, ...]:
    """Return the numbers of cores that can be measured on this machine: 1, or 1 and 2."""
    return (1,) if len(os.sched_getaffinity(0)) == 1 else (1, 2)


def cpus(cores: int) -> tuple[int, int]:
    """Return the CPUs of the two processes: the same CPU, or two, of different physical cores if possible."""
    *others, last = sorted(os.sched_getaffinity(0))
    if cores == 1:
        return last, last
    core = _core(last)
    return next((cpu for cpu in others if _core(cpu) != core), others[0]), last


def _core(cpu: int) -> str:
    """Return a text that identifies the physical core of a CPU."""
    siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    return siblings.read_text("ascii") if siblings.exists() else str(cpu)
