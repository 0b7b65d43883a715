"""The kernel's client on an embedded cluster of this process; prints a line of JSON for each result.

It maps images of the machine it runs in: run it in a virtual machine.
"""

import hashlib
import json
import mmap
import os
import platform
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from messenger.cephx.keyring import Keyring
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.entity import EntityType
from messenger.errors import LocalError
from messenger.messages.message import Message
from messenger.messages.pg import PgId
from messenger.messages.types import MessageType
from tests.support.kernel_namespace import KernelNamespace
from tests.toolkit.embedded.kernel_cases import (
    BEFORE_A_SESSION,
    CUT_MODES,
    DATA_CUTS,
    DISPUTED,
    HANDSHAKE_CUTS,
    MODES,
    MONITOR_CUTS,
)
from toolkit.dissect.keys import KeyBook
from toolkit.embedded.node.app import EmbeddedApp
from toolkit.embedded.node.spec import EmbeddedSpec
from toolkit.embedded.osd.classes.lock import LockState
from toolkit.embedded.osd.daemon import Osd
from toolkit.embedded.osd.store import ObjectKey, Store, StoredObject
from toolkit.faults.script import strikes
from toolkit.faults.strike import Strike
from toolkit.machine import krbd
from toolkit.machine.loops import LoopThread
from toolkit.rados.client import Rados

PORTS = {"legacy": 6789}
V2_PORT = 3300
MIB = 1 << 20
IMAGE_BYTES, BLOCK_BYTES = 64 * MIB, 256 * 1024
LAYERING, EXCLUSIVE_LOCK = 0x1, 0x4
HEADER_UPDATE = 3
UNKNOWN_TYPE = 0x7777
TIMEOUTS = "mount_timeout=30,osd_request_timeout=60"
_RNG = random.Random(1)


def report(**result: object) -> None:
    print(json.dumps(result), flush=True)  # noqa: T201 - what this is for


@dataclass(frozen=True, slots=True)
class Site:
    """Addresses of a monitor and an OSD, and the key of all entities."""

    mon: str
    osd: str
    cipher: str
    key: str

    @property
    def keyring(self) -> str:
        """The keyring of the cluster."""
        names = "client.admin", "osd.0"
        return "".join(f'[{name}]\nkey = {self.key}\ncaps mon = "allow *"\n' for name in names)

    @property
    def listens(self) -> dict[str, tuple[str, list[int]]]:
        """Address and ports of each daemon."""
        return {"mon": (self.mon, [V2_PORT, PORTS["legacy"]]), "osd": (self.osd, [6800, 6801])}

    def connect(self) -> AbstractAsyncContextManager[Rados]:
        """Connect as client.admin, to change objects."""
        return Rados.connect(f"v2:{self.mon}:{V2_PORT}", keyring=Keyring.parse(self.keyring, "keyring"))


SITE = Site("127.0.0.2", "127.0.0.3", "aes", "AQAAAAAAAAAAABAAAAECAwQFBgcICQoLDA0ODw==")
NEWER = Site("127.0.0.4", "127.0.0.5", "aes256k", "AgAAAAAAAAAAACAAOLTmUuRNp/I3DZ4mDicTZVCko6bQf1wMMy+LEiQIP9I=")


class Peers:
    """A monitor and an OSD in a thread, and what they have recorded of the kernel's links."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.records: list[tuple[str, dict[str, Any]]] = []
        self.writes = 0
        """Changes of images' data objects."""
        self.thread = LoopThread("embedded")
        self.thread.do(self._open())

    async def _open(self) -> None:
        mon, osd = self._site.mon, self._site.osd
        addr = f"[v2:{mon}:{V2_PORT}/0,v1:{mon}:{PORTS['legacy']}/0]"
        self.mon = self._app("mon", "a", addr, addr)
        await self.mon.open()
        self.osd = self._app("osd", "0", f"[v2:{osd}:6800/7,v1:{osd}:6801/7]", addr)
        await self.osd.open()
        self._count_writes()
        async with self._site.connect() as rados:
            pool = rados.pool("rbd")
            for name, features in (("plain", LAYERING), ("locked", LAYERING | EXCLUSIVE_LOCK)):
                await pool.exec(f"rbd_id.{name}", "rbd", "set_id", _encoded(name))
                await pool.exec(f"rbd_header.{name}", "rbd", "create", _header(name, features))

    def _app(self, kind: str, number: str, addr: str, monitor: str) -> EmbeddedApp:
        modes = ("ms_mon_service_mode", "ms_service_mode", "ms_mon_client_mode")
        spec = EmbeddedSpec(
            name=kind,
            embedded=kind,
            id=number,
            addr=addr,
            fsid="7b1c7a0e-61a6-4d5e-9b7e-0d6f3c1e2a55",
            monitors={"a": monitor},
            keyring=self._site.keyring,
            cipher=self._site.cipher,
            osds={"0": "host"},
            pools={"rbd": 4},
            options=dict.fromkeys(modes, "secure crc"),
        )
        return EmbeddedApp(spec, lambda _time_s, what, fields: self.records.append((what, fields)))

    def taken(self, what: str, **wanted: object) -> list[dict[str, Any]]:
        """The records of a kind with these fields since the last call."""
        return _chosen(self._take(), what, **wanted)

    def ways(self) -> list[tuple[str, str]]:
        """Method and mode of the logins at the OSD since the last call."""
        return sorted({(f["method"], f["mode"]) for f in self.taken("auth") if f["link"].startswith("osd")})

    def dialling(self) -> dict[str, int]:
        """Return how the kernel has dialled the OSD since the last call, and its number of repeated requests."""
        records = self._take()
        dials = [
            fields
            for tag in ("CONNECT", "CLIENT_IDENT", "SESSION_RECONNECT")
            for fields in _chosen(records, "frame", direction="rx", tag=tag)
            if fields["link"].startswith("osd")
        ]
        resuming = [f for f in dials if f["tag"] == "SESSION_RECONNECT" or f["fields"].get("connect_seq")]
        tids = Counter(fields["tid"] for fields in _chosen(records, "deliver", type=MessageType.OSD_OP))
        return {"dials": len(dials), "resuming": len(resuming), "resent": sum(n > 1 for n in tids.values())}

    def _take(self) -> list[tuple[str, dict[str, Any]]]:
        records, self.records = self.records, []
        return records

    def resize(self, name: str, size_bytes: int) -> None:
        """Resize an image as librbd does: its header changes, and the watchers are notified."""
        self.thread.do(self._resize(name, size_bytes))

    async def _resize(self, name: str, size_bytes: int) -> None:
        async with self._site.connect() as rados:
            pool, header = rados.pool("rbd"), f"rbd_header.{name}"
            await pool.exec(header, "rbd", "set_size", size_bytes.to_bytes(8, "little"))
            result = await pool.notify(header, _notification(HEADER_UPDATE), timeout_s=10)
            report(notified=len(result.replies), missed=len(result.missed))

    def locks(self, oid: str) -> int:
        """Number of holders of an image's lock."""
        (header,) = (
            held for g in self._store.groups.values() for key, held in g.objects.items() if key.oid == oid
        )
        stored = header.xattrs.get("lock.rbd_lock")
        return 0 if stored is None else len(LockState.decode(Decoder(stored)).lockers)

    @property
    def _store(self) -> Store:
        osd = self.osd.daemon
        assert isinstance(osd, Osd)
        return osd.requests.store

    def _count_writes(self) -> None:
        put = self._store.put

        def counted(pgid: PgId, key: ObjectKey, stored: StoredObject | None) -> None:
            self.writes += key.oid.startswith("rbd_data.")
            put(pgid, key, stored)

        self._store.put = counted  # type: ignore[method-assign]

    def send_unknown(self) -> int:
        """Have the OSD send the kernel a message of a type that does not exist; returns on how many links."""

        async def send() -> int:
            links = [each for each in self.osd.driver.connections.values() if each.peer_type is EntityType.CLIENT]
            return sum(link.send(Message(UNKNOWN_TYPE, b"front")) for link in links)

        return self.thread.do(send())


def _chosen(records: list[tuple[str, dict[str, Any]]], what: str, **wanted: object) -> list[dict[str, Any]]:
    return [f for kind, f in records if kind == what and all(f.get(k) == v for k, v in wanted.items())]


def _encoded(text: str) -> bytes:
    encoder = Encoder()
    encoder.string(text)
    return encoder.getvalue()


def _header(name: str, features: int) -> bytes:
    """Return the input of the method ``create``: size, order, features, prefix of data objects, data pool."""
    numbers = IMAGE_BYTES.to_bytes(8, "little") + bytes([22]) + features.to_bytes(8, "little")
    return numbers + _encoded(f"rbd_data.{name}") + (-1).to_bytes(8, "little", signed=True)


def _notification(code: int) -> bytes:
    encoder = Encoder()
    with encoder.versioned(1, 1):
        encoder.u32(code)
    return encoder.getvalue()


# ---- the device


class KernelClient:
    """The kernel's client, and the proxies between it and the daemons."""

    def __init__(self, site: Site, undo: ExitStack) -> None:
        self._site = site
        path = Path("/tmp/keyring")
        path.write_text(site.keyring)
        self._namespace = KernelNamespace(KeyBook.read([path]), undo)
        self._strikes: list[Strike] = []
        self._proxies = {name: self._namespace.add(name, *at, self._strikes) for name, at in site.listens.items()}

    @contextmanager
    def mapped(self, image: str, mode: str) -> Iterator[krbd.BlockDevice]:
        """Map an image, and unmap it at the end of the block."""
        monitor, key = f"{self._site.mon}:{PORTS.get(mode, V2_PORT)}", self._site.key
        device = self._namespace.inside(
            lambda: krbd.map_image(monitor, "rbd", image, key=key, mode=mode, options=TIMEOUTS)
        )
        yield device
        _unmap(device)

    def cut(self) -> int:
        """Cut all links to the OSD; returns their number."""
        return sum(proxy.cut() for proxy in self._proxies["osd"])

    @contextmanager
    def following(self, rule: str, acceptor: str = "osd") -> Iterator[Strike]:
        """Follow a rule on links to the OSD or the monitor."""
        (strike,) = strikes([rule], "kernel", acceptor)
        self._strikes.append(strike)
        try:
            yield strike
        finally:
            self._strikes.remove(strike)


def _unmap(device: krbd.BlockDevice) -> None:
    """Unmap it; programs that look at new devices, as udev does, may have it open for a moment."""
    for _ in range(50):
        try:
            krbd.unmap(device)
        except LocalError:
            time.sleep(0.1)
        else:
            return
    krbd.unmap(device, force=True)


class Content:
    """Blocks that were written, by their numbers, and whether the image still has them."""

    def __init__(self) -> None:
        self._digests: dict[int, str] = {}

    def write(self, device: krbd.BlockDevice) -> bool:
        """Write the next block past the page cache, read it back; True if it is the same."""
        number = len(self._digests)
        data = _RNG.randbytes(BLOCK_BYTES)
        with _opened(device) as descriptor, mmap.mmap(-1, BLOCK_BYTES) as memory:
            memory[:] = data
            os.pwritev(descriptor, [memory], number * BLOCK_BYTES)
            os.fsync(descriptor)
        self._digests[number] = hashlib.sha256(data).hexdigest()
        return self._has(device, number)

    def wrong(self, device: krbd.BlockDevice) -> list[int]:
        """Numbers of the blocks that are not what was written."""
        return [number for number in self._digests if not self._has(device, number)]

    def _has(self, device: krbd.BlockDevice, number: int) -> bool:
        with _opened(device) as descriptor, mmap.mmap(-1, BLOCK_BYTES) as memory:
            os.preadv(descriptor, [memory], number * BLOCK_BYTES)
            return hashlib.sha256(memory).hexdigest() == self._digests[number]

    def __len__(self) -> int:
        return len(self._digests)


@contextmanager
def _opened(device: krbd.BlockDevice) -> Iterator[int]:
    descriptor = os.open(device.path, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


# ---- what is tried


def modes(peers: Peers, client: KernelClient, content: Content, log: krbd.KernelLog) -> None:
    """Each mode: map, write, read back, unmap; then the content in the last mode."""
    for mode in MODES:
        peers.taken("auth")
        with client.mapped("plain", mode) as device:
            same, size_bytes = content.write(device), device.size_bytes
            wrong = content.wrong(device)
        report(mapped=mode, same=same, size_bytes=size_bytes, wrong=wrong, osd=peers.ways(), log=log.lines())


def resizing_and_locking(peers: Peers, client: KernelClient, log: krbd.KernelLog) -> None:
    """Try what images need beside data: notifications of the header, the exclusive lock."""
    with client.mapped("plain", "crc") as device:
        peers.resize("plain", 2 * IMAGE_BYTES)
        for _ in range(100):
            if device.size_bytes == 2 * IMAGE_BYTES:
                break
            time.sleep(0.05)
        report(resized=device.size_bytes, log=log.lines())
    with client.mapped("locked", "crc") as device:
        same = Content().write(device)
        locks = peers.locks("rbd_header.locked")
    report(locked=same, held=locks, after=peers.locks("rbd_header.locked"), log=log.lines())


def cuts(peers: Peers, client: KernelClient, content: Content, log: krbd.KernelLog) -> None:
    """A write at each cut of the link to the OSD, a mapping at each of the link to the monitor."""
    for mode, rules in MONITOR_CUTS.items():
        for rule in rules:
            with client.following(rule, "mon") as strike, client.mapped("plain", mode) as device:
                report(monitor_cut=rule, mode=mode, same=content.write(device), hits=strike.hits, log=log.lines())
    for mode in CUT_MODES:
        with client.mapped("plain", mode) as device:
            peers.dialling()
            for rule in (*DATA_CUTS[mode], *HANDSHAKE_CUTS[mode]):
                before = peers.writes
                with client.following(rule) as strike:
                    if rule in HANDSHAKE_CUTS[mode]:
                        client.cut()
                    same = content.write(device)
                writes = peers.writes - before
                report(cut=rule, mode=mode, same=same, hits=strike.hits, writes=writes, log=log.lines())
            report(intact=mode, wrong=content.wrong(device), **peers.dialling())


def disputes(peers: Peers, client: KernelClient, content: Content, log: krbd.KernelLog) -> None:
    """Frames that implementations disagree about."""
    for mode, rules in DISPUTED.items():
        with client.mapped("plain", mode) as device:
            for name, rule in rules.items():
                peers.taken("event")
                with client.following(rule) as strike:
                    cut = client.cut() if name in BEFORE_A_SESSION else 0
                    same = content.write(device)
                ended = len(peers.taken("event", event="reset")) - cut
                report(disputed=name, mode=mode, same=same, hits=strike.hits, ended=ended, log=log.lines())
            sent = peers.send_unknown()
            same = content.write(device)
            ended = len(peers.taken("event", event="reset"))
            report(disputed="unknown_message", mode=mode, same=same, hits=sent, ended=ended, log=log.lines())


def newer_cipher(log: krbd.KernelLog) -> None:
    """Each mode with keys of aes256k, which older kernels refuse."""
    peers = Peers(NEWER)
    with ExitStack() as undo:
        client, content = KernelClient(NEWER, undo), Content()
        for mode in MODES:
            peers.taken("auth")
            try:
                with client.mapped("plain", mode) as device:
                    same, wrong = content.write(device), content.wrong(device)
                report(newer=mode, refused="", same=same, wrong=wrong, osd=peers.ways())
            except LocalError as error:
                report(newer=mode, refused=str(error), log=log.lines())


def main() -> None:
    krbd.load()
    log, content = krbd.KernelLog(), Content()
    peers = Peers(SITE)
    report(kernel=platform.release())
    with ExitStack() as undo:
        client = KernelClient(SITE, undo)
        modes(peers, client, content, log)
        resizing_and_locking(peers, client, log)
        cuts(peers, client, content, log)
        disputes(peers, client, content, log)
        with client.mapped("plain", "secure") as device:
            report(kept=content.wrong(device), blocks=len(content), devices=len(krbd.devices()))
    newer_cipher(log)


if __name__ == "__main__":
    main()
