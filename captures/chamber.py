"""A place of its own for a recording: nothing but its own loopback interface, and the programs of one image.

A recording runs in private network and mount namespaces, so its clusters have the usual ports and nobody hears of
them. Programs of Ceph come from the image: small scripts in front of everything in PATH run them there.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from toolkit.machine.interpreters import PYTHON, environment

PROGRAMS = (
    *("ceph-mon", "monmaptool", "ceph-osd", "ceph-mgr", "ceph-mds"),
    *("ceph-authtool", "ceph", "rados", "python3"),
)
"""Those of the image that take the place of this machine's."""

_SILENCE = "silence"
"""The table of nftables that loses packets."""
_UNSHARE = ("unshare", "--net", "--mount", "--fork", "--kill-child")


def enter(module: str, *arguments: str) -> int:
    """Run a module of ours in a new chamber; returns its exit code."""
    command = [*_UNSHARE, *PYTHON, "-m", module, *arguments]
    return subprocess.run(command, env=environment(), check=False).returncode


def furnish(image: Path, scripts: Path) -> None:
    """Bring the loopback interface up, and put the image's programs first in PATH. Called inside."""
    run("ip", "link", "set", "lo", "up")
    shared = tempfile.gettempdir()  # clusters live there, on both sides under the same name
    for directory in ("/proc", "/dev", shared):
        inside = image / directory.lstrip("/")
        inside.mkdir(parents=True, exist_ok=True)
        run("mount", "--bind", directory, str(inside))
    for program in PROGRAMS:
        script = scripts / program
        script.write_text(f'#!/bin/sh\nexec chroot {shlex.quote(str(image))} /usr/bin/{program} "$@"\n')
        script.chmod(0o755)
    os.environ["PATH"] = f"{scripts}:{os.environ['PATH']}"
    os.environ["LC_ALL"] = "C.UTF-8"


def run(*command: str) -> str:
    """What a program prints; raises CalledProcessError when it fails, which has said why."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stderr)
        done.check_returncode()
    return done.stdout


def cut(port: int) -> int:
    """Abort the established TCP connections that were accepted at a port; returns how many."""
    listed = run("ss", "--kill", "--no-header", "--tcp", "--numeric", "state", "established", f"sport = :{port}")
    return len(listed.splitlines())


@contextmanager
def silence(ports: Iterable[int]) -> Iterator[None]:
    """Lose every packet to and from these TCP ports, behind where captures are taken: they have what is lost."""
    among = "{ " + ", ".join(map(str, ports)) + " }"
    run("nft", "add", "table", "inet", _SILENCE)
    run("nft", "add", "chain", "inet", _SILENCE, "input", "{ type filter hook input priority 0; }")
    for end in ("sport", "dport"):
        run("nft", "add", "rule", "inet", _SILENCE, "input", "tcp", end, among, "drop")
    try:
        yield
    finally:
        run("nft", "delete", "table", "inet", _SILENCE)


def listening_ports(pid: int) -> list[int]:
    """Where a process listens, ascending."""
    listed = run("ss", "--no-header", "--tcp", "--numeric", "--listening", "--processes").splitlines()
    return sorted({int(line.split()[3].rpartition(":")[2]) for line in listed if f"pid={pid}," in line})
