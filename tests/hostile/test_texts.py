"""Keyrings, key logs, rules, timelines, specs and histories that are none: one line each, and soon."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from messenger.cephx.keyring import Keyring
from messenger.errors import LocalError
from tests.hostile.confined import confined, msgrlab
from toolkit.cluster.spec import read_spec
from toolkit.dissect.daemon_log import parse_log, read_log

FILES = Path(__file__).parent / "files"
CAPTURE = Path(__file__).parents[2] / "captures" / "pacific-crc" / "capture.pcapng.gz"
GIB = 1 << 30

READERS: dict[str, tuple[object, ...]] = {
    "capture": ("decode", "{}"),
    "capture to analyze": ("analyze", "{}"),
    "capture to chart": ("chart", "{}"),
    "capture to export": ("wireshark", "{}", "-o", "plain.pcapng"),
    "keyring": ("decode", CAPTURE, "--keyring", "{}"),
    "key log": ("decode", CAPTURE, "--key-log", "{}"),
    "key log to write": ("proxy", "127.0.0.1:0", "127.0.0.1:9", "--key-log", "{}"),
    "rules": ("proxy", "127.0.0.1:0", "127.0.0.1:9", "--script", "{}"),
    "timeline": ("fault", "--replay", "{}"),
    "history": ("chart", "{}.ndjson"),
}
"""Every command that reads a file, by what it takes the file for."""


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def _sparse(path: Path) -> None:
    path.touch(0o600)
    os.truncate(path, 64 * GIB)


def _endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


KINDS: dict[str, Callable[[Path], None]] = {
    "pipe": _pipe,
    "folder": Path.mkdir,
    "socket": _socket,
    "endless": _endless,
    "sparse": _sparse,
}
WRITTEN = "key log to write", "sparse"
"""Is appended to, not read."""


@pytest.mark.parametrize(
    ("reader", "kind"), [(reader, kind) for reader in READERS for kind in KINDS if (reader, kind) != WRITTEN]
)
def test_special_and_sparse_files_are_an_error_of_one_line(reader: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / ("it.ndjson" if reader == "history" else "it")
    KINDS[kind](path)
    given = str(path).removesuffix(".ndjson")
    outcome = msgrlab(tmp_path, *(str(word).format(given) for word in READERS[reader]), cpu_s=20)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1), outcome
    assert outcome.err.startswith(f"msgrlab: {path}:")


@pytest.mark.parametrize("kind", KINDS)
def test_special_and_sparse_files_as_spec_are_an_error_of_one_line(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "it.yaml"
    KINDS[kind](path)
    with pytest.raises(LocalError, match=f"^{path}:") as caught:
        read_spec(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("alias-bomb.yaml", "more than 100000 values, counting what aliases (*name) repeat"),
        ("nested.yaml", "nested too deeply"),
        ("itself.yaml", "an alias (*name) to a value that contains it"),
        ("object.yaml", "tags (!name) are not supported"),
        ("long-number.yaml", "is no number that can be used"),
        ("terminal.rules", "line 1: rule, column 4: a control character"),
        ("terminal.keyring", ":2: key is not base64"),
    ],
)
def test_excessive_texts_are_an_error_of_one_line(name: str, complaint: str, tmp_path: Path) -> None:
    reader = {".yaml": "timeline", ".rules": "rules", ".keyring": "keyring"}[Path(name).suffix]
    words = (str(word).format(FILES / name) for word in READERS[reader])
    outcome = msgrlab(tmp_path, *words, memory_mib=256, cpu_s=30)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1), outcome
    assert complaint in outcome.err
    assert outcome.err.rstrip("\n").isprintable()
    assert len(outcome.err) < 2200
    assert sorted(each.name for each in tmp_path.iterdir()) == ["stderr", "stdout"]


@pytest.mark.parametrize(
    "name", ["alias-bomb.yaml", "nested.yaml", "itself.yaml", "object.yaml", "long-number.yaml"]
)
def test_excessive_specs_are_refused(name: str) -> None:
    with pytest.raises(LocalError, match=f"^{FILES / name}:"):
        read_spec(FILES / name)


@pytest.mark.parametrize("name", [path.name for path in FILES.glob("*.ndjson")])
@pytest.mark.parametrize("options", [(), ("-o", "chart.svg"), ("-o", "chart.html")])
def test_any_history_that_can_be_read_can_be_drawn(name: str, options: tuple[str, ...], tmp_path: Path) -> None:
    outcome = msgrlab(tmp_path, "chart", FILES / name, *options)
    assert (outcome.code, outcome.err) == (0, ""), outcome
    assert "\x1b" not in outcome.out


# ---- texts on which a careless pattern takes quadratic time


def _keyring(text: str) -> int:
    try:
        Keyring.parse(text)
    except LocalError:
        return 0
    return 1


def _log(text: str) -> int:
    return len(parse_log([text]))


BLANKS = " " * 300_000
DIGITS = "1" * 300_000
ENTRY = "2026-11-21T19:21:45.346+0000 7f1 1 "


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (_keyring, f"[mon.]\na{BLANKS}b"),
        (_keyring, f"[mon.]\n{'a ' * 150_000}b"),
        (_log, f"{ENTRY}-- {DIGITS} --> {DIGITS} -- ping -- 0 con"),
        (_log, f"{ENTRY}-- v2:1.1.1.1:{DIGITS} <== a {'[' * 300_000} 1 ==== ping"),
        (_log, f"{ENTRY}-- {DIGITS} --> {DIGITS} -- ping v1 -- 0x1 con 0x1"),
    ],
)
def test_long_lines_are_parsed_in_linear_time(parse: Callable[[str], int], text: str, tmp_path: Path) -> None:
    outcome = confined(tmp_path, parse, text, cpu_s=10)
    assert outcome.code in {0, 1}, outcome


@pytest.mark.parametrize("kind", KINDS)
def test_special_and_sparse_files_as_log_are_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "osd.0.log"
    KINDS[kind](path)
    with pytest.raises(LocalError, match=f"^{path}:"):
        read_log(path)
