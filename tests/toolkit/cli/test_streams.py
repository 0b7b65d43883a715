import os
import subprocess
import sys
from pathlib import Path

import pytest

MAIN = "from toolkit.cli.main import main; main()"
FULL = Path("/dev/full")
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def shell(words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell in which ``msgrlab`` is this program."""
    line = f"msgrlab() {{ {sys.executable} -c '{MAIN}' \"$@\"; }}; {words}"
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, timeout=60, env=os.environ | environment
    )


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["list reconnect", "--help", "doctor --json"])
def test_standard_output_on_a_full_disk_is_one_line_and_exit_2(command: str, unbuffered: str) -> None:
    done = shell(f"msgrlab {command} >{FULL}", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (2, "msgrlab: standard output: No space left on device\n")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_stream_does_not_stop_a_command(closed: str, tmp_path: Path) -> None:
    done = shell(f"msgrlab run reconnect --out {tmp_path}/out {closed}")
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.rglob("*.ndjson"))


def test_closed_stream_is_no_place_for_a_file_of_the_command() -> None:
    """Else what the command prints would go into the first file that it opens."""
    code = (
        "from toolkit.cli.streams import prepare; prepare(); print(open('/dev/null').fileno(), file=open(3, 'w'))"
    )
    done = shell(f'{sys.executable} -c "{code}" 3>&1 <&- >&- 2>&-')
    assert int(done.stdout) > 3


def test_error_line_that_cannot_be_written_leaves_the_exit_code() -> None:
    assert shell(f"msgrlab list --bogus 2>{FULL}").returncode == 2


@pytest.mark.parametrize("encoding", ["", "ascii", "latin-1"])
def test_characters_that_the_encoding_lacks_are_escaped(encoding: str) -> None:
    code = "from toolkit.cli.streams import prepare; prepare(); print('a \\u2192 b')"
    done = shell(f'{sys.executable} -c "{code}"', PYTHONIOENCODING=encoding, **ASCII)
    assert (done.stdout, done.stderr) == ("a \\u2192 b\n", "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_waits_for_a_slow_reader_of_a_pipe_that_does_not_block(unbuffered: str) -> None:
    code = "from toolkit.cli.streams import prepare; prepare(); print('x' * 300000)"
    source, sink = os.pipe()
    os.set_blocking(sink, False)
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=sink, stderr=subprocess.PIPE, env=environment
    ) as command:
        os.close(sink)
        with os.fdopen(source, "rb") as reader:
            assert len(reader.read()) == 300001
        assert command.stderr is not None
        assert command.stderr.read() == b""
    assert command.returncode == 0
