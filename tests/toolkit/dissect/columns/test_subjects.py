"""Columns of what messages are about."""

from io import BytesIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from captures.expected import CAPTURE, HERE, KEYRING
from tests.toolkit.dissect.test_filters import message_frame
from toolkit.dissect.columns import SCHEMA, SUBJECT_SCHEMA, frame_batches, frame_table, write_csv, write_parquet
from toolkit.dissect.columns import subjects as module
from toolkit.dissect.columns.subjects import SubjectGatherer
from toolkit.dissect.decode import decode_capture
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.payloads import Subject, subject_of

NAMES = SUBJECT_SCHEMA.names[len(SCHEMA.names) :]


def keys(name: str) -> KeyBook:
    return KeyBook.read([HERE / name / KEYRING])


@pytest.mark.parametrize("name", ["tentacle-compressed", "nautilus-osds-v1"])
def test_payload_columns_extend_the_table_by_the_subjects_of_records(name: str) -> None:
    capture = HERE / name / CAPTURE
    table = frame_table(capture, keys(name), payloads=True)
    assert table.schema == SUBJECT_SCHEMA
    assert table.select(SCHEMA.names).to_pylist() == frame_table(capture, keys(name)).to_pylist()
    subjects = [subject_of(frame) for frame in decode_capture(capture, keys(name))]
    assert [Subject(**row) for row in table.select(NAMES).to_pylist()] == subjects
    assert sum(subject.object == "object" for subject in subjects) > 20


def test_batches_have_their_own_rows() -> None:
    capture = HERE / "reef-osds" / CAPTURE
    batches = list(frame_batches(capture, keys("reef-osds"), batch_rows=20, payloads=True))
    assert len(batches) > 2
    whole = frame_table(capture, keys("reef-osds"), payloads=True)
    assert pa.Table.from_batches(batches).to_pylist() == whole.to_pylist()


def test_files_have_the_columns() -> None:
    table = frame_table(HERE / "reef-osds" / CAPTURE, keys("reef-osds"), payloads=True)
    parquet, csv = BytesIO(), BytesIO()
    write_parquet(table.to_batches(), parquet, SUBJECT_SCHEMA)
    write_csv(table.to_batches(), csv, SUBJECT_SCHEMA)
    for file in (parquet, csv):
        file.seek(0)
    assert pyarrow.parquet.read_table(parquet).select(NAMES).to_pylist() == table.select(NAMES).to_pylist()
    assert pyarrow.csv.read_csv(csv).column_names == SUBJECT_SCHEMA.names


def test_names_of_objects_that_are_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "subject_of", lambda _: Subject("caf\udce9"))
    gatherer = SubjectGatherer(1)
    gatherer.emit(message_frame())
    gatherer.settle()
    batch = gatherer.batch()
    assert batch is not None
    assert batch.column("object").to_pylist() == ["caf\\udce9"]
