"""The columns of a capture as its readers get them: tables, data frames, files."""

import csv
import importlib.util
import subprocess
import sys
from io import BytesIO, StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from messenger.errors import LocalError
from tests.toolkit.dissect.columns.conftest import Recorded, record
from toolkit.bench.captures import KEY_LOG, RECIPES, write_capture
from toolkit.capture.formats import LinkType, PcapngWriter, open_capture
from toolkit.dissect.columns import SCHEMA, ColumnDecoder, frame_batches, frame_table, write_csv, write_parquet
from toolkit.dissect.keys import KeyBook


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A session over a secure link."""
    return record("v2 secure", tmp_path_factory.mktemp("secure") / "session.pcapng")


def test_a_table_has_the_columns_of_the_schema(secure: Recorded) -> None:
    table = frame_table(secure.path, secure.keys())
    table.validate(full=True)
    assert table.schema == SCHEMA
    assert set(table["mode"].to_pylist()) == {"crc", "secure"}
    assert table["auth"].to_pylist().count("no-key") == 0


def test_a_data_frame_of_pandas(secure: Recorded) -> None:
    frame = frame_table(secure.path, secure.keys()).to_pandas()
    messages = frame[frame.seq.notna()]
    assert set(messages.tag) == {"MESSAGE"}
    assert messages.groupby("src", observed=True).seq.max().min() > 50
    assert str(frame.time.dtype) == "datetime64[ns, UTC]"


def test_files_have_what_the_table_has(secure: Recorded) -> None:
    table = frame_table(secure.path, secure.keys())
    written, lines = BytesIO(), BytesIO()
    write_parquet(frame_batches(secure.path, secure.keys(), batch_rows=7), written)
    assert parquet.read_table(BytesIO(written.getvalue())).cast(SCHEMA).to_pylist() == table.to_pylist()
    write_csv(frame_batches(secure.path, secure.keys(), batch_rows=7), lines)
    head, *rows = csv.reader(StringIO(lines.getvalue().decode()))
    assert head == SCHEMA.names
    tags = table["tag"].to_pylist()
    assert [row[head.index("tag")] for row in rows] == tags
    assert [row[head.index("type")] == "" for row in rows] == [tag != "MESSAGE" for tag in tags]


def test_connections_on_other_ports_are_left_out(secure: Recorded) -> None:
    assert len(frame_table(secure.path, secure.keys(), ports=[1])) == 0
    assert len(frame_table(secure.path, secure.keys(), ports=[6800])) > 0


def test_missing_key_is_named_in_the_problem(secure: Recorded) -> None:
    with ColumnDecoder(secure.path) as decoder:
        rows = sum(map(len, decoder))
    assert decoder.totals.frames == rows
    assert decoder.totals.undecoded == 4
    assert "are not decoded" in (decoder.problem or "")


def test_key_logs_inside_a_capture_are_used(tmp_path: Path) -> None:
    plain, path = tmp_path / "plain.pcapng", tmp_path / "with-keys.pcapng"
    write_capture(next(recipe for recipe in RECIPES if recipe.name == "v2 secure"), plain, 128)
    with open_capture(plain) as capture, PcapngWriter(path) as writer:
        writer.interface("bench", LinkType.ETHERNET)
        writer.secrets(KEY_LOG)
        for batch in capture:
            for _, time_ns, _, packet in batch.packets():
                writer.packet(time_ns, packet)
    assert frame_table(plain)["error"].null_count < len(frame_table(plain))
    table = frame_table(path)
    assert (table["error"].null_count, len(table) - table["seq"].null_count) == (len(table), 128)
    keys = KeyBook()
    keys.add_key_log(KEY_LOG)
    assert table == frame_table(plain, keys)


def test_empty_capture_gives_an_empty_table(tmp_path: Path) -> None:
    path = tmp_path / "empty.pcapng"
    PcapngWriter(path).close()
    table = frame_table(path)
    assert (len(table), table.schema) == (0, SCHEMA)


def test_table_refuses_files_that_are_no_capture(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="No such file"):
        frame_table(tmp_path / "gone")
    (tmp_path / "text").write_text("not a capture, but long enough for one")
    with pytest.raises(LocalError, match="neither pcap nor pcapng"):
        list(frame_batches(tmp_path / "text"))


def test_pandas_is_not_imported_for_it(secure: Recorded) -> None:
    assert importlib.util.find_spec("pandas")
    code = "import sys; from toolkit.dissect.columns import frame_table; frame_table(sys.argv[1])"
    code += "; sys.exit('pandas' in sys.modules)"
    subprocess.run([sys.executable, "-c", code, secure.path], check=True)


def test_texts_of_every_batch_are_the_same_dictionary_grown(secure: Recorded) -> None:
    table = pa.Table.from_batches(frame_batches(secure.path, secure.keys(), batch_rows=20), SCHEMA)
    assert table.unify_dictionaries().to_pylist() == frame_table(secure.path, secure.keys()).to_pylist()
