"""fio on the kernel's client of a real cluster, in a virtual machine on its network; prints lines of JSON.

The reader of the lines applies faults: it cuts the link to the OSD at ``cut``, heals it at ``stalled``, and resets
connections then and at ``runs``.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path

from tests.toolkit.cephfs.kernel_cases import IMAGE, POOL
from tests.toolkit.cephfs.kernel_guest import MOUNT, TIMEOUTS, V2_PORT, report
from toolkit.machine import kcephfs, krbd

MODE = "secure"
SIZE = "4M"
_FIO = ["fio", "--name=job", "--ioengine=psync", "--rw=randwrite", "--bsrange=4k-64k", f"--size={SIZE}"]
_FIO += ["--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", "--output-format=json"]
_CACHES = Path("/proc/sys/vm/drop_caches")
_SILENCE_S, _TURN_S = 1.0, 1.0
_SHOWN_CHARS = 1000
"""Characters of fio's output that a failure shows."""


def wait_cut(osd: str) -> None:
    """Wait until nothing comes back from the OSD's host; without a cut any port answers, if only by RST."""
    while True:
        with suppress(ConnectionRefusedError):
            try:
                socket.create_connection((osd, 1), _SILENCE_S).close()
            except TimeoutError:
                return


def open_session(path: Path) -> None:
    """Write a file up to the OSD, so that the kernel has a connection to it."""
    with path.open("wb") as file:
        file.write(b"first")
        file.flush()
        os.fsync(file.fileno())


def unacknowledged_bytes(host: str) -> int:
    """Bytes that this machine has sent to the host on connections of IPv4, and whose ACK has not come."""
    address = int.from_bytes(ip_address(host).packed, sys.byteorder)
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    queues = [queues for _, _, remote, _, queues, *_ in lines if int(remote.partition(":")[0], 16) == address]
    return sum(int(sent.partition(":")[0], 16) for sent in queues)


@contextmanager
def fio(*words: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen([*_FIO, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield process


def result(process: "subprocess.Popen[str]", **about: str) -> None:
    """Report what fio did, once it has ended; meanwhile, that it runs."""
    while True:
        try:
            output, errors = process.communicate(timeout=_TURN_S)
            break
        except subprocess.TimeoutExpired:
            report(runs=about["on"])
    if process.returncode or errors:
        report(**about, code=process.returncode, errors=errors + output[:_SHOWN_CHARS])
        return
    (job,) = json.loads(output)["jobs"]
    counts = {way: job[way]["io_bytes"] for way in ("write", "read")}
    report(**about, code=job["error"], errors="", **counts)


def verify(what: str, osd: str, *words: str) -> None:
    """Write while the link to the OSD is cut, and read back what it has."""
    log = krbd.KernelLog()
    report(cut=what)
    wait_cut(osd)
    with fio(*words, "--do_verify=0", "--fsync=8") as process:
        began_s = time.monotonic()
        while not unacknowledged_bytes(osd):
            time.sleep(0.1)
        time.sleep(_TURN_S)
        stalled_s, waiting_bytes = time.monotonic() - began_s, unacknowledged_bytes(osd)
        report(stalled=what, waiting_bytes=waiting_bytes, ended=process.poll(), after_s=stalled_s)
        result(process, on=what, done="written")
    _CACHES.write_text("3")
    with fio(*words, "--verify_only") as process:
        result(process, on=what, done="verified")
    report(log=log.lines(), of=what)


def main() -> None:
    about = json.loads(sys.argv[1])
    mon, osd, key = about["listens"]["mon"][0], about["listens"]["osd"][0], about["key"]
    MOUNT.mkdir(parents=True, exist_ok=True)
    kcephfs.mount(f"{mon}:{V2_PORT}", MOUNT, key=key, mode=MODE, options=TIMEOUTS)
    open_session(MOUNT / "first")
    verify("file", osd, f"--filename={MOUNT / 'fio'}")
    kcephfs.unmount(MOUNT)
    device = krbd.map_image(f"{mon}:{V2_PORT}", POOL, IMAGE, key=key, mode=MODE, options=TIMEOUTS)
    verify("image", osd, f"--filename={device.path}", "--direct=1")
    krbd.unmap(device)


if __name__ == "__main__":
    main()
