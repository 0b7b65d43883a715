import io
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.errors import LocalError
from tests.support.packets import TIME_NS, Segment
from toolkit.capture.formats import LinkType, PcapngWriter, open_capture

texts = st.text(max_size=50)


@given(
    st.lists(texts, max_size=3),
    st.lists(texts, max_size=3),
    st.lists(st.tuples(st.integers(0, 2**62), st.binary(max_size=200), st.integers(0, 1), texts), max_size=20),
)
def test_reader_returns_all_that_the_writer_wrote(
    notes: list[str], secrets: list[str], packets: list[tuple[int, bytes, int, str]]
) -> None:
    file = io.BytesIO()
    with PcapngWriter(file) as writer:
        for text in notes[:1]:
            writer.note(text)
        assert [writer.interface("lo"), writer.interface("any", LinkType.LINUX_SLL2)] == [0, 1]
        for text in secrets:
            writer.secrets(text)
        for text in notes[1:]:
            writer.note(text)
        for time_ns, data, interface, comment in packets:
            writer.packet(time_ns, data, interface, comment or None)
    file.seek(0)
    reader = open_capture(file)
    seen = [
        (time_ns, bytes(data), int(link_type != LinkType.ETHERNET))
        for batch in reader
        for _, time_ns, link_type, data in batch.packets()
    ]
    assert seen == [packet[:3] for packet in packets]
    assert reader.secrets == secrets
    assert sorted(reader.notes) == sorted([*notes, *(comment for *_, comment in packets if comment)])
    assert reader.problem is None


def test_a_packet_may_be_cut() -> None:
    file = io.BytesIO()
    with PcapngWriter(file) as writer:
        writer.interface("lo")
        writer.packet(TIME_NS, b"begin", original_bytes=500)
    file.seek(0)
    (batch,) = open_capture(file)
    assert (batch.captured_bytes.tolist(), batch.original_bytes.tolist()) == ([5], [500])


def test_everything_written_so_far_can_be_read_at_any_time(tmp_path: Path) -> None:
    path = tmp_path / "live.pcapng"
    with PcapngWriter(path) as writer:
        writer.interface("lo")
        for count in range(1, 4):
            writer.packet(TIME_NS, b"x")
            writer.flush()
            with open_capture(path) as reader:
                assert sum(map(len, reader)) == count
                assert reader.problem is None


def test_writer_refuses_an_existing_file(tmp_path: Path) -> None:
    path = tmp_path / "taken"
    path.write_bytes(b"precious")
    with pytest.raises(LocalError, match="exists already"):
        PcapngWriter(path)
    assert path.read_bytes() == b"precious"


def test_a_capture_can_be_added_to(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcapng"
    for data in (b"one", b"two"):
        with PcapngWriter(path, append=True) as writer:
            writer.note(f"about {data.decode()}")
            writer.interface("lo")
            writer.packet(TIME_NS, data)
    with open_capture(path) as reader:
        assert [bytes(data) for batch in reader for *_, data in batch.packets()] == [b"one", b"two"]
        assert reader.notes == ["about one", "about two"]


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="No such file"):
        PcapngWriter(tmp_path / "none" / "capture.pcapng")


def test_misuse_is_an_error() -> None:
    writer = PcapngWriter(io.BytesIO())
    with pytest.raises(LocalError, match="interface 0 is not there"):
        writer.packet(TIME_NS, b"x")
    with pytest.raises(LocalError, match="65535"):
        writer.note("x" * 70_000)


@pytest.mark.needs("tshark")
def test_wireshark_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcapng"
    with PcapngWriter(path) as writer:
        writer.note("how it was made")
        writer.interface("lo")
        writer.secrets("a key")
        writer.note("what came of it")
        writer.packet(TIME_NS + 1, Segment(payload=b"hello").ethernet(), comment="look")
    fields = ["-T", "fields", "-e", "frame.time_epoch", "-e", "tcp.payload", "-e", "frame.comment"]
    done = subprocess.run(["tshark", "-r", path, *fields], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1700000000.000000001", b"hello".hex(), "look"]
