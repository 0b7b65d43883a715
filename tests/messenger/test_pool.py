"""Buffers that are reused, but never while a view of them exists."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.pool import POOL_BYTES, BufferPool

KIB = 1024
MIB = 1024 * KIB


def marked(pool: BufferPool, size_bytes: int, mark: bytes) -> memoryview:
    view = pool.take(size_bytes)
    view[: len(mark)] = mark
    return view


def was_used(pool: BufferPool, size_bytes: int, mark: bytes) -> bool:
    """True if the next buffer is one that was marked."""
    return pool.take(size_bytes)[: len(mark)] == mark


@pytest.mark.parametrize("size_bytes", [1, 4096, 65_626, MIB, 4 * MIB + 100, 20 * MIB])
def test_a_view_is_as_long_as_was_asked_and_writable(size_bytes: int) -> None:
    view = BufferPool().take(size_bytes)
    assert len(view) == size_bytes
    view[-1] = 1


def test_released_buffer_is_used_again() -> None:
    pool = BufferPool()
    marked(pool, 65_626, b"first").release()
    assert was_used(pool, 66_000, b"first")


@pytest.mark.parametrize(
    "keep",
    [lambda view: view, lambda view: view[100:200], lambda view: view[5:6].cast("b"), lambda view: [view[:1]]],
    ids=["itself", "slice", "cast", "in a list"],
)
def test_a_buffer_with_any_view_left_is_not_used_again(keep: object) -> None:
    pool = BufferPool()
    kept = keep(marked(pool, 65_626, b"first"))  # type: ignore[operator]
    assert not was_used(pool, 65_626, b"first")
    del kept
    assert was_used(pool, 65_626, b"first")


def test_kept_buffer_does_not_prevent_the_reuse_of_others() -> None:
    pool = BufferPool()
    kept = marked(pool, 65_626, b"kept!")
    marked(pool, 65_626, b"other").release()
    assert sum(was_used(pool, 65_626, b"other") for _ in range(10)) > 1
    assert kept[:5] == b"kept!"


def test_pool_is_bounded_for_all_requested_sizes() -> None:
    pool = BufferPool()
    tracemalloc.start()
    try:
        for size_bytes in range(30 * KIB, 9 * MIB, 133 * KIB):
            pool.take(size_bytes)
        left_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left_bytes <= POOL_BYTES + MIB


@given(st.lists(st.tuples(st.sampled_from([30 * KIB, 31 * KIB, 70 * KIB, MIB]), st.integers(0, 5)), max_size=60))
def test_kept_buffers_are_not_overwritten(steps: list[tuple[int, int]]) -> None:
    """Each step takes a buffer and fills it, and drops one of those that are kept."""
    pool, kept = BufferPool(), {}
    for number, (size_bytes, dropped) in enumerate(steps):
        mark = number.to_bytes(4, "little")
        kept[number] = (mark, marked(pool, size_bytes, mark)[:4])
        kept.pop(number - dropped, None)
        assert all(view == content for content, view in kept.values())
