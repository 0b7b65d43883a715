"""Rows put in order."""

from toolkit.dissect.columns.gather import Gatherer
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import DecodedFrame, Verdict
from toolkit.dissect.stream import Stream

STREAM = Stream(7, "10.0.0.1:40000", "[::1]:6800", opening_seen=True)


def record(packet: int, offset: int, tag: str = "ACK", error: str | None = None) -> DecodedFrame:
    return DecodedFrame(
        frame=-1,
        time_ns=packet,
        packet=packet,
        stream=STREAM,
        direction=Direction.TO_CLIENT,
        protocol="v2.1",
        mode="crc",
        tag=tag,
        offset=offset,
        length=10,
        crc=Verdict.BAD if error else Verdict.OK,
        auth=Verdict.NONE,
        error=error,
    )


def messages(gatherer: Gatherer, *places: tuple[int, int]) -> None:
    """Rows of messages in these packets at these offsets."""
    rows = gatherer.rows(len(places), {"message": True, "tag": "MESSAGE", "error": None})
    rows["packet"], rows["offset"] = zip(*places, strict=True)


def offsets(gatherer: Gatherer) -> list[int]:
    batch = gatherer.batch(last=True)
    assert batch is not None
    return batch["offset"].to_pylist()


def test_gatherer_keeps_a_record_between_messages_of_one_packet() -> None:
    gatherer = Gatherer(1)
    with gatherer.run():
        gatherer.emit(record(3, 50))
        gatherer.emit(record(3, 150))
        messages(gatherer, (3, 0), (3, 100), (3, 200))
    gatherer.settle()
    assert offsets(gatherer) == [0, 50, 100, 150, 200]


def test_records_before_a_run_are_not_sorted_into_it() -> None:
    gatherer = Gatherer(1)
    gatherer.emit(record(3, 1000))  # of the other direction, say
    with gatherer.run():
        messages(gatherer, (3, 0))
    gatherer.emit(record(3, 500))
    gatherer.emit(record(3, 200))
    gatherer.settle()
    assert offsets(gatherer) == [1000, 0, 500, 200]


def test_between_two_settlings_rows_are_in_the_order_of_their_packets() -> None:
    gatherer = Gatherer(1)
    for packets in (3, 1), (2, 0):
        for packet in packets:
            with gatherer.run():
                messages(gatherer, (packet, packet))
        gatherer.settle()
    assert offsets(gatherer) == [1, 3, 0, 2]


def test_batches_have_the_requested_rows_and_continuous_frame_numbers() -> None:
    gatherer = Gatherer(3)
    sizes, frames = [], []
    for packet in range(7):
        gatherer.emit(record(packet, packet))
        gatherer.settle()
        if (batch := gatherer.batch(last=packet == 6)) is not None:
            sizes.append(len(batch))
            frames += batch["frame"].to_pylist()
    assert sizes == [3, 3, 1]
    assert frames == list(range(7))
    assert gatherer.batch(last=True) is None


def test_texts_are_distinguished_and_missing_ones_are_null() -> None:
    gatherer = Gatherer(1)
    gatherer.emit(record(1, 0, "ACK"))
    gatherer.emit(record(2, 10, "é\ud800", error="wrong"))
    gatherer.settle()
    batch = gatherer.batch()
    assert batch is not None
    batch.validate(full=True)
    assert batch["tag"].to_pylist() == ["ACK", "é\\ud800"]
    assert batch["error"].to_pylist() == [None, "wrong"]
    assert batch["name"].null_count == batch["seq"].null_count == 2
    assert (batch["src"][0].as_py(), batch["dst"][0].as_py()) == (STREAM.server, STREAM.client)
    assert (gatherer.totals.frames, gatherer.totals.bad) == (2, 1)


def test_gatherer_keeps_rows_beyond_its_initial_capacity() -> None:
    gatherer = Gatherer(1)
    for packet in range(5):
        gatherer.emit(record(packet, 10 * packet))
        with gatherer.run():
            messages(gatherer, (packet, 10 * packet + 5))
        gatherer.settle()
    assert offsets(gatherer) == list(range(0, 50, 5))
