"""One connection that passes a proxy, and how it ends."""

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass, field

from toolkit.dissect.direction import Direction
from toolkit.faults.passage import Gate
from toolkit.faults.tap import LinkTap

_LINGER_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with time 0: closing sends RST, as a crashed peer or a firewall would."""


@dataclass(slots=True, eq=False)
class Crossing:
    """One proxied connection."""

    link: int
    tap: LinkTap
    writers: dict[Direction, asyncio.StreamWriter]
    """Towards the receiver of each direction."""
    ended: set[Direction] = field(default_factory=set)
    """Directions in which nothing passes any more, although their senders do not know."""
    forgotten_by: Direction | None = None
    """The direction whose receiver lost this connection; its sender gets an error when it writes."""
    gates: set[Gate] = field(default_factory=set)
    """Shut ones that something waits for."""
    asides: set[asyncio.Task[None]] = field(default_factory=set)
    """What waits while others go on."""
    writing: dict[Direction, asyncio.Lock] = field(
        default_factory=lambda: {direction: asyncio.Lock() for direction in Direction}
    )
    """So that nothing gets into the middle of a frame."""
    why: str = "closed"
    """How it ended, in a few words."""

    def reset(self, why: str = "reset") -> None:
        """End both sides with RST; nothing waits any more."""
        self.why = why
        for gate in list(self.gates):
            gate.open()
        for aside in self.asides:
            aside.cancel()
        for direction in self.writers:
            self.reset_receiver(direction)

    def reset_receiver(self, direction: Direction) -> None:
        """End one side with RST."""
        writer = self.writers[direction]
        with contextlib.suppress(OSError):
            end_by_reset(writer)
        writer.transport.abort()


def end_by_reset(writer: asyncio.StreamWriter) -> None:
    """Have its end be a RST, once it is closed."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)


async def flushed(writer: asyncio.StreamWriter) -> None:
    """Wait, for a moment at most, until the transport's own buffer is empty."""
    for _ in range(100):
        if not writer.transport.get_write_buffer_size():
            return
        await asyncio.sleep(0.001)
