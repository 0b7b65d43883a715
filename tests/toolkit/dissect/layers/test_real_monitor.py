"""A session with a real monitor, every frame of it crafted."""

import os
import socket
from collections.abc import Iterator

import pytest
from scapy.packet import Packet
from scapy.supersocket import StreamSocket

from messenger.cephx.structures import AuthMode, Prelude
from messenger.denc.address import EntityAddr
from messenger.denc.entity import AuthName
from messenger.denc.features import CLIENT_FEATURES
from messenger.denc.layout import encoded
from messenger.messages.mon import MMonGetMap
from messenger.messages.monmap import MMonMap
from toolkit.cluster.monitor import RealMonitor
from toolkit.dissect.layers import (
    MSGR,
    MSGR2,
    MSGR2_AuthDone,
    MSGR2_AuthRequest,
    MSGR2_AuthSignature,
    MSGR2_Banner,
    MSGR2_ClientIdent,
    MSGR2_Hello,
    MSGR2_KeepAlive2,
    MSGR2_KeepAlive2Ack,
    MSGR2_Message,
    MSGR2_Rev0,
    MSGR2_ServerIdent,
)

pytestmark = pytest.mark.needs("ceph-mon", "ceph-authtool", "ceph")


def await_layer(stream: StreamSocket, layer: type[Packet]) -> Packet:
    """The next frame with that layer."""
    while True:
        frame = stream.recv()
        assert frame.crc_ok
        if layer in frame:
            return frame[layer]


@pytest.fixture(scope="module")
def monitor() -> Iterator[RealMonitor]:
    with RealMonitor(auth="none") as running:
        yield running


@pytest.mark.parametrize("frame", [MSGR2, MSGR2_Rev0])
def test_monitor_sends_its_monmap_to_crafted_frames(monitor: RealMonitor, frame: type[Packet]) -> None:
    address = EntityAddr.parse(monitor.addr_v2)
    with socket.create_connection((address.host, address.port), timeout=60) as sock:
        stream = StreamSocket(sock, MSGR)
        revision = int(frame is MSGR2)
        stream.send(MSGR2_Banner(supported=revision))
        assert stream.recv().supported & 1
        stream.streamsession["revision"] = revision
        me = Prelude(AuthMode.MON, AuthName.parse("client.admin"), 0)
        for layer in (
            MSGR2_Hello(entity_type="client", peer_addr=address),
            MSGR2_AuthRequest(method="none", preferred_modes="crc", auth_payload=encoded(me)),
        ):
            stream.send(frame() / layer)
        done = await_layer(stream, MSGR2_AuthDone)
        assert await_layer(stream, MSGR2_AuthSignature).signature == bytes(32)
        stream.send(frame() / MSGR2_AuthSignature())
        ident = MSGR2_ClientIdent(
            addrs=f"any:127.0.0.1:0/{os.getpid()}",
            target_addr=address,
            gid=done.global_id,
            global_seq=1,
            features_supported=CLIENT_FEATURES,
            flags="LOSSY",
        )
        stream.send(frame() / ident)
        assert await_layer(stream, MSGR2_ServerIdent).addrs.msgr2_addr() == address
        stream.send(frame() / MSGR2_Message(seq=1, tid=3, typed=MMonGetMap()))
        stream.send(frame() / MSGR2_KeepAlive2(seconds=5))
        monmap = await_layer(stream, MSGR2_Message).typed
        assert isinstance(monmap, MMonMap)
        assert str(monmap.monmap.fsid) == monitor.fsid
        assert await_layer(stream, MSGR2_KeepAlive2Ack).seconds == 5
