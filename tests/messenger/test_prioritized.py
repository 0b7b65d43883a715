"""The weighted priority queue, against a model written from its description."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.prioritized import STRICT_PRIORITY, PrioritizedQueue


def queue(max_tokens: int = 1000, min_cost: int = 1) -> PrioritizedQueue[str]:
    return PrioritizedQueue(max_tokens, min_cost)


def drained(waiting: PrioritizedQueue[str]) -> list[str]:
    items = []
    while waiting:
        items.append(waiting.pop())
    return items


def test_strict_priorities_come_highest_first() -> None:
    waiting = queue()
    for priority in 64, 255, 127, 63, 196:
        waiting.push("a", priority, 1, str(priority))
    assert len(waiting) == 5
    assert drained(waiting) == ["255", "196", "127", "64", "63"]


def test_connections_take_turns_within_a_priority() -> None:
    waiting = queue()
    for item in ["a1", "a2", "a3", "b1", "b2", "c1"]:
        waiting.push(item[0], 127, 1, item)
    assert drained(waiting) == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_low_priorities_are_not_starved_by_higher_ones() -> None:
    """30 spends; every message taken gives 10 its part, until that pays for its own."""
    waiting = queue()
    for number in range(10):
        waiting.push("a", 30, 100, f"high {number}")
    waiting.push("a", 10, 50, "low")
    order = drained(waiting)
    # 10 gets 100 * 10 // 40 + 1 = 26 for each of the first, and needs more than 50
    assert order.index("low") == 2


def test_unused_tokens_do_not_exceed_the_limit() -> None:
    waiting = queue(max_tokens=40)
    waiting.push("a", 10, 1000, "dear")  # costs 40, and has never more than 40
    for number in range(5):
        waiting.push("a", 30, 100, str(number))
    assert drained(waiting)[-1] == "dear"


def test_a_class_is_taken_out_in_its_order() -> None:
    waiting = queue()
    for priority, item in (127, "1"), (20, "4"), (196, "0"), (127, "2"), (30, "3"):
        waiting.push("a", priority, 1, item)
        waiting.push("b", priority, 1, "other")
    assert waiting.pop_class("a") == ["0", "1", "2", "3", "4"]
    assert waiting.pop_class("a") == []
    assert drained(waiting) == ["other"] * 5


def test_pop_of_an_empty_queue_raises_index_error() -> None:
    with pytest.raises(IndexError, match="empty PrioritizedQueue"):
        queue().pop()


class Model:
    """The rules, plainly: lists, and a token count per priority."""

    def __init__(self, max_tokens: int, min_cost: int) -> None:
        self.limits = max_tokens, min_cost
        self.items: list[tuple[int, str, int, int]] = []  # priority, class, cost, number
        self.tokens: dict[int, int] = {}
        self.turns: dict[int, list[str]] = {}

    def push(self, class_: str, priority: int, cost: int, number: int) -> None:
        highest, lowest = self.limits
        self.items.append((priority, class_, min(max(cost, lowest), highest), number))
        self.tokens.setdefault(priority, 0)
        turns = self.turns.setdefault(priority, [])
        if class_ not in turns:
            turns.append(class_)

    def front(self, priority: int) -> tuple[int, str, int, int]:
        class_ = self.turns[priority][0]
        return next(item for item in self.items if item[0] == priority and item[1] == class_)

    def pop(self) -> int:
        strict = [priority for priority in self.tokens if priority >= STRICT_PRIORITY]
        if strict:
            return self.take(max(strict))[3]
        paying = [priority for priority in self.tokens if self.front(priority)[2] < self.tokens[priority]]
        priority = min(paying) if paying else max(self.tokens)
        cost = self.front(priority)[2]
        self.tokens[priority] -= cost * bool(paying)
        number = self.take(priority)[3]
        for other in self.tokens:
            self.tokens[other] += other * cost // sum(self.tokens) + 1 if sum(self.tokens) else 0
            self.tokens[other] = min(self.tokens[other], self.limits[0])
        return number

    def take(self, priority: int) -> tuple[int, str, int, int]:
        item = self.front(priority)
        self.items.remove(item)
        class_ = self.turns[priority].pop(0)
        if any(other[:2] == (priority, class_) for other in self.items):
            self.turns[priority].append(class_)
        if not self.turns[priority]:
            del self.turns[priority], self.tokens[priority]
        return item


PUSH = st.tuples(st.sampled_from("abc"), st.sampled_from([0, 5, 10, 40, 63, 64, 127, 255]), st.integers(0, 300))


@given(st.lists(st.one_of(PUSH, st.none()), max_size=60))
def test_any_mix_of_pushes_and_pops_follows_the_rules(steps: list[tuple[str, int, int] | None]) -> None:
    waiting: PrioritizedQueue[int] = PrioritizedQueue(500, 20)
    model = Model(500, 20)
    for number, step in enumerate(steps):
        if step is not None:
            waiting.push(*step, number)
            model.push(*step, number)
        elif waiting:
            assert waiting.pop() == model.pop()
        assert len(waiting) == len(model.items)
    while waiting:
        assert waiting.pop() == model.pop()
