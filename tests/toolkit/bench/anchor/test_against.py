"""``msgrlab bench --against``, with our own messenger as the program. No test depends on speed."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.cli.main import run as msgrlab

TINY = ["--patterns", "request", "--sizes", "64", "--in-flight", "1", "--modes", "crc", "--cores", "1"]
SHORT = ["--seconds", "0.01"]
OWN = f'exec "{sys.executable}" -P -m toolkit.bench.anchor.own "$@"'


def program(folder: Path, script: str) -> str:
    """The path of a new program in shell."""
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Our messenger as a program."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[4]))
    return program(tmp_path, OWN)


def test_table_json_and_page_of_two_messengers(
    own: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    out, page = tmp_path / "rows.json", tmp_path / "page.html"
    words = ["--against", own, "--cells", "request secure 64 x1 1core,stream crc 64 1core", *SHORT]
    assert msgrlab(["bench", *words, "--out", str(out), "--html", str(page)]) == 0
    heading, *lines, caption = capsys.readouterr().out.splitlines()
    assert heading.split() == ["cell", "ops/s", "program", "ratio", "CPU", "us", "program", "ratio", "load"]
    values = json.loads(out.read_text(encoding="utf-8"))
    names = ["request v2 secure 64 x1 1core", "stream v2 crc 64 x32 1core"]
    assert [row["name"] for row in values["against"]] == names
    assert [line.startswith(name) for line, name in zip(lines, names, strict=True)] == [True, True]
    assert caption.startswith(values["python"]["name"])
    assert (values["program"], values["turns"]) == (own, 7)
    for row in values["against"]:
        assert row["ops_per_s"] > 0
        assert row["program_cpu_us_per_op"] > 0
        for ratio in row["rate_ratio"], row["cpu_ratio"]:
            assert 0 < ratio["least"] <= ratio["median"] <= ratio["greatest"]
    drawn = page.read_text(encoding="utf-8")
    assert drawn.count('<svg class="ratios"') == 2
    assert all(drawn.count(f">{name}</text>") == 2 for name in names)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 3", "program: ended with exit code 3"),
        ("echo first >&2; echo my last words >&2; exit 1", "program: ended with exit code 1: my last words"),
        ("read n; echo fast; cat", "answered 'fast' to 1 messages, which is not a JSON object with this count"),
        ("read n; echo '[1]'; cat", "answered '[1]'"),
        ('read n; echo \'{"count": 1, "elapsed_s": -1, "cpu_us_per_op": 1}\'; cat', "answered '{"),
        ('read n; echo \'{"count": 2, "elapsed_s": 1, "cpu_us_per_op": 1}\'; cat', "answered '{"),
        ("read n; head -c 100000 /dev/zero; echo; cat", "the answer is longer than a line may be"),
        ("exec 1>&-; exec sleep 60", "program: closed its output"),
    ],
)
def test_a_program_that_fails_is_one_line(
    script: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit.bench.anchor.program._STOP_TIMEOUT_S", 1.0)
    assert msgrlab(["bench", "--against", program(tmp_path, script), *TINY, *SHORT]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1


def test_bench_times_out_on_a_silent_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit.bench.anchor.program._ANSWER_TIMEOUT_S", 0.2)
    assert msgrlab(["bench", "--against", program(tmp_path, "cat >/dev/null; exit 0"), *TINY, *SHORT]) == 2
    assert capsys.readouterr().err.endswith("program: no answer within 0.2 s\n")


def test_rows_before_a_failure_are_kept(own: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path(own).write_text(f'#!/bin/sh\ncase "$*" in *"--size 2048 "*) exit 7;; esac\n{OWN}\n')
    out = tmp_path / "rows.json"
    words = ["--against", own, *TINY, "--sizes", "64,2K,4K", *SHORT, "--json", "--out", str(out)]
    assert msgrlab(["bench", *words]) == 2
    printed, err = capsys.readouterr()
    assert out.read_text(encoding="utf-8") == printed
    values = json.loads(printed)
    assert [row["size"] for row in values["against"]] == [64]
    assert values["error"].endswith("ended with exit code 7")
    assert "1 of 3 rows were measured" in err
    assert err.endswith(f"{values['error']}\n")


def test_ctrl_c_keeps_the_rows_so_far(own: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    interrupt = 'case "$*" in *"--size 2048 "*) kill -INT 0; sleep 60;; esac'
    Path(own).write_text(f"#!/bin/sh\n{interrupt}\n{OWN}\n")
    words = ["bench", "--against", own, *TINY, "--sizes", "64,2K", *SHORT, "--json", "--html", str(page)]
    code = """if True:
        import signal
        from toolkit.cli.main import main
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, if the tests run in the background
        main()"""
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, process_group=0
    )
    assert done.returncode == 130
    assert "msgrlab: interrupted: 1 of 2 rows were measured\n" in done.stderr
    values = json.loads(done.stdout)
    assert [row["size"] for row in values["against"]] == [64]
    assert values["interrupted"]
    assert page.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--against", "/nowhere/at/all"], "--against /nowhere/at/all: there is no such program"),
        (["--against", "/"], "--against /: there is no such program"),
        (["--cells", "crc 4X"], "--cells: unknown '4X'; known: request, v2, crc, 64, x1, 1core"),
        (["--cells", "crc 1M,"], "--cells: no cell is named ''; an example is 'request v2 crc 64 x1 1core'"),
        (["--cells", "crc secure"], "--cells: no cell is named 'crc secure'"),
        (["--html", "page.html"], "--html needs --against PROGRAM"),
        (["--core", "--against", "/bin/true"], "--core can only be combined with"),
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


def test_bench_refuses_a_file_that_is_not_executable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"data")
    assert msgrlab(["bench", "--against", str(path), *TINY, *SHORT]) == 2
    assert capsys.readouterr().err == f"msgrlab: {path} cannot be run: Permission denied\n"


def test_cells_option_selects_cells_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--cells", "x1 64", "--patterns", "request", "--modes", "crc", "--cores", "1", *SHORT]
    assert msgrlab(["bench", *words, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["results"]
    assert (row["size"], row["in_flight"]) == (64, 1)


def test_program_runs_pinned_to_the_given_cpus(own: str) -> None:
    cpu = str(min(os.sched_getaffinity(0)))
    options = ["--proto", "v1", "--mode", "crc", "--pattern", "stream", "--size", "64", "--in-flight", "4"]
    done = subprocess.run(
        [own, *options, "--cpus", f"{cpu},{cpu}", "--control", "yes"],
        input="4\n8\n",
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["count"] for row in rows] == [4, 8]
    assert all(re.fullmatch(r"count|elapsed_s|cpu_us_per_op", key) for row in rows for key in row)
