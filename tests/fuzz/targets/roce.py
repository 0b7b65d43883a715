"""Packets of queue pairs: headers, and links whose packets come in any order, doubled, lost and damaged.

An input is a byte of options and a script of packets, each a byte, and the counted bytes behind UDP's header.
Option bit 0: records introduce the queue pairs 17 and 18. Of a packet's byte, bit 0 is its direction.
"""

import io
from collections.abc import Iterator

from messenger.errors import DecodeError
from messenger.transport.rdma.record import Record
from tests.fuzz.target import KIB, BrokenPromise, Cursor, Target, require_same
from tests.support.packets import ACK, SYN, Segment, pcap
from tests.support.roce import CLIENT, SERVER, datagram
from toolkit.capture.formats import open_capture
from toolkit.dissect.assembly import Assembly
from toolkit.dissect.roce.headers import Answer, Opcode, RoceHeader
from toolkit.dissect.stream import End, Gap, Run

_MOST_PACKETS = 48
_CLIENT_PSN, _SERVER_PSN = 0xFFFFFE, 5


def introduction() -> list[bytes]:
    """Packets of the TCP connection over which both ends send the record of their queue pair."""
    gids = [bytes(10) + b"\xff\xff\x0a\x09\x00" + last for last in (b"\x01", b"\x02")]
    client = Record(0, 17, _CLIENT_PSN, 0, gids[0]).encode()
    server = Record(0, 18, _SERVER_PSN, 17, gids[1]).encode()
    ends = f"{CLIENT}:40000", f"{SERVER}:6800"
    segments = (
        Segment(*ends, 99, flags=SYN),
        Segment(*ends[::-1], 499, 100, SYN | ACK),
        Segment(*ends, 100, 500, ACK, client),
        Segment(*ends[::-1], 500, 165, ACK, server),
    )
    return [segment.ethernet() for segment in segments]


def _run(data: bytes) -> int:
    cursor = Cursor(data)
    packets = introduction() if cursor.number() & 1 else []
    while cursor and len(packets) < _MOST_PACKETS:
        ends = (CLIENT, SERVER) if cursor.number() & 1 == 0 else (SERVER, CLIENT)
        contents = cursor.counted()
        _check_header(contents)
        packets.append(datagram(*ends, contents))
    raw = pcap(packets)
    require_same("the links of small batches, and of large ones", _links(raw, 64), _links(raw, 4096))
    return len(raw)


def _check_header(contents: bytes) -> None:
    try:
        header = RoceHeader.decode(contents)
    except DecodeError:
        return
    if RoceHeader.decode(header.encode()) != header:
        raise BrokenPromise(f"{header} encodes to another one")


def _links(raw: bytes, window_bytes: int) -> dict[tuple[int, str], list[object]]:
    """Return, for each direction of each link over RDMA, its bytes, the sizes of its gaps, and how it ended."""
    assembly = Assembly()
    contents: dict[tuple[int, str], list[object]] = {}
    batches = [assembly.feed(batch) for batch in open_capture(io.BytesIO(raw), window_bytes)]
    # data of a run is good until the next batch, but pieces of queue pairs are copies
    for event in (event for events in [*batches, assembly.finish()] for event in events):
        if event.stream.queue_pairs is None:
            continue
        mine = contents.setdefault((event.stream.index, str(event.direction)), [])
        if isinstance(event, End):
            mine.append(str(event.how))
        elif isinstance(event, Gap):
            mine.append(event.size_bytes)
        elif isinstance(event, Run):
            before = mine.pop() if mine and isinstance(mine[-1], bytes) else b""
            assert isinstance(before, bytes)
            mine.append(before + bytes(event.data))
    return contents


def _seeds() -> Iterator[bytes]:
    def step(side: int, header: RoceHeader, payload: bytes = b"") -> bytes:
        contents = header.encode() + payload + bytes(header.padding_bytes + 4)
        return bytes([side, len(contents)]) + contents

    def send(psn: int, payload: bytes, opcode: Opcode = Opcode.SEND_ONLY) -> bytes:
        return step(0, RoceHeader(opcode, 18, psn & 0xFFFFFF, -len(payload) % 4), payload)

    def answer(psn: int, kind: Answer = Answer.ACK, value: int = 0) -> bytes:
        return step(1, RoceHeader(Opcode.ACKNOWLEDGE, 17, psn & 0xFFFFFF, answer=kind, value=value))

    back = step(1, RoceHeader(Opcode.SEND_ONLY, 17, _SERVER_PSN), b"back")
    talk = [
        send(_CLIENT_PSN, b"abcd", Opcode.SEND_FIRST),
        send(_CLIENT_PSN + 1, b"efgh", Opcode.SEND_MIDDLE),
        send(_CLIENT_PSN + 2, b"ij", Opcode.SEND_LAST),
        answer(_CLIENT_PSN + 2),
        back,
        send(_CLIENT_PSN + 3, b""),
    ]
    for options in (b"\x00", b"\x01"):
        yield options + b"".join(talk)
        yield options + b"".join(talk[::-1])
        yield options + b"".join(talk[:1] + talk[2:])
        yield options + talk[0] + answer(_CLIENT_PSN + 1, Answer.NAK) + answer(_CLIENT_PSN + 1, Answer.RNR_NAK, 12)
        yield options + talk[0] + b"".join(talk) + answer(_CLIENT_PSN + 3, Answer.NAK, 2)
    for opcode in Opcode:
        yield b"\x01" + step(0, RoceHeader(opcode, 18, _CLIENT_PSN), bytes(4))


TARGETS = [Target(name="roce", run=_run, seeds=_seeds, allowance_bytes=2048 * KIB, mutations=150)]
