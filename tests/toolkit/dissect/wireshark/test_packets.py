"""Packets made up around bytes, as tshark's own TCP analysis judges them."""

from pathlib import Path
from random import Random

import pytest

from tests.support.wireshark import rows, tshark
from toolkit.capture.formats import LinkType, PcapngWriter
from toolkit.dissect.direction import Direction
from toolkit.dissect.wireshark.packets import MAX_DATA_BYTES, Conversation

pytestmark = pytest.mark.needs("tshark")

UP, DOWN = Direction
CHECKS = ("-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE")


def write(path: Path, packets: list[bytes]) -> Path:
    with PcapngWriter(path) as writer:
        writer.interface("test", LinkType.RAW)
        for number, packet in enumerate(packets):
            writer.packet(number * 1000, packet)
    return path


@pytest.mark.parametrize(
    ("client", "server"), [("10.0.0.1:40000", "192.168.7.9:12345"), ("[fd00::1]:40000", "[2001:db8::7]:12345")]
)
def test_tshark_finds_nothing_wrong(client: str, server: str, tmp_path: Path) -> None:
    rng = Random(1)
    talk = Conversation(client, server, 0xFFFFFF00, 5)  # sequence numbers wrap
    packets = talk.open()
    sent = {UP: b"", DOWN: b""}
    for size in [*range(1, 60), 1448, MAX_DATA_BYTES, MAX_DATA_BYTES + 1, 3 * MAX_DATA_BYTES]:
        for direction in (UP, DOWN):
            data = rng.randbytes(size) if size % 2 else bytes(size)
            packets += talk.data(direction, data)
            sent[direction] += data
    packets += talk.close()
    path = write(tmp_path / "talk.pcapng", packets)
    version = "ipv6" if ":" in client.rpartition(":")[0] else "ip"
    judged = tshark(path, *CHECKS, "-T", "fields", "-e", "tcp.checksum.status", "-e", "ip.checksum.status")
    assert set(judged.split()) == {"1"}
    assert len(judged.split()) == len(packets) * (1 if version == "ipv6" else 2)
    found = rows(path, "tcp.srcport", f"{version}.src", "tcp.payload", "tcp.analysis.flags", "tcp.completeness")
    shown = {"40000": "", "12345": ""}
    for (port,), (host,), payload, flags, _ in found:
        assert host in (client if port == "40000" else server)
        assert not flags
        shown[port] += "".join(payload)
    assert shown == {"40000": sent[UP].hex(), "12345": sent[DOWN].hex()}
    assert found[-1][4] == ["31"]  # SYN, SYN-ACK, ACK, data, FIN


def test_skipped_bytes_are_a_lost_segment_in_tshark(tmp_path: Path) -> None:
    talk = Conversation("10.0.0.1:40000", "10.0.0.2:12345")
    packets = [*talk.open(), *talk.data(UP, b"before"), *talk.skip(UP, 100), *talk.data(UP, b"behind")]
    packets += [talk.acknowledge(DOWN), talk.reset(DOWN)]
    path = write(tmp_path / "gap.pcapng", packets)
    assert [row[0][0] for row in rows(path, "tcp.analysis.lost_segment")] == ["1"]
    assert rows(path, "tcp.seq", "tcp.len", "tcp.flags.reset")[4:] == [
        [["107"], ["6"], ["0"]],
        [["1"], ["0"], ["0"]],
        [["1"], ["0"], ["1"]],
    ]
