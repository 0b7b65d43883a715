"""Targets of captures: interfaces, and network namespaces by name, container and process."""

import os
import socket
from pathlib import Path

import pytest

from messenger.errors import LocalError
from toolkit.capture import target as target_module
from toolkit.capture.target import Target
from toolkit.errors import Unsupported


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name, which tests write."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "docker"


def answer(docker: Path, script: str) -> None:
    docker.write_text(f"#!/bin/sh\n{script}\n")
    docker.chmod(0o755)


def test_interface_target_is_in_the_own_namespace() -> None:
    assert Target.parse("eth0") == Target("eth0", "eth0", None)
    assert Target.parse("any").interface == "any"
    assert Target.parse("lo").inside(lambda: 5) == 5


def test_a_process_has_a_namespace() -> None:
    own = os.getpid()
    assert Target.parse(f"pid:{own}") == Target(f"pid:{own}", "any", Path(f"/proc/{own}/ns/net"))
    assert Target.parse(f"pid:{own}/eth1").interface == "eth1"


def test_a_named_namespace_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_module, "NAMED_NAMESPACES", tmp_path)
    with pytest.raises(LocalError, match="no network namespace 'a'; there is none with a name"):
        Target.parse("netns:a")
    (tmp_path / "b").touch()
    (tmp_path / "c").touch()
    assert Target.parse("netns:b/lo") == Target("netns:b/lo", "lo", tmp_path / "b")
    with pytest.raises(LocalError, match="no network namespace 'a'; there are b, c"):
        Target.parse("netns:a")
    with pytest.raises(LocalError):
        Target.parse("netns:..")


def test_container_target_resolves_to_the_namespace_of_its_process(docker: Path) -> None:
    answer(
        docker,
        f'test "$*" = "inspect --type container --format {{{{.State.Pid}}}} -- mon.a" && echo {os.getpid()}',
    )
    assert Target.parse("docker:mon.a/eth0").namespace == Path(f"/proc/{os.getpid()}/ns/net")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 0", "docker:x: the container is not running"),
        ("echo Error: No such >&2; echo container: x >&2; exit 1", "docker:x: Error: No such container: x"),
        ("exit 1", "docker:x: docker inspect failed"),
    ],
)
def test_error_of_docker_is_passed_on(docker: Path, script: str, words: str) -> None:
    answer(docker, script)
    with pytest.raises(LocalError, match=words):
        Target.parse("docker:x")


def test_docker_target_without_an_engine_is_unsupported(docker: Path) -> None:
    answer(docker, "echo Cannot connect to the Docker daemon at unix:///x. >&2; exit 1")
    with pytest.raises(Unsupported, match="docker:x: Cannot connect"):
        Target.parse("docker:x")


def test_docker_target_without_the_docker_program_is_unsupported(docker: Path) -> None:
    os.environ["PATH"] = str(docker.parent)
    with pytest.raises(Unsupported, match="no docker in PATH"):
        Target.parse("docker:x")


@pytest.mark.parametrize(
    "text", ["", "a/b", "netns:", "netns:/eth0", "pid:1/", "docker:", "tap:x", "pid:x", "pid:-1", "pid:999999999"]
)
def test_no_target(text: str) -> None:
    with pytest.raises(LocalError):
        Target.parse(text)


def test_missing_namespace_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_module, "NAMED_NAMESPACES", tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises((LocalError, Unsupported), match="netns:file"):
        Target.parse("netns:file").inside(socket.if_nameindex)
