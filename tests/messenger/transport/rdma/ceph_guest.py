"""Ceph's own daemons and client as peers over RDMA, in a machine with soft-RoCE; prints JSON lines."""

import asyncio
import json
import random
import re
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

from messenger.cephx.ciphers import KeyType
from messenger.cephx.exchange import ConMode
from messenger.config import Config
from messenger.protocols import Protocol
from tests.messenger.transport.rdma import devices
from toolkit.cluster import daemons, monitor, osd
from toolkit.cluster.options import identity, section, security
from toolkit.cluster.real import RealCluster
from toolkit.embedded.node.app import EmbeddedApp
from toolkit.embedded.node.spec import EmbeddedSpec
from toolkit.machine.loops import LoopThread
from toolkit.rados.client import Rados

PATIENCE_S = 120
CEPHS, OURS = devices.HOSTS
"""The devices of Ceph's programs and of our messengers."""
POOL, OBJECT_BYTES, PATH_MTU_BYTES = "data", 300_005, 1024
WAYS = (("v1", "crc"), ("v2", "secure"))
KEY = "AQAAAAAAAAAAABAAAAECAwQFBgcICQoLDA0ODw=="
KEYRING = "".join(f'[{name}]\nkey = {KEY}\ncaps mon = "allow *"\n' for name in ("client.admin", "osd.0"))
FSID = "7b1c7a0e-61a6-4d5e-9b7e-0d6f3c1e2a55"
_FEW_BUFFERS = {
    "ms_async_rdma_receive_queue_len": 64,
    "ms_async_rdma_receive_buffers": 256,
    "ms_async_rdma_send_buffers": 64,
    "ms_async_rdma_polling_us": 0,
    "ms_async_op_threads": 1,
}
"""Options of Ceph alone: its defaults take 640 MiB for a process, and poll the only processor."""
CEPH = {
    name: str(value)
    for name, value in (devices.OPTIONS | _FEW_BUFFERS | {"ms_async_rdma_device_name": CEPHS}).items()
}
_RECORD = re.compile(r"send_cm_meta sending: \d+, (\d+), (\d+), (\d+), [0-9a-f]{32}")
"""Queue pair, first sequence number and the peer's queue pair in a line of Ceph's log."""


def config(mode: str, **options: object) -> Config:
    """The options of our client."""
    return Config.only_mode(
        ConMode[mode.upper()],
        ms_async_rdma_device_name=OURS,
        ms_connection_ready_timeout=PATIENCE_S,
        **devices.OPTIONS,
        **options,
    )


async def make_pool(cluster: RealCluster) -> None:
    """Make the pool of the checks, with our client: `ceph` takes ten seconds in an emulated machine."""
    addr, keyring = cluster.monitor.addr_v2, cluster.keyring
    async with Rados.connect(addr, keyring=keyring, config=config("crc"), timeout_s=PATIENCE_S) as rados:
        await rados.command({"prefix": "osd pool create", "pool": POOL, "pg_num": 4})


async def store_and_read(addr: str, keyring: Path, mode: str) -> None:
    """Write an object and read it back."""
    data = random.Random(mode).randbytes(OBJECT_BYTES)
    async with Rados.connect(addr, keyring=keyring, config=config(mode), timeout_s=PATIENCE_S) as rados:
        async with asyncio.timeout(PATIENCE_S):
            await rados.pool(POOL).write_full("object", data)
            assert await rados.pool(POOL).read("object") == data
        protocols = {connection.protocol for connection in rados.connections.values()}
        assert protocols == {Protocol.V1 if addr.startswith("v1") else Protocol.V2}


async def outlive_a_restart(cluster: RealCluster) -> None:
    """Write, restart the OSD, and read by the same client."""
    addr, keyring = cluster.monitor.addr_v2, cluster.keyring
    async with Rados.connect(addr, keyring=keyring, config=config("crc"), timeout_s=PATIENCE_S) as rados:
        async with asyncio.timeout(PATIENCE_S):
            await rados.pool(POOL).write_full("kept", b"bytes")
            cluster.osds[0].stop()
            cluster.osds[0].start()  # in this thread, with which the daemon ends
            assert await rados.pool(POOL).read("kept") == b"bytes"


def run_rados(conf: Path, *arguments: str) -> None:
    """Run Ceph's client."""
    log = f"--log-file={conf.parent}/rados.log"
    done = subprocess.run(
        ["rados", "-c", str(conf), "-p", POOL, log, "--debug-ms=10", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# ---- what is checked


def client_of_ours(protocol: str, mode: str, cluster: RealCluster) -> None:
    """Our client writes an object to Ceph's daemons, and reads it back."""
    addr = cluster.monitor.addr_v1 if protocol == "v1" else cluster.monitor.addr_v2
    before = devices.packets(OURS)
    asyncio.run(store_and_read(addr, cluster.keyring, mode))
    assert devices.packets(OURS) - before > OBJECT_BYTES // PATH_MTU_BYTES


def restarted_osd(cluster: RealCluster) -> None:
    """Our client reads after a restart of the OSD that it has a session with."""
    asyncio.run(outlive_a_restart(cluster))


def client_of_ceph(protocol: str, mode: str, _cluster: RealCluster) -> None:
    """Ceph's client writes an object to our monitor and OSD, and reads it back."""
    with our_daemons(mode) as addresses:
        directory = Path(mkdtemp())
        conf, source, copy = (directory / name for name in ("ceph.conf", "source", "copy"))
        (directory / "keyring").write_text(KEYRING)
        options = identity(FSID, addresses[protocol]) | security("cephx", mode) | CEPH
        conf.write_text(section("global", options | {"keyring": f"{directory}/keyring"}))
        source.write_bytes(random.Random(mode).randbytes(OBJECT_BYTES))
        run_rados(conf, "put", "object", str(source))
        run_rados(conf, "get", "object", str(copy))
        assert copy.read_bytes() == source.read_bytes()
        sent = [tuple(map(int, found)) for found in _RECORD.findall((directory / "rados.log").read_text())]
    own, sequence, peer = sent[0]
    assert (sequence, peer) == (0, 0)
    assert any(queue_pair == own and peer for queue_pair, _, peer in sent), sent


@contextmanager
def our_daemons(mode: str) -> Iterator[dict[str, str]]:
    """Our monitor and an OSD, in a thread; yields the monitor's addresses by protocol."""
    addresses = {"v1": "v1:127.0.0.2:6789/0", "v2": "v2:127.0.0.2:3300/0"}
    both = f"[{addresses['v2']},{addresses['v1']}]"
    own = {"mon": both, "osd": "[v2:127.0.0.3:6800/7,v1:127.0.0.3:6801/7]"}
    with closing(LoopThread("our daemons")) as thread:
        apps = []
        for kind, number in (("mon", "a"), ("osd", "0")):
            spec = EmbeddedSpec(
                name=kind,
                embedded=kind,
                id=number,
                addr=own[kind],
                fsid=FSID,
                monitors={"a": both},
                keyring=KEYRING,
                cipher=KeyType.AES.name.lower(),
                mode=mode,
                osds={"0": "host"},
                pools={POOL: 4},
                options={**devices.OPTIONS, "ms_async_rdma_device_name": OURS},
            )
            apps.append(EmbeddedApp(spec, lambda _time_s, _what, _fields: None))
            thread.do(apps[-1].open())
        yield addresses
        for app in reversed(apps):
            thread.do(app.close())


def checks() -> Iterator[tuple[str, Callable[[RealCluster], None]]]:
    """Yield all checks by name."""
    for protocol, mode in WAYS:
        yield f"our client on Ceph's daemons, {protocol} {mode}", partial(client_of_ours, protocol, mode)
    yield "our client after a restart of Ceph's OSD", restarted_osd
    for protocol, mode in WAYS:
        yield f"Ceph's client on our daemons, {protocol} {mode}", partial(client_of_ceph, protocol, mode)


def main() -> None:
    monitor.START_TIMEOUT_S = daemons.TOOL_TIMEOUT_S = osd.BOOT_TIMEOUT_S = PATIENCE_S
    with devices.made(), RealCluster(mode="crc secure", options=CEPH) as cluster:
        asyncio.run(make_pool(cluster))
        for name, check in checks():
            began_s = time.monotonic()
            try:
                check(cluster)
                error = ""
            except Exception:  # noqa: BLE001 - reported by the test of that name
                error = traceback.format_exc()
            result = {"name": name, "error": error, "took_s": round(time.monotonic() - began_s, 1)}
            print(json.dumps(result), flush=True)  # noqa: T201 - what this is for


if __name__ == "__main__":
    main()
