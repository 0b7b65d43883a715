"""What TCP assembly hands to the decoders: the bytes of each connection in order, and where some are missing.

Assembly (``toolkit.dissect.tcp``) yields events batch by batch; each decoder takes those of one stream. Bytes of
a run may be a view of the assembler's memory: they are good until the next batch is asked for, and a decoder
copies what it has to keep.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from toolkit.dissect.conduct import Conduct
from toolkit.dissect.direction import Direction


@dataclass(slots=True, eq=False)
class Stream:
    """One TCP connection of a capture, or two queue pairs of RDMA. A port pair used again is another stream."""

    index: int
    """Counted from 0 in the order of their first packets."""
    client: str
    """The end that opened it, as ``address:port`` (``[address]:port`` for IPv6)."""
    server: str
    opening_seen: bool
    """The capture has its SYN; otherwise it began before, and which side is the client is a guess by the ports."""
    tcp: Conduct = field(default_factory=Conduct, repr=False)
    """What the packets' headers show, up to the packet that was read last."""
    batched: bool = False
    """Set by the decoder once the order of one direction's bytes against the other's does not matter any more:
    from the next batch on, each direction comes as a single run."""
    queue_pairs: tuple[int, int] | None = None
    """Numbers of the client's and the server's queue pair if the link goes over RDMA, -1 where the capture does
    not show it; None over TCP."""
    introduces: bool = False
    """A TCP connection whose bytes are the records of two queue pairs (docs/protocol.md §8)."""

    def source(self, direction: Direction) -> str:
        """The sender in a direction."""
        return self.client if direction is Direction.TO_SERVER else self.server


@dataclass(slots=True)
class Run:
    """Consecutive bytes of one direction, from one packet or several."""

    stream: Stream
    direction: Direction
    data: memoryview
    ends: Sequence[int]
    """Where in ``data`` the bytes of each packet end, ascending."""
    times_ns: Sequence[int]
    """Unix time of each of these packets."""
    packets: Sequence[int]
    """Their numbers in the capture, from 0."""


@dataclass(slots=True)
class Gap:
    """Bytes of one direction that the capture does not have."""

    stream: Stream
    direction: Direction
    size_bytes: int
    """How many."""
    time_ns: int
    packet: int
    """The packet that proved them missing."""
    exact: bool = True
    """False if only packets were counted: then ``size_bytes`` is what they held at most."""


class Ending(StrEnum):
    """How a direction ended."""

    FIN = "fin"
    RESET = "reset"


@dataclass(slots=True)
class End:
    """No more bytes come in a direction (RESET: in both)."""

    stream: Stream
    direction: Direction
    how: Ending
    time_ns: int
    packet: int


StreamEvent = Run | Gap | End
"""What happens on a stream, in the order of the capture."""
