"""The commands and the program of the README run as printed."""

import json
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.clusters import command_line, state
from toolkit.cli.main import run as msgrlab
from toolkit.cluster import Cluster

__all__ = ["state"]

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)
COMMANDS = [
    line for kind, block in BLOCKS if not kind for line in block.splitlines() if line.startswith("msgrlab ")
]
CLUSTER, PROXY, DIALS = (
    block.splitlines()
    for kind, block in BLOCKS
    if not kind and re.search("^msgrlab (up|down)", block, re.MULTILINE)
)
(PYTEST,) = (block for kind, block in BLOCKS if kind == "python" and "msgrlab_cluster" in block)
PROGRAMS = [block for kind, block in BLOCKS if kind == "python" and "asyncio.run" in block]
PRINTED = ("MMonMap(monmap=MonMap(", "b'hello' Stat(size_bytes=5")


@pytest.mark.parametrize("command", [line for line in COMMANDS if line.split()[1] in {"list", "run"}])
def test_command_runs(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert msgrlab(shlex.split(command)[1:]) == 0


@pytest.mark.usefixtures("state")
def test_cluster_commands_run_one_after_the_other() -> None:
    assert [msgrlab(shlex.split(command)[1:]) for command in CLUSTER] == [0] * len(CLUSTER)


def test_pytest_example_passes(msgrlab_cluster: Callable[..., Cluster]) -> None:
    names: dict[str, Callable[[object], object]] = {}
    made: list[Cluster] = []

    def new_cluster(*args: str, **options: bool) -> Cluster:
        made.append(msgrlab_cluster(*args, **options))
        return made[-1]

    exec(compile(PYTEST, "README.md", "exec"), names)
    names["test_nothing_is_lost"](new_cluster)
    (cluster,) = made
    assert set(cluster.nodes) == {"a", "b"}


@pytest.mark.usefixtures("state")
def test_a_monitor_is_probed_directly_and_through_the_proxy() -> None:
    *before, proxy = PROXY
    assert [msgrlab(shlex.split(command)[1:]) for command in before] == [0] * len(before)
    words = shlex.split(proxy)[1:]
    port, words[1] = words[1], "0"  # another test may have the port of the page
    with subprocess.Popen(
        command_line(*words, "--json"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        place = json.loads(running.stdout.readline())["proxy"]
        dials = [command.replace(f"127.0.0.1:{port}", place) for command in DIALS]
        assert [msgrlab(shlex.split(command)[1:]) for command in dials] == [0] * len(DIALS)
        printed = running.communicate("quit\n", timeout=60)[0]
    assert running.returncode == 0
    assert "hold x for 2s" in printed


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("program", "expected"), list(zip(PROGRAMS, PRINTED, strict=True)))
def test_program_runs(program: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(program, "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith(expected)
