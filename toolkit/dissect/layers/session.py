"""Frames of captures and of live traffic as scapy packets: ``read_frames``, ``sniff(session=MsgrSession(...))``.

The project's own assembler and decoder read the streams: packets may be out of order, retransmitted or lost, and
sealed frames are opened if the keys are known.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np
from scapy.config import conf
from scapy.packet import Packet
from scapy.sessions import DefaultSession
from scapy.supersocket import SuperSocket

from toolkit.capture.formats import PacketBatch
from toolkit.dissect.decode import Decoder, decode_capture
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.layers.decoded import packet_of

Keys = KeyBook | str | Path | Iterable[str | Path] | None
"""A key book, or the paths of one or more keyrings."""

_NANO = 1_000_000_000


def read_frames(path: str | Path, keys: Keys = None) -> Iterator[Packet]:
    """Yield the frames of a capture file as scapy packets; see :func:`~toolkit.dissect.layers.decoded.packet_of`.

    Args:
        path: path of a pcap or pcapng file, perhaps gzipped.
        keys: keys for sealed frames and signatures.

    Raises:
        LocalError: the file or a keyring cannot be read.
    """
    return map(packet_of, decode_capture(Path(path), _book(keys)))


def _book(keys: Keys) -> KeyBook:
    if isinstance(keys, KeyBook):
        return keys
    paths = [] if keys is None else [keys] if isinstance(keys, str | Path) else keys
    return KeyBook.read([Path(path) for path in paths])


class MsgrSession(DefaultSession):
    """A session for ``sniff(session=...)`` that yields frames of either protocol instead of packets.

    Every interface or file that is sniffed is a capture of its own.

    Args:
        keys: keys for sealed frames and signatures.
    """

    def __init__(self, keys: Keys = None) -> None:
        super().__init__()
        self.keys = _book(keys)
        self._decoders: WeakKeyDictionary[SuperSocket, Decoder] = WeakKeyDictionary()
        self._packets: WeakKeyDictionary[SuperSocket, int] = WeakKeyDictionary()

    def recv(self, sock: SuperSocket) -> Iterator[Packet]:
        """Yield the frames that the next packet completes.

        Raises:
            EOFError: the file has ended; raised after the remaining frames.
        """
        decoder = self._decoders.get(sock)
        if decoder is None:
            decoder = self._decoders[sock] = Decoder(self.keys)
        try:
            packet = sock.recv(stop_dissection_after=Packet)
        except EOFError:
            yield from map(packet_of, decoder.finish())
            raise
        if packet is None:
            return
        number = self._packets.get(sock, 0)
        self._packets[sock] = number + 1
        batch = _batch_of(packet, number)
        if batch is not None:
            yield from map(packet_of, decoder.feed(batch))


def _batch_of(packet: Packet, number: int) -> PacketBatch | None:
    """Return one packet as a batch; None if its first layer is no link layer."""
    link_type = conf.l2types.get(type(packet))
    if link_type is None:
        return None
    raw = bytes(packet)
    columns = (int(packet.time * _NANO), 0, len(raw), packet.wirelen or len(raw), link_type)
    times, offsets, captured, original, types = (np.array([value], np.int64) for value in columns)
    return PacketBatch(memoryview(raw), number, times, offsets, captured, original, types)
