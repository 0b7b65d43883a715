"""Tables of numbers that are written to a file while they grow."""

from bisect import bisect_left
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.errors import LocalError
from toolkit.dissect.analysis import rows as rows_module
from toolkit.dissect.analysis import spool
from toolkit.dissect.analysis.rows import RowStore, Table, signed, unsigned
from toolkit.dissect.analysis.volume import Volume

NUMBERS = st.integers(0, (1 << 64) - 1)


def small_tables(*widths: int) -> list[Table]:
    """Tables of one store, with blocks of a few rows."""
    store = RowStore()
    tables = [store.table(width) for width in widths]
    store.block_numbers = 7
    return tables


@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=40), st.lists(st.tuples(NUMBERS), max_size=40))
def test_tables_of_one_store_return_their_own_rows(
    threes: list[tuple[int, ...]], ones: list[tuple[int, ...]]
) -> None:
    wide, narrow = small_tables(3, 1)
    for place in range(40):
        for table, rows in ((wide, threes), (narrow, ones)):
            if place < len(rows):
                table.add(rows[place])
    assert (list(wide), list(narrow)) == (threes, ones)
    assert (len(wide), len(narrow)) == (len(threes), len(ones))
    assert wide.column(1).tolist() == [row[1] for row in threes]


@given(st.lists(st.integers(0, 60), max_size=60), st.integers(0, 61))
def test_the_first_row_of_at_least_a_value_is_found(numbers: list[int], value: int) -> None:
    (table,) = small_tables(2)
    ascending = [(number, place) for place, number in enumerate(sorted(numbers))]
    for row in ascending:
        table.add(row)
    place = bisect_left(ascending, (value,))
    assert table.at_least(value) == (ascending[place] if place < len(ascending) else None)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_signed_numbers_come_back(number: int) -> None:
    assert signed(unsigned(number)) == number


def test_the_more_tables_the_fewer_numbers_wait_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "_MOST_NUMBERS", 20_000)
    store = RowStore()
    tables = [store.table(1) for _ in range(100)]
    for number in range(1000):
        for table in tables:
            table.add((number,))
    assert sum(len(table._last) for table in tables) <= 20_000
    assert all(list(table) == [(number,) for number in range(1000)] for table in tables)


def test_a_missing_folder_for_the_file_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_MOST_BYTES_IN_MEMORY", 100)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    (table,) = small_tables(1)
    for number in range(13):  # the second block no longer fits into memory
        table.add((number,))
    with pytest.raises(LocalError, match=r"the temporary file for frames in .*gone: No such file or directory"):
        table.add((13,))


def test_a_volume_counts_packets_and_returns_times_before_1970() -> None:
    volume = Volume(RowStore())
    frames = [(-5, 10, 3), (-4, 20, 3), (7, 30, 4), (8, 40, 9), (9, 50, 9), (10, 60, 9)]
    for time_ns, length, packet in frames:
        volume.add(time_ns, length, packet)
    assert list(volume) == [(time_ns, length) for time_ns, length, _ in frames]
    assert (len(volume), volume.packets, volume.most_per_packet) == (6, 3, 3)
