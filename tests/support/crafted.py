"""Captures with a known cause: links of msgr v2 in crc mode, packet by packet, with any time, TTL and flag."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from messenger.cephx.structures import AuthMode, Prelude
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.layout import encoded
from messenger.v2.framing import CrcWriter
from messenger.v2.wire import (
    MESSAGE_HEADER,
    AuthDone,
    AuthRequest,
    AuthSignature,
    ClientIdent,
    ControlFrame,
    Hello,
    ServerIdent,
    SessionReconnect,
    SessionReconnectOk,
    encode_banner,
)
from tests.support.frames import message
from tests.support.packets import ACK, FIN, PSH, RST, SYN, TIME_NS
from toolkit.dissect.direction import Direction

TO_SERVER, TO_CLIENT = Direction.TO_SERVER, Direction.TO_CLIENT
Script = Sequence[tuple[Direction, bytes]]
PING, OSD_OP, OSD_OP_REPLY = 2, 42, 43


def control(frame: ControlFrame) -> bytes:
    """A control frame of msgr 2.1."""
    return CrcWriter().control(int(frame.TAG), frame.encode())


def msg(seq: int, *, tid: int = 0, kind: int = PING, front: bytes = b"", data: bytes = b"", ack: int = 0) -> bytes:
    """A MESSAGE frame."""
    header = MESSAGE_HEADER.pack(seq, tid, kind, 127, 1, 0, 0, ack, 3, 1, 0)
    return message(CrcWriter(), header, front, b"", data)


@dataclass(frozen=True)
class Peers:
    """The two ends of a link, and which of them dials."""

    client: str = "10.0.0.1:0/11"
    server: str = "10.0.0.2:6800/22"
    gid: int = 4100
    client_type: EntityType = EntityType.CLIENT
    name: str = "admin"
    client_cookie: int = 0
    server_cookie: int = 0

    def begin(self, global_seq: int = 1) -> Script:
        """The handshake of a new session."""
        return [*self._login(), (TO_SERVER, self._client_ident(global_seq)), (TO_CLIENT, self._server_ident())]

    def resume(self, global_seq: int, connect_seq: int, in_seqs: tuple[int, int]) -> Script:
        """The handshake of a link that goes on with a session; what connector and acceptor have received."""
        cookies = self.client_cookie, self.server_cookie
        asked = SessionReconnect(_vec(self.client), *cookies, global_seq, connect_seq, in_seqs[0])
        return [*self._login(), (TO_SERVER, control(asked)), (TO_CLIENT, control(SessionReconnectOk(in_seqs[1])))]

    def _login(self) -> Script:
        banner = encode_banner(1, 0)
        client, server = _addr(self.client), _addr(self.server)
        return [
            (TO_SERVER, banner),
            (TO_CLIENT, banner),
            (TO_CLIENT, control(Hello(EntityType.OSD, client))),
            (TO_SERVER, control(Hello(self.client_type, server))),
            (TO_SERVER, control(AuthRequest(1, [1], encoded(self._prelude())))),
            (TO_CLIENT, control(AuthDone(self.gid, 1, b""))),
            (TO_SERVER, control(AuthSignature(bytes(32)))),
            (TO_CLIENT, control(AuthSignature(bytes(32)))),
        ]

    def _prelude(self) -> Prelude:
        return Prelude(AuthMode.AUTHORIZER, AuthName(self.client_type, self.name), self.gid)

    def _client_ident(self, global_seq: int) -> bytes:
        flags = 0 if self.client_cookie else 1
        ident = ClientIdent(
            *(_vec(self.client), _addr(self.server), self.gid, global_seq, 1 << 59, 0, flags, self.client_cookie)
        )
        return control(ident)

    def _server_ident(self) -> bytes:
        return control(
            ServerIdent(_vec(self.server), 0, 7, 1 << 59, 0, 0 if self.client_cookie else 1, self.server_cookie)
        )


def _addr(text: str) -> EntityAddr:
    return EntityAddr.parse(f"v2:{text}")


def _vec(text: str) -> AddrVec:
    return AddrVec((_addr(text),))


@dataclass
class Tape:
    """Packets of a capture: time and bytes."""

    packets: list[tuple[int, bytes]] = field(default_factory=list)
    now_ns: int = TIME_NS
    step_ns: int = 1000

    def add(self, packet: bytes) -> None:
        """One more packet, a step behind the one before."""
        self.packets.append((self.now_ns, packet))
        self.now_ns += self.step_ns

    def wait(self, seconds: float) -> None:
        """Let time pass without packets."""
        self.now_ns += round(seconds * 1e9)

    def write(self, path: Path, *, link_type: int = 101) -> Path:
        """Write a pcap file with nanoseconds, with the packets in the order of their times."""
        out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 18, link_type)]
        for time_ns, packet in sorted(self.packets, key=lambda pair: pair[0]):
            out.append(struct.pack("<IIII", *divmod(time_ns, 10**9), len(packet), len(packet)) + packet)
        path.write_bytes(b"".join(out))
        return path


class Connection:
    """A TCP connection on a tape; raw IPv4 packets.

    Args:
        tape: where its packets go.
        client: address and port of the end that opens it.
        server: of the other end.
        ttls: time to live of the packets of either end, as the capture sees them.
    """

    def __init__(
        self,
        tape: Tape,
        client: str = "10.0.0.1:40000",
        server: str = "10.0.0.2:6800",
        ttls: tuple[int, int] = (64, 61),
    ) -> None:
        self.tape = tape
        self._ends = {TO_SERVER: client, TO_CLIENT: server}
        self._ttls = dict(zip(Direction, ttls, strict=True))
        self.sequences = {TO_SERVER: 1000, TO_CLIENT: 5000}
        self._ids = {TO_SERVER: 100, TO_CLIENT: 20000}

    def open(self) -> "Connection":
        """SYN, SYN with ACK, ACK."""
        self.packet(TO_SERVER, SYN)
        self.packet(TO_CLIENT, SYN | ACK)
        self.packet(TO_SERVER, ACK)
        return self

    def play(self, script: Script) -> "Connection":
        """The bytes of a script, acknowledged one by one."""
        for way, raw in script:
            for at in range(0, len(raw), 1400):
                self.packet(way, PSH | ACK, raw[at : at + 1400])
            self.packet(way.other, ACK)
        return self

    def close(self, way: Direction = TO_SERVER) -> None:
        """Both ends are done, the sender of this direction first."""
        self.packet(way, FIN | ACK)
        self.packet(way.other, FIN | ACK)
        self.packet(way, ACK)

    def reset(self, way: Direction, *, ttl: int | None = None, identification: int = 0) -> None:
        """A RST in the name of the sender of this direction."""
        self.packet(way, RST | ACK, ttl=ttl, identification=identification)

    def packet(
        self,
        way: Direction,
        flags: int,
        payload: bytes = b"",
        *,
        sequence: int | None = None,
        ttl: int | None = None,
        identification: int | None = None,
        window: int = 500,
    ) -> None:
        """One packet; with ``sequence`` it is sent again from there."""
        raw = self.raw(
            way, flags, payload, sequence=sequence, ttl=ttl, identification=identification, window=window
        )
        if sequence is None:
            self.sequences[way] += len(payload) + bool(flags & (SYN | FIN))
        self.tape.add(raw)

    def raw(
        self,
        way: Direction,
        flags: int,
        payload: bytes = b"",
        *,
        sequence: int | None = None,
        ttl: int | None = None,
        identification: int | None = None,
        window: int = 500,
    ) -> bytes:
        """The IP packet."""
        self._ids[way] += 1
        number = self.sequences[way] if sequence is None else sequence
        acknowledged = self.sequences[way.other] if flags & ACK else 0
        (source, source_port), (target, target_port) = (self._ends[end].rsplit(":", 1) for end in (way, way.other))
        tcp = struct.pack(
            ">HHIIBBHHH",
            *(int(source_port), int(target_port), number & 0xFFFFFFFF, acknowledged & 0xFFFFFFFF),
            *(5 << 4, flags, window, 0, 0),
        )
        head = struct.pack(
            ">BBHHHBBH",
            *(0x45, 0, 40 + len(payload)),
            (self._ids[way] if identification is None else identification) & 0xFFFF,
            *(0x4000, ttl or self._ttls[way], 6, 0),
        )
        return head + ip_address(source).packed + ip_address(target).packed + tcp + payload


def exchange(count: int, *, first_tid: int = 1) -> Script:
    """So many operations and their replies, one by one."""
    return [
        (way, msg(number + 1, tid=first_tid + number, kind=kind))
        for number in range(count)
        for way, kind in ((TO_SERVER, OSD_OP), (TO_CLIENT, OSD_OP_REPLY))
    ]
