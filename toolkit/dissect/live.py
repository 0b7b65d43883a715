"""Decodes packets while they are captured."""

from collections.abc import Iterator, Sequence

import numpy as np

from toolkit.capture.formats import PacketBatch
from toolkit.capture.sources import Packet
from toolkit.dissect.decode import Decoder
from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.keys import KeyBook


class LiveDecoder:
    """Decodes the packets of a running capture, turn by turn.

    Args:
        keys: known keys; keys of the key log are added as they come.
    """

    def __init__(self, keys: KeyBook) -> None:
        self.decoder = Decoder(keys)
        self._keys = keys
        self._packets = 0

    def frames(self, packets: Sequence[Packet], secrets: str) -> Iterator[DecodedFrame]:
        """Yield the frames that these packets complete.

        Args:
            packets: packets captured in this turn.
            secrets: new text of the key log.
        """
        if secrets:
            self._keys.add_key_log(secrets)
        if packets:
            batch = batch_of(packets, self._packets)
            self._packets += len(packets)
            yield from self.decoder.feed(batch)


def batch_of(packets: Sequence[Packet], first: int) -> PacketBatch:
    """Return packets as a batch; ``first`` is the number of the first packet."""
    sizes = np.array([len(packet.data) for packet in packets], np.int64)
    return PacketBatch(
        memoryview(b"".join([packet.data for packet in packets])),
        first,
        np.array([packet.time_ns for packet in packets], np.int64),
        np.cumsum(sizes) - sizes,
        sizes,
        np.array([packet.length for packet in packets], np.int64),
        np.array([packet.link_type for packet in packets], np.int64),
    )
