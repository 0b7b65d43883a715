"""Decoders on tiny captures. No test depends on speed."""

import json
from pathlib import Path

import pytest

from messenger.errors import LocalError
from toolkit.bench.captures import KEY_LOG, RECIPES, write_capture
from toolkit.bench.decode import Capture, DecodeResult, made_captures, measure_decoders
from toolkit.bench.decode_task import Decoder, Task
from toolkit.bench.tshark import installed
from toolkit.cli.main import run as msgrlab

MADE = {"v1 small", "v2 secure"}
LEAST_MESSAGES = 128
KEYS = ["capture", "decoder", "size_bytes", "messages", "seconds", "cpu_s", "mb_per_s", "messages_per_s"]
KEYS += ["times_columns", "peak_rss_mib"]
OURS = {"columns", "records", "scapy"}


@pytest.fixture(scope="module")
def rows() -> list[dict[str, object]]:
    """Return the rows of every installed decoder for the captures of the benchmark."""
    reported: list[DecodeResult] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("toolkit.bench.decode.RECIPES", [recipe for recipe in RECIPES if recipe.name in MADE])
        with made_captures(1) as captures:
            results = measure_decoders(captures, 1, reported.append)
            folder = captures[0].path.parent
    assert reported == results
    assert not folder.exists()
    return [result.as_json() for result in results]


def test_every_decoder_finds_every_message(rows: list[dict[str, object]]) -> None:
    assert {row["capture"] for row in rows} == MADE
    assert {row["messages"] for row in rows} == {LEAST_MESSAGES}


@pytest.mark.needs("tshark")
def test_tshark_decodes_v1_captures_only(rows: list[dict[str, object]]) -> None:
    decoders = {name: {row["decoder"] for row in rows if row["capture"] == name} for name in MADE}
    assert decoders == {"v1 small": {*OURS, "tshark fields", "tshark json"}, "v2 secure": OURS}


def test_row_contains_its_cost(rows: list[dict[str, object]]) -> None:
    for row in rows:
        assert list(row) == KEYS
        assert all(isinstance(row[key], int | float) and row[key] > 0 for key in KEYS[2:])  # type: ignore[operator]


def result(decoder: Decoder, messages: int, cpu_s: float, columns: DecodeResult | None = None) -> DecodeResult:
    return DecodeResult(
        capture="c",
        decoder=decoder,
        size_bytes=10_000_000,
        messages=messages,
        seconds=4,
        cpu_s=cpu_s,
        peak_rss_mib=1,
        columns=columns,
    )


def test_ratios_are_to_the_columns_of_the_same_capture() -> None:
    columns = result(Decoder.COLUMNS, 100, 0.25)
    fields = result(Decoder.FIELDS, 100, 2, columns)
    assert (fields.ratio, fields.mb_per_s, fields.messages_per_s) == (8, 5, 50)
    assert columns.ratio == 1


def test_rates_of_scapy_count_only_the_messages_that_it_decoded() -> None:
    scapy = result(Decoder.SCAPY, 20, 2, result(Decoder.COLUMNS, 100, 0.25))
    assert (scapy.ratio, scapy.mb_per_s, scapy.messages_per_s) == (40, 1, 10)


def test_only_the_decoders_of_msgrlab_run_without_tshark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("toolkit.bench.tshark.TSHARK", "no-such-program")
    assert not installed()
    assert set(Capture(name="v1", path=tmp_path, has_v1=True).decoders()) == set(map(Decoder, OURS))


def test_failed_decoder_names_its_input(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"columns on .*/gone: .*No such file"):
        measure_decoders([Capture(name="gone", path=tmp_path / "gone", has_v1=False)], 1, lambda _: None)


def test_task_is_printed_as_json() -> None:
    task = Task(decoder=Decoder.JSON, capture="/c", keyrings=["/k"], key_logs=["/l", "/m"])
    assert Task.from_json(task.as_json()) == task


def test_bench_decodes_a_given_capture_with_its_key_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = next(recipe for recipe in RECIPES if recipe.name == "v2 secure")
    capture, keys, out = tmp_path / "mine.pcapng", tmp_path / "keys", tmp_path / "out.json"
    write_capture(recipe, capture, LEAST_MESSAGES)
    keys.write_text(KEY_LOG)
    arguments = [str(capture), "--key-log", str(keys), "--runs", "1", "--json", "--out", str(out)]
    monkeypatch.setattr("toolkit.bench.tshark.TSHARK", "no-such-program")
    assert msgrlab(["bench", "decode", *arguments]) == 0
    printed = capsys.readouterr().out
    assert out.read_text() == printed
    found = {row["decoder"]: row["messages"] for row in json.loads(printed)["decode"]}
    assert {name: found[name] for name in OURS} == dict.fromkeys(OURS, LEAST_MESSAGES)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--size", "many"], "--size: 'many' is not a size"),
        (["mine.pcap", "--size", "1M"], "--size is the size of generated captures"),
        (["--key-log", "keys"], "--keyring and --key-log need FILE"),
        (["/nowhere/at/all.pcap"], "/nowhere/at/all.pcap: No such file"),
        (["--out", "/nowhere/at/all.json"], "there is no folder /nowhere/at"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert msgrlab(["bench", "decode", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1
