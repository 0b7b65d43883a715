"""``msgrlab decode`` as a user types it."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pytest

from messenger.cephx.exchange import ConMode
from messenger.link import Protocol
from toolkit.bench.captures import KEY_LOG, Recipe, write_capture
from toolkit.capture.formats import PcapngWriter, open_capture
from toolkit.cli.main import run as msgrlab
from toolkit.dissect.decode import decode_capture

MESSAGES = 64
KEYS = [  # docs/decode.md
    *("frame", "time", "time_ns", "utc", "stream", "src", "dst", "protocol", "mode", "tag", "offset", "length"),
    *("crc", "auth"),
    *("error", "message", "fields"),
]
MESSAGE_KEYS = [
    *("type", "name", "seq", "tid", "src", "version", "compat_version", "priority", "front", "middle", "data"),
    "ack_seq",
]
FORMATS = ("table", "json", "csv", "parquet")
MAIN = "from toolkit.cli.main import main; main()"


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the conversations of four links, in crc and in secure mode, and the keys of the latter."""
    folder = tmp_path_factory.mktemp("captures")
    for mode in (ConMode.CRC, ConMode.SECURE):
        recipe = Recipe(
            name=mode.name,
            protocol=Protocol.V2,
            mode=mode,
            data_bytes=(10, 500),
            even=True,
            messages=MESSAGES,
            segment_bytes=1460,
        )
        write_capture(recipe, folder / f"{mode.name.lower()}.pcapng", MESSAGES)
    (folder / "keys").write_text(KEY_LOG)
    return folder


@pytest.fixture
def crc(made: Path) -> str:
    return str(made / "crc.pcapng")


@pytest.fixture
def secure(made: Path) -> list[str]:
    return [str(made / "secure.pcapng"), "--key-log", str(made / "keys")]


Decode = Callable[..., tuple[int, str, str]]


@pytest.fixture
def decode(capsys: pytest.CaptureFixture[str]) -> Decode:
    """Run it; its exit code, output and messages."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = msgrlab(["decode", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def rewritten(source: str, target: Path, change: Callable[[bytearray], None], key_log: str = "") -> str:
    """The capture with something done to all of its packets together, and perhaps with keys inside."""
    with open_capture(source) as reader, PcapngWriter(target) as writer:
        writer.interface("copy")
        if key_log:
            writer.secrets(key_log)
        for batch in reader:
            for _, time_ns, _, data in batch.packets():
                packet = bytearray(data)
                change(packet)
                writer.packet(time_ns, packet)
    return str(target)


def rows_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


# ---- JSON, the contract


def test_json_is_a_line_for_each_frame_with_these_keys(secure: list[str], decode: Decode) -> None:
    code, out, err = decode(*secure, "--format", "json")
    rows = rows_of(out)
    assert code == 0
    assert [row["frame"] for row in rows] == list(range(len(rows)))
    assert all(list(row) == KEYS for row in rows)
    messages = [row for row in rows if row["message"]]
    assert len(messages) == MESSAGES
    assert all(list(row["message"]) == MESSAGE_KEYS and row["tag"] == "MESSAGE" for row in messages)
    assert {(row["mode"], row["auth"], row["protocol"]) for row in messages} == {("secure", "ok", "v2.1")}
    assert {row["message"]["seq"] for row in messages if row["stream"] == 0} == set(range(1, MESSAGES // 4 + 1))
    assert err == f"{len(rows)} frames on 4 links\n"


def test_types_of_the_record(crc: str, decode: Decode) -> None:
    row = next(row for row in rows_of(decode(crc, "--format", "json")[1]) if row["message"])
    kinds = {"time": float, "error": type(None), "message": dict, "fields": dict}
    kinds |= dict.fromkeys(("frame", "time_ns", "stream", "offset", "length"), int)
    assert {name: type(value) for name, value in row.items()} == dict.fromkeys(KEYS, str) | kinds
    texts = ("name", "src")
    assert all(isinstance(value, str if name in texts else int) for name, value in row["message"].items())


def test_json_equals_the_result_of_the_library(crc: str, decode: Decode) -> None:
    expected = [json.loads(json.dumps(frame.as_json())) for frame in decode_capture(Path(crc))]
    assert rows_of(decode(crc, "--format", "json")[1]) == expected


# ---- the other forms


def test_the_table_has_a_line_for_each_frame_and_each_link(crc: str, decode: Decode) -> None:
    code, out, err = decode(crc)
    lines = out.splitlines()
    count = int(err.split()[0])
    assert code == 0
    assert lines[0].split() == ["frame", "time", "link", "bytes", "checks", "frame", "or", "message"]
    assert sum(line.startswith("link ") and " → " in line for line in lines) == 4
    ends = [line for line in lines if line.endswith("closed it first (FIN)")]
    assert len(ends) == 4
    assert len(lines) == 1 + 4 + count + len(ends)
    assert lines[1] == "link 0: 10.0.0.1:40000 → 10.0.0.2:6800"
    assert lines[4].split()[:6] == ["2", "0.000040", "0←", "72", "crc✓", "HELLO"]


def test_times_are_exact_and_count_from_the_first_packet(crc: str, decode: Decode) -> None:
    frames = list(decode_capture(Path(crc)))
    rows = rows_of(decode(crc, "--format", "json", "--filter", "frame == 2")[1])
    assert [row["time_ns"] for row in rows] == [frames[2].time_ns]
    assert rows[0]["utc"] == "2023-11-14T22:13:20.000050000Z"
    _, out, _ = decode(crc, "--filter", "frame == 2")
    assert out.splitlines()[2].split()[1] == "0.000040", "whatever the filter leaves out"
    _, out, _ = decode(crc, "--filter", "frame == 2", "--utc")
    assert out.splitlines()[2].split()[1] == rows[0]["utc"]
    assert decode(crc, "--utc", "--format", "json")[0] == 2


def test_columns_are_the_same_frames(secure: list[str], decode: Decode, tmp_path: Path) -> None:
    rows = rows_of(decode(*secure, "--format", "json")[1])
    code, out, err = decode(*secure, "--format", "csv")
    assert (code, err) == (0, f"{len(rows)} frames on 4 links\n")
    path = tmp_path / "frames.parquet"
    assert decode(*secure, "-o", str(path)) == (0, "", err)
    for table in (pd.read_csv(io.StringIO(out)), pd.read_parquet(path)):
        assert len(table) == len(rows)
        for name in (
            "frame",
            "stream",
            "src",
            "dst",
            "protocol",
            "mode",
            "tag",
            "offset",
            "length",
            "crc",
            "auth",
        ):
            assert table[name].tolist() == [row[name] for row in rows], name
        assert pd.to_datetime(table["time"]).astype("int64")[0] == pytest.approx(rows[0]["time"] * 1e9, abs=1000)
        messages = table[table["tag"] == "MESSAGE"]
        for name in ("type", "name", "seq", "tid", "front", "data", "ack_seq"):
            assert messages[name].tolist() == [row["message"][name] for row in rows if row["message"]], name
        assert table[table["tag"] != "MESSAGE"]["seq"].isna().all()


@pytest.mark.parametrize("extra", [(), ("--filter", 'message.name == "osd_op"')])
def test_columns_of_payloads(extra: tuple[str, ...], decode: Decode, tmp_path: Path) -> None:
    folder = Path(__file__).parents[3] / "captures" / "reef-crc"
    capture = str(folder / "capture.pcapng.gz"), "--keyring", str(folder / "keyring")
    path = tmp_path / "frames.parquet"
    code, out, _ = decode(*capture, "--format", "csv", "--payloads", *extra)
    assert code == 0
    assert decode(*capture, "-o", str(path), "--payloads", *extra)[0] == 0
    for table in (pd.read_csv(io.StringIO(out)), pd.read_parquet(path)):
        requests = table[table["name"] == "osd_op"]
        assert {"greeting", "nobody"} <= set(requests["object"])
        assert set(requests["op"].str.split("+").explode()) >= {"WRITEFULL", "READ"}
    code, _, err = decode(*capture, "--format", "json", "--payloads")
    assert code == 2
    assert "--payloads needs --format csv or parquet" in err


@pytest.mark.parametrize(
    "expression", ['message.seq > 3 and stream != 1 or tag == "HELLO"', "fields.front_bytes", "not frame"]
)
def test_a_filter_chooses_the_same_frames_in_every_form(
    expression: str, crc: str, decode: Decode, tmp_path: Path
) -> None:
    expected = [row["frame"] for row in rows_of(decode(crc, "--format", "json", "--filter", expression)[1])]
    assert 0 < len(expected) < 100
    _, out, err = decode(crc, "--filter", expression)
    assert [int(line.split()[0]) for line in out.splitlines() if line.split()[0].isdecimal()] == expected
    assert "0 frames" not in err  # all are counted, whatever is shown
    assert (
        pd.read_csv(io.StringIO(decode(crc, "--format", "csv", "--filter", expression)[1]))["frame"].tolist()
        == expected
    )
    decode(crc, "-o", str(tmp_path / "a.parquet"), "--filter", expression)
    assert pd.read_parquet(tmp_path / "a.parquet")["frame"].tolist() == expected


def test_a_field_that_no_frame_has_is_named(crc: str, decode: Decode) -> None:
    code, _, err = decode(crc, "--filter", "fields.global_seqs == 1 or fields.global_seq == 1")
    assert code == 0
    assert err.endswith("; no frame has fields.global_seqs\n")


@pytest.mark.parametrize("form", FORMATS)
def test_a_limit_stops_in_time(form: str, crc: str, decode: Decode, tmp_path: Path) -> None:
    path = tmp_path / "out"
    code, _, err = decode(crc, "--format", form, "--limit", "7", "-o", str(path))
    assert (code, err) == (0, "7 frames on 1 link; stopped after 7\n")
    counts = {
        "table": lambda: sum(line.split()[0].isdecimal() for line in path.read_text().splitlines()),
        "json": lambda: len(path.read_text().splitlines()),
        "csv": lambda: len(pd.read_csv(path)),
        "parquet": lambda: len(pd.read_parquet(path)),
    }
    assert counts[form]() == 7


@pytest.mark.parametrize("form", FORMATS)
def test_decode_succeeds_if_no_frame_passes_the_filter(
    form: str, crc: str, decode: Decode, tmp_path: Path
) -> None:
    code, _, err = decode(crc, "--format", form, "--filter", "False", "-o", str(tmp_path / "out"))
    assert code == 0
    assert err.endswith(" frames on 4 links\n")


# ---- keys


@pytest.mark.parametrize("form", FORMATS)
def test_keys_inside_the_capture_are_used(form: str, secure: list[str], decode: Decode, tmp_path: Path) -> None:
    inside = rewritten(secure[0], tmp_path / "a.pcapng", lambda _: None, KEY_LOG)
    code, _, err = decode(inside, "--format", form, "-o", str(tmp_path / "out"))
    assert code == 0
    assert err.endswith(" frames on 4 links\n")


@pytest.mark.parametrize("form", FORMATS)
def test_a_missing_key_is_named(form: str, secure: list[str], decode: Decode, tmp_path: Path) -> None:
    code, _, err = decode(secure[0], "--format", form, "-o", str(tmp_path / "out"))
    assert code == 1
    assert err.startswith("msgrlab: ")
    assert "8 not decoded: sealed; missing: service key of osd with secret_id 1" in err
    assert err.count("\n") == 1


def test_the_table_names_a_missing_key_once_for_each_link(secure: list[str], decode: Decode) -> None:
    assert decode(secure[0])[1].count("sealed; missing") == 4


# ---- damage


def spoil_one(place: int) -> Callable[[bytearray], None]:
    """Flips a bit of the packet of that number."""
    seen = iter(range(1 << 30))

    def change(packet: bytearray) -> None:
        if next(seen) == place:
            packet[-20] ^= 1

    return change


@pytest.mark.parametrize("form", FORMATS)
def test_bad_crc_is_reported_and_the_rest_is_decoded(form: str, crc: str, decode: Decode, tmp_path: Path) -> None:
    spoilt = rewritten(crc, tmp_path / "a.pcapng", spoil_one(60))
    code, _, err = decode(spoilt, "--format", form, "-o", str(tmp_path / "out"))
    assert code == 1
    assert err.startswith("msgrlab: ")
    assert " not decoded: " in err
    assert err.count("\n") == 1
    rows = rows_of(decode(spoilt, "--format", "json", "--filter", "error")[1])
    assert 1 <= len(rows) <= 3
    assert len(rows_of(decode(spoilt, "--format", "json", "--filter", "message")[1])) >= MESSAGES - 20


@pytest.mark.parametrize("form", FORMATS)
def test_a_capture_that_is_still_written_is_decoded_up_to_its_end(
    form: str, crc: str, decode: Decode, tmp_path: Path
) -> None:
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(Path(crc).read_bytes()[:10_001])
    code, _, err = decode(str(cut), "--format", form, "-o", str(tmp_path / "out"))
    assert code == 0, err
    assert re.search(r"the file ends \d+ bytes into packet \d+, as while it is still being written", err)
    assert err.count("\n") == 1


@pytest.mark.parametrize("form", FORMATS)
def test_decode_survives_random_damage(form: str, crc: str, decode: Decode, tmp_path: Path) -> None:
    rng = Random(7)

    def garble(packet: bytearray) -> None:
        for _ in range(rng.randrange(4)):
            packet[rng.randrange(len(packet))] = rng.randrange(256)

    code, _, err = decode(
        rewritten(crc, tmp_path / "a.pcapng", garble), "--format", form, "-o", str(tmp_path / "out")
    )
    assert code == 1
    assert err.count("\n") == 1


def test_a_capture_without_messengers(decode: Decode, tmp_path: Path) -> None:
    with PcapngWriter(tmp_path / "a.pcapng") as writer:
        writer.interface("eth0")
    assert decode(str(tmp_path / "a.pcapng")) == (0, "", "0 frames on 0 links\n")


def test_frame_lines_escape_text_of_peers(crc: str, decode: Decode, tmp_path: Path) -> None:
    from rich.console import Console

    from toolkit.cli.frame_lines import FrameLines

    frame = next(frame for frame in decode_capture(Path(crc)) if frame.message)
    frame.message = frame.message._replace(name="\x1b[2Jevil\n", src="x")
    frame.read_fields = lambda: {"a\x07b": "\x1b]0;title\x07", "list": ["\r"]}
    frame.error = "says \x1b[31m"
    (_, _, *lines) = FrameLines(Console(file=io.StringIO(), width=300)).lines(frame)
    assert all(line.isprintable() for line in lines)


def test_lines_fit_an_80_column_terminal(crc: str, secure: list[str]) -> None:
    from rich.console import Console

    from toolkit.cli.frame_lines import FrameLines

    for width in (40, 80, 120):
        console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
        for path in (crc, secure[0]):
            lines = FrameLines(console)
            for frame in decode_capture(Path(path)):
                assert all(len(line) <= width or width == 40 for line in lines.lines(frame))


# ---- files


def test_decode_replaces_an_existing_file_only_with_force(crc: str, decode: Decode, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("mine")
    assert decode(crc, "-o", str(path)) == (2, "", f"msgrlab: -o {path} exists already; --force replaces it\n")
    assert path.read_text() == "mine"
    assert decode(crc, "-o", str(path), "--force")[0] == 0
    assert list(rows_of(path.read_text())[0]) == KEYS
    assert [each.name for each in tmp_path.iterdir()] == ["out.json"]


def test_the_capture_itself_is_never_replaced(crc: str, decode: Decode, tmp_path: Path) -> None:
    copy, link = tmp_path / "a.pcapng", tmp_path / "b"
    shutil.copy(crc, copy)
    link.symlink_to(copy)
    before = copy.read_bytes()
    for path in (copy, link):
        assert decode(str(copy), "-o", str(path), "--force") == (
            2,
            "",
            f"msgrlab: -o {path}: this is the capture itself\n",
        )
    assert copy.read_bytes() == before


def test_failed_decode_keeps_the_file_to_replace(decode: Decode, tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("mine")
    (tmp_path / "junk").write_bytes(b"no capture at all, sorry")
    assert decode(str(tmp_path / "junk"), "-o", str(path), "--force")[0] == 2
    assert path.read_text() == "mine"


@pytest.mark.parametrize("form", FORMATS)
def test_decode_refuses_to_replace_a_device(form: str, crc: str, decode: Decode) -> None:
    code, out, err = decode(crc, "--format", form, "-o", "/dev/full")
    assert (code, out) == (2, "")
    assert err == "msgrlab: -o /dev/full exists already\n"


def test_a_pipe_in_and_a_pipe_out(crc: str) -> None:
    command = [sys.executable, "-c", MAIN, "decode", "-", "--format", "json"]
    with Path(crc).open("rb") as capture:
        done = subprocess.run(command, stdin=capture, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr.startswith(f"{len(done.stdout.splitlines())} frames on 4 links")
    gzipped = subprocess.run(["gzip", "-c", crc], capture_output=True, check=True).stdout
    again = subprocess.run(command, input=gzipped, capture_output=True, check=True, timeout=60)
    assert again.stdout.decode() == done.stdout


def test_packets_of_a_pipe_are_printed_at_once(crc: str) -> None:
    content = Path(crc).read_bytes()
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, "decode", "-", "--format", "json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as command:
        assert command.stdin is not None
        assert command.stdout is not None
        command.stdin.write(content[:5000])
        command.stdin.flush()
        assert json.loads(command.stdout.readline())["tag"] == "BANNER"  # though more is to come
        command.stdin.write(content[5000:])
        command.stdin.close()
        assert len(command.stdout.read().splitlines()) > MESSAGES
    assert command.returncode == 0


# ---- mistakes


def test_no_capture(decode: Decode, tmp_path: Path) -> None:
    junk = tmp_path / "junk"
    junk.write_text("root:x:0:0:")
    for path, words in (
        (tmp_path / "none", "No such file"),
        (tmp_path, "directory"),
        (junk, "neither pcap nor pcapng"),
    ):
        code, out, err = decode(str(path))
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"msgrlab: {path}")
        assert words in err


def test_bad_keys_are_named_with_file_and_line(crc: str, decode: Decode, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("[client.admin]\n\tkey = short\n")
    for option, line in (("--keyring", 2), ("--key-log", 1)):
        code, out, err = decode(crc, option, str(path))
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"msgrlab: {path}:{line}:") or f"{path} line {line}" in err
    assert decode(crc, "--keyring", str(tmp_path / "none"))[0] == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--filter", "stream = 1"], "filter, column 8: "),
        (["--filter", ""], "filter, column 1: it is empty"),
        (["--format", "parquet"], "--format parquet needs -o FILE"),
        (["--format", "xml"], "'table', 'json', 'csv', 'parquet'"),
        (["--force"], "--force needs -o FILE"),
        (["--limit", "0"], "--limit"),
        (["-o", "/no/such/folder/x.json"], "-o /no/such/folder/x.json: there is no folder /no/such/folder"),
        (["-o", "/tmp", "--force"], "-o /tmp exists already"),
    ],
)
def test_decode_reports_a_usage_error_in_one_line(
    arguments: list[str], words: str, crc: str, decode: Decode
) -> None:
    code, out, err = decode(crc, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
