"""DuckDB and Polars answer the same question from the Arrow table and the Parquet file of a real capture."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from toolkit.dissect.columns import SUBJECT_SCHEMA, frame_batches, frame_table, write_parquet
from toolkit.dissect.keys import KeyBook

CAPTURES = Path(__file__).parents[4] / "captures"
SLOWEST = """
    SELECT request.object AS object, max(epoch_ns(reply.time) - epoch_ns(request.time)) AS ns
    FROM {frames} AS request JOIN {frames} AS reply USING (stream, tid)
    WHERE request.name = 'osd_op' AND reply.name = 'osd_op_reply'
    GROUP BY request.object
"""
"""The longest time between a request and its reply, by object."""


@pytest.fixture(params=["nautilus-v1", "pacific-secure", "reef-crc", "tentacle-crc"])
def capture(request: pytest.FixtureRequest) -> Path:
    """The directory of a capture of one client."""
    return CAPTURES / str(request.param)


@pytest.fixture
def table(capture: Path) -> pa.Table:
    """Return the frames of a capture with the columns of payloads."""
    return frame_table(capture / "capture.pcapng.gz", KeyBook.read([capture / "keyring"]), payloads=True)


@pytest.fixture
def parquet(capture: Path, tmp_path: Path) -> Path:
    """The same as a file."""
    path = tmp_path / "frames.parquet"
    keys = KeyBook.read([capture / "keyring"])
    with path.open("wb") as file:
        write_parquet(frame_batches(capture / "capture.pcapng.gz", keys, payloads=True), file, SUBJECT_SCHEMA)
    return path


def slowest(table: pa.Table) -> dict[str, int]:
    """The answer without either of them."""
    asked: dict[tuple[int, int], tuple[str, int]] = {}
    longest: dict[str, int] = {}
    times = table["time"].cast(pa.int64()).to_pylist()
    rows = zip(times, *(table[name].to_pylist() for name in ("stream", "tid", "name", "object")), strict=True)
    for time_ns, stream, tid, name, thing in rows:
        if name == "osd_op":
            asked[stream, tid] = thing, time_ns
        elif name == "osd_op_reply" and (stream, tid) in asked:
            requested, began_ns = asked[stream, tid]
            longest[requested] = max(longest.get(requested, 0), time_ns - began_ns)
    return longest


def by_duckdb(source: str, **tables: pa.Table) -> dict[str, int]:
    duckdb: Any = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        for name, each in tables.items():
            connection.register(name, each)
        return dict(connection.sql(SLOWEST.format(frames=source)).fetchall())


def by_polars(frames: Any) -> dict[str, int]:
    pl: Any = pytest.importorskip("polars")
    frames = frames.with_columns(pl.col("name").cast(pl.String), pl.col("time").cast(pl.Int64))
    requests = frames.filter(pl.col("name") == "osd_op").select("stream", "tid", "object", "time")
    replies = frames.filter(pl.col("name") == "osd_op_reply").select("stream", "tid", "time")
    pairs = requests.join(replies, on=["stream", "tid"], suffix="_reply")
    answer = pairs.group_by("object").agg(ns=(pl.col("time_reply") - pl.col("time")).max()).collect()
    return dict(answer.rows())


def test_the_slowest_request_of_each_object(table: pa.Table) -> None:
    answer = slowest(table)
    assert {"greeting", "nobody", *(f"small-{i}" for i in range(12))} <= answer.keys()
    assert all(0 < ns < 10**9 for ns in answer.values())


def test_duckdb_and_polars_read_the_table(table: pa.Table) -> None:
    pl: Any = pytest.importorskip("polars")
    assert by_duckdb("frames", frames=table) == slowest(table)
    assert by_polars(pl.from_arrow(table).lazy()) == slowest(table)


def test_duckdb_and_polars_read_the_file(table: pa.Table, parquet: Path) -> None:
    pl: Any = pytest.importorskip("polars")
    assert by_duckdb(f"'{parquet}'") == slowest(table)
    assert by_polars(pl.scan_parquet(parquet)) == slowest(table)


def test_the_query_of_the_page_counts_the_requests(parquet: Path) -> None:
    """The one of docs/columns.md, with another name of the object."""
    duckdb: Any = pytest.importorskip("duckdb")
    query = f"SELECT pg, op, count(*) FROM '{parquet}' WHERE name = 'osd_op' AND object LIKE 'small%' GROUP BY ALL"
    assert duckdb.sql(query).fetchall() == [("1.0", "WRITEFULL", 12)]
