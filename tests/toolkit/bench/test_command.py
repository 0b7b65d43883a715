"""``msgrlab bench`` as a user types it. No test depends on speed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.bench.interpreter import Interpreter
from toolkit.cli.main import run as msgrlab

TINY = ["--patterns", "request", "--sizes", "64", "--in-flight", "1", "--modes", "crc", "--cores", "1"]
KEYS = ["pattern", "size", "in_flight", "mode", "cores", "protocol"]
NUMBERS = ["ops_per_s", "floor_ops_per_s", "ratio", "latency_us", "floor_latency_us"]
NUMBERS += ["cpu_us_per_op", "floor_cpu_us_per_op", "peak_rss_mib"]


@pytest.mark.parametrize("protocol", ["v1", "v2"])
def test_json_has_one_row_for_each_cell_also_in_a_file(
    protocol: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "bench.json"
    arguments = ["bench", *TINY, "--proto", protocol, "--seconds", "0.01", "--json", "--out", str(out)]
    assert msgrlab(arguments) == 0
    printed, complaints = capsys.readouterr()
    assert complaints.strip() in {"", f"msgrlab: {Interpreter.this().warning}"}
    assert out.read_text(encoding="utf-8") == printed
    (row,) = json.loads(printed)["results"]
    assert list(row) == KEYS + NUMBERS
    assert (row["pattern"], row["size"], row["in_flight"], row["mode"]) == ("request", 64, 1, "crc")
    assert (row["cores"], row["protocol"]) == (1, protocol)
    assert all(row[key] > 0 for key in NUMBERS)
    assert row["ratio"] == pytest.approx(row["ops_per_s"] / row["floor_ops_per_s"], abs=0.002)


def test_core_option_measures_the_layers_of_the_core(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    arguments = ["bench", "--core", "--sizes", "64,4K", "--modes", "crc", "--seconds", "0.001"]
    assert msgrlab([*arguments, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["core"]
    assert [(row["layer"], row["size"]) for row in rows] == [
        ("frame", 64),
        ("frame", 4096),
        ("endpoint", 64),
        ("endpoint", 4096),
    ]
    assert msgrlab(arguments) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split() == ["layer", "mode", "size", "build", "us", "parse", "us", "both", "us"]
    assert lines[1].split()[:4] == ["frame", "crc", "4", "KiB"]
    assert len(lines) == len(rows) + 1


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_ctrl_c_and_sigterm_keep_the_rows_so_far(name: str, tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    words = ["bench", *TINY, "--sizes", "64,1K,2K,4K", "--seconds", "0.01", "--json", "--out", str(out)]
    # a terminal sends SIGINT to all processes, and timeout SIGTERM: here once two rows are measured
    code = f"""if True:
        import os, signal
        from toolkit.bench import measure
        from toolkit.cli.main import main
        one = measure.measure_cell
        async def measure_cell(cell, *args):
            if cell.size == 2048:
                os.killpg(0, signal.{name})
            return await one(cell, *args)
        measure.measure_cell = measure_cell
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, if the tests run in the background
        main()"""
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, process_group=0
    )
    assert done.returncode == 130
    assert "msgrlab: interrupted: 2 of 4 rows were measured\n" in done.stderr
    assert out.read_text(encoding="utf-8") == done.stdout
    printed = json.loads(done.stdout)
    assert [row["size"] for row in printed["results"]] == [64, 1024]
    assert printed["interrupted"]


def test_idle_connections(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.bench.idle.CONNECTIONS", 5)
    assert msgrlab(["bench", "--idle", "--modes", "crc", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["idle"]
    assert list(row) == ["mode", "connections", "python_bytes_per_connection"]
    assert (row["mode"], row["connections"]) == ("crc", 5)
    assert msgrlab(["bench", "--idle", "--modes", "secure"]) == 0
    heading, line, _ = capsys.readouterr().out.splitlines()
    assert heading.split() == ["mode", "connections", "bytes", "each"]
    assert line.split()[:2] == ["secure", "5"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--sizes", "4X"], "--sizes: '4X' is not a size"),
        (["--sizes", ""], "--sizes: '' is not a size"),
        (["--in-flight", "0"], "--in-flight: '0' is not a number"),
        (["--modes", "none"], "--modes: unknown 'none'; known: crc, secure"),
        (["--patterns", "echo"], "--patterns: unknown 'echo'; known: request, stream"),
        (["--cores", "3"], "--cores: unknown '3'; known: 1, 2"),
        (["--seconds", "0"], "--seconds: 0 is not from 0.001 to 600"),
        (["--seconds", "nan"], "--seconds: nan is not from"),
        (["--core", "--cores", "1"], "--core can only be combined with"),
        (["--core", "--idle"], "--core can only be combined with"),
        (["--idle", "--sizes", "64"], "--idle can only be combined with"),
        (["--out", "/nowhere/at/all.json"], "there is no folder /nowhere/at"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert msgrlab(["bench", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1


def test_bench_does_not_overwrite_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine.json"
    mine.write_text("mine")
    assert msgrlab(["bench", *TINY, "--out", str(mine)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert mine.read_text() == "mine"


def test_bench_refuses_more_cores_than_the_process_may_use(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    assert msgrlab(["bench", "--cores", "1,2"]) == 2
    assert capsys.readouterr().err == "msgrlab: --cores 2: this process may only use 1 CPU\n"
