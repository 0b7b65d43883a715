"""The README tells the truth: its commands and its program run as printed."""

import asyncio
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.rados import Clusters, client, pool_of
from toolkit.cli.main import run as msgrlab
from toolkit.cluster import Cluster
from toolkit.cluster.monitor import Mode, RealMonitor

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)
COMMANDS = [
    line for kind, block in BLOCKS if not kind for line in block.splitlines() if line.startswith("msgrlab ")
]
(CLUSTER,) = (block.splitlines() for kind, block in BLOCKS if not kind and "msgrlab up" in block)
(PYTEST,) = (block for kind, block in BLOCKS if kind == "python" and "msgrlab_cluster" in block)
PROGRAM, OBJECTS = (block for kind, block in BLOCKS if kind == "python" and "async def main" in block)


@pytest.mark.parametrize("command", [line for line in COMMANDS if line.split()[1] in {"list", "run"}])
def test_command_runs(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert msgrlab(shlex.split(command)[1:]) == 0


def test_cluster_commands_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSGRLAB_STATE", str(tmp_path / "state"))
    assert [msgrlab(shlex.split(command)[1:]) for command in CLUSTER] == [0] * len(CLUSTER)
    assert not [path for path in (tmp_path / "state").iterdir() if path.is_dir()]


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


@pytest.mark.needs("ceph-mon", "ceph-authtool", "ceph")
def test_proxy_command_runs(real_monitor: Callable[[Mode], RealMonitor]) -> None:
    monitor = real_monitor("secure")
    (command,) = [line for line in COMMANDS if line.startswith("msgrlab proxy")]
    words = shlex.split(command)[1:]
    words[1:3] = ["0", monitor.addr_v2.removeprefix("v2:").partition("/")[0]]
    words[words.index("--keyring") + 1] = str(monitor.keyring)
    program = [sys.executable, "-c", "from toolkit.cli.main import main; main()", *words]
    done = subprocess.run(program, input="quit\n", capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.needs("ceph-mon", "ceph-authtool", "ceph")
def test_probe_command_runs(real_monitor: Callable[[Mode], RealMonitor]) -> None:
    monitor = real_monitor("crc")
    (command,) = [line for line in COMMANDS if line.startswith("msgrlab probe")]
    words = shlex.split(command)[1:]
    words[1], words[3] = monitor.addr_v2, str(monitor.keyring)
    assert msgrlab(words) == 0


@pytest.mark.needs("ceph-mon", "ceph-authtool", "ceph")
def test_program_prints_the_monitor_map(
    real_monitor: Callable[[Mode], RealMonitor], capsys: pytest.CaptureFixture[str]
) -> None:
    monitor = real_monitor("secure")
    program = PROGRAM.replace("v2:10.1.2.3:3300", monitor.addr_v2)
    program = program.replace("ceph.client.admin.keyring", str(monitor.keyring))
    names: dict[str, Callable[[], object]] = {}
    exec(compile(program, "README.md", "exec"), names)
    asyncio.run(names["main"]())  # type: ignore[arg-type]
    assert monitor.fsid in capsys.readouterr().out


@pytest.mark.needs("ceph-osd")
@pytest.mark.xdist_group("real_cluster")
def test_objects_are_written_and_read(real_cluster: Clusters, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = real_cluster(1, "secure", "cephx")

    async def with_pool() -> None:
        async with client(cluster) as rados:
            await pool_of(rados, "rbd")

    asyncio.run(with_pool())
    program = OBJECTS.replace("v2:10.1.2.3:3300", cluster.monitor.addr_v2)
    names: dict[str, Callable[[], object]] = {}
    exec(compile(program.replace("ceph.client.admin.keyring", str(cluster.keyring)), "README.md", "exec"), names)
    asyncio.run(names["main"]())  # type: ignore[arg-type]
    assert capsys.readouterr().out.startswith("b'hello' Stat(size_bytes=5")


def test_linked_files_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
