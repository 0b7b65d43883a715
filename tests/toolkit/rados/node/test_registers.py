"""The workload of a client: what it writes down of each operation, whatever comes of it."""

import asyncio
import errno
from typing import Any

import pytest

from messenger.errors import LocalError
from tests.support.aio import until
from toolkit.rados.errors import RadosError
from toolkit.rados.node.registers import Registers
from toolkit.rados.node.spec import RadosSpec

SPEC = RadosSpec(name="app", rados="client.app", monitors=[])
ANSWERS = {"read": b"a\xff;", "omap_get": {"key": b"b;"}}


class Pool:
    """A pool that answers every operation alike."""

    def __init__(self, error: Exception | None = None, *, silent: bool = False) -> None:
        self._error = error
        self._silent = silent

    def __getattr__(self, verb: str) -> Any:
        async def answer(*_: object) -> Any:
            if self._silent:
                await asyncio.get_running_loop().create_future()
            if self._error is not None:
                raise self._error
            return ANSWERS.get(verb)

        return answer


def answers_of(pool: Pool, count: int = 30, spec: RadosSpec = SPEC) -> list[dict[str, Any]]:
    """Return the records of so many operations, and of the last reads of two objects."""
    records: list[dict[str, Any]] = []

    async def live() -> None:
        def write(time_s: float, kind: str, fields: dict[str, Any]) -> None:
            assert (time_s > 0, kind) == (True, "operation")
            records.append(fields)

        registers = Registers(spec, lambda: pool, write, answer_s=0.001)  # type: ignore[arg-type, return-value]
        await registers.begin(objects=2, every_ms=0.001, number=count)
        await until(lambda: not registers.is_busy)

    asyncio.run(live())
    assert [record["number"] for record in records[::2]] == [f"1.{at + 1}" for at in range(count + 4)]
    assert all(record["action"] == "invoke" for record in records[::2])
    return records[1::2]


def test_answers_of_reads_contain_the_value() -> None:
    answers = answers_of(Pool())
    assert {answer["action"] for answer in answers} == {"ok"}
    values = {answer["verb"]: answer.get("value") for answer in answers}
    assert values["read"] == "a\\xff;"
    assert values["omap_get"] == {"key": "b;"}
    assert {values[verb] for verb in values.keys() - ANSWERS.keys()} == {None}


@pytest.mark.parametrize(
    ("pool", "action", "error"),
    [
        (Pool(RadosError(errno.EEXIST, "x")), "fail", "EEXIST"),
        (Pool(RadosError(errno.ENOENT, "x")), "fail", "ENOENT"),
        (Pool(RadosError(errno.EIO, "x")), "unknown", "EIO"),
        (Pool(LocalError("it is over")), "unknown", "it is over"),
        (Pool(silent=True), "unknown", "no answer within 0.001 s"),
    ],
    ids=["EEXIST", "ENOENT", "EIO", "an end", "silence"],
)
def test_only_refusals_are_recorded_as_failed(pool: Pool, action: str, error: str) -> None:
    answers = answers_of(pool, count=5)
    assert {(answer["action"], answer["error"]) for answer in answers} == {(action, error)}


def test_workload_depends_on_seed_and_incarnation() -> None:
    def drawn(seed: int, incarnation: int) -> list[tuple[str, str]]:
        spec = RadosSpec(name="app", rados="client.app", monitors=[], seed=seed, incarnation=incarnation)
        records: list[dict[str, Any]] = []

        async def live() -> None:
            registers = Registers(spec, Pool, lambda _time, _kind, fields: records.append(fields))  # type: ignore[arg-type]
            await registers.begin(objects=2, every_ms=0.001, number=20)
            await until(lambda: not registers.is_busy)

        asyncio.run(live())
        assert records[0]["number"] == f"{incarnation}.1"
        return [(record["verb"], record["object"]) for record in records]

    assert drawn(1, 1) == drawn(1, 1)
    assert len({tuple(drawn(seed, life)) for seed in (1, 2) for life in (1, 2)}) == 4


def test_end_reads_each_object_and_cancel_reads_nothing() -> None:
    records: list[dict[str, Any]] = []

    async def live() -> None:
        registers = Registers(SPEC, Pool, lambda _time, _kind, fields: records.append(fields))  # type: ignore[arg-type]
        await registers.begin(objects=1, every_ms=3_600_000, number=0)
        await until(lambda: len(records) == 2)
        registers.end()
        await until(lambda: not registers.is_busy)
        assert [record["verb"] for record in records[2:]] == ["read", "read", "omap_get", "omap_get"]
        del records[:]
        await registers.begin(objects=1, every_ms=3_600_000, number=0)
        await registers.cancel()
        assert not registers.is_busy
        assert len(records) <= 2

    asyncio.run(live())


@pytest.mark.parametrize("args", [(0, 1, 0), (65, 1, 0), (1, -1, 0), (1, 1, -1)])
def test_registers_refuse_invalid_numbers_of_objects(args: tuple[int, float, int]) -> None:
    registers = Registers(SPEC, Pool, lambda *_: None)  # type: ignore[arg-type]
    with pytest.raises(LocalError, match="give 1 to 64 objects"):
        asyncio.run(registers.begin(*args))
