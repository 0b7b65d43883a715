"""The harness catches what it is there for: each promise, broken by a parser that breaks just that one."""

import itertools
import tracemalloc
from collections.abc import Iterator
from random import Random

import pytest

from messenger.denc.codec import Decoder
from messenger.errors import DecodeError
from tests.fuzz import corpus, minimise
from tests.fuzz.mutate import changed
from tests.fuzz.registry import all_targets
from tests.fuzz.target import (
    BrokenPromise,
    Cursor,
    Cut,
    Target,
    require_same,
    require_stable,
    run_checked,
    same_for_every_cut,
)


def target_of(run, **options: object) -> Target:
    return Target(name="sample", run=run, seeds=lambda: [b""], **options)


@pytest.fixture
def _traced_memory() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


# ---- promises


@pytest.mark.usefixtures("_traced_memory")
def test_memory_for_a_length_that_was_not_checked() -> None:
    def believes(data: bytes) -> None:
        bytearray(int.from_bytes(data, "little"))

    run_checked(target_of(believes), (1000).to_bytes(4, "little"))
    with pytest.raises(BrokenPromise, match=r"\d+ bytes of memory for 4 bytes"):
        run_checked(target_of(believes), (1 << 24).to_bytes(4, "little"))


@pytest.mark.usefixtures("_traced_memory")
def test_memory_of_unpacked_input_is_allowed() -> None:
    unpacked: list[int] = []

    def unpacks(data: bytes) -> int:
        unpacked.append(len(data * 1_000_000))
        return unpacked[-1]

    run_checked(target_of(unpacks), b"x")
    assert unpacked == [1_000_000]


def test_results_that_depend_on_the_cut() -> None:
    def first_piece(cut: Cut) -> int:
        return len(cut(b"\x02abc")[0])

    with pytest.raises(BrokenPromise, match="cut cut_by_content, and whole"):
        same_for_every_cut(first_piece)
    assert same_for_every_cut(lambda cut: b"".join(cut(bytes(100)))) == bytes(100)


def test_every_cut_delivers_every_byte() -> None:
    raw = Random(1).randbytes(5000)
    sizes: list[int] = []
    same_for_every_cut(lambda cut: sizes.append(len(cut(raw))) or b"".join(cut(raw)))
    assert sizes[0] == 1
    assert all(size > 10 for size in sizes[1:])


def test_values_that_change_on_the_wire() -> None:
    count = itertools.count()
    with pytest.raises(BrokenPromise, match="the encoding, and that of what it decodes to"):
        require_stable(0, lambda value: bytes([value]), lambda _raw: next(count) + 1, lossy=False)
    with pytest.raises(BrokenPromise, match="what came back, and what was encoded"):
        require_stable(0x1FF, lambda value: bytes([value & 0xFF]), lambda raw: raw[0], lossy=False)
    # What an encoding cannot carry is gone from the first time on.
    require_stable(0x1FF, lambda value: bytes([value & 0xFF]), lambda raw: raw[0], lossy=True)


def test_nan_is_the_same_as_nan() -> None:
    require_same("both", float("nan"), float("nan"))
    with pytest.raises(BrokenPromise):
        require_same("both", float("nan"), 1.0)


def test_a_real_decoder_that_forgets_its_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """The corpus of the codec finds it."""

    def take(self: Decoder, size: int, _what: str) -> int:
        self._offset += size
        return self._offset - size

    target = all_targets()["codec"]
    monkeypatch.setattr(Decoder, "_take", take)
    with pytest.raises(Exception, match=r"."):
        any(map(target.run, corpus.inputs(target)))


# ---- the tools around


def test_cursor_returns_empty_values_at_the_end_of_its_input() -> None:
    cursor = Cursor(b"\x02abc\x09")
    assert (cursor.counted(), cursor.number(), bool(cursor)) == (b"ab", ord("c"), True)
    assert (cursor.counted(), cursor.number(4), cursor.rest(), bool(cursor)) == (b"", 0, b"", False)


def test_changes_are_the_same_every_time() -> None:
    inputs = [b"", b"first", b"second one"]
    once, twice = (list(changed(inputs, 200, Random(3))) for _ in range(2))
    assert once == twice
    assert len(once) == 200
    assert len({len(data) for data in once}) > 5
    assert list(changed([b""], 5, Random(3))) == []


def test_minimising_keeps_inputs_with_new_behaviour() -> None:
    target = all_targets()["v2-banner"]
    full, cut = b"ceph v2\n\x10\x00" + bytes(16), b"ceph v2\n\x10\x00"
    kept = minimise.minimised(target, [cut, full, full + b"more", full[:15]])
    assert full in kept
    assert len(kept) < 4
    assert kept == sorted(kept, key=len)


def test_minimising_keeps_each_kind_of_input() -> None:
    target = all_targets()["structures-v2"]
    inputs = [b"Ack:" + bytes(8), b"SessionRetry:" + bytes(8)]
    assert minimise.minimised(target, inputs) == inputs


def test_corpus_loads_the_inputs_that_were_saved(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "FOLDER", tmp_path)
    corpus.save("sample", [b"\xff" * 40, b"", b"a", b"a"])
    assert corpus.load("sample") == [b"", b"a", b"\xff" * 40]
    corpus.save("sample", (bytes([n]) * 1000 for n in range(100)))
    assert corpus.path_of("sample").stat().st_size < 25 * 1024
    assert corpus.load("unknown") == []


def test_errors_of_a_parser_are_not_swallowed() -> None:
    target = all_targets()["structures-denc"]
    target.run(b"UTime:\1")  # refused by the documented error
    with pytest.raises(DecodeError):
        target_of(lambda data: Decoder(data).u32()).run(b"\1")
