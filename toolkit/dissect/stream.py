"""The events that TCP assembly gives the decoders: bytes of each connection in order, and gaps.

Assembly (``toolkit.dissect.tcp``) yields events batch by batch; each decoder receives those of one stream. The
bytes of a run may be a view of the assembler's memory, which is reused for the next batch: copy what you keep
beyond it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from toolkit.dissect.conduct import Conduct
from toolkit.dissect.direction import Direction


@dataclass(slots=True, eq=False)
class Stream:
    """One TCP connection of a capture, or two RDMA queue pairs. A port pair used again is another stream."""

    index: int
    """Its number, from 0, in the order of the streams' first packets."""
    client: str
    """The end that opened it, as ``address:port`` (``[address]:port`` for IPv6)."""
    server: str
    opening_seen: bool
    """True if the capture has its SYN. Otherwise it began before, and the client is guessed by the ports."""
    tcp: Conduct = field(default_factory=Conduct, repr=False)
    """What the headers of its packets show, up to the packet read last."""
    batched: bool = False
    """Set by the decoder once the order between the two directions does not matter any more: from the next
    batch on, each direction comes as a single run."""
    queue_pairs: tuple[int, int] | None = None
    """Numbers of the client's and the server's queue pair of a link over RDMA, -1 if the capture does not show
    it; None over TCP."""
    introduces: bool = False
    """True for a TCP connection whose bytes introduce two queue pairs to each other (docs/protocol.md §8)."""

    def source(self, direction: Direction) -> str:
        """Return the address of the sender in a direction."""
        return self.client if direction is Direction.TO_SERVER else self.server

    def ends(self, direction: Direction) -> tuple[str, str]:
        """Return the addresses of sender and receiver in a direction."""
        return (self.client, self.server) if direction is Direction.TO_SERVER else (self.server, self.client)


@dataclass(slots=True)
class Run:
    """Consecutive bytes of one direction, from one or more packets."""

    stream: Stream
    direction: Direction
    data: memoryview
    ends: Sequence[int]
    """For each packet, the end of its bytes in ``data``, ascending."""
    times_ns: Sequence[int]
    """For each packet, its Unix time in nanoseconds."""
    packets: Sequence[int]
    """For each packet, its number in the capture, from 0."""


@dataclass(slots=True)
class Gap:
    """Bytes of one direction that the capture lacks."""

    stream: Stream
    direction: Direction
    size_bytes: int
    """Number of missing bytes."""
    time_ns: int
    packet: int
    """Number of the packet that showed that they are missing."""
    exact: bool = True
    """False if only the number of missing packets is known: then ``size_bytes`` is an upper bound."""


class Ending(StrEnum):
    """How a direction of a stream ended."""

    FIN = "fin"
    RESET = "reset"


@dataclass(slots=True)
class End:
    """The end of a direction; RESET ends both."""

    stream: Stream
    direction: Direction
    how: Ending
    time_ns: int
    packet: int


StreamEvent = Run | Gap | End
"""An event on a stream, in the order of the capture."""
