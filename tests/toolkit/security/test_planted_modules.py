"""Commands that are typed in a directory full of planted Python modules import none of them."""

import importlib.metadata
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters import ROOT, state
from toolkit.cli import main as cli
from toolkit.machine.interpreters import safe_workers

__all__ = ["state"]

CAPTURE = str(ROOT / "captures/tentacle-crc/capture.pcapng.gz")
PATIENCE_S = 60.0

FINISH = {
    "analyze": [[CAPTURE]],
    "bench": [
        ["--patterns", "request", "--sizes", "64", "--in-flight", "1", "--modes", "crc", "--seconds", "0.01"],
        ["decode", CAPTURE, "--runs", "1"],
        ["clusters", "--backends", "process", "--rounds", "1"],
        ["anchor", "--help"],
    ],
    "capture": [["lo", "--duration", "0.1", "-o", "taken.pcapng"]],
    "chart": [[CAPTURE]],
    "conformance": [["--list"]],
    "decode": [[CAPTURE]],
    "demo": [[]],
    "doctor": [[]],
    "explain": [[CAPTURE]],
    "explore": [["--proto", "v1,v2", "--policy", "lossless_client", "--faults", "0", "--jobs", "2"]],
    "hunt": [["--list"]],
    "images": [["list"]],
    "init": [["tests", "own"]],
    "link": [["add", "--help"]],
    "list": [[]],
    "matrix": [["--list", "--only", "reef/v1"]],
    "node": [[]],
    "probe": [["127.0.0.1:1", "--timeout", "1"]],
    "replay": [[CAPTURE, "--as", "client"]],
    "requests": [[CAPTURE]],
    "run": [["reconnect", "LP-01", "--backend", "local", "--jobs", "2"]],
    "sim": [["--seeds", "4", "--jobs", "2"]],
    "top": [[CAPTURE], ["lo", "--interval", "0.1", "--count", "1"]],
    "vm": [["run", "--help"]],
    "wireshark": [[]],
}
"""Commands that end by themselves."""
GO_ON = {"lab": (["."], "http://"), "proxy": (["0", "127.0.0.1:1"], "127.0.0.1")}
"""Commands that go on until Ctrl-C, and what they print when they are ready (JupyterLab does not let root)."""
OF_CLUSTERS = {"up", "status", "tell", "exec", "fault", "down"}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a module of every name that any of our programs may import."""
    directory = tmp_path_factory.mktemp("planted")
    names = {*sys.stdlib_module_names, *importlib.metadata.packages_distributions()}
    names |= {"toolkit", "messenger", "captures", "tests", "sitecustomize", "usercustomize", "jupyterlab", "pip"}
    marks = directory.with_name("executed")
    marks.mkdir()
    for name in names:
        if name.isidentifier():
            mark = f"open({str(marks / name)!r}, 'w').close()\n"
            (directory / f"{name}.py").write_text(mark)
    return directory


@pytest.fixture(scope="module")
def executed(planted: Path) -> Path:
    """Return the directory in which a module that is imported leaves a file of its name."""
    return planted.with_name("executed")


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The console script, as an installation makes it: the first place for modules is its own directory."""
    script = tmp_path_factory.mktemp("bin") / "msgrlab"
    script.write_text("from toolkit.cli.main import main\nif __name__ == '__main__':\n    main()\n")
    return [sys.executable, str(script)]


@pytest.fixture
def environment(state: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return {**kept, "PYTHONPATH": str(ROOT), "BROWSER": "true", "MSGRLAB_LINKS": "wire"}


@pytest.fixture(autouse=True)
def nothing_is_executed(executed: Path) -> Iterator[None]:
    yield
    found = sorted(path.name for path in executed.iterdir())
    for name in found:
        (executed / name).unlink()
    assert found == []


def test_tests_cover_every_command() -> None:
    assert {*FINISH, *GO_ON, *OF_CLUSTERS} == set(cli.commands())


@pytest.mark.parametrize(
    "words", [[name, *arguments] for name, lines in FINISH.items() for arguments in lines], ids=" ".join
)
def test_command_imports_no_planted_module(
    words: list[str], command: list[str], planted: Path, environment: dict[str, str]
) -> None:
    done = subprocess.run(
        [*command, *words],
        cwd=planted,
        env=environment,
        input="",
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", GO_ON)
def test_long_running_command_imports_no_planted_module(
    name: str, command: list[str], planted: Path, environment: dict[str, str]
) -> None:
    arguments, sign = GO_ON[name]
    with subprocess.Popen(
        [*command, name, *arguments],
        cwd=planted,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as running:
        try:
            assert running.stdout is not None
            output = read_until(running, sign)
        finally:
            os.killpg(running.pid, signal.SIGKILL)
    assert output


def read_until(running: subprocess.Popen[bytes], sign: str) -> str:
    """Return the output of a program up to a sign, or until it ends."""
    assert running.stdout is not None
    output, deadline_s = "", time.monotonic() + PATIENCE_S
    with selectors.DefaultSelector() as selector:
        selector.register(running.stdout, selectors.EVENT_READ)
        while sign not in output and time.monotonic() < deadline_s:
            if selector.select(1.0):
                chunk = os.read(running.stdout.fileno(), 1 << 16)
                if not chunk:
                    break
                output += chunk.decode(errors="replace")
    return output


@pytest.mark.parametrize("backend", ["process", pytest.param("netns", marks=[pytest.mark.needs("netns", "nft")])])
def test_cluster_imports_no_planted_module(
    backend: str, command: list[str], planted: Path, environment: dict[str, str]
) -> None:
    def run(*words: str) -> None:
        done = subprocess.run(
            [*command, *words],
            cwd=planted,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, (words, done.stderr)

    run("up", "two-peers", "--backend", backend)
    try:
        run("status")
        run("tell", "a", "send", "b")
        run("exec", "a", "--", "true")
        run("fault", "link", "a", "b", "delay-ms=20")
        run("fault", "restart", "b")
    finally:
        run("down")


def test_pool_workers_import_no_planted_module(
    planted: Path, executed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the Python that runs this starts them: fork, forkserver and spawn have all been the default."""
    program = (
        "import multiprocessing, sys\n"
        "from toolkit.machine.interpreters import safe_workers\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context(sys.argv[1])\n"
        "    with safe_workers(), context.Pool(1) as pool:\n"
        "        print(pool.apply(abs, (-7,)))\n"
    )
    script = executed.with_name("pool.py")
    script.write_text(program)
    for method in ("fork", "forkserver", "spawn"):
        done = subprocess.run(
            [sys.executable, str(script), method],
            cwd=planted,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "7\n"
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    with safe_workers():
        assert os.environ["PYTHONSAFEPATH"] == "1"
    assert "PYTHONSAFEPATH" not in os.environ
