"""Lines of JSON for decoded frames."""

import json

from hypothesis import given
from hypothesis import strategies as st

from toolkit.cli.frame_output import json_line

numbers = st.integers(-(1 << 70), 1 << 70) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters())  # with halves of surrogate pairs, as in names that are not UTF-8
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(texts, values, max_size=4))
def test_a_record_is_one_line_of_ascii_that_json_reads_back(record: dict[str, object]) -> None:
    line = json_line(record)
    assert line.isascii()
    assert (line.count("\n"), line[-1]) == (1, "\n")
    assert json.loads(line) == record


def test_numbers_that_json_lacks_are_null() -> None:
    assert json_line({"rate": float("nan"), "most": float("inf")}) == '{"rate":null,"most":null}\n'
