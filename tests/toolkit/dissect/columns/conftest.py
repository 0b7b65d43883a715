"""Captures of simulated sessions, over links of every kind."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from messenger.denc.features import CLIENT_FEATURES, Feature
from toolkit.bench.packets import Clock, Conversation
from toolkit.capture.formats import LinkType, PcapngWriter
from toolkit.dissect.direction import Direction
from toolkit.dissect.keys import KeyBook
from toolkit.lab.sim.sim_lab import SimLab

COMPRESSED = {"ms_osd_compress_mode": "force", "ms_compress_secure": True, "ms_osd_compression_algorithm": "lz4"}
LINKS: dict[str, tuple[str, dict[str, Any]]] = {
    "v2 crc": ("v2-crc", {}),
    "v2 secure": ("v2-secure", {}),
    "v2.0 crc": ("v2-crc", {"msgr2_features": 0}),
    "v2.0 secure": ("v2-secure", {"msgr2_features": 0}),
    "v2 crc compressed": ("v2-crc", COMPRESSED),
    "v2 secure compressed": ("v2-secure", COMPRESSED),
    "v1": ("v1", {}),
    "v1 without MSG_AUTH": ("v1", {"features_supported": CLIENT_FEATURES & ~Feature.MSG_AUTH}),
    "v1 without checksums": ("v1", {"ms_crc_data": False, "ms_crc_header": False}),
}
"""Way and options of both ends."""
SIZES = {10: 60, 300: 30, 5_000: 3, 70_000: 1}
"""How many messages of each size go either way before the link is cut."""
MESSAGES = 2 * sum(SIZES.values()) + 2


@dataclass(frozen=True, slots=True)
class Recorded:
    """A capture, and what opens it."""

    path: Path
    keys: Callable[[], KeyBook]


def record(link: str, path: Path) -> Recorded:
    """A session with a reconnect in its middle."""
    way, options = LINKS[link]
    lab = SimLab(way, 3)
    for name, entity in (("a", "osd.1"), ("b", "osd.2")):
        lab.node(name, entity, "lossless_peer", **options)
    lab.start("a", "b")
    clock = Clock(1_700_000_000_000_000_000, 1_000)
    conversations: dict[object, Conversation] = {}
    with PcapngWriter(path) as writer:
        writer.interface("sim", LinkType.ETHERNET)

        def seen(wire: object, direction: Direction, chunk: bytes) -> None:
            if wire not in conversations:
                ends = ("10.0.0.1", 40_000 + len(conversations)), ("10.0.0.2", 6800)
                conversations[wire] = Conversation(writer, clock, *ends, 1460)
                conversations[wire].open()
            conversations[wire].send(direction, memoryview(chunk))

        lab.network.on_bytes = seen
        lab.connect("a", "b")
        for size, count in SIZES.items():
            lab.send("a", "b", count=count, size_bytes=size)
            lab.send("b", "a", count=count, size_bytes=size)
            lab.settle()
        lab.cut("a", "b")
        lab.send("a", "b", count=2, size_bytes=10)
        lab.settle()
    return Recorded(path, lambda: lab.keys)


@pytest.fixture(scope="module", params=LINKS)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """One session over each kind of link."""
    return record(request.param, tmp_path_factory.mktemp("recorded") / "session.pcapng")
