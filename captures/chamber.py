"""The isolated environment of a recording: a loopback interface of its own, and the programs of one image.

A recording runs in private network and mount namespaces, so that its clusters use the default ports and cannot be
reached from outside. Programs of Ceph come from the image: small scripts at the front of PATH run them there.
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
"""Programs of the image that replace those of this machine."""

_SILENCE = "silence"
"""Name of the nftables table that drops packets."""
_UNSHARE = ("unshare", "--net", "--mount", "--fork", "--kill-child")


def enter(module: str, *arguments: str) -> int:
    """Run a Python module in a new isolated environment; return its exit code."""
    command = [*_UNSHARE, *PYTHON, "-m", module, *arguments]
    return subprocess.run(command, env=environment(), check=False).returncode


def furnish(image: Path, scripts: Path) -> None:
    """Bring the loopback interface up, and put the image's programs first in PATH; called in the namespaces."""
    run("ip", "link", "set", "lo", "up")
    shared = tempfile.gettempdir()  # directories of clusters: they need the same path inside and outside the image
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
    """Run a program and return its output; if it fails, print its errors and raise CalledProcessError."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stderr)
        done.check_returncode()
    return done.stdout


def cut(port: int) -> int:
    """Abort the established TCP connections that were accepted at a port; return their number."""
    listed = run("ss", "--kill", "--no-header", "--tcp", "--numeric", "state", "established", f"sport = :{port}")
    return len(listed.splitlines())


@contextmanager
def silence(ports: Iterable[int]) -> Iterator[None]:
    """Drop every packet to and from these TCP ports, after the point of capture: captures still have them."""
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
    """Return the TCP ports on which a process listens, in ascending order."""
    listed = run("ss", "--no-header", "--tcp", "--numeric", "--listening", "--processes").splitlines()
    return sorted({int(line.split()[3].rpartition(":")[2]) for line in listed if f"pid={pid}," in line})
