"""Probes for installed software: programs, libraries, Docker."""

import getpass
import platform
import re
import shutil
import subprocess
import sys
import timeit
from dataclasses import replace
from pathlib import Path

from messenger.errors import LocalError
from messenger.form import MESSENGER
from toolkit.form import TOOLKIT
from toolkit.machine.capability import Finding, not_installed, sudo

PROGRAM_TIMEOUT_S = 1.5

_SYSTEMD = Path("/run/systemd/system")
_VERSION = re.compile(r"\d+(\.\d+)+")
_CRC_CHECK_INPUT = b"123456789"
_CRC_CHECK_VALUE = 0xE3069283
"""CRC-32C of the input above, the check value that catalogues of CRCs list."""
_CRC_SAMPLE = bytes(1 << 20)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a program with empty input and return its output.

    Raises:
        subprocess.TimeoutExpired: it took longer than ``PROGRAM_TIMEOUT_S``.
        OSError: it does not start.
    """
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=PROGRAM_TIMEOUT_S,
        check=False,
    )


def program(*names: str, packages: tuple[str, ...]) -> Finding:
    """Find the first of ``names`` in PATH, and run it with ``--version``."""
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        return not_installed(f"no {' or '.join(names)} in PATH", packages)
    try:
        answer = run(path, "--version")
    except subprocess.TimeoutExpired:
        return Finding(available=True, detail=f"{path}, too slow just now to print its version")
    if answer.returncode:
        return Finding(available=False, detail=f"{path} does not run: {_last_line(answer.stderr)}")
    version = _VERSION.search(answer.stdout)
    return Finding(available=True, detail=version[0] if version else path)


def ceph_mon() -> Finding:
    """Find the monitor daemon, and the tool that writes its first map."""
    packages = ("ceph-mon",)
    daemon = program("ceph-mon", packages=packages)
    if not daemon.available or shutil.which("monmaptool"):
        return daemon
    return not_installed("no monmaptool in PATH", packages)


def qemu() -> Finding:
    """Find QEMU for machines of this processor."""
    machine = platform.machine()
    package = {"x86_64": "qemu-system-x86", "aarch64": "qemu-system-arm"}.get(machine, "qemu-system")
    return program(f"qemu-system-{machine}", packages=(package,))


def python() -> Finding:
    """Return the version of the running interpreter."""
    return Finding(available=True, detail=platform.python_version())


def compiled_modules() -> Finding:
    """Find out whether the hot modules of messenger and decoder run compiled. Without them it is only slower."""
    reason = TOOLKIT.reason_for_python()
    if reason is None:
        names = ", ".join((*MESSENGER.names, *TOOLKIT.names))
        return Finding(available=True, detail=f"{names} run compiled")
    return Finding(available=False, detail=f"the Python form runs: {reason} (`make compile` in the sources)")


def hardware_crc() -> Finding:
    """Check fastcrc's result, and measure its speed."""
    try:
        from fastcrc.crc32 import iscsi
    except ImportError as error:
        pip = f"{sys.executable} -m pip install fastcrc"
        return Finding(available=False, detail=f"fastcrc does not load: {error}", commands=(pip,))
    if iscsi(_CRC_CHECK_INPUT) != _CRC_CHECK_VALUE:
        return Finding(available=False, detail="fastcrc computes a wrong CRC-32C on this processor")
    seconds = min(timeit.repeat(lambda: iscsi(_CRC_SAMPLE), number=1, repeat=5))
    return Finding(available=True, detail=f"fastcrc, {len(_CRC_SAMPLE) / seconds / 1e9:.0f} GB/s")


def pyverbs() -> Finding:
    """Find rdma-core's Python binding for this interpreter."""
    from messenger.transport.rdma import verbs  # imports the configuration

    try:
        verbs.pyverbs()
    except LocalError as error:
        return not_installed(str(error), verbs.PACKAGES)
    return Finding(available=True, detail="pyverbs loads")


def docker() -> Finding:
    """Find a Docker engine that answers."""
    packages = ("docker.io", "iptables")
    if shutil.which("docker") is None:
        return not_installed("no docker in PATH", packages, _start_dockerd())
    try:
        answer = run("docker", "version", "--format", "{{.Server.Version}}")
    except subprocess.TimeoutExpired:
        return Finding(available=False, detail="the docker engine does not answer")
    if answer.returncode == 0:
        return Finding(available=True, detail=f"engine {answer.stdout.strip()}")
    reason = _last_line(answer.stderr)
    if "permission denied" in reason:
        join = f"sudo usermod -aG docker {getpass.getuser()}"
        return Finding(available=False, detail="this user may not talk to the docker engine", commands=(join,))
    if shutil.which("dockerd") is None:
        return not_installed("only the client of docker is installed", packages, _start_dockerd())
    return Finding(available=False, detail=reason, commands=(_start_dockerd(),))


def swarm() -> Finding:
    """Find out whether the Docker engine manages a swarm."""
    begin = "docker swarm init --advertise-addr 127.0.0.1 --listen-addr 127.0.0.1"
    engine = docker()
    if not engine.available:
        return with_engine(engine, begin)
    answer = run("docker", "info", "--format", "{{.Swarm.LocalNodeState}} {{.Swarm.ControlAvailable}}")
    if answer.returncode:
        return Finding(available=False, detail=_last_line(answer.stderr))
    state, manages = answer.stdout.split()
    if manages == "true":
        return Finding(available=True, detail="the docker engine manages one")
    if state == "active":
        return Finding(available=False, detail="the docker engine is a worker in one; networks are a manager's")
    return Finding(available=False, detail="the docker engine is in none", commands=(begin,))


def with_engine(engine: Finding, command: str) -> Finding:
    """Return the finding for a feature that needs an engine, while there is none.

    Args:
        engine: the finding of :func:`docker`.
        command: command to run once the engine answers.
    """
    if _start_dockerd() not in engine.commands:
        return engine
    return replace(engine, commands=(*engine.commands, command))


def _start_dockerd() -> str:
    """Return the command that starts the engine and waits until it answers."""
    if _SYSTEMD.is_dir():
        return f"{sudo()}systemctl start docker"
    answers = f"{sudo()}docker version >/dev/null 2>&1"
    return f"({sudo()}dockerd >/dev/null 2>&1 &) && timeout 60 sh -c 'until {answers}; do sleep 1; done'"


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2] or "no reason given"
