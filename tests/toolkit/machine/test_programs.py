import shutil
import sys
from pathlib import Path

import pytest

from toolkit.machine import programs

APT_GET = "exit 0"
BIN = "/bin:/usr/bin"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory in PATH; its programs are what a test puts there."""
    monkeypatch.setenv("PATH", str(tmp_path))
    install(tmp_path, "apt-get", APT_GET)
    return tmp_path


def install(path: Path, name: str, script: str) -> None:
    (path / name).write_text(f"#!/bin/sh\n{script}\n")
    (path / name).chmod(0o755)


def test_program_prints_its_version(path: Path) -> None:
    install(path, "tool", 'test "$1" = --version && echo "tool version 16.2.15 (618f44) pacific"')
    assert programs.program("tool", packages=("p",)) == programs.Finding(available=True, detail="16.2.15")


def test_program_without_a_version_is_described_by_its_path(path: Path) -> None:
    install(path, "tool", "echo hello")
    assert programs.program("tool", packages=("p",)).detail == str(path / "tool")


def test_program_finds_the_first_installed_name(path: Path) -> None:
    install(path, "second", "echo 2.0")
    install(path, "third", "echo 3.0")
    assert programs.program("first", "second", "third", packages=("p",)).detail == "2.0"


def test_a_missing_program(path: Path) -> None:
    finding = programs.program("first", "second", packages=("p",))
    assert not finding.available
    assert finding.detail == "no first or second in PATH"
    assert finding.packages == ("p",)


def test_program_that_fails_to_run_is_unavailable_with_its_error(path: Path) -> None:
    install(path, "tool", "echo one >&2; echo 'libfoo.so: cannot open' >&2; exit 127")
    finding = programs.program("tool", packages=("p",))
    assert not finding.available
    assert finding.detail == f"{path}/tool does not run: libfoo.so: cannot open"
    assert finding.remedy is None


def test_slow_program_is_available(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "PROGRAM_TIMEOUT_S", 0.05)
    install(path, "tool", f"exec {shutil.which('sleep', path=BIN)} 10")
    finding = programs.program("tool", packages=("p",))
    assert finding.available
    assert "too slow just now" in finding.detail


def test_a_monitor_needs_the_map_tool(path: Path) -> None:
    install(path, "ceph-mon", "echo ceph version 18.2.7")
    assert programs.ceph_mon().detail == "no monmaptool in PATH"
    install(path, "monmaptool", "exit 0")
    assert programs.ceph_mon().detail == "18.2.7"


@pytest.mark.parametrize(
    ("script", "detail", "remedy"),
    [
        ("echo 28.2.2", "engine 28.2.2", None),
        (
            "echo 'permission denied while trying to connect' >&2; exit 1",
            "this user may not talk to the docker engine",
            "usermod -aG docker ",
        ),
        (
            "echo 'Cannot connect' >&2; exit 1",
            "only the client of docker is installed",
            "apt-get install -y docker.io",
        ),
    ],
)
def test_docker(path: Path, script: str, detail: str, remedy: str | None) -> None:
    install(path, "docker", script)
    finding = programs.docker()
    assert finding.detail == detail
    assert finding.available == (remedy is None)
    assert (remedy or "") in (finding.remedy or "")


def test_a_docker_engine_that_is_installed_wants_starting(path: Path) -> None:
    install(path, "docker", "echo 'Cannot connect to the daemon' >&2; exit 1")
    install(path, "dockerd", "exit 0")
    finding = programs.docker()
    assert finding.detail == "Cannot connect to the daemon"
    assert "docker" in (finding.remedy or "")
    assert "apt-get" not in (finding.remedy or "")


def test_a_swarm_begins_when_the_engine_answers(path: Path) -> None:
    *_, start, begin = programs.swarm().commands
    assert "docker" in start
    assert begin.startswith("docker swarm init ")
    install(path, "docker", "echo 'permission denied while trying to connect' >&2; exit 1")
    assert programs.swarm().commands == programs.docker().commands  # the group counts from the next login on


def test_command_waits_for_the_engine(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "sudo", lambda: "")
    monkeypatch.setattr(programs, "_SYSTEMD", tmp_path / "none")
    (start,) = programs.docker().commands
    install(path, "dockerd", f"{shutil.which('sleep', path=BIN)} 0.2; echo up >{tmp_path}/engine")
    install(path, "docker", f"test -e {tmp_path}/engine")
    for name in ("timeout", "sleep", "sh"):
        (path / name).symlink_to(shutil.which(name, path=BIN))
    assert programs.run("sh", "-c", start).returncode == 0
    assert (tmp_path / "engine").exists()


def test_hardware_crc_is_probed_by_import(monkeypatch: pytest.MonkeyPatch) -> None:
    assert programs.hardware_crc().detail.startswith("fastcrc, ")
    monkeypatch.setitem(sys.modules, "fastcrc.crc32", None)
    finding = programs.hardware_crc()
    assert not finding.available
    assert finding.remedy == f"{sys.executable} -m pip install fastcrc"
