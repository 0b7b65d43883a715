"""How a TCP connection began and ended, and its trouble: resets, repeated segments, zero windows, silence."""

from dataclasses import dataclass, field
from enum import StrEnum

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10

_SILENCE_NS = 1_000_000_000
"""An open connection without packets for so long, up to the end of the capture, is silent."""
_NANO = 1e9


class Outcome(StrEnum):
    """How a connection ended, as far as the capture shows."""

    OPEN = "open"
    SILENT = "silent"
    """Open, but without packets for at least a second before the capture ended."""
    CLOSED = "closed"
    """A FIN ended it."""
    RESET = "reset"
    REFUSED = "refused"
    """A RST answered the SYN."""
    UNANSWERED = "unanswered"
    """Nothing answered the SYN."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A packet with FIN or RST."""

    side: int
    """Side that sent it; the client's is :attr:`Conduct.client_side`."""
    time_ns: int
    packet: int
    ttl: int


@dataclass(slots=True, eq=False)
class Conduct:
    """What the headers of a connection's packets show. Pairs have one value per side."""

    client_side: int = 0
    syns: int = 0
    """Number of SYNs of the client; more than one if the first was not answered."""
    answered: bool = False
    """True if the SYN was answered by a SYN, or if there was none."""
    began_ns: int = 0
    last_ns: int = 0
    fins: list[Mark] = field(default_factory=list)
    """The first FIN of each side, in the order of the capture."""
    reset: Mark | None = None
    """The first RST."""
    ttls: list[int] = field(default_factory=lambda: [-1, -1])
    """Time to live of each side's first packet (on IPv6, hop limit); -1 if there was none."""
    repeats: list[int] = field(default_factory=lambda: [0, 0])
    """Segments whose bytes were all captured before, without keepalives and packets captured twice."""
    beyond_fin: list[int] = field(default_factory=lambda: [0, 0])
    """Segments with bytes after the sender's own FIN: the capture has that FIN, or these bytes, not as sent."""
    zero_windows: list[int] = field(default_factory=lambda: [0, 0])
    """Packets that announce a receive window of 0: the sender's application does not read."""
    acknowledged: list[int] = field(default_factory=lambda: [0, 0])
    """Bytes of each side that the other side's TCP acknowledged, from the first captured byte; later bytes may
    never have arrived."""
    _last: list[int] = field(default_factory=lambda: [0, 0])
    """Hashes of the identities of each side's last packet."""

    def packet(
        self, side: int, flags: int, window: int, ttl: int, identity: tuple[int, ...], time_ns: int
    ) -> None:
        """Count any packet; ``identity`` as for :meth:`is_same_packet`."""
        self.began_ns = self.began_ns or time_ns
        self.last_ns = time_ns
        if self.ttls[side] < 0 and not flags & RST:
            self.ttls[side] = ttl
        if not window and not flags & (RST | SYN):
            self.zero_windows[side] += 1
        self._last[side] = hash(identity)

    def is_same_packet(self, side: int, identity: tuple[int, ...]) -> bool:
        """True if a packet was captured twice: IP id, flags, numbers and size equal those of the previous one."""
        return identity[0] > 0 and hash(identity) == self._last[side]

    def mark(self, side: int, flags: int, ttl: int, time_ns: int, packet: int) -> None:
        """Count a packet with SYN, FIN or RST."""
        if flags & SYN:
            if flags & ACK:
                self.answered = True
            else:
                self.syns += 1
        if flags & RST and self.reset is None and len(self.fins) < 2:
            self.reset = Mark(side, time_ns, packet, ttl)
        elif flags & FIN and side not in {mark.side for mark in self.fins}:
            self.fins.append(Mark(side, time_ns, packet, ttl))

    def outcome(self, end_ns: int) -> Outcome:
        """Return how it ended.

        Args:
            end_ns: time of the last packet of the capture.
        """
        if self.reset is not None:
            opening = self.syns and not self.answered and not self.fins
            return Outcome.REFUSED if opening and self.reset.side != self.client_side else Outcome.RESET
        if self.fins:
            return Outcome.CLOSED
        if self.syns and not self.answered:
            return Outcome.UNANSWERED
        return Outcome.SILENT if end_ns - self.last_ns >= _SILENCE_NS else Outcome.OPEN

    @property
    def foreign_reset(self) -> bool:
        """True if the RST has another TTL than its sender's packets: a device between the ends made it."""
        mark = self.reset
        return mark is not None and self.ttls[mark.side] >= 0 and mark.ttl != self.ttls[mark.side]

    @property
    def ended_ns(self) -> int:
        """Time of its end; time of the last packet if it did not end."""
        marks = [*self.fins[:1], *([] if self.reset is None else [self.reset])]
        return min((mark.time_ns for mark in marks), default=self.last_ns)

    def ending(self, client: str, server: str, end_ns: int) -> str:
        """Describe how it ended.

        Args:
            client: name of the end that opened it.
            server: name of the other end.
            end_ns: time of the last packet of the capture.
        """
        names = (client, server) if self.client_side == 0 else (server, client)
        match self.outcome(end_ns):
            case Outcome.REFUSED:
                return f"{server} refused it (RST){self._foreign()}"
            case Outcome.UNANSWERED:
                waited_s = (self.last_ns - self.began_ns) / _NANO
                sent = "its SYN" if self.syns == 1 else f"{self.syns} SYNs within {waited_s:.1f} s"
                return f"{server} did not answer {sent}"
            case Outcome.RESET:
                assert self.reset is not None
                resetter = names[self.reset.side]
                is_second = bool(self.fins) and self.fins[0].packet <= self.reset.packet
                first = f"{names[self.fins[0].side]} closed it (FIN), then " if is_second else ""
                if self.foreign_reset:
                    return f"{first}something between reset it in the name of {resetter} (RST){self._foreign()}"
                return f"{first}{resetter} reset it (RST)"
            case Outcome.CLOSED:
                rest = "" if len(self.fins) == 2 else f"; no FIN of {names[1 - self.fins[0].side]}"
                return f"{names[self.fins[0].side]} closed it first (FIN){rest}"
            case Outcome.SILENT:
                return f"open, silent for the last {(end_ns - self.last_ns) / _NANO:.1f} s of the capture"
            case _:
                return "open at the end of the capture"

    def _foreign(self) -> str:
        """Describe the evidence that another device sent the RST; empty if there is none."""
        if not self.foreign_reset:
            return ""
        assert self.reset is not None
        return f": its TTL is {self.reset.ttl}, that of the end's packets {self.ttls[self.reset.side]}"

    def trouble(self, client: str, server: str) -> str:
        """Describe repeated segments, bytes after a FIN and zero windows; empty if there were none."""
        names = (client, server) if self.client_side == 0 else (server, client)
        parts = [
            f"{names[side]} repeated {count} segment{'s' * (count > 1)}"
            for side, count in enumerate(self.repeats)
            if count
        ]
        parts += [
            f"{names[side]} sent {count} segment{'s' * (count > 1)} after its FIN"
            for side, count in enumerate(self.beyond_fin)
            if count
        ]
        parts += [
            f"{names[side]} announced a zero window {count} time{'s' * (count > 1)}"
            for side, count in enumerate(self.zero_windows)
            if count
        ]
        return "; ".join(parts)
