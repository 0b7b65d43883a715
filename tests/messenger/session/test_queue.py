"""The queue of a session: priorities, replay, acknowledgement (docs/protocol.md §3.6; SQ-07 to SQ-10)."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.messages.message import PRIORITY_DEFAULT, PRIORITY_HIGH, PRIORITY_HIGHEST, PRIORITY_LOW, Message
from messenger.session.queue import OutQueue
from tests.support.node import numbered


def queue_of(*numbers: int) -> OutQueue:
    queue = OutQueue()
    for number in numbers:
        queue.push(numbered(number))
    return queue


def drain(queue: OutQueue) -> list[int]:
    return [message.tid for message in queue.popped()]


def write(queue: OutQueue, first_seq: int, count: int) -> None:
    """Put messages on the wire."""
    queue.sent.extend(enumerate(islice(queue.popped(), count), first_seq))


def test_messages_leave_in_the_order_they_came() -> None:
    assert drain(queue_of(1, 2, 3)) == [1, 2, 3]


def test_empty_queue_has_no_messages() -> None:
    queue = OutQueue()
    assert not queue
    assert len(queue) == 0
    assert drain(queue) == []


def test_higher_priorities_overtake_and_equal_ones_keep_their_order() -> None:
    queue = OutQueue()
    priorities = [PRIORITY_DEFAULT, PRIORITY_LOW, PRIORITY_HIGH, PRIORITY_DEFAULT, PRIORITY_HIGHEST, PRIORITY_LOW]
    for number, priority in enumerate(priorities, 1):
        queue.push(numbered(number, priority=priority))
    assert len(queue) == 6
    assert drain(queue) == [5, 3, 1, 4, 2, 6]


def test_message_whose_priority_is_no_number_any_more_does_not_stop_the_others() -> None:
    """A message may change between send() and the thread that writes it, which then drops it."""
    queue = queue_of(1)
    queue.push(numbered(2, priority=None))  # type: ignore[arg-type]
    queue.push(numbered(3, priority=PRIORITY_HIGH))
    assert drain(queue) == [3, 1, 2]


def test_requeued_messages_leave_before_newer_ones() -> None:
    queue = queue_of(1, 2, 3)
    write(queue, 1, 2)
    queue.push(numbered(9, priority=PRIORITY_HIGHEST))
    assert queue.requeue_sent() == 2
    assert drain(queue) == [1, 2, 9, 3]


def test_requeueing_twice_keeps_the_order() -> None:
    queue = queue_of(1, 2, 3, 4)
    write(queue, 1, 4)
    queue.requeue_sent()
    write(queue, 1, 2)
    queue.requeue_sent()
    assert [seq for seq, _ in queue.requeued] == [1, 2, 3, 4]
    assert drain(queue) == [1, 2, 3, 4]


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_peer_that_lost_acknowledged_messages_gets_the_rest_without_a_gap(lost: int) -> None:
    queue = queue_of(1, 2, 3, 4)
    write(queue, 1, 4)
    queue.acknowledge(lost)
    queue.requeue_sent()
    queue.discard_requeued_up_to(0)
    assert [seq for seq, _ in queue.requeued] == list(range(1, 5 - lost))


@pytest.mark.parametrize(("ack", "left"), [(0, [1, 2, 3]), (1, [2, 3]), (3, []), (1000, [])])
def test_acknowledged_messages_are_forgotten(ack: int, left: list[int]) -> None:
    queue = queue_of(1, 2, 3)
    write(queue, 1, 3)
    queue.acknowledge(ack)
    assert [message.tid for _, message in queue.sent] == left


@pytest.mark.parametrize(
    ("seq", "left"),
    [(0, [(1, 5), (2, 6), (3, 7)]), (4, [(5, 5), (6, 6), (7, 7)]), (5, [(6, 6), (7, 7)]), (7, []), (99, [])],
)
def test_messages_that_the_peer_has_are_not_replayed(seq: int, left: list[tuple[int, int]]) -> None:
    """Messages 5 to 7 were on the wire, 9 was not. A peer that has less than it acknowledged gets no gap."""
    queue = queue_of(5, 6, 7, 9)
    write(queue, 5, 3)
    assert queue.requeue_sent() == 3
    queue.discard_requeued_up_to(seq)
    assert [(number, message.tid) for number, message in queue.requeued] == left
    assert drain(queue) == [*(tid for _, tid in left), 9]


def test_unsent_messages_are_kept_for_any_seq_of_the_peer() -> None:
    queue = queue_of(1)
    queue.discard_requeued_up_to(1000)
    assert drain(queue) == [1]


def test_clearing_counts_everything() -> None:
    queue = queue_of(1, 2, 3, 4, 5)
    write(queue, 1, 2)
    queue.requeue_sent()
    write(queue, 1, 1)
    assert queue.clear() == 5
    assert not queue
    assert not queue.sent
    assert queue.clear() == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), max_size=30))
def test_any_history_delivers_each_message_once_and_in_order(steps: list[tuple[int, int]]) -> None:
    """A model peer that takes what is written, with acks, cuts and reconnects at any time."""
    queue, out_seq, in_seq, pushed = OutQueue(), 0, 0, 0
    received: list[int] = []

    def reconnect(seen: int) -> None:
        nonlocal out_seq
        queue.requeue_sent()
        queue.discard_requeued_up_to(seen)
        out_seq = seen

    def take(message: Message) -> None:
        nonlocal out_seq
        out_seq += 1
        queue.sent.append((out_seq, message))

    for kind, number in [*steps, (3, 0), (1, 1000)]:
        if kind == 0:
            pushed += 1
            queue.push(numbered(pushed))
        elif kind == 1:
            for message in islice(queue.popped(), number):
                take(message)
                in_seq = out_seq
                received.append(message.tid)
        elif kind == 2:
            queue.acknowledge(min(number, in_seq))
        else:
            for message in islice(queue.popped(), number):
                take(message)  # and lost on the way
            reconnect(in_seq)
    assert received == list(range(1, pushed + 1))
    assert out_seq == in_seq == pushed
