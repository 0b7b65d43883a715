"""Writes batches of columns to Parquet and CSV files as they come."""

from collections.abc import Iterable
from typing import BinaryIO

import pyarrow as pa

from toolkit.dissect.columns.schema import SCHEMA

_COMPRESSION = "zstd"


def write_parquet(batches: Iterable[pa.RecordBatch], file: BinaryIO, schema: pa.Schema = SCHEMA) -> None:
    """Write batches of a schema, one row group each; ``file`` is not closed."""
    from pyarrow.parquet import ParquetWriter  # noqa: PLC0415 - a tenth of a second

    with ParquetWriter(file, schema, compression=_COMPRESSION) as writer:
        for batch in batches:
            writer.write_batch(batch)


def write_csv(batches: Iterable[pa.RecordBatch], file: BinaryIO, schema: pa.Schema = SCHEMA) -> None:
    """Write a line of column names, and one line per row of the batches; ``file`` is not closed."""
    from pyarrow.csv import CSVWriter  # noqa: PLC0415 - as above

    with CSVWriter(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
