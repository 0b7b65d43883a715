"""The monitor's side of cephx with Ceph's own client, which logs in and renews its tickets.

See docs/protocol.md §5.5, §5.6.
"""

import asyncio
import json
import time
from pathlib import Path
from random import SystemRandom
from uuid import uuid4

import pytest

from messenger.cephx.ciphers import KeyType
from messenger.cephx.key_server import CipherPolicy, KeyServer, Principal
from messenger.cephx.keyring import KeyringEntry
from messenger.cephx.keys import CryptoKey
from messenger.cephx.mauth_server import MonAuthSession
from messenger.cephx.mon_server import MonAuthServer
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.entity import EntityName, EntityType
from messenger.dispatch import Dispatcher
from messenger.link import Protocol
from messenger.messages.config import MConfig
from messenger.messages.fields import decode_paxos
from messenger.messages.message import Message
from messenger.messages.mon import MMonCommand, MMonCommandAck, MMonGetMap, MMonSubscribe
from messenger.messages.monmap import MMonMap, MonInfo, MonMap
from messenger.messages.types import MessageType
from messenger.messenger import Messenger
from messenger.session.policy import STATELESS_SERVER, PolicySet
from tests.support.cephx import ADMIN, AES256K

pytestmark = pytest.mark.needs("ceph")
TIMEOUT_S = 30.0
RENEWALS = {"0001", "0002"}
PACIFIC = 16
COMMANDS = {
    "cmd000": {"sig": ["renew"], "help": "returns when the tickets are renewed", "module": "mon", "perm": "r"}
}
CONF = """\
[global]
fsid = {fsid}
mon_host = [{addr}]
keyring = {keyring}
ms_mon_client_mode = {mode}
mon_client_ping_interval = 0.1
mon_client_hunt_interval = 0.3
client_mount_timeout = 10
"""


class Monitor(Dispatcher):
    """The part of a monitor that Ceph's command line needs."""

    def __init__(self, server: MonAuthServer) -> None:
        self.server = server
        self.monmap = MonMap(uuid4(), 1, min_mon_release=PACIFIC)
        self.renewed: list[str] = []
        self._sessions: dict[int, MonAuthSession] = {}
        self._waiting: list[tuple[object, Message]] = []

    def ms_dispatch(self, connection, message: Message) -> None:
        payload = message.payload
        if message.type == MessageType.AUTH:
            self._renew(connection, message)
        elif isinstance(payload, MMonGetMap):
            connection.send(MMonMap(self.monmap))
        elif isinstance(payload, MMonSubscribe):
            connection.send(MMonMap(self.monmap))
            connection.send(MConfig({}))
        elif isinstance(payload, MMonCommand) and "get_command_descriptions" in payload.cmd[0]:
            self._answer(connection, message, json.dumps(COMMANDS).encode())
        elif isinstance(payload, MMonCommand):
            self._waiting.append((connection, message))

    def _renew(self, connection, message: Message) -> None:
        front = Decoder(message.front)
        decode_paxos(front)
        protocol, request = front.u32(), front.blob()
        link = connection.session.link
        result = (
            link.auth_result if link.PROTOCOL is Protocol.V2 else None
        )  # on v1 nothing but MAuth authenticates
        session = self._sessions.setdefault(
            id(connection), MonAuthSession(self.server, SystemRandom(), established=result)
        )
        answer = session.handle(protocol, request, time.time())
        assert answer is not None
        assert answer.refusal is None, answer.detail
        reply = Encoder()
        reply.u32(answer.protocol)
        reply.i32(answer.result)
        reply.u64(answer.global_id)
        reply.blob(answer.payload)
        reply.string("")
        connection.send(Message(MessageType.AUTH_REPLY, front=reply.getvalue()))
        self.renewed.append(request[:2].hex())
        if set(self.renewed) >= RENEWALS and request[:2].hex() == "0002":
            for waiting, command in self._waiting:
                self._answer(waiting, command, b"renewed")
            self._waiting.clear()

    @staticmethod
    def _answer(connection, message: Message, output: bytes) -> None:
        ack = MMonCommandAck(0, "", message.payload.cmd)
        connection.send(Message.of(ack, data=output, tid=message.tid))


async def run(
    server: MonAuthServer, directory: Path, mode: str, entry: KeyringEntry, protocol: Protocol = Protocol.V2
) -> tuple[int, str, Monitor]:
    """Exit code and output of ``ceph renew`` against a monitor that authenticates by ``server``."""
    monitor = Monitor(server)
    policies = PolicySet(STATELESS_SERVER)
    name = EntityName(EntityType.MON, 0)
    async with Messenger(name, auth_server=server, dispatcher=monitor, nonce=0, policies=policies) as messenger:
        addr: EntityAddr = await messenger.bind(protocol=protocol)
        monitor.monmap.mon_info["a"] = MonInfo("a", AddrVec((addr,)))
        monitor.monmap.ranks.append("a")
        keyring, conf = directory / "keyring", directory / "ceph.conf"
        keyring.write_text(entry.format(ADMIN))
        conf.write_text(CONF.format(fsid=monitor.monmap.fsid, addr=addr, keyring=keyring, mode=mode))
        ceph = await asyncio.create_subprocess_exec(
            *("ceph", "-c", str(conf), "--connect-timeout", "5", "renew"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(TIMEOUT_S):
                output, _ = await ceph.communicate()
        finally:
            if ceph.returncode is None:
                ceph.kill()
                await ceph.wait()
    assert ceph.returncode is not None
    return ceph.returncode, output.decode(), monitor


def new_server(policy: CipherPolicy | None = None) -> tuple[MonAuthServer, KeyringEntry]:
    """Return a server whose tickets are due for renewal almost at once."""
    keys = KeyServer({}, SystemRandom(), policy=policy, auth_ttl_s=1.0, service_ttl_s=0.5)
    caps = {"mon": "allow *", "osd": "allow *"}
    return MonAuthServer(keys), KeyringEntry(keys.add(ADMIN, caps, time.time(), KeyType.AES), caps)


@pytest.mark.parametrize(("mode", "service_type"), [("crc", KeyType.AES), ("secure", AES256K)])
def test_login_and_renewal(tmp_path: Path, mode: str, service_type: KeyType) -> None:
    """Ceph's client does not know aes256k here: the tickets it carries are opaque to it (§5.1)."""
    server, entry = new_server(CipherPolicy(service=service_type))
    code, output, monitor = asyncio.run(run(server, tmp_path, mode, entry))
    assert (code, output) == (0, "renewed")
    assert set(monitor.renewed) == RENEWALS


def test_login_and_renewal_on_v1(tmp_path: Path) -> None:
    server, entry = new_server()
    code, output, monitor = asyncio.run(run(server, tmp_path, "crc", entry, Protocol.V1))
    assert (code, output) == (0, "renewed")
    assert set(monitor.renewed) >= RENEWALS


def test_login_with_a_pending_key(tmp_path: Path) -> None:
    server, entry = new_server()
    old = CryptoKey.generate(SystemRandom(), time.time())
    server.keys.principals[ADMIN] = Principal(old, entry.caps, pending_key=entry.key)
    code, _, _ = asyncio.run(run(server, tmp_path, "crc", entry))
    assert code == 0
    assert server.keys.used_pending_keys == {ADMIN: entry.key}


@pytest.mark.parametrize("what", ["wrong key", "no caps", "unknown"])
def test_refusals(tmp_path: Path, what: str) -> None:
    server, entry = new_server()
    if what == "wrong key":
        entry = KeyringEntry(CryptoKey.generate(SystemRandom(), time.time()), entry.caps)
    elif what == "no caps":
        server.keys.principals[ADMIN] = Principal(entry.key, {})
    else:
        del server.keys.principals[ADMIN]
    code, output, _ = asyncio.run(run(server, tmp_path, "crc", entry))
    assert code != 0
    assert "errno 13" in output
