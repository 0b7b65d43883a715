"""The cells of the grid of measurements, and their results."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import product
from typing import Any

from messenger.link import Protocol

KIB = 1024
MIB = 1024 * 1024
SIZES = (64, 4 * KIB, 64 * KIB, MIB, 4 * MIB)
IN_FLIGHT = (1, 32)
MODES = ("crc", "secure")
CORES = (1, 2)
REPLY_BYTES = 64
_UNITS = ((MIB, "M"), (KIB, "K"), (1, ""))


class Pattern(StrEnum):
    """The pattern of messages and answers."""

    REQUEST = "request"
    """Every message gets an answer of 64 bytes, as in Ceph's own perf_msgr."""
    STREAM = "stream"
    """Messages flow one way; the receiver sends 64 bytes after each half window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell of the grid of measurements."""

    pattern: Pattern
    size: int
    """Bytes of each message's data."""
    in_flight: int
    """Maximum number of messages without an answer."""
    mode: str
    """crc or secure; msgr v1 has crc only."""
    cores: int
    """1 if both processes share a CPU, 2 if each has its own."""
    protocol: Protocol = Protocol.V2

    @property
    def per_reply(self) -> int:
        """Number of messages that one reply answers."""
        return 1 if self.pattern is Pattern.REQUEST else max(1, self.in_flight // 2)

    @property
    def name(self) -> str:
        """Name of the cell, as in ``request v2 crc 4K x32 1core``."""
        size = next(f"{self.size // unit}{word}" for unit, word in _UNITS if self.size % unit == 0)
        return f"{self.pattern} {self.protocol} {self.mode} {size} x{self.in_flight} {self.cores}core"

    def rounded(self, count: float) -> int:
        """Round ``count`` to a multiple of :attr:`per_reply` that is at least the window."""
        return max(round(count / self.per_reply), -(-self.in_flight // self.per_reply)) * self.per_reply


@dataclass(slots=True, kw_only=True)
class Result:
    """Medians over the rounds of one cell."""

    cell: Cell
    ops_per_s: float
    floor_ops_per_s: float
    """Rate of the same messages over a plain socket."""
    cpu_us_per_op: float
    """User and system time of both processes together."""
    floor_cpu_us_per_op: float
    peak_rss_mib: float
    """Peak memory of the larger process."""

    @property
    def ratio(self) -> float:
        """Rate of the messenger divided by that of the plain socket."""
        return self.ops_per_s / self.floor_ops_per_s

    @property
    def latency_us(self) -> float | None:
        """Time from a message to its answer; None if several messages are in flight."""
        return self._latency_us(self.ops_per_s)

    @property
    def floor_latency_us(self) -> float | None:
        """Time from a message to its answer over the plain socket; None if several messages are in flight."""
        return self._latency_us(self.floor_ops_per_s)

    def _latency_us(self, ops_per_s: float) -> float | None:
        return round(1e6 / ops_per_s, 2) if self.cell.in_flight == 1 else None

    def as_json(self) -> dict[str, Any]:
        """Return the row of the JSON contract."""
        return {
            **asdict(self.cell),
            "ops_per_s": round(self.ops_per_s, 1),
            "floor_ops_per_s": round(self.floor_ops_per_s, 1),
            "ratio": round(self.ratio, 3),
            "latency_us": self.latency_us,
            "floor_latency_us": self.floor_latency_us,
            "cpu_us_per_op": round(self.cpu_us_per_op, 2),
            "floor_cpu_us_per_op": round(self.floor_cpu_us_per_op, 2),
            "peak_rss_mib": round(self.peak_rss_mib, 1),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The cells to measure; an axis that is None has its default values."""

    patterns: Sequence[Pattern] | None = None
    sizes: Sequence[int] | None = None
    in_flight: Sequence[int] | None = None
    modes: Sequence[str] | None = None
    cores: Sequence[int] | None = None

    protocol: Protocol = Protocol.V2

    def cells(self, cores: Sequence[int], *, full: bool) -> list[Cell]:
        """Return the cells of the grid.

        Args:
            cores: numbers of cores that are possible on this machine.
            full: True to include streams with one message in flight; they equal requests, each with an answer.
        """
        axes = product(
            self.patterns or tuple(Pattern),
            self.cores or cores,
            self.modes or (MODES if self.protocol is Protocol.V2 else MODES[:1]),
            self.in_flight or IN_FLIGHT,
            self.sizes or SIZES,
        )
        return [
            Cell(pattern=pattern, size=size, in_flight=in_flight, mode=mode, cores=count, protocol=self.protocol)
            for pattern, count, mode, in_flight, size in axes
            if full or self.in_flight or pattern is Pattern.REQUEST or in_flight > 1
        ]
