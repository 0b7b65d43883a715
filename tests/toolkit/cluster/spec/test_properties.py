"""Whatever text comes, there is a cluster or a clear error; a cluster survives being written down."""

import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from messenger.errors import LocalError
from toolkit.cluster.spec import ClusterSpec, parse_spec, read_spec, ready_made
from toolkit.cluster.spec.model import LinkSpec, Node

READY = [path.read_text() for path in ready_made().values()]
LINE = re.compile(r"f\.yaml:[1-9][0-9]*: .+")
PIECES = [
    "nodes:",
    "a",
    " ",
    "\n",
    "\n  ",
    "{",
    "}",
    "[",
    "]",
    ": ",
    ", ",
    "- ",
    "entity: osd.1",
    "&x ",
    "*x",
    "!t ",
    "'",
]
PIECES += [
    '"',
    "|",
    "%",
    "---",
    "#",
    "\t",
    "count: 3",
    "links",
    "from: a",
    "to: b",
    "<<",
    "~",
    ".nan",
    "\ud800",
    "\0",
]

unhurried = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def check(text: str) -> None:
    """It is a spec that can be written down, or an error with ten lines at most, each with its place."""
    try:
        spec = parse_spec(text, "f.yaml")
    except LocalError as error:
        lines = str(error).split("\n")
        assert len(lines) <= 10
        assert all(LINE.fullmatch(line) and line.isprintable() for line in lines), lines
        assert all(int(line.split(":")[1]) <= text.count("\n") + text.count("\r") + 2 for line in lines)
    else:
        assert written_and_read(spec) == spec


def written_and_read(spec: ClusterSpec) -> ClusterSpec:
    return ClusterSpec.model_validate_json(json.dumps(spec.as_json()), strict=True)


@unhurried
@given(st.text(max_size=200) | st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_any_text_is_a_spec_or_an_error_with_its_lines(text: str) -> None:
    check(text)


@unhurried
@given(st.sampled_from(READY), st.data())
def test_mutated_spec_is_a_spec_or_an_error_with_its_lines(text: str, data: st.DataObject) -> None:
    lines = text.splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines) - 1))
    how = data.draw(st.sampled_from(["drop", "twice", "cut", "put"]))
    column = data.draw(st.integers(0, len(lines[at])))
    if how == "drop":
        del lines[at]
    elif how == "twice":
        lines.insert(at, lines[at])
    elif how == "cut":
        lines[at] = lines[at][:column] + lines[at][column + 1 :]
    else:
        lines[at] = lines[at][:column] + data.draw(st.sampled_from(PIECES)) + lines[at][column:]
    check("".join(lines))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@unhurried
@given(st.sampled_from(READY), st.data())
def test_spec_with_any_value_at_any_place_is_a_spec_or_an_error(text: str, data: st.DataObject) -> None:
    values = parse_spec(text, "f.yaml").as_json()
    inside: Any = values
    while True:
        keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(inside[key], dict | list) or not inside[key] or data.draw(st.booleans()):
            break
        inside = inside[key]
    inside[key] = data.draw(JSON)
    check(json.dumps(values, ensure_ascii=False))


@pytest.mark.parametrize("name", ready_made())
def test_a_ready_made_spec_survives_being_written_down(name: str) -> None:
    spec = read_spec(name)
    again = written_and_read(spec)
    assert again == spec
    assert again.as_json() == spec.as_json()
    assert {node: again.speech_of(node) for node in again.nodes} == {
        node: spec.speech_of(node) for node in spec.nodes
    }


NODES = st.builds(
    Node,
    entity=st.integers(0, 10**6).map("osd.{}".format),
    policy=st.sampled_from(["lossless_peer", "lossy_client client=stateless_server"]),
    listens=st.booleans(),
    workers=st.integers(0, 64),
    count=st.integers(1, 4),
    options=st.fixed_dictionaries({}, optional={"ms_max_backoff": st.floats(0, 10), "ms_crc_data": st.booleans()}),
)
STATES = st.fixed_dictionaries(
    {}, optional={"delay_ms": st.floats(0, 100), "rate_bits_per_s": st.integers(8, 10**9)}
)


@unhurried
@given(a=NODES, b=NODES, state=STATES, both_ways=st.booleans())
def test_a_spec_made_by_a_program_survives_being_written_down(
    a: Node, b: Node, state: dict[str, Any], *, both_ways: bool
) -> None:
    b = b.model_copy(update={"entity": b.entity.replace("osd", "mds")})
    link = LinkSpec(sender="a", receiver="b", both_ways=both_ways, **state)
    spec = ClusterSpec(name="x", nodes={"a": a, "b": b}, links=(link,))
    assert len(spec.nodes) == a.count + b.count
    assert len(spec.links) == a.count * b.count
    assert written_and_read(spec) == spec
