"""Probing: a real monitor, and everything that is none."""

import asyncio
import itertools
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from messenger.cephx.client import CephxClient
from messenger.cephx.exchange import AuthMethod, ConMode
from messenger.cephx.keyring import Keyring
from messenger.cephx.keys import CryptoKey
from messenger.config import Config
from messenger.denc.address import EntityAddr
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.features import MSG_ADDR2, MSGR2_SUPPORTED
from messenger.errors import FaultReason, LocalError
from messenger.v2.revision import crc_frames
from messenger.v2.wire import AuthBadMethod, Hello, Tag, encode_banner
from tests.support.aio import on_loop
from toolkit.cluster.monitor import Mode, RealMonitor
from toolkit.probe.findings import Findings, investigate, parse_target
from toolkit.probe.monitor import MonitorSession

PACIFIC_FEATURES = 0x3F01CFBDFFFDFFFF
CRUSH_FEATURES = 0x0401020002040000
"""What every monitor requires of clients on v1 (docs/protocol.md §2.4, without MSG_ADDR2)."""
Monitors = Callable[[Mode], RealMonitor]
real = pytest.mark.needs("ceph-mon", "ceph-authtool", "ceph")


def _probe(
    addr: str, keyring: Path | None = None, name: str = "client.admin", timeout_s: float = 10.0
) -> Findings:
    return asyncio.run(investigate(parse_target(addr), name, keyring, timeout_s))


@real
@pytest.mark.parametrize("mode", ["crc", "secure"])
def test_real_monitor_with_the_admin_keyring(real_monitor: Monitors, mode: Mode) -> None:
    monitor = real_monitor(mode)
    found = _probe(monitor.addr_v2, monitor.keyring)
    assert found.fault is None
    values = found.as_json()
    status = json.loads(monitor.ceph("status", "--format", "json"))
    assert values["fsid"] == monitor.fsid == status["fsid"]
    assert values["entity_type"] == "mon"
    assert values["protocol"] == "v2"
    assert values["methods"] == ["cephx"]
    assert values["modes"] == {"cephx": [mode]}
    assert values["mode"] == mode
    assert int(values["features"], 16) & MSG_ADDR2
    assert values["monmap"]["mons"] == [{"name": "a", "addrs": f"[{monitor.addr_v2},{monitor.addr_v1}]"}]
    assert values["osdmap_epoch"] == status["osdmap"]["epoch"]
    assert values["status"]["quorum_names"] == ["a"]
    text = dict(found.as_text())
    assert monitor.fsid in text["fsid"]
    assert mode in text["modes with cephx"]


@real
@pytest.mark.parametrize("features", [0, 1, 2, 3])
@pytest.mark.parametrize("mode", ["crc", "secure"])
def test_real_monitor_answers_in_the_frames_that_the_banner_asks_for(
    real_monitor: Monitors, mode: Mode, features: int
) -> None:
    """Without REVISION_1 in the client's banner a real peer speaks msgr 2.0, in both modes."""
    monitor = real_monitor(mode)
    key = Keyring.load(monitor.keyring).key(AuthName.parse("client.admin"))

    async def ask() -> tuple[str, int]:
        config = Config.only_mode(ConMode[mode.upper()], msgr2_features=features)
        client = CephxClient(AuthName.parse("client.admin"), key)
        async with MonitorSession(parse_target(monitor.addr_v2), client, config) as session:
            monmap = await session.monmap()
            report = await session.command(monmap, "report")
            return str(monmap.fsid), len(json.dumps(report))

    fsid, report_chars = asyncio.run(ask())
    assert fsid == monitor.fsid
    assert report_chars > 5000


@real
def test_both_modes_are_found_and_the_preferred_one_used(real_monitor: Monitors) -> None:
    monitor = real_monitor("crc secure")
    values = _probe(monitor.addr_v2, monitor.keyring).as_json()
    assert values["modes"] == {"cephx": ["crc", "secure"]}
    assert values["mode"] == "secure", "what this side prefers towards monitors (ms_mon_client_mode)"


@real
def test_probe_without_a_keyring_shows_no_fsid(real_monitor: Monitors) -> None:
    values = _probe(real_monitor("crc").addr_v2).as_json()
    assert values["protocol"] == "v2"
    assert "fsid" not in values


@real
def test_v1_port_is_recognised(real_monitor: Monitors) -> None:
    monitor = real_monitor("crc")
    found = _probe(monitor.addr_v1.replace("v1:", "v2:"))
    assert found.fault is None
    values = found.as_json()
    assert (values["protocol"], values["entity_type"]) == ("v1", "mon")
    assert values["v1"]["addr"] == monitor.addr_v1
    assert values["v1"]["protocol_version"] == 15
    assert "msgr v1 only" in found.notes[0]


@real
def test_v1_port_sends_features_without_a_session(real_monitor: Monitors) -> None:
    monitor = real_monitor("crc")
    found = _probe(monitor.addr_v1)
    assert found.fault is None
    v1 = found.as_json()["v1"]
    supported, required = int(v1["features"], 16), int(v1["features_required"], 16)
    assert supported == PACIFIC_FEATURES
    assert required & ~supported == 0
    assert required & CRUSH_FEATURES == CRUSH_FEATURES
    text = dict(found.as_text())
    assert text["peer"] == "mon, protocol version 15"
    assert "CRUSH_V4" in text["requires"]
    assert text["sees us as"].startswith("v1:127.0.0.1:")


@real
def test_wrong_secret_and_unknown_entity_are_denied(real_monitor: Monitors, tmp_path: Path) -> None:
    monitor = real_monitor("secure")
    key = CryptoKey.from_base64("AQAA8VNlAAAAABAAAAECAwQFBgcICQoLDA0ODw==").to_base64()
    keyring = tmp_path / "keyring"
    keyring.write_text(f"[client.admin]\n\tkey = {key}\n[client.nobody]\n\tkey = {key}\n")
    for name in ("client.admin", "client.nobody"):
        found = _probe(monitor.addr_v2, keyring, name)
        assert found.fault is not None
        assert found.fault.reason is FaultReason.AUTH_DENIED
        assert "EACCES" in str(found.fault)
        assert "\n" not in str(found.fault)


@real
@pytest.mark.parametrize("mode", ["crc", "secure"])
def test_session_answers_and_survives_an_unknown_command(real_monitor: Monitors, mode: Mode) -> None:
    monitor = real_monitor(mode)
    name = AuthName(EntityType.CLIENT, "admin")

    async def ask() -> None:
        client = CephxClient(name, Keyring.load(monitor.keyring).key(name))
        async with MonitorSession(parse_target(monitor.addr_v2), client) as session:
            monmap = await session.monmap()
            with pytest.raises(LocalError, match="make me a sandwich"):
                await session.command(monmap, "make me a sandwich")
            assert (await session.command(monmap, "mon metadata"))[0]["name"] == "a"
            osdmap = await session.osdmap()
            assert str(osdmap.fsid) == monitor.fsid
            assert await session.newest_version("osdmap") == osdmap.newest
            await session.command(monmap, "config set", who="client", name="rbd_cache", value="false")
            assert (await session.settings())["rbd_cache"] == "false"

    asyncio.run(ask())


@contextmanager
def _answering(answer: bytes) -> Iterator[str]:
    """The address of a server that sends ``answer`` on every connection, and then nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        kept: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    sock, _ = listening.accept()
                except OSError:
                    return
                kept.append(sock)
                sock.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()
        for sock in kept:
            sock.close()


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", FaultReason.NOT_MSGR, "HTTP server"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", FaultReason.NOT_MSGR, "ssh"),
        (b"\0" * 100, FaultReason.NOT_MSGR, "starts with"),
        (b"ceph v2\n\x08\0" + b"\0" * 8, FaultReason.BANNER, "8 bytes"),
        (b"ceph v2\n\x10\0" + b"\1" + b"\0" * 15 + b"\xff" * 32, FaultReason.PREAMBLE_CRC, "crc"),
        (b"", FaultReason.READY_TIMEOUT, "no answer within"),
    ],
)
def test_probe_reports_other_servers_in_one_line(answer: bytes, reason: FaultReason, words: str) -> None:
    with _answering(answer) as addr:
        found = _probe(addr, timeout_s=0.5)
    assert found.fault is not None
    assert found.fault.reason is reason
    assert words in str(found.fault)
    assert "\n" not in str(found.fault)


async def _closing_at_login(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, refuses: bool) -> None:
    """A monitor of msgr 2.1 on one link: it refuses an AUTH_REQUEST, or closes the link instead."""
    frames, builder = crc_frames(MSGR2_SUPPORTED, 4096)
    hello = Hello(EntityType.MON, EntityAddr.parse("v2:10.0.0.7:1/0"))
    writer.write(encode_banner(MSGR2_SUPPORTED, 0) + builder.control(hello.TAG, hello.encode()))
    await reader.readexactly(len(encode_banner(MSGR2_SUPPORTED, 0)))
    received, tag = b"", Tag.HELLO
    while tag is not Tag.AUTH_REQUEST:
        received += await reader.read(4096)
        while found := frames.next_frame(memoryview(received), 0, len(received), owned=False):
            received, tag = received[found[0] :], Tag(found[1])
    if refuses:
        refusal = AuthBadMethod(0, -95, [AuthMethod.CEPHX], [ConMode.CRC])
        writer.write(builder.control(refusal.TAG, refusal.encode()))
        await writer.drain()
    writer.close()


@pytest.mark.parametrize(
    ("max_requests", "known", "words"),
    [
        (0, {"methods": [], "modes": {}}, "after AUTH_REQUEST (method unknown, secure or crc)"),
        (2, {"methods": ["cephx"], "modes": {"cephx": []}}, "after AUTH_REQUEST (method cephx, secure)"),
    ],
)
@on_loop
async def test_probe_shows_the_facts_learned_before_the_peer_closed(
    max_requests: int, known: dict[str, object], words: str
) -> None:
    links = itertools.count(1)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _closing_at_login(reader, writer, refuses=next(links) <= max_requests)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        found = await investigate(parse_target(f"{host}:{port}"), "client.admin", None, 10.0)
    assert found.fault is not None
    assert found.fault.reason is FaultReason.EOF
    assert words in str(found.fault)
    values = found.as_json()
    assert (values["protocol"], values["entity_type"], values["seen_as"]) == ("v2", "mon", "v2:10.0.0.7:1/0")
    assert {name: values[name] for name in known} == known
    text = dict(found.as_text())
    assert text["protocol"] == "msgr v2.1"
    assert words in text["error"]


@real
def test_a_monitor_that_ignores_a_key_without_capabilities(real_monitor: Monitors, tmp_path: Path) -> None:
    monitor = real_monitor("crc")
    keyring = tmp_path / "keyring"
    keyring.write_text(monitor.ceph("auth", "get-or-create", "client.curb", "mon", "allow command version"))
    found = _probe(monitor.addr_v2, keyring, "client.curb", timeout_s=0.5)
    assert found.fault is not None
    assert "no answer to MMonGetVersion within 0.5 s; the capabilities of client.curb may not allow it" in str(
        found.fault
    )
    values = found.as_json()
    assert (values["fsid"], values["osdmap_epoch"]) == (monitor.fsid, None)
    assert "client.curb" in dict(found.as_text())["logged in as"]


def test_probe_of_a_closed_port_reports_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    found = _probe(f"127.0.0.1:{port}")
    assert found.fault is not None
    assert found.fault.reason is FaultReason.REFUSED


def test_default_port_is_the_monitors() -> None:
    assert str(parse_target("10.1.2.3")) == "v2:10.1.2.3:3300/0"
    assert str(parse_target("[fd00::1]:6800")) == "v2:[fd00::1]:6800/0"
    assert str(parse_target("v1:10.1.2.3")) == "v1:10.1.2.3:6789/0"
    assert str(parse_target("localhost")) == "v2:127.0.0.1:3300/0"
    with pytest.raises(LocalError):
        parse_target("monitor.invalid")
