import asyncio
import os
from contextlib import AsyncExitStack

import pytest

from messenger.errors import LocalError
from toolkit.bench.cell import Cell, Pattern
from toolkit.bench.measure import Peer, cpus, measure, possible_cores
from toolkit.bench.spec import PeerSpec


def cell(pattern: Pattern = Pattern.REQUEST, mode: str = "crc") -> Cell:
    return Cell(pattern=pattern, size=70_000, in_flight=5, mode=mode, cores=possible_cores()[-1])


@pytest.mark.parametrize(("pattern", "mode"), [(Pattern.REQUEST, "secure"), (Pattern.STREAM, "crc")])
def test_a_cell(pattern: Pattern, mode: str) -> None:
    reported = []
    (result,) = measure([cell(pattern, mode)], 0.01, 2, reported.append)
    assert reported == [result]
    assert result.cell == cell(pattern, mode)
    assert 0 < result.ops_per_s < 1e7
    assert 0 < result.floor_ops_per_s < 1e8
    assert 0 < result.cpu_us_per_op < 1e6
    assert 0 < result.floor_cpu_us_per_op < 1e6
    assert 5 < result.peak_rss_mib < 500


def test_a_spec_survives_its_line() -> None:
    spec = PeerSpec(cell=cell(), floor=True, cpu=1, key="", addr="x")
    assert PeerSpec.from_json(spec.as_json()) == spec


@pytest.mark.parametrize("sends", [True, False])
def test_each_side_sends_what_the_other_expects(*, sends: bool) -> None:
    spec = PeerSpec(cell=cell(), floor=True, cpu=0, key="", addr="there" if sends else "")
    assert spec.sends is sends
    assert len(spec.payload) == (70_000 if sends else 64)
    assert spec.received_bytes == (64 if sends else 70_000)


def test_a_process_that_fails_is_quoted() -> None:
    async def fail() -> None:
        async with AsyncExitStack() as stack:
            peer = await stack.enter_async_context(Peer())
            own_cpu = min(os.sched_getaffinity(0))
            await peer.become(PeerSpec(cell=cell(), floor=True, cpu=own_cpu, key="", addr="1"))

    with pytest.raises(LocalError, match="benchmark's sending plain socket process ended: ConnectionRefused"):
        asyncio.run(fail())


def test_cpus_are_among_those_the_process_may_use() -> None:
    mine = os.sched_getaffinity(0)
    first, second = cpus(1)
    assert first == second
    assert first in mine
    if len(mine) > 1:
        assert possible_cores() == (1, 2)
        assert len(set(cpus(2)) & mine) == 2
