"""What each capture over RDMA shows."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from messenger.cephx.exchange import ConMode
from messenger.protocols import Protocol

_SIZES_BYTES = (0, 1, 1000, 4096, 20_000)


@dataclass(frozen=True)
class RoceRecipe:
    """Two messengers, on a soft-RoCE device each, that send each other messages of these sizes."""

    shows: str
    protocol: Protocol = Protocol.V2
    mode: ConMode = ConMode.CRC
    sizes_bytes: tuple[int, ...] = _SIZES_BYTES
    loss_percent: int = 0
    """Packets that netem drops in each direction once the session is open."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Of both messengers."""
    server_options: Mapping[str, object] = field(default_factory=dict)
    """Of the messenger that is connected to."""


RECIPES = {
    "roce-crc": RoceRecipe("two messengers over RoCEv2, msgr2 in crc mode"),
    "roce-secure": RoceRecipe("two messengers over RoCEv2, msgr2 in secure mode", mode=ConMode.SECURE),
    "roce-v1": RoceRecipe("two messengers over RoCEv2, msgr v1", protocol=Protocol.V1),
    "roce-loss": RoceRecipe(
        "two messengers over RoCEv2, msgr2 in crc mode; a tenth of the packets is lost in each direction",
        sizes_bytes=(20_000,) * 6,
        loss_percent=10,
    ),
    "roce-rnr": RoceRecipe(
        "two messengers over RoCEv2, msgr2 in crc mode; the server has two receive buffers and is often not ready",
        sizes_bytes=(8_000,) * 4,
        options={"ms_async_rdma_buffer_size": 2048},
        server_options={"rdma_queue_len": 2},
    ),
}
"""By the name of the directory."""
