"""The kernel's client on a real cluster outside of this machine; prints a line of JSON for each result.

It mounts a file system and maps an image of the cluster in the machine it runs in: run it in a virtual machine
that is attached to the cluster's network.
"""

import hashlib
import json
import mmap
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from messenger.compat import override
from tests.support.kernel_namespace import KernelNamespace
from tests.toolkit.cephfs.kernel_cases import CUTS, IMAGE, MODES, POOL
from toolkit.dissect.follow import SeenFrame
from toolkit.dissect.keys import KeyBook
from toolkit.faults.proxy import Watcher
from toolkit.faults.script import strikes
from toolkit.faults.strike import Strike
from toolkit.machine import kcephfs, krbd

PORTS = {"legacy": 6789}
V2_PORT = 3300
FILE_BYTES = 1 << 20
MOUNT = Path("/mnt/kernel-fs")
TIMEOUTS = "mount_timeout=60"
_CACHES = Path("/proc/sys/vm/drop_caches")


def report(**result: object) -> None:
    print(json.dumps(result), flush=True)  # noqa: T201 - what this is for


class Dials(Watcher):
    """Counts the kernel's attempts to open a session or to resume one."""

    def __init__(self) -> None:
        self.opened = 0
        self.resumed = 0

    @override
    def frame(self, link: int, sender: str, frame: SeenFrame) -> None:
        resumes = frame.tag == "SESSION_RECONNECT" or bool(frame.fields.get("connect_seq"))
        if sender == "kernel" and frame.tag in {"CONNECT", "CLIENT_IDENT", "SESSION_RECONNECT"}:
            self.resumed += resumes
            self.opened += not resumes


class Kernel:
    """The kernel's client, and a proxy before each port of each daemon.

    Args:
        listens: address and ports of the daemons, by name.
        key: key of client.admin.
        keys: keys to parse frames of secure links.
        undo: removes the namespace from which the kernel connects, and closes the proxies.
    """

    def __init__(
        self, listens: dict[str, tuple[str, list[int]]], key: str, keys: KeyBook, undo: ExitStack
    ) -> None:
        self._key = key
        self._mon, _ = listens["mon"]
        self._namespace = KernelNamespace(keys, undo)
        self.dials = {name: Dials() for name in listens}
        self._strikes: dict[str, list[Strike]] = {name: [] for name in listens}
        for name, where in listens.items():
            self._namespace.add(name, *where, self._strikes[name], self.dials[name])

    def mount(self, mode: str) -> None:
        """Mount the file system."""
        self._namespace.inside(
            lambda: kcephfs.mount(self._source(mode), MOUNT, key=self._key, mode=mode, options=TIMEOUTS)
        )

    def map(self, mode: str) -> krbd.BlockDevice:
        """Map the image."""
        return self._namespace.inside(
            lambda: krbd.map_image(self._source(mode), POOL, IMAGE, key=self._key, mode=mode, options=TIMEOUTS)
        )

    def _source(self, mode: str) -> str:
        return f"{self._mon}:{PORTS.get(mode, V2_PORT)}"

    @contextmanager
    def following(self, daemon: str, rule: str) -> Iterator[Strike]:
        """Follow a rule on links to a daemon."""
        (strike,) = strikes([rule], "kernel", daemon)
        self._strikes[daemon].append(strike)
        try:
            yield strike
        finally:
            self._strikes[daemon].remove(strike)


class Files:
    """Files in the mounted directory, and what they must contain."""

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}

    def write(self, name: str) -> None:
        """Write a file, up to the OSD."""
        data = random.Random(name).randbytes(FILE_BYTES)
        with (MOUNT / name).open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._digests[name] = hashlib.sha256(data).hexdigest()

    def rename(self, name: str) -> None:
        """Give a file another name; the MDS does it once or answers with an error."""
        (MOUNT / name).rename(MOUNT / f"{name}-renamed")
        self._digests[f"{name}-renamed"] = self._digests.pop(name)

    def wrong(self) -> list[str]:
        """Names of files that are missing, left over or have other content, read from the cluster."""
        _CACHES.write_text("3")
        there = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in MOUNT.iterdir()}
        return sorted(name for name in there | self._digests if there.get(name) != self._digests.get(name))


def file_system(mode: str, kernel: Kernel, files: Files, log: krbd.KernelLog) -> None:
    """Mount, work while links are cut, read back, unmount."""
    kernel.mount(mode)
    report(mounted=mode, wrong=files.wrong(), log=log.lines())
    steps: dict[str, Callable[[], object]] = {
        "write": lambda: files.write(mode),
        "rename": lambda: files.rename(mode),
        "read": files.wrong,
    }
    for what, step in steps.items():
        for daemon, rule in CUTS[mode][what]:
            before = kernel.dials[daemon].resumed
            began_s = time.monotonic()
            with kernel.following(daemon, rule) as strike:
                step()
            resumed = kernel.dials[daemon].resumed - before
            took_s = round(time.monotonic() - began_s, 1)
            report(mode=mode, cut=rule, hits=strike.hits, resumed=resumed, took_s=took_s, log=log.lines())
    report(mode=mode, wrong=files.wrong())
    kcephfs.unmount(MOUNT)


def image(mode: str, kernel: Kernel, log: krbd.KernelLog) -> None:
    """Map, write while the link is cut, read back, unmap."""
    device = kernel.map(mode)
    data = random.Random(mode).randbytes(FILE_BYTES)
    descriptor = os.open(device.path, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
    ((_, rule),) = CUTS[mode]["write"]
    with mmap.mmap(-1, FILE_BYTES) as memory:
        memory[:] = data
        with kernel.following("osd", rule) as strike:
            os.pwritev(descriptor, [memory], 0)
        memory[:] = bytes(FILE_BYTES)
        os.preadv(descriptor, [memory], 0)
        same = memory[:] == data
    os.close(descriptor)
    krbd.unmap(device)
    report(mapped=mode, same=same, hits=strike.hits, log=log.lines())


def main() -> None:
    about = json.loads(sys.argv[1])
    keyring = Path("/run/keyring")
    keyring.write_text(about["keyring"])
    MOUNT.mkdir(parents=True, exist_ok=True)
    log, files = krbd.KernelLog(), Files()
    with ExitStack() as undo:
        kernel = Kernel(about["listens"], about["key"], KeyBook.read([keyring]), undo)
        for mode in MODES:
            file_system(mode, kernel, files, log)
            image(mode, kernel, log)


if __name__ == "__main__":
    main()
