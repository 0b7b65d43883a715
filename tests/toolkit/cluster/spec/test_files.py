"""Specs from files: which files are found, and the errors for files that are no specs."""

import os
from pathlib import Path

import pytest

from messenger.errors import LocalError
from messenger.session.policy import POLICIES
from toolkit.cluster.spec import parse_spec, read_spec
from toolkit.cluster.spec.document import MAX_CHARS

SMALLEST = "nodes: {a: {entity: osd.1}, b: {entity: osd.2}}\n"


def error_lines(text: str) -> list[str]:
    with pytest.raises(LocalError) as caught:
        parse_spec(text, "f.yaml")
    return str(caught.value).splitlines()


def test_the_smallest_spec_is_named_after_its_file() -> None:
    spec = parse_spec(SMALLEST, "dir/My_Cluster 2.yaml")
    assert spec.name == "my-cluster-2"
    assert list(spec.messengers()) == ["a", "b"]
    assert parse_spec(f"name: other\n{SMALLEST}", "x.yaml").name == "other"


def test_a_ready_made_spec_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_spec("two-peers").name == "two-peers"


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + SMALLEST.encode())  # as some editors begin a file
    assert read_spec(path).name == "mine"
    assert read_spec(str(path)).name == "mine"


def test_ready_made_spec_takes_precedence_over_a_file_without_suffix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine").write_text(SMALLEST)
    Path("two-peers").write_text("nonsense")
    assert read_spec("mine").name == "mine"
    assert read_spec("two-peers").name == "two-peers"


def test_unknown_name_is_an_error_with_suggestions() -> None:
    with pytest.raises(LocalError, match=r"no cluster 'two-pears': .*; did you mean two-peers[?]$"):
        read_spec("two-pears")
    with pytest.raises(LocalError, match=r"ready-made: .*mesh, "):
        read_spec("qqq")


@pytest.mark.parametrize("name", ["gone.yaml", "./gone", "", ".", "..", "clusters/gone"])
def test_missing_file_is_one_error_line(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LocalError) as caught:
        read_spec(name)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_are_an_error_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(SMALLEST.encode() + b"about: \xff\n")
    with pytest.raises(LocalError, match=r"f\.yaml:2: not a cluster spec: byte 0xff is not text in UTF-8$"):
        read_spec(path)


def test_file_above_the_size_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sparse.yaml"
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(LocalError, match=r"sparse\.yaml: more than 800000 bytes, the limit for a cluster spec$"):
        read_spec(path)


@pytest.mark.parametrize(("name", "kind"), [("/dev/zero", "a device"), ("/", "a directory")])
def test_a_spec_is_a_file(name: str, kind: str) -> None:
    with pytest.raises(LocalError, match=f"^{name}: is {kind}, not a file$"):
        read_spec(name)


@pytest.mark.parametrize("digits", ["0x" + "f" * 5000, "0b" + "1" * 20_000, "0o" + "7" * 6000, str(1 << 128)])
def test_number_with_too_many_digits_is_an_error_with_its_line(digits: str) -> None:
    with pytest.raises(LocalError) as caught:
        parse_spec(f"{SMALLEST}records: {digits}\n", "f.yaml")
    line = str(caught.value)
    assert line.startswith(f"f.yaml:{SMALLEST.count(chr(10)) + 1}: records: ")
    assert line.endswith("is no number that can be used")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "f.yaml:1: nothing in it; the smallest spec is nodes: {a: {entity: osd.1}, b: {entity: osd.2}}"),
        ("# only this\n", "f.yaml:1: nothing in it"),
        ("\n- a\n- b\n", "f.yaml:2: a spec is a mapping"),
        ("just words", "f.yaml:1: a spec is a mapping"),
        ("nodes:\n  a: {entity: osd.1\n  b: 1\n", "f.yaml:3: not YAML: expected ',' or '}', but got ':'"),
        ("nodes:\n\ta: 1\n", "f.yaml:2: not YAML: found character '\\t'"),
        ("about: x\nname: 'x\n", "f.yaml:3: not YAML: found unexpected end of stream"),
        ("about: x\x00\n", "f.yaml:1: not YAML: it cannot have the character '\\x00'"),
        ("a: 1\n--- \nb: 1\n", "f.yaml:2: not YAML: but found another document"),
        ("nodes: !secret {}\n", "f.yaml:1: tags (!name) are not supported: !secret"),
        ("about: !!binary aGVsbG8=\n", "f.yaml:1: tags (!name) are not supported"),
        ("about: x\n<<: {a: 1}\n", "f.yaml:2: merge keys (<<) are not supported"),
        ("about: x\n? [a]\n: b\n", "f.yaml:2: a key must be a word"),
        ("nodes: &n\n  a: *n\n", "f.yaml:1: an alias (*name) to a value that contains it"),
        ('about: "\\ud800"\n', "f.yaml:1: half a surrogate pair is no character"),
        ("[" * 900, "f.yaml:1: nested too deeply"),
        ("a: " * 5000, "f.yaml:1: not YAML: mapping values are not allowed here"),
        ("[" * 100 + "]" * 100, "f.yaml:1: nested too deeply"),
        ("a" * (MAX_CHARS + 1), "f.yaml:1: "),
    ],
)
def test_invalid_spec_is_reported_in_one_line(text: str, line: str) -> None:
    (only,) = error_lines(text)
    assert only.startswith(line)


def test_aliases_that_explode_are_stopped_early() -> None:
    levels = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 12)]
    (only,) = error_lines("\n".join(levels))
    assert only.startswith("f.yaml:1: more than 50000 values, counting what aliases")


def test_small_aliases_are_read() -> None:
    spec = parse_spec(
        "nodes:\n  a: {entity: osd.1, options: &o {ms_max_backoff: 1.0}}\n  b: {entity: osd.2, options: *o}\n", "f"
    )
    assert spec.messengers()["b"].options == {"ms_max_backoff": 1.0}


def test_duplicate_key_is_an_error_with_both_lines() -> None:
    assert error_lines("about: a\nnodes:\n  a: {entity: osd.1}\n  a: {entity: osd.2}\n") == [
        "f.yaml:4: nodes.a: it is there twice, first in line 3"
    ]


def test_all_mistakes_are_listed_in_the_order_of_lines() -> None:
    assert error_lines(
        "backend: nets\n"
        "nodes:\n"
        "  a: {entity: osd.x}\n"
        "  b:\n"
        "    entity: osd.2\n"
        "    policy: losles\n"
        "    lisstens: true\n"
        "trafic: []\n"
    ) == [
        "f.yaml:1: backend: unknown 'nets'; known: process, netns, docker, swarm, vm",
        "f.yaml:3: nodes.a.entity: entity 'osd.x' is not TYPE.NUMBER, as in osd.1",
        "f.yaml:6: nodes.b.policy: unknown policy 'losles'; known: "
        + ", ".join(POLICIES)
        + "; did you mean lossless_peer?",
        "f.yaml:7: nodes.b.lisstens: unknown key; did you mean listens?",
        "f.yaml:8: trafic: unknown key; did you mean traffic?",
    ]


def test_at_most_ten_mistakes_are_listed() -> None:
    lines = error_lines("nodes:\n" + "".join(f"  n{n}: {{entity: x}}\n" for n in range(30)))
    assert len(lines) == 10
    assert lines[-1] == "f.yaml:11: from here on 21 more mistakes"


def test_error_escapes_control_characters_in_file_names_and_keys() -> None:
    with pytest.raises(LocalError) as caught:
        parse_spec('"a\\nb": 1\n' + SMALLEST, "f\n.yaml")
    assert str(caught.value).startswith("f\\n.yaml:1: a\\nb: unknown key; known: name, about, backend")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("seed: x", "seed: give a whole number, not 'x'"),
        ("seed: '1'", "seed: give a whole number, not '1'"),
        ("seed: 1.5", "seed: give a whole number, not 1.5"),
        ("seed: true", "seed: give a whole number, not true"),
        ("seed: -1", "seed: give at least 0, not -1"),
        (f"seed: {1 << 64}", f"seed: give at most {(1 << 64) - 1}, not {1 << 64}"),
        ("seed: .inf", "seed: '.inf' is no number that can be used"),
        (f"seed: {'9' * 5000}", f"seed: '{'9' * 40}' is no number that can be used"),
        ("about: [x]", 'about: give text, not ["x"]'),
        ("about: 2026-11-21", None),
        ("speaks: v2", "speaks: give a mapping (key: value), not 'v2'"),
        ("links: {}", "links: give a list, not {}"),
        ("links: [a]", "links.0: give a mapping (key: value), not 'a'"),
        ("networks: [public]", 'networks: give a mapping (key: value), not ["public"]'),
        ("timeline: [{fault: kill a}]", "timeline.0.at_s: it is missing"),
        ("timeline: [{at_s: -0.5, fault: kill a}]", "timeline.0.at_s: give at least 0, not -0.5"),
        ("chaos: {every_s: 0}", "chaos.every_s: give more than 0, not 0"),
        ("captures: [{node: a, file: ../x.pcapng}]", "captures.0.file: give a name without directories"),
        ("traffic: [{sender: a, to: b}]", "traffic.0.sender: unknown key; known: from, to, every_ms"),
        ("name: Mine", "name: 'Mine' is no name for a cluster: a lower-case letter, then up to 29 of a-z 0-9 -"),
    ],
)
def test_values_of_wrong_types_are_described_in_words(value: str, text: str | None) -> None:
    whole = f"{value}\n{SMALLEST}"
    if text is None:
        parse_spec(whole, "f.yaml")
    else:
        assert any(line.startswith(f"f.yaml:1: {text}") for line in error_lines(whole)), error_lines(whole)
