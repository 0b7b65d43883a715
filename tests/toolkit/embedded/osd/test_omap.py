"""The omap of an embedded object behaves as a plain dictionary that is sorted by the bytes of its keys."""

import time

from hypothesis import given
from hypothesis import strategies as st

from toolkit.embedded.osd.omap import CHUNK, OVERHEAD_BYTES, Omap, as_bytes, in_order

KEYS = st.text("ab\u00e9\udc80\uffff", max_size=3)
CHANGES = st.lists(st.tuples(st.dictionaries(KEYS, st.binary(max_size=2)), st.lists(KEYS)), max_size=4)


@given(changes=CHANGES, after=KEYS, prefix=KEYS, most=st.integers(0, 5))
def test_changes_and_pages_are_those_of_a_dictionary(
    changes: list[tuple[dict[str, bytes], list[str]]], after: str, prefix: str, most: int
) -> None:
    omap, known = Omap(), dict[str, bytes]()
    for values, removed in changes:
        before = (omap, dict(known))
        omap = omap.changed(values, removed)
        known = {key: value for key, value in {**known, **values}.items() if key not in removed}
        assert dict(before[0]) == before[1], "the omap before the change stays"
    assert list(omap.items()) == [(key, known[key]) for key in in_order(known)]
    assert len(omap) == len(known)
    assert omap.held_bytes == sum(len(key) + len(value) + OVERHEAD_BYTES for key, value in known.items())
    wanted = [key for key in omap if key.startswith(prefix) and as_bytes(key) > as_bytes(after)]
    assert omap.page(after, prefix, most) == (wanted[:most], len(wanted) > most)
    assert omap.between(after, prefix) == [
        key for key in omap if as_bytes(after) <= as_bytes(key) < as_bytes(prefix)
    ]


def test_many_keys_are_paged_and_changed_in_chunks() -> None:
    count = 20 * CHUNK
    omap = Omap({f"{number:06}": b"x" for number in range(0, 2 * count, 2)})
    for number in range(1, 6 * CHUNK, 2):  # in the middle of chunks, which are split
        omap = omap.changed({f"{number:06}": b"y"})
    found: list[str] = []
    more = True
    while more:
        keys, more = omap.page(found[-1] if found else "", "", 1000)
        found += keys
    assert found == sorted(found) == list(omap)
    assert len(found) == count + 3 * CHUNK
    kept = omap.changed({}, omap.between("000100", "009900"))
    assert list(kept) == [key for key in found if not "000100" <= key < "009900"]


def test_a_change_of_one_key_does_not_copy_all_others() -> None:
    small, large = Omap({str(key): b"" for key in range(1000)}), Omap({str(key): b"" for key in range(100_000)})

    def spent_s(omap: Omap) -> float:
        began_s = time.process_time()
        for number in range(200):
            omap = omap.changed({f"key{number}": b"value"})
        return time.process_time() - began_s

    spent_s(small)  # warm up
    assert spent_s(large) < 20 * max(spent_s(small), 0.005)
