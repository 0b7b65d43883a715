"""Frames out of captures and packet lists: what scapy's own reassembly makes of them is not asked."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.sendrecv import sniff
from scapy.utils import PcapReader, wrpcap, wrpcapng

from messenger.cephx.exchange import ConMode
from messenger.denc.entity import EntityType
from messenger.link import Protocol
from tests.fuzz.seeds import ADMIN, KEYS, Chunk, conversation
from tests.support.node import SECRET_ID, SHARED_KEY
from toolkit.dissect.direction import Direction
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.layers import (
    MSGR1_Message,
    MSGR2_ClientIdent,
    MSGR2_Message,
    MSGR2_Secure,
    MSGR_Gap,
    MSGR_Link,
    MsgrSession,
    read_frames,
)

CLIENT, SERVER = ("10.0.0.1", 40000), ("10.0.0.2", 6800)
_SEGMENT_BYTES = 100


def book() -> KeyBook:
    return KeyBook({ADMIN: KEYS[1]}, {service: {SECRET_ID: SHARED_KEY} for service in EntityType})


def packets_of(chunks: list[Chunk], start: int = 1000) -> list[Packet]:
    """The conversation as a capture has it, in small segments."""
    next_seq = dict.fromkeys(Direction, start)
    time_s = 1_700_000_000.0
    packets = []

    def add(direction: Direction, flags: str, payload: bytes = b"") -> None:
        nonlocal time_s
        ends = (CLIENT, SERVER) if direction is Direction.TO_SERVER else (SERVER, CLIENT)
        (src, sport), (dst, dport) = ends
        tcp = TCP(sport=sport, dport=dport, flags=flags, seq=next_seq[direction], ack=next_seq[direction.other])
        packet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src=src, dst=dst) / tcp / payload
        packet.time = time_s = time_s + 0.001
        packets.append(packet)
        next_seq[direction] += len(payload) + ("S" in flags) + ("F" in flags)

    add(Direction.TO_SERVER, "S")
    add(Direction.TO_CLIENT, "SA")
    for direction, raw in chunks:
        for at in range(0, len(raw), _SEGMENT_BYTES):
            add(direction, "A", raw[at : at + _SEGMENT_BYTES])
    add(Direction.TO_SERVER, "FA")
    add(Direction.TO_CLIENT, "FA")
    return packets


def sent_by(chunks: list[Chunk], direction: Direction) -> bytes:
    return b"".join(raw for towards, raw in chunks if towards is direction)


def check(frames: list[Packet], chunks: list[Chunk]) -> None:
    """No frame is missing, none is doubled, all are correct."""
    for direction, sender in zip((Direction.TO_SERVER, Direction.TO_CLIENT), ("client", "server"), strict=True):
        mine = [frame for frame in frames if frame[MSGR_Link].sender == sender]
        assert b"".join(bytes(frame[TCP].payload) for frame in mine) == sent_by(chunks, direction)
        assert [frame[IP].src for frame in mine] == [(CLIENT if sender == "client" else SERVER)[0]] * len(mine)
    assert [frame[MSGR_Link].frame for frame in frames] == list(range(len(frames)))
    assert {frame[MSGR_Link].error for frame in frames} == {None}


SECURITIES = [("none", ConMode.CRC), ("cephx", ConMode.CRC), ("cephx", ConMode.SECURE)]


@pytest.mark.parametrize(("auth", "mode"), SECURITIES)
def test_a_conversation_from_a_list_of_packets(auth: str, mode: ConMode) -> None:
    chunks = conversation(auth, mode)
    frames = list(sniff(offline=packets_of(chunks), session=MsgrSession(book())))
    check(frames, chunks)
    assert sum(MSGR2_Message in frame for frame in frames) >= 3
    assert sum(MSGR2_ClientIdent in frame for frame in frames) == 1
    assert any(MSGR2_Secure in frame for frame in frames) is (mode is ConMode.SECURE)


def test_a_conversation_of_v1() -> None:
    chunks = conversation("cephx", ConMode.CRC, Protocol.V1)
    frames = list(sniff(offline=packets_of(chunks), session=MsgrSession(book())))
    check(frames, chunks)
    messages = [frame[MSGR1_Message] for frame in frames if MSGR1_Message in frame]
    assert len(messages) >= 3
    assert all(message.crc_ok for message in messages)


def reordered(packets: list[Packet]) -> list[Packet]:
    """Neighbours change places now and then, within what TCP allows once it is open."""
    rng, packets = Random(7), packets[:]
    for at in range(3, len(packets) - 3):
        if rng.random() < 0.3:
            packets[at], packets[at + 1] = packets[at + 1], packets[at]
    return packets


def repeated(packets: list[Packet]) -> list[Packet]:
    """Every third packet is sent again, later."""
    found = packets[:3]
    for number, packet in enumerate(packets[3:-2]):
        found += [packet] if number % 3 else [packet, packets[3 + number // 2], packet]
    return found + packets[-2:]


@pytest.mark.parametrize("disorder", [reordered, repeated])
@pytest.mark.parametrize(("auth", "mode"), SECURITIES)
def test_session_reassembles_reordered_packets(
    auth: str, mode: ConMode, disorder: Callable[[list[Packet]], list[Packet]]
) -> None:
    chunks = conversation(auth, mode)
    check(list(sniff(offline=disorder(packets_of(chunks)), session=MsgrSession(book()))), chunks)


def test_lost_packet_becomes_a_gap_layer() -> None:
    packets = packets_of(conversation("none", ConMode.CRC))
    large = max(range(len(packets)), key=lambda at: len(packets[at]))
    frames = list(sniff(offline=packets[:large] + packets[large + 1 :], session=MsgrSession))
    gap = next(frame for frame in frames if MSGR_Gap in frame)
    assert gap[MSGR_Gap].length == len(packets[large][TCP].payload)


def test_without_keys_sealed_frames_are_bytes() -> None:
    chunks = conversation("cephx", ConMode.SECURE)
    frames = list(sniff(offline=packets_of(chunks), session=MsgrSession))
    assert not any(MSGR2_Message in frame for frame in frames)
    assert any(frame[MSGR_Link].auth == "no-key" for frame in frames)


@pytest.mark.parametrize("write", [wrpcap, wrpcapng])
def test_files(tmp_path: Path, write: Callable[[str, list[Packet]], None]) -> None:
    chunks = conversation("cephx", ConMode.SECURE)
    path = tmp_path / "capture"
    write(str(path), packets_of(chunks))
    frames = list(read_frames(path, book()))
    check(frames, chunks)
    with PcapReader(str(path)) as reader:
        read = list(sniff(opened_socket=reader, session=MsgrSession(book())))
    for sniffed in (read, list(sniff(offline=str(path), session=MsgrSession(book())))):
        assert [frame.summary() for frame in sniffed] == [frame.summary() for frame in frames]
        assert [bytes(frame) for frame in sniffed] == [bytes(frame) for frame in frames]
        assert [frame.time for frame in sniffed] == [frame.time for frame in frames]


def test_frames_are_a_capture_again(tmp_path: Path) -> None:
    chunks = conversation("none", ConMode.CRC)
    frames = list(sniff(offline=packets_of(chunks), session=MsgrSession))
    path = tmp_path / "frames.pcap"
    wrpcap(str(path), frames)
    again = list(read_frames(path))
    assert [bytes(frame[TCP].payload) for frame in again if MSGR_Gap not in frame] == [
        bytes(frame[TCP].payload) for frame in frames
    ]
