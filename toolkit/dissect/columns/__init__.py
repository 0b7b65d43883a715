"""Decodes frames into Arrow columns, without an object for each well-formed frame."""

from toolkit.extras import require

require("pyarrow")

from toolkit.dissect.columns.files import write_csv, write_parquet
from toolkit.dissect.columns.schema import SCHEMA
from toolkit.dissect.columns.subjects import SUBJECT_SCHEMA
from toolkit.dissect.columns.table import ColumnDecoder, frame_batches, frame_table

__all__ = [
    "SCHEMA",
    "SUBJECT_SCHEMA",
    "ColumnDecoder",
    "frame_batches",
    "frame_table",
    "write_csv",
    "write_parquet",
]
