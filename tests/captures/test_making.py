"""The parts of the capture recipes that need no cluster: selecting, shortening and describing captures."""

import re
import subprocess
import sys

import pytest

from captures.expected import HERE
from captures.recipes import RECIPES
from captures.trim import compress, end_of, log_of

MS = 1_000_000
LINE = (
    "2026-11-21T18:43:02.{ms:03}+0000 7f86dedd16c0  1 -- v1:127.0.0.1:6800/5 --> v1:127.0.0.1:0/77 -- "
    "osd_map(1) v4 -- 0x1 con 0x2"
)
FAULT = (
    "2026-11-21T18:43:02.{ms:03}+0000 7f8e603926c0  1 --2- 127.0.0.1:0/77 >> v2:127.0.0.1:6800/5 "
    "conn(0x1 0x2 crc :-1 s=READY)._fault initiating reconnect"
)
NOISE = "2026-11-21T18:43:02.{ms:03}+0000 7f8e603926c0  0 osd.0 10 crush map has features"
BEGAN_NS = 1795286582_000 * MS


def run(*arguments):
    command = [sys.executable, "-m", "captures", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=HERE.parent)


def test_the_list_has_every_capture_and_what_it_shows():
    lines = run("--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(RECIPES)
    assert all(RECIPES[line.split()[0]].shows in line for line in lines)


def test_an_unknown_capture_is_a_usage_error():
    done = run("pacific-crcc")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown capture pacific-crcc" in done.stderr


def test_readme_describes_every_capture():
    readme = (HERE / "README.md").read_text()
    for name, recipe in RECIPES.items():
        kind = re.sub(f"^{recipe.release}", "RELEASE", name)
        assert f"`{name}`" in readme or f"`{kind}`" in readme, name


@pytest.mark.parametrize(
    ("times_ms", "end_ms"),
    [
        ([-5, -1], 20),  # nothing after the workload
        ([-5, 10, 30, 200], 50),  # a little, then silence
        ([30, 60, 90], 110),
        ([100, 130], 20),
    ],
)
def test_a_capture_ends_in_the_first_silence_after_the_workload(times_ms, end_ms):
    packets = [(time * MS, b"") for time in times_ms]
    assert end_of(packets, ended_ns=0) == end_ms * MS


def test_logs_keep_messages_and_links_of_the_time_of_their_capture(tmp_path):
    path = tmp_path / "osd.0.log"
    kept = [LINE.format(ms=100), FAULT.format(ms=150), LINE.format(ms=199)]
    others = [LINE.format(ms=99), LINE.format(ms=200), NOISE.format(ms=150)]
    path.write_text("\n".join([*kept, *others]) + "\n")
    text, any_message = log_of(path, BEGAN_NS + 100 * MS, BEGAN_NS + 200 * MS)
    assert text.splitlines() == kept
    assert any_message


def test_log_without_messages_is_an_error(tmp_path):
    path = tmp_path / "osd.0.log"
    path.write_text(FAULT.format(ms=150) + "\n")
    assert log_of(path, BEGAN_NS, BEGAN_NS + 1000 * MS)[1] is False


def test_the_same_data_make_the_same_file(tmp_path):
    first, second = tmp_path / "a.gz", tmp_path / "b.gz"
    compress(b"text", first)
    compress(b"text", second)
    assert first.read_bytes() == second.read_bytes()
