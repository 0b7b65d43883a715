"""The output file of decoded frames, and its formats: lines, JSON, or columns."""

import contextlib
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, TextIO

import orjson

from messenger.errors import LocalError
from messenger.files import created, replacing
from toolkit.dissect.frames import DecodedFrame

if TYPE_CHECKING:
    import pyarrow as pa


_COMPACT = (",", ":")
ColumnWriter = Callable[[IO[bytes]], contextlib.AbstractContextManager[Callable[["pa.RecordBatch"], None]]]
"""Begins a file of columns; its context manager returns the function that writes a batch."""


@contextlib.contextmanager
def output_file(path: Path | None, *, replace: bool, sources: Sequence[Path]) -> Iterator[IO[bytes]]:
    """Open the file to write. With ``replace``, an existing file is replaced when the block ends without error.

    Only its owner can read the file, because it may hold decrypted data.

    Args:
        path: path of the file; None for standard output.
        replace: True if the file may exist.
        sources: the captures, which are never replaced.

    Raises:
        LocalError: the file exists, or cannot be written.
    """
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    check_output(path, replace=replace, sources=sources)
    try:
        with replacing(path) if replace else created(path) as file:
            yield file
    except OSError as error:
        raise LocalError(f"-o {path}: {error.strerror or error}") from None


def check_output(path: Path, *, replace: bool, sources: Sequence[Path]) -> None:
    """Check the path of :func:`output_file`, before work that takes long.

    Raises:
        LocalError: the file exists and must not be replaced, or its folder does not exist.
    """
    if path.exists() and any(source.exists() and path.samefile(source) for source in sources):
        raise LocalError(f"-o {path}: this is the capture itself")
    if path.exists() and (not replace or not path.is_file()):
        raise LocalError(f"-o {path} exists already{'; --force replaces it' if path.is_file() else ''}")
    if not path.parent.is_dir():
        raise LocalError(f"-o {path}: there is no folder {path.parent}")


class JsonLines:
    """Formats frames as ``--format json`` promises: one object per line, in ASCII."""

    def lines(self, frames: Iterable[DecodedFrame]) -> Iterator[str]:
        """Yield the line of each frame, with its end."""
        for frame in frames:
            yield json_line(frame.as_json())


def json_line(record: dict[str, object]) -> str:
    """Return a record as one line of JSON in ASCII, so that no text from the wire controls a terminal."""
    try:
        line = orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError:  # such as integers of more than 64 bits, or half of a surrogate pair
        return json.dumps(record, separators=_COMPACT) + "\n"
    if line.isascii():
        return line.decode("ascii")
    return json.dumps(orjson.loads(line), separators=_COMPACT) + "\n"


@contextlib.contextmanager
def text_of(file: IO[bytes]) -> Iterator[TextIO]:
    """Wrap a binary file for writing text; the text is written out when the caller flushes it."""
    if file is sys.stdout.buffer:
        yield sys.stdout
        sys.stdout.flush()
        return
    text = io.TextIOWrapper(file, encoding="utf-8")
    yield text
    text.detach()


@contextlib.contextmanager
def csv_writer(file: IO[bytes], *, payloads: bool = False) -> "Iterator[Callable[[pa.RecordBatch], None]]":
    """Write batches of frames as comma-separated values, after a line of headings."""
    from pyarrow import csv

    from toolkit.dissect.columns import SCHEMA, SUBJECT_SCHEMA

    with csv.CSVWriter(file, SUBJECT_SCHEMA if payloads else SCHEMA) as writer:
        yield writer.write_batch


@contextlib.contextmanager
def parquet_writer(file: IO[bytes], *, payloads: bool = False) -> "Iterator[Callable[[pa.RecordBatch], None]]":
    """Write batches of frames as Parquet."""
    from pyarrow import parquet

    from toolkit.dissect.columns import SCHEMA, SUBJECT_SCHEMA

    with parquet.ParquetWriter(file, SUBJECT_SCHEMA if payloads else SCHEMA, compression="zstd") as writer:
        yield writer.write_batch


def batches_of(
    frames: Iterable[DecodedFrame], batch_rows: int = 1 << 14, *, payloads: bool = False
) -> "Iterator[pa.RecordBatch]":
    """Gather single frames into columns; ``payloads`` adds the columns about the payload of OSD messages."""
    import pyarrow as pa

    from toolkit.dissect.columns.gather import Gatherer
    from toolkit.dissect.columns.subjects import SubjectGatherer

    gatherer = SubjectGatherer(1) if payloads else Gatherer(1)
    numbers: list[int] = []

    def made() -> "pa.RecordBatch":
        gatherer.settle()
        batch = gatherer.batch(last=True)
        assert batch is not None
        return batch.set_column(0, batch.schema.field(0), pa.array(numbers, batch.schema.field(0).type))

    for frame in frames:
        gatherer.emit(frame)
        numbers.append(frame.frame)
        if len(numbers) == batch_rows:
            yield made()
            numbers.clear()
    if numbers:
        yield made()
