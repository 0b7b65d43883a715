"""Measures our messenger and another program in turns (A B B A), with the same messages on the same CPUs.

Absolute figures of a busy machine mean little. Consecutive turns run under about the same load, so ratios are
computed per pair of turns.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from toolkit.bench.anchor.program import Program
from toolkit.bench.cell import Cell
from toolkit.bench.measure import Pair, Peer, Turn, warm_up

TURNS = 7
"""Number of turns of each side."""


@dataclass(frozen=True, slots=True)
class Ratios:
    """Our value divided by the program's, over pairs of consecutive turns."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]]) -> "Ratios":
        """Return the ratios of pairs of our value and the program's."""
        ratios = sorted(ours / theirs for ours, theirs in pairs)
        return cls(median(ratios), ratios[0], ratios[-1])

    def as_json(self) -> dict[str, float]:
        """Return the JSON object."""
        return {name: round(value, 3) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The comparison in one cell: medians over the turns, and ratios of pairs of turns."""

    cell: Cell
    ops_per_s: float
    program_ops_per_s: float
    rate: Ratios
    """Ratio of the rates; above 1, ours is faster."""
    cpu_us_per_op: float
    """User and system time of sender and receiver together."""
    program_cpu_us_per_op: float
    cpu: Ratios
    """Ratio of the CPU times; below 1, ours needs less."""
    load: float
    """Load of the machine, the mean of the last minute; the measurement itself accounts for up to 2."""

    def as_json(self) -> dict[str, Any]:
        """Return the row of the JSON contract."""
        return {
            "name": self.cell.name,
            **asdict(self.cell),
            "ops_per_s": round(self.ops_per_s, 1),
            "program_ops_per_s": round(self.program_ops_per_s, 1),
            "rate_ratio": self.rate.as_json(),
            "cpu_us_per_op": round(self.cpu_us_per_op, 2),
            "program_cpu_us_per_op": round(self.program_cpu_us_per_op, 2),
            "cpu_ratio": self.cpu.as_json(),
            "load": round(self.load, 2),
        }


def compare(
    cells: Sequence[Cell], program: Path, seconds: float, finished: Callable[[Comparison], None]
) -> list[Comparison]:
    """Measure every cell, in separate processes.

    Args:
        cells: the cells to measure.
        program: path of the other messenger's program.
        seconds: duration of each side's turns in each cell, all turns together.
        finished: called with each result as soon as it is complete.

    Raises:
        LocalError: a process exited, did not answer, or sent an invalid answer.
    """
    return asyncio.run(_compare(cells, program, seconds, finished))


async def _compare(
    cells: Sequence[Cell], program: Path, seconds: float, finished: Callable[[Comparison], None]
) -> list[Comparison]:
    results = []
    for cell in cells:
        results.append(await compare_cell(cell, program, seconds))
        finished(results[-1])
    return results


async def compare_cell(cell: Cell, program: Path, seconds: float) -> Comparison:
    """Measure one cell; see :func:`compare`."""
    async with AsyncExitStack() as stack:
        theirs = await stack.enter_async_context(Program(program, cell))
        peers = [await stack.enter_async_context(Peer()) for _ in range(2)]
        ours = await Pair.start(cell, *peers, floor=False)
        our_count = await warm_up(ours.run, cell, seconds / TURNS)
        their_count = await warm_up(theirs.run, cell, seconds / TURNS)
        turns: list[tuple[Turn, Turn]] = []
        for number in range(TURNS):
            if number % 2:
                their_turn, our_turn = await theirs.run(their_count), await ours.run(our_count)
            else:
                our_turn, their_turn = await ours.run(our_count), await theirs.run(their_count)
            turns.append((our_turn, their_turn))
    rates = [(our_count / a.elapsed_s, their_count / b.elapsed_s) for a, b in turns]
    costs = [(a.cpu_s / our_count * 1e6, b.cpu_s / their_count * 1e6) for a, b in turns]
    return Comparison(
        cell=cell,
        ops_per_s=median(rate for rate, _ in rates),
        program_ops_per_s=median(rate for _, rate in rates),
        rate=Ratios.of(rates),
        cpu_us_per_op=median(cost for cost, _ in costs),
        program_cpu_us_per_op=median(cost for _, cost in costs),
        cpu=Ratios.of(costs),
        load=os.getloadavg()[0],
    )
