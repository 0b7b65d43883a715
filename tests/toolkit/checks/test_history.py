"""The history format: fixed bytes, round trips, errors that name the line."""

import json
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.errors import LocalError
from tests.support.refusals import read_or_refused
from toolkit.checks.history import History
from toolkit.checks.records import KINDS, Record, dump_record, parse_record

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def value_of(field):
    """A strategy for one field's values."""
    if field.choices:
        return st.sampled_from(sorted(field.choices))
    kinds = {
        int: st.integers(0, 2**64 - 1),
        float: st.floats(0, 1e6),
        str: st.text(),
        dict: st.dictionaries(st.text(), JSON, max_size=3),
        list: st.lists(JSON, max_size=3),
    }
    return st.one_of([kinds.get(kind, st.none()) for kind in field.types])


@st.composite
def records(draw):
    kind = draw(st.sampled_from(sorted(KINDS)))
    fields = {name: draw(value_of(field)) for name, field in KINDS[kind].items()}
    return Record(draw(st.integers(0, 10**9)) / 1000, draw(st.text(max_size=5)), kind, fields)


def sample():
    history = History()
    history.append(0.1 + 0.2, "scenario", "step", args="a b", verb="connect")
    history.append(0.5, "b", "event", detail="", event="accept", peer="a", session=1)
    history.append(0.7, "a", "event", detail="", event="connect", peer="b", session=1)
    history.append(0.9, "a", "deliver", size=5, digest="ab", seq=1, tid=9, peer="b", session=1)
    return history


@given(st.lists(records(), max_size=5))
def test_dump_and_parse_preserve_the_records(written):
    history = History(written)
    again = History.parse(history.dump())
    assert again.records == history.records
    assert again.dump() == history.dump()


def test_dump_writes_the_keys_in_the_order_of_the_format():
    """Whatever order a writer uses, equal runs give equal bytes; times have no noise of binary fractions."""
    assert sample().dump().splitlines()[0] == (
        '{"time": 0.3, "node": "scenario", "kind": "step", "verb": "connect", "args": "a b"}'
    )
    unknown = Record(0, "a", "mark_down", {"zeta": 1, "peer": "b", "alpha": 2, "session": 1})
    assert list(json.loads(dump_record(unknown))) == [
        "time",
        "node",
        "kind",
        "session",
        "peer",
        "alpha",
        "zeta",
    ]


def test_peer_bytes_that_are_no_text_survive():
    text = b"\xff\xfe".decode("utf-8", "surrogateescape")
    history = History()
    history.append(0, "a", "step", verb="say", args=text)
    assert History.parse(history.dump())[0]["args"] == text


def test_save_and_load(tmp_path):
    path = tmp_path / "history.ndjson"
    sample().save(path)
    assert History.load(path).records == sample().records
    assert [file.name for file in tmp_path.iterdir()] == ["history.ndjson"]


def test_save_replaces_symbolic_links_without_following_them(tmp_path):
    path, victim = tmp_path / "history.ndjson", tmp_path / "victim"
    victim.write_text("mine")
    for link in (path, tmp_path / "history.ndjson.partial"):
        link.symlink_to(victim)
    sample().save(path)
    assert victim.read_text() == "mine"
    assert History.load(path).records == sample().records
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600


def test_a_sparse_file_is_no_history(tmp_path):
    path = tmp_path / "sparse"
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(LocalError, match="sparse:1: more than 1 MiB, the limit for a line of a history"):
        History.load(path)


def test_a_history_of_too_many_values_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("toolkit.checks.history._MOST_VALUES", 100)
    path = tmp_path / "wide"
    path.write_text(
        sample().dump() + json.dumps({"time": 1, "node": "a", "kind": "step", "args": [[]] * 99}) + "\n"
    )
    with pytest.raises(LocalError, match="wide:5: more than 100 values, the limit for a history"):
        History.load(path)


def test_append_refuses_unknown_kinds_and_missing_fields():
    history = History()
    with pytest.raises(LocalError, match="unknown kind 'dream'"):
        history.append(0, "a", "dream")
    with pytest.raises(LocalError, match="mark_down record of a without peer"):
        history.append(0, "a", "mark_down", session=1)


def test_values_that_are_not_json():
    history = History()
    history.append(0, "a", "step", verb="x", args=b"bytes")
    with pytest.raises(LocalError, match=r"step record of a: .*bytes"):
        history.dump()


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "a record is a JSON object, this is list"),
        ('{"time": "now", "node": "a", "kind": "step"}', "time is 'now'"),
        ('{"time": NaN, "node": "a", "kind": "step"}', "not JSON: NaN is not a number of JSON"),
        ('{"time": 1, "deep": {"in": [-Infinity]}}', "not JSON: -Infinity is not a number of JSON"),
        ('{"time": 1, "deep": {"in": [1e999]}}', "not JSON: 1e999 is not a number of JSON"),
        ('{"time": 1, "deep": %s}' % ("[" * 200 + "]" * 200), "nested more than 100 deep"),
        ('{"time": 1%s, "node": "a", "kind": "step"}' % ("0" * 400), "time is 1000"),
        ('{"time": true, "node": "a", "kind": "step"}', "time is True"),
        ('{"time": 1, "node": 3, "kind": "step"}', "texts node and kind"),
        ('{"time": 1, "node": "a", "kind": "dream"}', "unknown kind 'dream'; known: link, frame"),
        ('{"time": 1, "node": "a", "kind": "step", "verb": "x"}', "step record without args"),
        (
            '{"time": 1, "node": "a", "kind": "mark_down", "session": "1", "peer": "b"}',
            "mark_down record: session is '1', must be a whole number",
        ),
        (
            '{"time": 1, "node": "a", "kind": "mark_down", "session": true, "peer": "b"}',
            "session is True, must be a whole number",
        ),
        (
            '{"time": 1, "node": "a", "kind": "process", "action": "nap", "incarnation": 1}',
            "action is 'nap', must be one of exit, freeze, kill, start, stop, thaw",
        ),
    ],
)
def test_bad_lines_are_named(tmp_path, line, complaint):
    path = tmp_path / "bad.ndjson"
    path.write_text(sample().dump() + line + "\n")
    with pytest.raises(LocalError) as caught:
        History.load(path)
    assert str(caught.value).startswith(f"{path}:5: ")
    assert complaint in str(caught.value)


def test_missing_file_and_wrong_bytes(tmp_path):
    with pytest.raises(LocalError, match=r"none\.ndjson"):
        History.load(tmp_path / "none.ndjson")
    (tmp_path / "bytes").write_bytes(b"\xff\n")
    with pytest.raises(LocalError, match="bytes:1: not a history: byte 0xff"):
        History.load(tmp_path / "bytes")


def test_torn_last_line_of_a_killed_process():
    text = sample().dump()
    for cut in range(len(text)):
        assert History.parse(text[:cut]).dump() in text
    whole = text.removesuffix("\n")
    assert len(History.parse(whole)) == 4


@given(st.text())
def test_any_text_is_a_history_or_an_error(text):
    for read in (History.parse, parse_record):
        found = read_or_refused(lambda read=read: read(text), LocalError)
        assert found is None or isinstance(found, History | Record)


def test_merge_is_by_time_and_stable():
    a, b = History(), History()
    for tid in (1, 2, 3):
        a.append(tid, "a", "mark_down", session=tid, peer="b")
        b.append(tid, "b", "mark_down", session=tid, peer="a")
    b.append(2.5, "b", "mark_down", session=9, peer="a")
    merged = History.merge([a, b])
    assert [(record.node, record["session"]) for record in merged] == [
        ("a", 1),
        ("b", 1),
        ("a", 2),
        ("b", 2),
        ("a", 3),
        ("b", 3),
        ("b", 9),
    ]


def test_parts_of_a_history():
    history = sample()
    assert history.nodes == ["b", "a"]
    assert [record.kind for record in history.node("a")] == ["event", "deliver"]
    assert len(history.of("event", "step")) == 3
    assert history.duration_s == pytest.approx(0.6)
    assert History().duration_s == 0
    assert repr(history) == "<History 4 records of b, a, 0.6 s>"


def test_table_has_the_columns_of_the_format():
    table = sample().table()
    assert list(table.columns) == [
        *["time", "node", "kind", "session", "peer", "event", "detail", "tid", "seq", "digest", "size"],
        *["verb", "args"],
    ]
    assert list(sample().of("deliver").table()["tid"]) == [9]
    odd = History([Record(0, "a", "mark_down", {"zeta": 1, "peer": "b", "session": 1})])
    assert list(odd.table().columns) == ["time", "node", "kind", "session", "peer", "zeta"]
    assert list(History().table().columns) == ["time", "node", "kind"]


def test_notebook_table_escapes_and_stays_short():
    history = sample()
    history.append(1, "<b>", "step", verb="<script>", args="&")
    page = history._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "session 1 from b: tid 9, seq 1, 5 bytes" in page
    many = History(sample().records * 100)
    assert "and 200 more records" in many._repr_html_()
