"""Columns and records of one capture are the same, row for row, whatever has happened to the capture."""

from functools import partial
from io import BytesIO
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.toolkit.dissect.columns.conftest import MESSAGES, Recorded
from toolkit.capture.formats import LinkType, PcapngWriter, open_capture
from toolkit.dissect.columns import SCHEMA, ColumnDecoder
from toolkit.dissect.decode import CaptureDecoder
from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.keys import KeyBook

HEADERS = 54
WINDOW = 1 << 22
Packets = list[tuple[int, bytes]]
NOT_OF_MESSAGES = {"frame", "time", "stream", "src", "dst", "protocol", "mode", "tag", "offset", "length", "crc"}
NOT_OF_MESSAGES |= {"auth", "error"}


def row_of(frame: DecodedFrame) -> dict[str, Any]:
    """A record as a row of the table."""
    record = {**frame.as_json(), "time": frame.time_ns}
    message = frame.message._asdict() if frame.message else {}
    message["message_src"] = message.pop("src", None)
    return {name: record[name] if name in NOT_OF_MESSAGES else message.get(name) for name in SCHEMA.names}


def rows_of(capture: bytes, keys: KeyBook, window_bytes: int) -> tuple[list[dict[str, Any]], ColumnDecoder]:
    """Those of the columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "toolkit.dissect.columns.table.open_capture", partial(open_capture, window_bytes=window_bytes)
        )
        decoder = ColumnDecoder(BytesIO(capture), keys, batch_rows=50)
        batches = list(decoder)
    rows = [
        row for batch in batches for row in batch.set_column(1, "time", batch["time"].cast("int64")).to_pylist()
    ]
    assert all(len(batch) >= 50 for batch in batches[:-1])
    return rows, decoder


def records_of(capture: bytes, keys: KeyBook, window_bytes: int) -> tuple[list[dict[str, Any]], CaptureDecoder]:
    """Those of the records."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("toolkit.dissect.decode.open_capture", partial(open_capture, window_bytes=window_bytes))
        decoder = CaptureDecoder(BytesIO(capture), keys)
        return [row_of(frame) for frame in decoder], decoder


def assert_agree(capture: bytes, recorded: Recorded, window_bytes: int) -> list[dict[str, Any]]:
    """Check that both decoders agree, also in their notes on the whole capture."""
    rows, columns = rows_of(capture, recorded.keys(), window_bytes)
    records, decoder = records_of(capture, recorded.keys(), window_bytes)
    assert rows == records
    assert columns.problem == decoder.problem
    assert vars(columns.totals) == vars(decoder.decoder.totals)
    return rows


def packets_of(capture: bytes) -> Packets:
    """Times and bytes of all packets."""
    with open_capture(BytesIO(capture)) as reader:
        return [(time_ns, bytes(packet)) for batch in reader for _, time_ns, _, packet in batch.packets()]


def written(packets: Packets) -> bytes:
    """A capture of these packets."""
    file = BytesIO()
    with PcapngWriter(file) as writer:
        writer.interface("sim", LinkType.ETHERNET)
        for time_ns, packet in packets:
            writer.packet(time_ns, packet)
    return file.getvalue()


def damaged(packets: Packets, rng: Random) -> Packets:
    """Some packets lost, doubled, late, or with a wrong byte."""
    changed = list(packets)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(changed))
        time_ns, packet = changed[at]
        match rng.randrange(6):
            case 0:
                del changed[at]
            case 1:
                changed.insert(at, changed[at])
            case 2:
                changed.insert(min(at + rng.randrange(1, 8), len(changed) - 1), changed.pop(at))
            case 3:
                del changed[:at]
            case _ if len(packet) > HEADERS:
                place = rng.randrange(HEADERS, len(packet))
                wrong = bytes([packet[place] ^ 1 << rng.randrange(8)])
                changed[at] = time_ns, packet[:place] + wrong + packet[place + 1 :]
        if not changed:
            return packets[:1]
    return changed


@pytest.mark.parametrize("window_bytes", [WINDOW, 1 << 16, 5000])
def test_a_capture_in_order(recorded: Recorded, window_bytes: int) -> None:
    rows = assert_agree(recorded.path.read_bytes(), recorded, window_bytes)
    messages = [row for row in rows if row["seq"] is not None]
    assert len({(row["src"], row["seq"]) for row in messages}) >= MESSAGES // 2
    assert [row["frame"] for row in rows] == list(range(len(rows)))


def test_without_keys(recorded: Recorded) -> None:
    capture = recorded.path.read_bytes()
    rows, _ = rows_of(capture, KeyBook(), WINDOW)
    assert rows == records_of(capture, KeyBook(), WINDOW)[0]


@settings(max_examples=20)
@given(st.integers(0, 1 << 32), st.sampled_from([WINDOW, 1 << 18, 20_000]))
def test_a_damaged_capture(recorded: Recorded, seed: int, window_bytes: int) -> None:
    capture = written(damaged(packets_of(recorded.path.read_bytes()), Random(seed)))
    assert_agree(capture, recorded, window_bytes)


@settings(max_examples=10)
@given(st.integers(0, 1 << 20))
def test_a_capture_that_ends_early(recorded: Recorded, size: int) -> None:
    capture = recorded.path.read_bytes()
    assert_agree(capture[: max(100, size % len(capture))], recorded, WINDOW)
