from hypothesis import given
from hypothesis import strategies as st

from toolkit.dissect.analysis import Transmission
from toolkit.dissect.analysis.messages import Outbox
from toolkit.dissect.analysis.rows import RowStore


def at(frame: int, stream: int = 0) -> Transmission:
    return Transmission(stream, frame, 1000 * frame)


def outbox(*seqs: int) -> Outbox:
    found = Outbox(RowStore())
    for frame, seq in enumerate(seqs):
        found.sent(seq, "ping", 0, 10, at(frame))
    return found


def test_message_resent_on_a_second_link_has_two_transmissions() -> None:
    box = outbox(1, 2, 3, 2, 3, 4)
    assert box.resent == [2, 3]
    assert [sent.frame for sent in box.messages[2].transmissions] == [1, 3]


def test_a_message_counts_once_for_its_type_and_for_the_frames_of_its_last_transmission() -> None:
    box = outbox(1, 2, 3, 2, 3, 4)
    box.sent(5, "osd_op", 0, 10, at(6))
    assert box.kinds() == {"ping": 4, "osd_op": 1}
    assert (box.count, box.resent_frames) == (5, [3, 4])


def test_missing_and_unacknowledged_seqs_are_reported() -> None:
    box = outbox(3, 4, 8)
    assert (box.gaps, box.missing) == ([range(5, 8)], 3)
    assert box.unacked == []  # nothing was ever acknowledged, so that says nothing
    box.acked(4, at(9), prompt=True)
    assert box.unacked == [8]


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(1, 30))
def test_first_frame_with_at_least_the_seq_acknowledges_it(acks: list[int], seq: int) -> None:
    box = outbox(seq)
    for frame, acked in enumerate(acks):
        box.acked(acked, at(frame), prompt=True)
    first = next((frame for frame, acked in enumerate(acks) if acked >= seq), None)
    ack = box.ack_of(seq)
    assert (ack and ack.frame) == first or (ack is None and first is None)
    assert box.acked_seq == max(acks, default=0)


def test_only_a_frame_that_is_sent_to_acknowledge_shows_when_a_message_was_received() -> None:
    box = outbox(1, 2, 3)
    box.acked(1, at(5), prompt=True)
    box.acked(2, at(6), prompt=False)
    box.acked(2, at(7), prompt=True)
    assert [box.receipt_of(seq) for seq in (1, 2, 3)] == [at(5), None, None]
