"""A connection that passes a proxy."""

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass, field

from toolkit.dissect.direction import Direction
from toolkit.faults.passage import Gate
from toolkit.faults.tap import LinkTap

_LINGER_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with time 0: close sends RST, as after a crash of the peer or from a firewall."""


@dataclass(slots=True, eq=False)
class Crossing:
    """A proxied connection."""

    link: int
    tap: LinkTap
    writers: dict[Direction, asyncio.StreamWriter]
    """Stream to the receiver of each direction."""
    ended: set[Direction] = field(default_factory=set)
    """Directions in which the proxy forwards nothing any more; their senders are not informed."""
    forgotten_by: Direction | None = None
    """Direction whose receiver lost this connection (half-open); its sender gets an error when it writes."""
    gates: set[Gate] = field(default_factory=set)
    """Shut gates that some task waits for."""
    asides: set[asyncio.Task[None]] = field(default_factory=set)
    """Tasks that deliver held bytes later, while the following ones pass."""
    writing: dict[Direction, asyncio.Lock] = field(
        default_factory=lambda: {direction: asyncio.Lock() for direction in Direction}
    )
    """Locks that keep a delayed frame from being written into the middle of another one."""
    why: str = "closed"
    """How the connection ended, in a few words."""

    def reset(self, why: str = "reset") -> None:
        """End both sides with RST, and release everything that waits."""
        self.why = why
        for gate in list(self.gates):
            gate.open()
        for aside in self.asides:
            aside.cancel()
        for direction in self.writers:
            self.reset_receiver(direction)

    def reset_receiver(self, direction: Direction) -> None:
        """End the receiver's side of a direction with RST."""
        writer = self.writers[direction]
        with contextlib.suppress(OSError):
            end_by_reset(writer)
        writer.transport.abort()


def end_by_reset(writer: asyncio.StreamWriter) -> None:
    """Make the socket send RST when it is closed."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)


async def flushed(writer: asyncio.StreamWriter) -> None:
    """Wait until the transport's buffer is empty, 0.1 s at most."""
    for _ in range(100):
        if not writer.transport.get_write_buffer_size():
            return
        await asyncio.sleep(0.001)
