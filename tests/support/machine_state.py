"""The state of the machine that clusters could change, for a comparison of before and after."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from messenger.compat import override
from tests.support.clusters import ROOT
from tests.support.needs import require
from toolkit.machine.labels import PROCESS_VARIABLE
from toolkit.machine.leases import STATE_VARIABLE, state_root


def machine_state(*, everything: bool = False) -> dict[str, list[str]]:
    """Everything by kind, each thing a line.

    Args:
        everything: whether to ask the Docker engine as well, and look for processes of all clusters.
    """
    state = {
        "namespaces": _names(Path("/run/netns")),
        "interfaces": _names(Path("/sys/class/net")),
        "qdiscs": _lines("tc", "qdisc", "show"),
        "addresses": _lines("ip", "-oneline", "address", "show"),
        "routes": _lines("ip", "route", "show", "table", "all"),
        "nft": _lines("nft", "list", "tables"),
        "mounts": sorted(line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()),
    }
    if everything:
        state |= {
            "processes": sorted(_labelled()),
            "clusters": _names(state_root()),
            "containers": _lines("docker", "ps", "--all", "--format", "{{.Names}}"),
            "networks": _lines("docker", "network", "ls", "--format", "{{.Name}}"),
            "volumes": _lines("docker", "volume", "ls", "--format", "{{.Name}}"),
            "services": _lines("docker", "service", "ls", "--format", "{{.Name}}"),
        }
    return state


def changes(before: dict[str, list[str]], after: dict[str, list[str]]) -> list[str]:
    """Return what has appeared and what has gone, a line each.

    Mounts disappear, in all namespaces, when any process removes their directory; so a mount that has gone is no
    change.
    """
    added = [f"+ {kind}: {line}" for kind in before for line in sorted({*after[kind]} - {*before[kind]})]
    removed = [
        f"- {kind}: {line}"
        for kind in before
        for line in sorted({*before[kind]} - {*after[kind]})
        if kind != "mounts"
    ]
    return added + removed


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []


def _lines(*command: str) -> list[str]:
    """Return the output of a program; nothing without nft or Docker, since then there are no objects of theirs."""
    if command[0] in {"nft", "docker"} and shutil.which(command[0]) is None:
        return []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return sorted(done.stdout.splitlines())


def _labelled() -> Sequence[str]:
    wanted = f"{PROCESS_VARIABLE}=".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                words = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            found += [f"{entry.name} {word.decode()}" for word in words if word.startswith(wanted)]
    return found


class Apart:
    """Namespaces of network and mounts in which no other process makes anything, while the context lasts.

    Skips the test where they cannot be made or looked into.
    """

    _MAKE = """\
mount -t sysfs sysfs /sys
mkdir -p /run/netns
mount -t tmpfs msgrlab-test /run/netns
mount --make-shared /run/netns
ip link set lo up
echo made
exec cat
"""

    def __init__(self) -> None:
        require("netns", "iproute2")
        self._holder = subprocess.Popen(
            ["unshare", "--net", "--mount", "sh", "-ec", self._MAKE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if name != STATE_VARIABLE},
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"made\n":
            self._holder.communicate()
            raise AssertionError("no namespaces; unshare says why")

    @property
    def entering(self) -> list[str]:
        """Return the words before a command line that run it in the namespace."""
        return ["nsenter", "--net", "--mount", "--target", str(self._holder.pid)]

    @override
    def state(self) -> dict[str, list[str]]:
        program = f"import json; from {__name__} import machine_state as m; print(json.dumps(m()))"
        done = subprocess.run(
            [*self.entering, sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            check=True,
        )
        return json.loads(done.stdout)

    def __enter__(self) -> "Apart":
        return self

    def __exit__(self, *_: object) -> None:
        self._holder.communicate()
