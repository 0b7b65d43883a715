"""Finds the RoCEv2 packets among the datagrams of a batch."""

from collections.abc import Iterator, Mapping

from messenger.errors import DecodeError
from toolkit.capture.formats.packets import PacketBatch
from toolkit.dissect.roce.headers import ICRC_BYTES, RoceHeader
from toolkit.dissect.roce.link import RocePacket
from toolkit.dissect.tcp.internet import UDP_HEADER_BYTES, Datagrams


def read_packets(data: memoryview, batch: PacketBatch, carried: Mapping[int, Datagrams]) -> list[RocePacket]:
    """Return the packets of reliable connections, in the order of the capture; others are ignored.

    Args:
        data: bytes with the datagrams.
        batch: batch of the datagrams.
        carried: datagrams to the port of RoCE, by version of IP.
    """
    found = [one for datagrams in carried.values() if len(datagrams.rows) for one in _of(data, batch, datagrams)]
    return sorted(found, key=lambda one: one.packet)


def _of(data: memoryview, batch: PacketBatch, datagrams: Datagrams) -> Iterator[RocePacket]:
    sources = zip(*(word.tolist() for word in datagrams.sources), strict=True)
    targets = zip(*(word.tolist() for word in datagrams.targets), strict=True)
    columns = (
        datagrams.rows,
        datagrams.starts + UDP_HEADER_BYTES,
        datagrams.ends,
        datagrams.captured_ends,
        datagrams.ttls,
        datagrams.identifications,
        batch.times_ns[datagrams.rows],
    )
    rest = zip(*(column.tolist() for column in columns), strict=True)
    for source, target, (row, start, end, captured_end, ttl, identification, time_ns) in zip(
        sources, targets, rest, strict=True
    ):
        try:
            header = RoceHeader.decode(data[start : min(end, captured_end)])
        except DecodeError:
            continue
        begin = start + header.size_bytes
        stop = end - ICRC_BYTES - header.padding_bytes
        if stop < begin:
            continue
        payload = data[begin : max(begin, min(stop, captured_end))]
        yield RocePacket(
            *(header, source, target, payload, stop - begin),
            *(ttl, identification, time_ns, batch.first + row),
        )
