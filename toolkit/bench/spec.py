"""The commands from a benchmark's controller to its processes, and their answers."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from messenger.link import Protocol
from toolkit.bench.cell import REPLY_BYTES, Cell, Pattern
from toolkit.bench.traffic import Receiver, Sender, Traffic

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSpec:
    """The role of one of the two processes."""

    cell: Cell
    floor: bool
    """True for a plain socket instead of the messenger."""
    cpu: int
    """The CPU to which the process is pinned."""
    key: str
    """Shared key of the two messengers, in its text form."""
    addr: str = ""
    """Address of the receiver; empty for the receiver itself."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the messenger, besides those of its connection mode."""

    def as_json(self) -> str:
        """Return the line that :meth:`from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str | bytes) -> "PeerSpec":
        """Return the spec in a line of :meth:`as_json`."""
        values = json.loads(line)
        cell = values.pop("cell")
        return cls(
            cell=Cell(**{**cell, "pattern": Pattern(cell["pattern"]), "protocol": Protocol(cell["protocol"])}),
            **values,
        )

    @property
    def sends(self) -> bool:
        """True for the side that connects and sends."""
        return bool(self.addr)

    @property
    def received_bytes(self) -> int:
        """Length of the payloads that this side receives."""
        return REPLY_BYTES if self.sends else self.cell.size

    @property
    def payload(self) -> bytes:
        """Payload of this side's messages: the measured size for the sender, a small reply for the receiver."""
        size = self.cell.size if self.sends else REPLY_BYTES
        return (bytes(range(256)) * (size // 256 + 1))[:size]

    def traffic(self, send: Callable[[int], None]) -> Traffic:
        """Create this side of the application."""
        cell = self.cell
        return Sender(cell.in_flight, cell.per_reply, send) if self.sends else Receiver(cell.per_reply, send)


@dataclass(slots=True, kw_only=True)
class PeerRun:
    """One run as measured by one of the processes; times are those of the machine's monotonic clock."""

    started_s: float
    ended_s: float
    cpu_s: float
    peak_rss_mib: float
